package pld

import (
	"cmp"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/quadrature"
)

// discretizedLoss contains two discretisations of the tilted privacy loss of one event. The
// pessimistic estimate dominates the true loss: its hockey-stick divergence is nowhere
// smaller. The true loss dominates the optimistic estimate.
type discretizedLoss struct {
	estimates [2]lossEstimate  // pessimistic, optimistic
	cutOff    [2]probabilities // cut off from each estimate
	truncated probabilities    // upper bound of what both estimates omit
}

const (
	pessimistic = 0
	optimistic  = 1
)

type lossEstimate struct {
	loss, mass    []float64 // the masses are tilted and sum to one
	logScale      float64   // mass·e^(logScale - tilt·loss) is the untilted probability
	missingMass   float64   // upper bound of the omitted mass
	relativeError float64   // bound of the relative error of a mass
}

// tiltedPair is a pair that is sampled and tilted in preparation for discretisation. Tilted
// probabilities below about a threshold are omitted.
type tiltedPair struct {
	tiltedCumulants
	pair              lossPair
	tilt              float64
	samples           []lossSample
	truncatedTilted   float64 // omitted tilted probability
	truncatedUntilted float64 // the same untilted, the sum of those with and without the record
}

func tiltPair(p lossPair, tilt, threshold float64) tiltedPair {
	s := tiltedPair{pair: p, tilt: tilt, samples: p.samples()}
	slices.SortFunc(s.samples, func(a, b lossSample) int { return cmp.Compare(a.loss, b.loss) })
	s.evaluate(s.samples, tilt, threshold)
	s.trimSamples()
	return s
}

// maxCellWidth bounds the width of a cell, so that its exponentials do not overflow.
const maxCellWidth = 32

// discretize discretises a pair. Cells are at most widest wide, and narrow enough that the
// mean square of their width is about square.
//
// The pessimistic estimate splits each probability between the two ends of its cell such that
// P and Q are both preserved ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar and
// Manurangsi 2022, section 3): a mean-preserving spread of the likelihood ratio. The
// optimistic estimate merges a cell to one point, which is a post-processing. Both errors are
// of second order in the cell width.
func (s *tiltedPair) discretize(square, widest float64) discretizedLoss {
	d := discretizer{pair: &s.pair, tilt: s.tilt, logSum: s.logSum, relativeError: s.pair.atomError, edges: s.edges(square, widest)}
	d.endMasses = make([]float64, len(d.edges))
	d.cells = make([]mergedCell, len(d.edges))
	d.run()
	l := discretizedLoss{[2]lossEstimate{d.pessimisticEstimate(2 * s.truncatedTilted), d.optimisticEstimate(2 * s.truncatedTilted)}, s.pair.cutOff, s.pair.truncated}
	switch s.pair.direction {
	case addRecord:
		l.truncated = probabilities{l.truncated.without, l.truncated.with}
	case bothDirections:
		l.truncated.with += l.truncated.without
	}
	return l
}

// trimSamples removes samples below the cut from both ends, except for one at each end, and
// records the removed probability.
func (s *tiltedPair) trimSamples() {
	above := func(at lossSample) bool { return at.logP+s.tilt*at.loss >= s.cut }
	first := max(0, slices.IndexFunc(s.samples, above)-1)
	end := len(s.samples)
	for end > first+1 && !above(s.samples[end-1]) {
		end--
	}
	end = min(len(s.samples), end+1)
	for i, at := range s.samples {
		if (i <= first || i >= end-1) && !above(at) {
			s.truncatedTilted += s.probability(at, s.tilt)
			s.truncatedUntilted += math.Exp(at.logP) + math.Exp(at.logP-at.loss)
		}
	}
	s.samples = s.samples[first:end]
}

// edge is the end of a cell; x is where the continuous part has this loss.
type edge struct{ x, loss float64 }

// edges divides the losses of the samples into cells, in increasing order. For a given number
// of cells the mean square of their width is least if the width is proportional to the
// density to the power -1/3, so each cell has an equal share of the integral of the density's cube root.
func (s *tiltedPair) edges(square, widest float64) []edge {
	p, list := &s.pair, s.samples
	gap := func(i int) float64 { return list[i].loss - list[i-1].loss }
	share := func(i int) float64 {
		mass := (s.probability(list[i-1], s.tilt) + s.probability(list[i], s.tilt)) / 2
		return math.Cbrt(mass * gap(i) * gap(i))
	}
	shares, most := 0.0, 0.0
	for i := 1; i < len(list); i++ {
		shares += share(i)
	}
	width := math.Sqrt(square / shares)
	widest = min(widest, maxCellWidth)
	cells := func(i int) float64 { return max(share(i)/width, gap(i)/widest) }
	for i := 1; i < len(list); i++ {
		most += cells(i)
	}
	thin := min(1, maxCells/most)
	edges := []edge{{list[0].x, list[0].loss}}
	add := func(e edge) {
		if e.loss > edges[len(edges)-1].loss {
			edges = append(edges, e)
		}
	}
	due := 0.0
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		cells := thin * cells(i)
		for from := due; p.continuous && math.Floor(from)+1 < due+cells; from = math.Floor(from) + 1 {
			x := a.x + (b.x-a.x)*(math.Floor(from)+1-due)/cells
			add(edge{x, p.lossAt(x, a.loss+b.loss < 0)})
		}
		due += cells
		if !p.continuous && due >= 1 || i == len(list)-1 || p.direction == bothDirections && b.loss == 0 {
			add(edge{b.x, b.loss})
			due = 0
		}
		due -= math.Floor(due)
	}
	return edges
}

// maxCells bounds the number of cells of one event.
const maxCells = 5000

// lossAt is the loss of the continuous part at x. For a symmetric pair it is the loss of the
// mirrored half if mirrored.
func (p *lossPair) lossAt(x float64, mirrored bool) float64 {
	_, l := p.likelihoodRatio(p.slope*x + p.offset)
	if p.direction == addRecord || p.direction == bothDirections && mirrored {
		return -l
	}
	return l
}

type discretizer struct {
	pair          *lossPair
	tilt          float64
	logSum        float64 // masses are divided by e^logSum
	edges         []edge
	endMasses     []float64    // at the edges
	cells         []mergedCell // from each edge to the next
	relativeError float64      // bound of the relative error of a mass
}

// mergedCell is the mass of a cell.
type mergedCell struct{ mass, moment float64 } // moment is Σ mass·(e^(reference - loss) - 1)

func (d *discretizer) run() {
	p := d.pair
	if p.continuous {
		for i := 0; i+1 < len(d.edges); i++ {
			d.addContinuous(i)
		}
	}
	lower := p.atoms
	if p.optimisticAtoms != nil {
		lower = p.optimisticAtoms
	}
	for _, a := range p.atoms {
		d.addAtom(a, d.splitMass)
	}
	for _, a := range lower {
		d.addAtom(a, d.mergeMass)
	}
	if p.direction == bothDirections {
		d.splitMass(0, math.Log(p.zeroLossProbability(p.atoms))-d.logSum)
		d.mergeMass(0, math.Log(p.zeroLossProbability(lower))-d.logSum)
	}
}

// addRoundingError accounts for the float64 rounding of a mass. Its logarithm is a sum of
// numbers of the given sizes, and it is split according to its place in a cell.
func (d *discretizer) addRoundingError(logQ, loss, width float64) {
	large := math.Abs(logQ) + (1+d.tilt)*math.Abs(loss) + math.Abs(d.logSum) + math.Abs(loss)/width
	d.relativeError = max(d.relativeError, d.pair.atomError+roundingUnit*(64+8*large))
}

func (d *discretizer) pessimisticEstimate(slack float64) lossEstimate {
	t := lossEstimate{logScale: d.logSum, missingMass: slack, relativeError: d.relativeError}
	for i, m := range d.endMasses {
		if m != 0 {
			t.loss = append(t.loss, d.edges[i].loss+4*roundingUnit*math.Abs(d.edges[i].loss))
			t.mass = append(t.mass, m)
		}
	}
	if d.tilt < 0 { // then splitting decreases the sum
		return t.normalised(0)
	}
	return t.normalised(minPessimisticMass)
}

func (d *discretizer) optimisticEstimate(slack float64) lossEstimate {
	t := lossEstimate{logScale: d.logSum, missingMass: slack, relativeError: d.relativeError}
	for i, h := range d.cells {
		shift := math.Log1p(h.moment / h.mass)
		if h.mass > 0 && math.Abs(shift) < math.MaxFloat64 { // otherwise it is omitted
			loss := d.reference(i) - shift
			t.loss = append(t.loss, loss-4*roundingUnit*(math.Abs(loss)+math.Abs(shift)))
			t.mass = append(t.mass, h.mass*math.Exp(-d.tilt*shift))
		}
	}
	return t.normalised(0)
}

// minPessimisticMass is a lower bound of the total mass of a pessimistic estimate: splitting
// increases the tilted sum, which is 1 up to the error of the samples.
const minPessimisticMass = 0.9

// normalised scales the masses to sum 1. If their sum is not a number above least, as for
// parameters that are not meaningful, the result is an estimate without information.
func (t lossEstimate) normalised(least float64) lossEstimate {
	sum := 0.0
	for _, m := range t.mass {
		sum += m
	}
	if !(sum > least && sum < math.Inf(1)) {
		return lossEstimate{loss: []float64{0}, mass: []float64{1}, logScale: t.logScale, missingMass: math.Inf(1)}
	}
	for i := range t.mass {
		t.mass[i] /= sum
	}
	t.logScale += math.Log(sum)
	t.missingMass /= sum
	t.relativeError += 2 * roundingUnit * float64(len(t.mass))
	return t
}

// reference is the loss to which the losses of a cell are compared.
func (d *discretizer) reference(i int) float64 {
	if i+1 == len(d.edges) {
		return d.edges[i].loss
	}
	return (d.edges[i].loss + d.edges[i+1].loss) / 2
}

// addContinuous adds the continuous probability of the cell between edges i and i+1.
func (d *discretizer) addContinuous(i int) {
	u, v := d.edges[i].loss, d.edges[i+1].loss
	p := d.pair
	mirrored := p.direction == addRecord || p.direction == bothDirections && v <= 0
	xa, xb := min(d.edges[i].x, d.edges[i+1].x), max(d.edges[i].x, d.edges[i+1].x)
	reference := d.reference(i)
	grow := math.Expm1(reference) // r - 1 at the reference
	if mirrored {
		grow = math.Expm1(-reference)
	}
	toLeft, toRight := u-reference, v-reference
	rightGrow, rightShift := math.Exp(toRight), math.Expm1(toRight)
	whole := math.Expm1(v - u)

	mass, moment, left, right := 0.0, 0.0, 0.0, 0.0
	panels := p.quadraturePanels(xa, xb, d.tilt)
	width := (xb - xa) / float64(panels)
	for panel := range panels {
		start := xa + width*float64(panel)
		for k, node := range quadrature.Nodes {
			x := start + width*(1+node)/2
			excess, l := p.likelihoodRatioFast(p.slope*x + p.offset)
			probability := width / 2 * quadrature.Weights[k]
			logQ := p.logDensity(x) + d.tilt*reference - d.logSum
			var apart float64 // e^(reference - loss) - 1
			switch {
			case !mirrored && !math.IsNaN(l):
				probability *= math.Exp(logQ + l)
				apart = math.Expm1(reference - l)
			case !mirrored:
				probability *= math.Exp(logQ) * (1 + excess)
				apart = (grow - excess) / (1 + excess)
			case !math.IsNaN(l):
				probability *= math.Exp(logQ)
				apart = math.Expm1(reference + l)
			default:
				probability *= math.Exp(logQ)
				apart = (excess - grow) / (1 + grow)
			}
			mass += probability
			moment += probability * apart
			part := min(1, max(0, (apart*rightGrow+rightShift)/whole))
			left += probability * part
			right += probability * (1 - part)
		}
	}
	d.endMasses[i] += left * math.Exp(d.tilt*toLeft)
	d.endMasses[i+1] += right * math.Exp(d.tilt*toRight)
	d.cells[i].mass += mass
	d.cells[i].moment += moment
	d.addRoundingError(min(p.logDensity(xa), p.logDensity(xb)), reference, v-u)
}

// quadraturePanels is the number of five-point Gauss–Legendre rules that the interval from a
// to b needs for a relative error below 1e-13. It grows with the slope of the exponent.
func (p *lossPair) quadraturePanels(a, b, tilt float64) int {
	steep := 1.0
	if p.gaussian {
		steep += max(math.Abs(a), math.Abs(b))
		if math.Abs(a) < math.Abs(p.slope) || tilt > 1 {
			steep += min((1+tilt)*p.slope, 60)
		}
	}
	if p.rate < 1 {
		steep = max(steep, p.slope)
	}
	return max(1, int(math.Ceil((b-a)*steep/0.8)))
}

// likelihoodRatioFast is likelihoodRatio, but logRatio is NaN where it follows from excess.
func (p *lossPair) likelihoodRatioFast(y float64) (excess, logRatio float64) {
	switch {
	case p.rate == 1:
		return 0, y
	case p.poissonReplaceOne:
		return p.likelihoodRatio(y)
	case y > 600:
		return 0, y + math.Log(p.rate)
	}
	return p.rate * math.Expm1(y), math.NaN()
}

func (d *discretizer) addAtom(a atom, put func(loss, logMass float64)) {
	_, l := d.pair.likelihoodRatio(a.y)
	if d.pair.direction == removeRecord || d.pair.direction == bothDirections && l > 0 {
		put(l, a.logQ+l+d.tilt*l-d.logSum)
		d.addRoundingError(a.logQ, l, 1)
	}
	if d.pair.direction == addRecord || d.pair.direction == bothDirections && l > 0 {
		put(-l, a.logQ-d.tilt*l-d.logSum)
		d.addRoundingError(a.logQ, l, 1)
	}
}

// cellIndex is the index of the last edge at or below loss, or -1.
func (d *discretizer) cellIndex(loss float64) int {
	i, found := slices.BinarySearchFunc(d.edges, loss, func(e edge, loss float64) int { return cmp.Compare(e.loss, loss) })
	if found {
		return i
	}
	return i - 1
}

// splitMass splits a mass, given by its logarithm, between the ends of its cell such that P
// and Q are preserved. A mass beyond the last edge is below the threshold, which missingMass
// covers.
func (d *discretizer) splitMass(loss, logMass float64) {
	i := d.cellIndex(loss)
	switch {
	case i < 0:
		d.endMasses[0] += math.Exp(logMass + d.tilt*(d.edges[0].loss-loss))
	case d.edges[i].loss == loss:
		d.endMasses[i] += math.Exp(logMass)
	case i+1 < len(d.edges):
		toLeft, toRight := d.edges[i].loss-loss, d.edges[i+1].loss-loss
		part := math.Exp(toLeft) * math.Expm1(-toRight) / math.Expm1(toLeft-toRight)
		d.endMasses[i] += part * math.Exp(logMass+d.tilt*toLeft)
		d.endMasses[i+1] += (1 - part) * math.Exp(logMass+d.tilt*toRight)
	}
}

// mergeMass adds a mass to its cell. It omits mass below all cells.
func (d *discretizer) mergeMass(loss, logMass float64) {
	i := d.cellIndex(loss)
	if i < 0 {
		return
	}
	apart := d.reference(i) - loss
	mass := math.Exp(logMass + d.tilt*apart)
	d.cells[i].mass += mass
	d.cells[i].moment += mass * math.Expm1(apart)
}
