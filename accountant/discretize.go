package accountant

import (
	"cmp"
	"math"
	"slices"
)

// losses is the tilted privacy loss of one event laid on points, twice: up dominates
// the true one (its hockey-stick divergence is nowhere less) and low is dominated by
// it.
type losses struct {
	twins  [2]twin    // up, low
	beyond [2]portion // left out of either
	lost   portion    // left out of both, at most: those of the loss, and the others
}

const (
	up  = 0
	low = 1
)

type twin struct {
	loss, mass []float64 // the masses are tilted and sum to one
	log        float64   // mass·e^(log - tilt·loss) is the untilted chance
	slack      float64   // mass that is left out, at most
	rough      float64   // by how much a mass may be wrong, relative to it
}

// survey is a pair looked over before it is laid on points: tilted chances below about
// a threshold are left out.
type survey struct {
	cumulants
	p       pair
	tilt    float64
	list    []point
	outside float64 // tilted chance left out
	missing float64 // the same as it is untilted, with the record and without it together
}

func newSurvey(p pair, tilt, threshold float64) survey {
	s := survey{p: p, tilt: tilt, list: p.points()}
	slices.SortFunc(s.list, func(a, b point) int { return cmp.Compare(a.loss, b.loss) })
	s.at(s.list, tilt, threshold)
	s.split()
	return s
}

// widestCell is as wide as a cell may be for its exponentials to be numbers.
const widestCell = 32

// discretize lays a pair on points. Cells are at most widest, and narrow enough for the
// mean square of their width to be about square.
//
// The upper twin splits every chance between the two ends of its cell so that both
// its P and its Q are kept ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar and
// Manurangsi 2022, section 3): a mean-preserving spread of the likelihood ratio. The
// lower twin gathers a cell onto one point: a post-processing. Both errors are of
// second order in the cell.
func (s *survey) discretize(square, widest float64) losses {
	d := discretizer{p: &s.p, tilt: s.tilt, logSum: s.logSum, rough: s.p.rough, edges: s.edges(square, widest)}
	d.up = make([]float64, len(d.edges))
	d.low = make([]gathered, len(d.edges))
	d.run()
	l := losses{[2]twin{d.upper(2 * s.outside), d.lower(2 * s.outside)}, s.p.beyond, s.p.lost}
	switch s.p.direction {
	case adding:
		l.lost = portion{l.lost.without, l.lost.with}
	case replacing:
		l.lost.with += l.lost.without
	}
	return l
}

// split cuts off the ends of the list that are below the cut, but for a point each, and
// notes how much that is.
func (s *survey) split() {
	above := func(at point) bool { return at.logP+s.tilt*at.loss >= s.cut }
	first := max(0, slices.IndexFunc(s.list, above)-1)
	end := len(s.list)
	for end > first+1 && !above(s.list[end-1]) {
		end--
	}
	end = min(len(s.list), end+1)
	for i, at := range s.list {
		if (i <= first || i >= end-1) && !above(at) {
			s.outside += s.chance(at, s.tilt)
			s.missing += math.Exp(at.logP) + math.Exp(at.logP-at.loss)
		}
	}
	s.list = s.list[first:end]
}

// edge ends a cell; x is where the continuous part has this loss.
type edge struct{ x, loss float64 }

// edges cuts the losses of the list into cells, rising. For a number of cells the
// mean square of their width is least where it goes with the density to the power
// -1/3, so each has an equal share of the integral of the density's cube root.
func (s *survey) edges(square, widest float64) []edge {
	p, list := &s.p, s.list
	gap := func(i int) float64 { return list[i].loss - list[i-1].loss }
	share := func(i int) float64 {
		mass := (s.chance(list[i-1], s.tilt) + s.chance(list[i], s.tilt)) / 2
		return math.Cbrt(mass * gap(i) * gap(i))
	}
	shares, most := 0.0, 0.0
	for i := 1; i < len(list); i++ {
		shares += share(i)
	}
	width := math.Sqrt(square / shares)
	widest = min(widest, widestCell)
	cells := func(i int) float64 { return max(share(i)/width, gap(i)/widest) }
	for i := 1; i < len(list); i++ {
		most += cells(i)
	}
	thin := min(1, mostCells/most)
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
		if !p.continuous && due >= 1 || i == len(list)-1 || p.direction == replacing && b.loss == 0 {
			add(edge{b.x, b.loss})
			due = 0
		}
		due -= math.Floor(due)
	}
	return edges
}

// mostCells bounds the cells of one event.
const mostCells = 5000

// lossAt is the loss of the continuous part at x: for a replacing pair, of its
// mirrored half if mirrored.
func (p *pair) lossAt(x float64, mirrored bool) float64 {
	_, l := p.ratio(p.slope*x + p.offset)
	if p.direction == adding || p.direction == replacing && mirrored {
		return -l
	}
	return l
}

type discretizer struct {
	p      *pair
	tilt   float64
	logSum float64 // masses are divided by e^logSum
	edges  []edge
	up     []float64  // at the edges
	low    []gathered // of the cells from each edge to the next
	rough  float64    // by how much a mass may be wrong, relative to it
}

// gathered is the mass of a cell.
type gathered struct{ mass, moment float64 } // moment is Σ mass·(e^(middle - loss) - 1)

func (d *discretizer) run() {
	p := d.p
	if p.continuous {
		for i := 0; i+1 < len(d.edges); i++ {
			d.stretch(i)
		}
	}
	lower := p.atoms
	if p.lowAtoms != nil {
		lower = p.lowAtoms
	}
	for _, a := range p.atoms {
		d.atom(a, d.spread)
	}
	for _, a := range lower {
		d.atom(a, d.gather)
	}
	if p.direction == replacing {
		d.spread(0, math.Log(p.rest(p.atoms))-d.logSum)
		d.gather(0, math.Log(p.rest(lower))-d.logSum)
	}
}

// round counts what float64 may make of a mass: its logarithm is a sum of numbers as
// large as these, and it is split by its place in a cell.
func (d *discretizer) round(logQ, loss, width float64) {
	large := math.Abs(logQ) + (1+d.tilt)*math.Abs(loss) + math.Abs(d.logSum) + math.Abs(loss)/width
	d.rough = max(d.rough, d.p.rough+unit*(64+8*large))
}

func (d *discretizer) upper(slack float64) twin {
	t := twin{log: d.logSum, slack: slack, rough: d.rough}
	for i, m := range d.up {
		if m != 0 {
			t.loss = append(t.loss, d.edges[i].loss+4*unit*math.Abs(d.edges[i].loss))
			t.mass = append(t.mass, m)
		}
	}
	if d.tilt < 0 { // then splitting takes away from the sum
		return t.normalised(0)
	}
	return t.normalised(leastOfUpper)
}

func (d *discretizer) lower(slack float64) twin {
	t := twin{log: d.logSum, slack: slack, rough: d.rough}
	for i, h := range d.low {
		shift := math.Log1p(h.moment / h.mass)
		if h.mass > 0 && math.Abs(shift) < math.MaxFloat64 { // else it is left out
			loss := d.middle(i) - shift
			t.loss = append(t.loss, loss-4*unit*(math.Abs(loss)+math.Abs(shift)))
			t.mass = append(t.mass, h.mass*math.Exp(-d.tilt*shift))
		}
	}
	return t.normalised(0)
}

// leastOfUpper is below what the masses of an upper twin add up to: splitting chances
// adds to their tilted sum, which is 1 but for the error of the survey.
const leastOfUpper = 0.9

// normalised makes masses sum to one. Where they do not add up to more than least, or to
// no number, as for a target that makes no sense, nothing is known of them.
func (t twin) normalised(least float64) twin {
	sum := 0.0
	for _, m := range t.mass {
		sum += m
	}
	if !(sum > least && sum < math.Inf(1)) {
		return twin{loss: []float64{0}, mass: []float64{1}, log: t.log, slack: math.Inf(1)}
	}
	for i := range t.mass {
		t.mass[i] /= sum
	}
	t.log += math.Log(sum)
	t.slack /= sum
	t.rough += 2 * unit * float64(len(t.mass))
	return t
}

// middle is what the losses of a cell are compared with.
func (d *discretizer) middle(i int) float64 {
	if i+1 == len(d.edges) {
		return d.edges[i].loss
	}
	return (d.edges[i].loss + d.edges[i+1].loss) / 2
}

// stretch adds the continuous chances of the cell between edges i and i+1.
func (d *discretizer) stretch(i int) {
	u, v := d.edges[i].loss, d.edges[i+1].loss
	p := d.p
	mirrored := p.direction == adding || p.direction == replacing && v <= 0
	xa, xb := min(d.edges[i].x, d.edges[i+1].x), max(d.edges[i].x, d.edges[i+1].x)
	reference := d.middle(i)
	grow := math.Expm1(reference) // of the reference, for r to be compared with
	if mirrored {
		grow = math.Expm1(-reference)
	}
	toLeft, toRight := u-reference, v-reference
	rightGrow, rightShift := math.Exp(toRight), math.Expm1(toRight)
	whole := math.Expm1(v - u)

	mass, moment, left, right := 0.0, 0.0, 0.0, 0.0
	panels := p.rules(xa, xb, d.tilt)
	width := (xb - xa) / float64(panels)
	for panel := range panels {
		start := xa + width*float64(panel)
		for k, node := range Nodes {
			x := start + width*(1+node)/2
			excess, l := p.ratioFast(p.slope*x + p.offset)
			chance := width / 2 * Weights[k]
			logQ := p.logDensity(x) + d.tilt*reference - d.logSum
			var apart float64 // e^(reference - loss) - 1
			switch {
			case !mirrored && !math.IsNaN(l):
				chance *= math.Exp(logQ + l)
				apart = math.Expm1(reference - l)
			case !mirrored:
				chance *= math.Exp(logQ) * (1 + excess)
				apart = (grow - excess) / (1 + excess)
			case !math.IsNaN(l):
				chance *= math.Exp(logQ)
				apart = math.Expm1(reference + l)
			default:
				chance *= math.Exp(logQ)
				apart = (excess - grow) / (1 + grow)
			}
			mass += chance
			moment += chance * apart
			part := min(1, max(0, (apart*rightGrow+rightShift)/whole))
			left += chance * part
			right += chance * (1 - part)
		}
	}
	d.up[i] += left * math.Exp(d.tilt*toLeft)
	d.up[i+1] += right * math.Exp(d.tilt*toRight)
	d.low[i].mass += mass
	d.low[i].moment += moment
	d.round(min(p.logDensity(xa), p.logDensity(xb)), reference, v-u)
}

// rules is how many Gauss-Legendre rules of five points a stretch from x = a to b
// needs for an error below 1e-13 of its chance: as many as its exponent is steep.
func (p *pair) rules(a, b, tilt float64) int {
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

// ratioFast is ratio where the logarithm can be told from the excess: it is then
// NaN.
func (p *pair) ratioFast(y float64) (excess, logRatio float64) {
	switch {
	case p.rate == 1:
		return 0, y
	case p.opposed:
		return p.ratio(y)
	case y > 600:
		return 0, y + math.Log(p.rate)
	}
	return p.rate * math.Expm1(y), math.NaN()
}

func (d *discretizer) atom(a atom, put func(loss, logMass float64)) {
	_, l := d.p.ratio(a.y)
	if d.p.direction == removing || d.p.direction == replacing && l > 0 {
		put(l, a.logQ+l+d.tilt*l-d.logSum)
		d.round(a.logQ, l, 1)
	}
	if d.p.direction == adding || d.p.direction == replacing && l > 0 {
		put(-l, a.logQ-d.tilt*l-d.logSum)
		d.round(a.logQ, l, 1)
	}
}

// cell is the last edge at or below loss: -1 below all.
func (d *discretizer) cell(loss float64) int {
	i, found := slices.BinarySearchFunc(d.edges, loss, func(e edge, loss float64) int { return cmp.Compare(e.loss, loss) })
	if found {
		return i
	}
	return i - 1
}

// spread splits a mass, given by its logarithm, between the ends of its cell, keeping its
// P and its Q. Beyond the last edge it is below the threshold, which is in the slack.
func (d *discretizer) spread(loss, logMass float64) {
	i := d.cell(loss)
	switch {
	case i < 0:
		d.up[0] += math.Exp(logMass + d.tilt*(d.edges[0].loss-loss))
	case d.edges[i].loss == loss:
		d.up[i] += math.Exp(logMass)
	case i+1 < len(d.edges):
		toLeft, toRight := d.edges[i].loss-loss, d.edges[i+1].loss-loss
		part := math.Exp(toLeft) * math.Expm1(-toRight) / math.Expm1(toLeft-toRight)
		d.up[i] += part * math.Exp(logMass+d.tilt*toLeft)
		d.up[i+1] += (1 - part) * math.Exp(logMass+d.tilt*toRight)
	}
}

// gather adds a mass to its cell. What lies below all cells is left out.
func (d *discretizer) gather(loss, logMass float64) {
	i := d.cell(loss)
	if i < 0 {
		return
	}
	apart := d.middle(i) - loss
	mass := math.Exp(logMass + d.tilt*apart)
	d.low[i].mass += mass
	d.low[i].moment += mass * math.Expm1(apart)
}
