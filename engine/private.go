package engine

// PrivateStats is what a run knows of its last lot and must not show: functions of the
// records that no noise hides. Whoever prints it gives up the guarantee.
type PrivateStats struct {
	Records   int     // in the lot, as it was drawn
	NonFinite int     // records that took no part because their gradient was not a finite number
	Unclipped int     // records whose gradient was not scaled down
	Loss      float64 // mean over the lot's records; 0 where the network keeps no losses
}

// PrivateStats is what the run knows of its last lot, hidden by no noise and covered by no
// guarantee.
func (r *Run) PrivateStats() PrivateStats {
	p := r.private
	if p.Records > 0 {
		p.Loss /= float64(p.Records)
	}
	return p
}
