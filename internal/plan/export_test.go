package plan

// Again is the program that makes more results again, however little that saves.
func (p *Program) Again() *Program {
	q, _ := p.again()
	if q != nil {
		q.reuse()
	}
	return q
}
