package gorgonia

import "github.com/dptrain/dptrain/internal/device/plan"

// contributions are the integer sums of an exact program. A record's gradient is the network's sum
// with the factor 1 for this record and the factor 0 for all others. plan.Admission rounds it and
// bounds its norm; the CPU does the same with gradients that it builds.
type contributions struct {
	plan.Admission
	factors [][]float32 // [parameter][record]
	sums    [][]int64   // [parameter]
	ints    []int32
	shared  *nodeList // nodes of the sums that do not depend on factors; Executable.back has the rest
}

// setExact makes the executable add integers.
func (m *Executable) setExact(p *plan.Program) {
	m.contributions = &contributions{Admission: plan.Admission{Contributions: plan.NewContributions(p)}}
	for v, sum := range m.sums {
		m.contributions.factors = append(m.contributions.factors, make([]float32, len(m.factors[v].host)))
		m.contributions.sums = append(m.contributions.sums, make([]int64, len(sum)))
	}
	m.contributions.ints = make([]int32, len(m.normals))
	m.contributions.shared = m.back.splitUnchanged(m.factors)
}

// addContributions adds the records' integers, one record after the other.
func (m *Executable) addContributions() error {
	c := m.contributions
	c.Begin()
	defer c.End()
	if err := c.shared.run(); err != nil {
		return err
	}
	for v, l := range m.factors {
		copy(c.factors[v], l.host)
		clear(l.host)
		defer copy(l.host, c.factors[v])
	}
	for r := range c.Seeds {
		if !c.takesPart(r) {
			continue
		}
		for _, l := range m.factors {
			l.host[r] = 1
		}
		if err := m.runBack(); err != nil {
			return err
		}
		for v, l := range m.factors {
			l.host[r] = 0
			c.add(v, r, m.back.hosts[v])
		}
	}
	return nil
}

// takesPart reports whether a factor of a record is not 0.
func (c *contributions) takesPart(r int) bool {
	for _, factors := range c.factors {
		if factors[r] != 0 {
			return true
		}
	}
	return false
}

// add adds a record's gradient of a parameter.
func (c *contributions) add(v, r int, gradient []float32) {
	p := plan.Contribution{Admission: &c.Admission, Parameter: v, Number: v + 1, Factors: c.factors[v]}
	ints := c.ints[:len(gradient)]
	how := p.Choose(r, func(how plan.Rounding) (int64, bool) { return p.Round(ints, gradient, how) })
	if how.Scale == 0 {
		return
	}
	for i, x := range ints {
		c.sums[v][i] += int64(x)
	}
}
