package pld

import (
	"cmp"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/internal/numerics"
)

// discretizedLoss contains two discretisations of the tilted privacy loss of one event. The
// pessimistic estimate dominates the true loss: its hockey-stick divergence is nowhere
// smaller. The true loss dominates the optimistic estimate.
type discretizedLoss struct {
	estimates   [2]lossEstimate  // pessimistic, optimistic
	cutOff      [2]probabilities // cut off from each estimate
	cutOffError float64          // bound of the relative error of cutOff, and of the losses from which on it counts
	truncated   probabilities    // upper bound of what both estimates omit
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
	lossError     float64   // by how much losses were moved at most, against their rounding error
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
	l := discretizedLoss{[2]lossEstimate{d.pessimisticEstimate(2 * s.truncatedTilted),
		d.optimisticEstimate(2 * s.truncatedTilted)}, s.pair.cutOff, s.pair.cutOffError, s.pair.truncated}
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
	shares, total := 0.0, 0.0
	for i := 1; i < len(list); i++ {
		shares += share(i)
	}
	width := math.Sqrt(square / shares)
	widest = min(widest, maxCellWidth)
	cells := func(i int) float64 { return max(share(i)/width, gap(i)/widest) }
	for i := 1; i < len(list); i++ {
		total += cells(i)
	}
	scale := min(1, maxCells/total)
	edges := []edge{{list[0].x, list[0].loss}}
	add := func(e edge) {
		if e.loss > edges[len(edges)-1].loss {
			edges = append(edges, e)
		}
	}
	position := 0.0
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		cells := scale * cells(i)
		for from := position; p.continuous && math.Floor(from)+1 < position+cells; from = math.Floor(from) + 1 {
			x := a.x + (b.x-a.x)*(math.Floor(from)+1-position)/cells
			add(edge{x, p.lossAt(x, a.loss+b.loss < 0)})
		}
		position += cells
		if !p.continuous && position >= 1 || i == len(list)-1 || p.direction == bothDirections && b.loss == 0 {
			add(edge{b.x, b.loss})
			position = 0
		}
		position -= math.Floor(position)
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
type mergedCell struct {
	mass, moment float64 // moment is Σ mass·(e^(reference - loss) - 1)
	lossError    float64 // bound of the error of the loss of each of its masses
	additions    int     // number of masses added
}

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
		probability, off := p.zeroLossProbability(p.atoms)
		d.splitMass(0, math.Log(probability+off)-d.logSum)
		probability, off = p.zeroLossProbability(lower)
		d.mergeMass(0, math.Log(max(0, probability-off))-d.logSum)
		d.addRoundingError(d.cellIndex(0), 0, 0, 0, 0)
	}
	additions := 0
	for _, c := range d.cells {
		additions = max(additions, c.additions)
	}
	d.relativeError += roundingUnit * float64(2*additions) // an edge receives masses of two cells
}

// addRoundingError accounts for the rounding of a mass of cell i, in two parts.
//
// Its loss has an error of at most lossError, to which the rounding of loss itself and of the
// split are added here. The split preserves P and Q of a loss that differs from the true one by
// at most that. All operations of a split together are correct to 16 units of e^(w/2) -
// e^(-w/2), w the width of the cell, and to 16 units for an atom. The points of the estimate are moved by this bound, after
// which it dominates (or is dominated by) the true loss.
//
// Its logarithm is a sum of numbers whose absolute values add up to at most large, and of the
// tilted loss. The mass may be wrong by this, by 64 roundings of factors, and by what the error
// of a loss changes.
func (d *discretizer) addRoundingError(i int, lossError, large, loss, relative float64) {
	i = min(max(i, 0), len(d.edges)-1)
	width := 0.0
	if i+1 < len(d.edges) {
		width = d.edges[i+1].loss - d.edges[i].loss
		loss = max(math.Abs(loss), math.Abs(d.edges[i].loss), math.Abs(d.edges[i+1].loss))
	}
	tilt := math.Abs(d.tilt)
	spread := min(width, maxCellWidth)
	if !d.pair.continuous {
		spread = min(width, 1)
	}
	lossError += roundingUnit * (8*math.Abs(loss) + 32*math.Sinh(spread/2))
	d.cells[i].lossError = max(d.cells[i].lossError, lossError)
	large += (1+tilt)*math.Abs(loss) + math.Abs(d.logSum) + tilt*width
	d.relativeError = max(d.relativeError, relative+(1+2*tilt)*lossError+roundingUnit*(64+8*large))
}

// lossErrorAt is the bound for the masses at edge i.
func (d *discretizer) lossErrorAt(i int) float64 {
	return max(d.cells[i].lossError, d.cells[max(i-1, 0)].lossError)
}

func (d *discretizer) pessimisticEstimate(slack float64) lossEstimate {
	t := lossEstimate{logScale: d.logSum, missingMass: slack, relativeError: d.relativeError}
	for i, m := range d.endMasses {
		if m != 0 {
			off := d.lossErrorAt(i)
			t.lossError = max(t.lossError, off)
			t.loss = append(t.loss, d.edges[i].loss+off)
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
			width := 2 * math.Abs(d.edges[i].loss-d.reference(i))
			off := h.lossError + roundingUnit*(4*(math.Abs(loss)+math.Abs(shift))+
				2*float64(h.additions)*math.Sinh(min(width, maxCellWidth)/2))
			t.lossError = max(t.lossError, off)
			t.loss = append(t.loss, loss-off)
			t.mass = append(t.mass, h.mass*math.Exp(-d.tilt*shift))
		}
	}
	t = t.normalised(0)
	t.missingMass += 32 * roundingUnit // an error of the sum counts as a mass at the centre
	return t
}

// minPessimisticMass is a lower bound of the total mass of a pessimistic estimate: splitting
// increases the tilted sum, which is 1 up to the error of the samples.
const minPessimisticMass = 0.9

// normalised scales the masses to a sum of 1, or at most 32 units less. Then the composition, which
// assumes a sum of 1, contains a small mass more at the centre. If their sum is not a number above least, as for
// parameters that are not meaningful, the result is an estimate without information.
func (t lossEstimate) normalised(least float64) lossEstimate {
	var total compensatedSum
	for _, m := range t.mass {
		total.add(m)
	}
	sum := total.value()
	if !(sum > least && sum < math.Inf(1)) {
		return lossEstimate{loss: []float64{0}, mass: []float64{1}, logScale: t.logScale, missingMass: math.Inf(1)}
	}
	sum *= 1 + 16*roundingUnit
	for i := range t.mass {
		t.mass[i] /= sum
	}
	t.logScale += math.Log(sum)
	t.missingMass /= sum
	t.relativeError += roundingUnit * (32 + 4*math.Abs(math.Log(sum)) + 2*math.Abs(t.logScale))
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
	panels := p.quadraturePanels(xa, xb)
	width := (xb - xa) / float64(panels)
	for panel := range panels {
		start := xa + width*float64(panel)
		for k, node := range numerics.Nodes {
			x := start + width*(1+node)/2
			excess, l := p.likelihoodRatioFast(p.slope*x + p.offset)
			probability := width / 2 * numerics.Weights[k]
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
	c := &d.cells[i]
	c.mass += mass
	c.moment += moment
	c.additions += len(numerics.Nodes)*panels + 1
	// y = slope·x + offset is correct to 8 units of base, the sampled loss to that times slope
	// and to 14 units of excess. The quadrature changes log P/Q of the cell by at most twice its
	// error times slope.
	far := max(math.Abs(xa), math.Abs(xb))
	base := math.Abs(p.slope)*far + 4*math.Abs(p.offset)
	slope, excess := p.lossConditioning(p.slope*xa + p.offset)
	more, moreExcess := p.lossConditioning(p.slope*xb + p.offset)
	lossError := roundingUnit * ((slope+more)*(8*base+32) + 16*(excess+moreExcess))
	d.addRoundingError(i, lossError, far*far+base, reference, roundingUnit*quadratureError)
}

// quadratureError bounds the relative error of the integral of each of the densities that
// quadraturePanels is for, in roundings.
const quadratureError = 8

// quadraturePanels is the number of five-point Gauss–Legendre rules that the interval from a
// to b needs. All integrands are linear in the densities φ(x - m), where m is 0, near or slope, or
// for Laplace noise in e^x and e^-x. The bound for each density is
// (64/15)·M·ρ^-8/(ρ² - 1) for a panel scaled to [-1, 1], where M bounds the density in the
// Bernstein ellipse of ρ (Trefethen 2019, "Approximation Theory and Approximation Practice",
// theorem 19.3). Let s be 2 more than the largest |x - m|. A panel is at most 0.3/s wide, so the
// ellipse of ρ = 53 reaches d = 4/s beyond it, and M is at most e^(d·(s-2) + d²/2 + 0.2) ≤ e^4.2
// times the least density of the panel. The relative error is at most 8.2e-16.
func (p *lossPair) quadraturePanels(a, b float64) int {
	steep := 2.0
	if p.gaussian {
		least, most := min(0, p.near), p.slope
		steep += max(math.Abs(a-least), math.Abs(b-least), math.Abs(a-most), math.Abs(b-most))
	}
	return max(1, int(math.Ceil((b-a)*steep/0.3)))
}

// likelihoodRatioFast is likelihoodRatio, but logRatio is NaN where it follows from excess.
func (p *lossPair) likelihoodRatioFast(y float64) (excess, logRatio float64) {
	switch {
	case p.rate == 1:
		return 0, y
	case p.near != 0:
		return p.likelihoodRatio(y)
	case y > 600:
		return 0, y + math.Log(p.rate)
	}
	return p.rate * math.Expm1(y), math.NaN()
}

func (d *discretizer) addAtom(a atom, put func(loss, logMass float64)) {
	_, l := d.pair.likelihoodRatio(a.y)
	slope, excess := d.pair.lossConditioning(a.y)
	lossError := slope*(d.pair.atomLossError+8*roundingUnit*math.Abs(a.y)) + 16*roundingUnit*excess
	charge := func(loss float64) {
		d.addRoundingError(d.cellIndex(loss), lossError, math.Abs(a.logQ), loss, d.pair.atomError)
	}
	if d.pair.direction == removeRecord || d.pair.direction == bothDirections && l > 0 {
		put(l, a.logQ+l+d.tilt*l-d.logSum)
		charge(l)
	}
	if d.pair.direction == addRecord || d.pair.direction == bothDirections && l > 0 {
		put(-l, a.logQ-d.tilt*l-d.logSum)
		charge(-l)
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
	d.cells[max(i, 0)].additions++
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
	d.cells[i].additions++
}

// compensatedSum adds positive numbers with a relative error of two roundings, however many
// they are (Neumaier 1974).
type compensatedSum struct{ sum, rest float64 }

func (s *compensatedSum) add(x float64) {
	t := s.sum + x
	if s.sum >= x {
		s.rest += s.sum - t + x
	} else {
		s.rest += x - t + s.sum
	}
	s.sum = t
}

func (s *compensatedSum) value() float64 { return s.sum + s.rest }
