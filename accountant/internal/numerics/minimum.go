package numerics

// GoldenSection minimizes a unimodal function between two numbers. Each round multiplies the interval by
// 0.618, the golden section.
func GoldenSection(value func(float64) float64, from, to float64, rounds int) float64 {
	const golden = 0.6180339887498949
	a, b := to-golden*(to-from), from+golden*(to-from)
	atA, atB := value(a), value(b)
	for range rounds {
		if atA <= atB {
			to, b, atB = b, a, atA
			a = to - golden*(to-from)
			atA = value(a)
		} else {
			from, a, atA = a, b, atB
			b = from + golden*(to-from)
			atB = value(b)
		}
	}
	return (from + to) / 2
}
