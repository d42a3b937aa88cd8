package plan

// RematerializeAtPeak is the program that makes more results again, however little that saves.
func (p *Program) RematerializeAtPeak() *Program {
	q, _ := p.rematerializeAtPeak()
	if q != nil {
		q.layOutArena()
	}
	return q
}
