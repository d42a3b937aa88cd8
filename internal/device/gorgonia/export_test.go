package gorgonia

// SquaredNormTaken returns what record r took of its budget in a group in the last microbatch.
func (m *Executable) SquaredNormTaken(group, r int) (int64, error) {
	return m.contributions.Taken(group, r), nil
}

// PartCounts returns the parts that were rounded again and omitted since the last call.
func (m *Executable) PartCounts() (reduced, omitted int, err error) {
	c := m.Contributions()
	reduced, omitted = c.Reduced, c.Omitted
	c.Reduced, c.Omitted = 0, 0
	return reduced, omitted, nil
}
