package data

import (
	"fmt"
	"math"
	"strconv"
)

// moments accumulates the mean and the sums of the powers 2 to 4 of the differences from it (Pébay 2008).
type moments struct {
	count                  float64
	mean, two, three, four float64
}

func (m *moments) add(v float64) {
	before := m.count
	m.count++
	difference := v - m.mean
	part := difference / m.count
	term := difference * part * before
	m.mean += part
	m.four += term*part*part*(m.count*m.count-3*m.count+3) + 6*part*part*m.two - 4*part*m.three
	m.three += term*part*(m.count-2) - 3*part*m.two
	m.two += term
}

// kurtosis is the fourth moment divided by the square of the second: 3 for normal numbers, 9 for
// exponential ones, and large if a few numbers are far from the others. NaN if all are equal.
func (m *moments) kurtosis() float64 { return m.count * m.four / (m.two * m.two) }

// The rule that scales a column of a public table. docs/own-data.md states it and docs/defaults.md has
// its evidence.
const (
	leastKurtosis   = 9  // of a column that is scaled
	kurtosisGain    = 2  // by which the scale divides it at least
	leastScaled     = 30 // numbers in the column
	leastASinhLimit = 10 // the larger of both bounds: asinh is like a logarithm above 1 only
)

// scaleProposal is the scale of a column, the bounds that it needs, and the kurtosis of the numbers
// without and with the scale.
type scaleProposal struct {
	scale         Scale
	bounds        Bounds
	plain, scaled float64
}

// proposeScale returns the scale for a column of numbers of which a few are far from the others, or none.
// Such numbers are close together within the bounds, so a network learns little from them.
func (c *columnSummary) proposeScale() scaleProposal {
	p := scaleProposal{bounds: roundOutwards(c.low, c.high), plain: c.plain.kurtosis()}
	if c.plain.count < leastScaled || !(p.plain >= leastKurtosis) {
		return p
	}
	least := max(-p.bounds[0], p.bounds[1])
	switch log, asinh := c.log.kurtosis(), c.asinh.kurtosis(); {
	case c.low > 0 && log <= p.plain/kurtosisGain:
		p.scale, p.bounds, p.scaled = LogScale, roundRatioOutwards(c.low, c.high), log
	case least >= leastASinhLimit && asinh <= p.plain/kurtosisGain:
		p.scale, p.scaled = ASinhScale, asinh
	}
	return p
}

// scaleComment begins the section of the scales in a schema.
const scaleComment = `# These numbers are skewed: a few are far from the others. So they are scaled by their logarithm, or
# by asinh where some are 0 or less. To keep the numbers as they are, remove the lines.
scale`

// line describes the proposal in a schema: the scale of the column.
func (p scaleProposal) line(name string) string {
	return fmt.Sprintf("  %s: %s  # kurtosis %s, and %s without the scale\n", name, p.scale, twoDigits(p.scaled), twoDigits(p.plain))
}

func twoDigits(v float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64)
	return formatNumber(rounded)
}

// roundRatioOutwards returns bounds around 0 < low < high that are 1, 2 or 5 times a power of ten.
func roundRatioOutwards(low, high float64) Bounds {
	below, above := 0.0, math.Inf(1)
	for exponent := int(math.Floor(math.Log10(low))) - 1; exponent <= int(math.Ceil(math.Log10(high)))+1; exponent++ {
		for _, digit := range []string{"1", "2", "5"} {
			v, _ := strconv.ParseFloat(digit+"e"+strconv.Itoa(exponent), 64)
			if v <= low {
				below = max(below, v)
			}
			if v >= high {
				above = min(above, v)
			}
		}
	}
	if !(below > 0) || math.IsInf(above, 1) { // beyond the range of a number
		return Bounds{low, high}
	}
	return Bounds{below, above}
}
