package plan

// RematerializeAtPeak is the program after one round of rematerialization, even if it
// saves little.
func (p *Program) RematerializeAtPeak() *Program {
	q, _ := p.rematerializeAtPeak()
	if q != nil {
		q.layOutArena()
	}
	return q
}
