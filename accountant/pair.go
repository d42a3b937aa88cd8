package accountant

import "math"

// direction says which of two neighbouring data sets the loss is seen from.
type direction int

const (
	removing  direction = iota // the record is in the data that ran
	adding                     // the record is not
	replacing                  // both at once: see pair
)

// pair is the two distributions that one lot may release from, seen along the
// line in which they differ: with base distributions Q, without the record, and
// Q·e^y with it, the lot releases from Q·r where r = 1 + rate·(e^y - 1).
//
// Removing: the loss is log r and the chances are those of Q·r. Adding: the loss
// is -log r and the chances are those of Q. Replacing: the hockey-stick curve of
// the sampled pair at every ε ≥ 0, on both sides (see rdpReplacedGaussian): the
// chances of Q·r where r > 1, their mirror image, and the rest at loss 0.
//
// An opposed pair (see opposed.go) is removing, and both of its distributions are
// mixtures.
type pair struct {
	direction direction
	rate      float64
	opposed   bool

	// The continuous part: Q has density density(x) and y = slope·x + offset, on
	// (from, to).
	continuous    bool
	gaussian      bool // density e^(-x²/2)/√2π on the whole line; else e^(-x)/2
	slope, offset float64
	from, to      float64

	// Points of positive chance, rising in y.
	atoms    []atom
	lowAtoms []atom // for the optimistic twin, where it has others

	beyond [2]portion // of the losses that were cut off, for either twin
	lost   portion    // of anything else that is left out, at most
	rough  float64    // by how much the chances of atoms may be wrong, relative to them
}

// portion is a part of all chances, with the record and without it.
type portion struct{ with, without float64 }

func (c *portion) add(more portion) { c.with, c.without = c.with+more.with, c.without+more.without }

// stays are logarithms of the chances that no event's loss was cut off.
type stays portion

func (s *stays) times(beyond portion, count float64) {
	s.with += count * math.Log1p(-beyond.with)
	s.without += count * math.Log1p(-beyond.without)
}

// beyond bounds what the compositions add in which some event's loss was cut off: the
// sum of their P - e^ε·Q, all of which are positive up to a limit of ε. Of their Q,
// lost may be missing.
func (s stays) beyond(epsilon, lost float64) (low, high float64) {
	if s.with == 0 {
		return 0, 0
	}
	with, without := -math.Expm1(s.with), -math.Expm1(s.without)
	if epsilon > 600 { // where their e^ε·Q may be no number
		return 0, with * (1 + 256*unit)
	}
	grown := math.Exp(epsilon)
	without *= grown
	off := 256 * unit * (with + without)
	return max(0, with-without-off), min(with-without+lost*grown, with) + off
}

// atom is a point of chance e^logQ without the record, e^(logQ+y) with it.
type atom struct{ y, logQ float64 }

// opposedPair is the pair of a record replaced in a Poisson lot. It is its own mirror image.
func opposedPair(rate, shift float64) pair {
	p := gaussianPair(shift)
	p.rate, p.opposed = rate, true
	return p
}

func gaussianPair(shift float64) pair {
	return pair{rate: 1, continuous: true, gaussian: true, slope: shift, offset: -shift * shift / 2, from: math.Inf(-1), to: math.Inf(1)}
}

// laplacePair is Laplace noise of scale 1 moved by shift.
func laplacePair(shift float64) pair {
	return pair{
		rate: 1, continuous: true, slope: 2, offset: -shift, from: 0, to: shift,
		atoms: []atom{{-shift, -math.Ln2}, {shift, -shift - math.Ln2}},
	}
}

// latticePair is integer noise of chance proportional to e^(-k²/2σ²), moved by a
// whole shift, but for chances far below share at either end (Canonne, Kamath and
// Steinke 2020, proposition 25: its tails are below e^(-k²/2σ²)).
func latticePair(d lattice, share float64) pair {
	share *= 1e-20
	reach := math.Ceil(d.sigma * math.Sqrt(-2*math.Log(share)))
	total := 0.0
	for k := -reach; k <= reach; k++ {
		total += math.Exp(-k * k / (2 * d.sigma * d.sigma))
	}
	p := pair{rate: 1, lost: portion{2 * share, 2 * share}}
	for k := -reach; k <= reach+d.shift; k++ {
		p.atoms = append(p.atoms, atom{
			y:    (2*k - d.shift) * d.shift / (2 * d.sigma * d.sigma),
			logQ: -k*k/(2*d.sigma*d.sigma) - math.Log(total),
		})
	}
	return p
}

// mostLattice and mostMoved are the largest σ and shift of a discrete Gaussian that
// is summed point by point, mostPoints about how many points all of them may have: each
// takes some sixty bytes.
const (
	mostLattice = 2e4
	mostMoved   = 1e6
	mostPoints  = 2e7
)

// quantile is at least where the unit Gaussian has chance share above it.
func quantile(share float64) float64 { return math.Sqrt(max(0, -2*math.Log(2*share))) }

// trim takes away the losses above cut, of a pair that is removing, and leaves out the
// largest of the others, of chance share at most: they may be so large that, tilted,
// they would be all that is seen.
func (p *pair) trim(cut, share float64) {
	if p.direction != removing {
		cut = math.Inf(1)
	}
	if p.gaussian && p.direction == adding {
		p.from = -quantile(share)
		p.lost.without += normalAbove(-p.from)
	}
	if p.continuous && p.direction != adding {
		end := p.to
		if p.gaussian {
			end = max(quantile(share/2), p.slope+quantile(share/(2*p.rate)))
		}
		beyond := p.place(p.base(cut))
		end = min(end, beyond)
		all := p.portionAbove(end)
		if p.to = end; end == beyond {
			p.beyond = [2]portion{all, all}
		} else {
			p.lost.add(all)
		}
	}
	if p.lowAtoms != nil {
		p.lowAtoms, _ = p.trimAtoms(p.lowAtoms, cut, share, &p.beyond[low])
	} else {
		p.trimAtoms(p.atoms, cut, share, &p.beyond[low])
	}
	var lost portion
	p.atoms, lost = p.trimAtoms(p.atoms, cut, share, &p.beyond[up])
	p.lost.add(lost)
}

func (p *pair) trimAtoms(list []atom, cut, share float64, beyond *portion) (rest []atom, lost portion) {
	for len(list) > 1 {
		largest, rest := list[len(list)-1], list[:len(list)-1]
		if p.direction == adding {
			largest, rest = list[0], list[1:]
		}
		_, loss := p.ratio(largest.y)
		all := portion{math.Exp(largest.logQ + loss), math.Exp(largest.logQ)}
		switch {
		case loss > cut:
			beyond.add(all)
		case p.direction == adding && lost.without+all.without <= share,
			p.direction != adding && !p.continuous && beyond.with == 0 && lost.with+all.with <= share:
			lost.add(all)
		default:
			return list, lost
		}
		list = rest
	}
	return list, lost
}

// base is the base loss whose loss is l.
func (p *pair) base(l float64) float64 {
	if l > 600 {
		return l - math.Log(p.rate)
	}
	return math.Log1p(math.Expm1(l) / p.rate)
}

// ratio is r-1 and log r at base loss y.
func (p *pair) ratio(y float64) (excess, logRatio float64) {
	if p.rate == 1 {
		return math.Expm1(y), y
	}
	if p.opposed {
		return p.mixture().LikelihoodRatio(y)
	}
	if y > 600 {
		return math.Inf(1), y + math.Log(p.rate)
	}
	excess = p.rate * math.Expm1(y)
	return excess, math.Log1p(excess)
}

func (p *pair) mixture() PoissonReplaceOne { return PoissonReplaceOne{p.rate, p.slope} }

func (p *pair) logDensity(x float64) float64 {
	if !p.gaussian {
		return -x - math.Ln2
	}
	density := -x*x/2 - 0.918938533204672741780329736406 // log √2π
	if p.opposed {
		density += p.mixture().LogBase(p.slope*x + p.offset)
	}
	return density
}

// rest is the chance that the two mirrored halves of a replacing pair, with the
// atoms given, leave at loss 0.
func (p *pair) rest(atoms []atom) float64 {
	halves := 0.0
	if p.continuous {
		zero := p.place(0)
		without, with := p.above(zero)
		halves += without + (1-p.rate)*without + p.rate*with
	}
	for _, a := range atoms {
		if a.y > 0 {
			_, loss := p.ratio(a.y)
			halves += math.Exp(a.logQ) + math.Exp(a.logQ+loss)
		}
	}
	return max(0, 1-halves)
}

// portionAbove is what P and Q have of the continuous part beyond x.
func (p *pair) portionAbove(x float64) portion {
	without, with := p.above(x)
	all := portion{p.rate*with + (1-p.rate)*without, without}
	if p.opposed {
		all.without = p.rate*normalAbove(x+p.slope) + (1-p.rate)*without
	}
	return all
}

// above is the chance of the continuous part beyond x, without the record and
// with it.
func (p *pair) above(x float64) (without, with float64) {
	if p.gaussian {
		return normalAbove(x), normalAbove(x - p.slope)
	}
	return (math.Exp(-x) - math.Exp(-p.to)) / 2, (1 - math.Exp(x-p.to)) / 2
}
