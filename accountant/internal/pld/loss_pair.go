package pld

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/gaussian"
)

// lossDirection is the data set under which the loss is distributed.
type lossDirection int

const (
	removeRecord   lossDirection = iota // the data with the record, against the data without it
	addRecord                           // the data without the record, against the data with it
	bothDirections                      // both at once: see lossPair
)

// lossPair is a dominating pair of the release of one lot, along the line in which its two
// distributions differ. With the base distributions Q, without the record, and Q·e^y, with
// it, the lot releases from Q·r with r = 1 + rate·(e^y - 1).
//
// In the direction removeRecord the loss is log r with the probabilities of Q·r. In the
// direction addRecord it is -log r with the probabilities of Q. A pair of bothDirections is
// symmetric: it has the hockey-stick curve of the sampled pair at every ε ≥ 0 on both sides
// (see symmetricDivergence in package rdp). It consists of the probabilities of Q·r
// where r > 1, their mirror image, and the remaining probability at loss 0.
//
// Where near is not 0, both distributions are mixtures (dpevent.MixturePair): Q is that with
// N(near). The direction is removeRecord if the pair is symmetric by itself
// (dpevent.PoissonReplaceOne), and bothDirections otherwise.
type lossPair struct {
	direction lossDirection
	rate      float64
	near      float64

	// The continuous part: Q has density density(x) and y = slope·x + offset, on
	// (from, to).
	continuous    bool
	gaussian      bool // the density is e^(-x²/2)/√2π on the whole line; otherwise e^(-x)/2
	slope, offset float64
	from, to      float64

	// Points of positive probability, in increasing order of y.
	atoms           []atom
	optimisticAtoms []atom // those of the optimistic estimate, if different

	cutOff        [2]probabilities // of the losses that were cut off, for each estimate
	truncated     probabilities    // upper bound of the other omitted probability
	atomError     float64          // bound of the relative error of the probabilities of atoms
	atomLossError float64          // bound of the error of the base losses of atoms
	cutOffError   float64          // bound of the relative error of cutOff, and of the losses from which on it counts
}

// probabilities is the probability of an event with and without the record.
type probabilities struct{ with, without float64 }

func (c *probabilities) add(more probabilities) {
	c.with, c.without = c.with+more.with, c.without+more.without
}

// addShare adds a share of the probabilities.
func (c *probabilities) addShare(more probabilities, share float64) {
	c.with, c.without = c.with+share*more.with, c.without+share*more.without
}

// logRetained is the logarithm of the probability that no event's loss was cut off.
type logRetained probabilities

func (s *logRetained) addEvent(cutOff probabilities, count float64) {
	s.with += count * math.Log1p(-cutOff.with)
	s.without += count * math.Log1p(-cutOff.without)
}

// cutOffDivergence bounds the divergence of the outcomes in which some event's loss was cut
// off: the sum of their P - e^ε·Q, all of which are positive up to a limit of ε. A probability
// of at most missing may be absent from their Q. The probabilities have a relative error of at
// most relative.
func (s logRetained) cutOffDivergence(epsilon, missing, relative float64) (low, high float64) {
	if s.with == 0 {
		return 0, 0
	}
	with, without := -math.Expm1(s.with), -math.Expm1(s.without)
	relative += 256 * roundingUnit
	if epsilon > 600 { // e^ε·Q may overflow
		return 0, with * (1 + relative)
	}
	expEpsilon := math.Exp(epsilon)
	without *= expEpsilon
	relative += 4 * roundingUnit * epsilon
	errorBound := relative * (with + without)
	return max(0, with-without-errorBound), min(with-without+missing*expEpsilon, with) + errorBound
}

// atom is a point of probability e^logQ without the record and e^(logQ+y) with it.
type atom struct{ y, logQ float64 }

// poissonReplaceOnePair is dpevent.PoissonReplaceOne. It is symmetric.
func poissonReplaceOnePair(rate, shift float64) lossPair {
	p := gaussianPair(shift)
	p.rate, p.near = rate, -shift
	return p
}

func gaussianPair(shift float64) lossPair {
	return lossPair{rate: 1, continuous: true, gaussian: true, slope: shift, offset: -shift * shift / 2,
		from: math.Inf(-1), to: math.Inf(1)}
}

// laplacePair is the pair of Laplace noise of scale 1, moved by shift.
func laplacePair(shift float64) lossPair {
	return lossPair{
		rate: 1, continuous: true, slope: 2, offset: -shift, from: 0, to: shift,
		atoms: []atom{{-shift, -math.Ln2}, {shift, -shift - math.Ln2}},
	}
}

// purePair is the pair of randomised response with two answers, whose losses are ±loss. It
// dominates every mechanism that satisfies loss-differential privacy without δ (Kairouz, Oh and
// Viswanath 2015, theorem 2.1): its hockey-stick divergence at s, (e^loss - e^s)/(1 + e^loss) for
// |s| ≤ loss, is the largest that two distributions with these losses have.
func purePair(loss float64) lossPair {
	less := math.Log1p(math.Exp(-loss))
	return lossPair{rate: 1, atoms: []atom{{-loss, -less}, {loss, -loss - less}}}
}

// discreteGaussianPair is the pair of integer noise with probability proportional to
// e^(-k²/2σ²), moved by an integer shift. It omits probabilities far below share at both ends
// (Canonne, Kamath and
// Steinke 2020, proposition 25: its tails are below e^(-k²/2σ²)).
func discreteGaussianPair(d dpevent.DiscreteGaussian, share float64) lossPair {
	share *= 1e-20
	reach := math.Ceil(d.Sigma * math.Sqrt(-2*math.Log(share)))
	var sum compensatedSum
	for k := -reach; k <= reach; k++ {
		sum.add(math.Exp(-k * k / (2 * d.Sigma * d.Sigma)))
	}
	total := sum.value()
	p := lossPair{rate: 1, truncated: probabilities{2 * share, 2 * share}}
	for k := -reach; k <= reach+d.Shift; k++ {
		p.atoms = append(p.atoms, atom{
			y:    (2*k - d.Shift) * d.Shift / (2 * d.Sigma * d.Sigma),
			logQ: -k*k/(2*d.Sigma*d.Sigma) - math.Log(total),
		})
	}
	return p
}

// maxDiscreteSigma and maxDiscreteShift bound σ and shift of a discrete Gaussian, which is
// summed point by point. maxDiscretePoints bounds approximately the total number of points,
// each of which takes about sixty bytes.
const (
	maxDiscreteSigma  = 2e4
	maxDiscreteShift  = 1e6
	maxDiscretePoints = 2e7
)

// quantileBound is an upper bound of the (1-share)-quantile of the unit Gaussian.
func quantileBound(share float64) float64 { return math.Sqrt(max(0, -2*math.Log(2*share))) }

// truncate cuts off the losses above cut in the direction removeRecord. Of the other losses
// it omits the largest, with a probability of at most share: tilted, very large losses would
// dominate everything else.
func (p *lossPair) truncate(cut, share float64) {
	if p.direction != removeRecord {
		cut = math.Inf(1)
	}
	if p.gaussian && p.direction == addRecord {
		p.from = -quantileBound(share)
		p.truncated.without += gaussian.TailProbability(-p.from)
	}
	if p.continuous && p.direction != addRecord {
		end := p.to
		if p.gaussian {
			end = max(quantileBound(share/2), p.slope+quantileBound(share/(2*p.rate)))
		}
		cutPoint := p.coordinate(p.baseLoss(cut))
		end = min(end, cutPoint)
		tail := p.tailProbabilities(end)
		if p.to = end; end == cutPoint {
			p.cutOff = [2]probabilities{tail, tail}
			// A tail probability at x has the relative error of x², an edge that of its loss.
			p.cutOffError = roundingUnit * 16 * (16 + end*end + p.slope*p.slope + math.Abs(cut))
		} else {
			p.truncated.add(tail)
		}
	}
	if p.optimisticAtoms != nil {
		p.optimisticAtoms, _ = p.truncateAtoms(p.optimisticAtoms, cut, share, &p.cutOff[optimistic])
	} else {
		p.truncateAtoms(p.atoms, cut, share, &p.cutOff[optimistic])
	}
	var truncated probabilities
	p.atoms, truncated = p.truncateAtoms(p.atoms, cut, share, &p.cutOff[pessimistic])
	p.truncated.add(truncated)
}

func (p *lossPair) truncateAtoms(list []atom, cut, share float64, cutOff *probabilities) (rest []atom, truncated probabilities) {
	for len(list) > 1 {
		largest, rest := list[len(list)-1], list[:len(list)-1]
		if p.direction == addRecord {
			largest, rest = list[0], list[1:]
		}
		_, loss := p.likelihoodRatio(largest.y)
		removed := probabilities{math.Exp(largest.logQ + loss), math.Exp(largest.logQ)}
		switch {
		case loss > cut:
			cutOff.add(removed)
			p.cutOffError = max(p.cutOffError, p.atomError+2*p.atomLossError+
				roundingUnit*16*(16+math.Abs(largest.logQ)+math.Abs(largest.y)+math.Abs(cut)))
		case p.direction == addRecord && truncated.without+removed.without <= share,
			p.direction != addRecord && !p.continuous && cutOff.with == 0 && truncated.with+removed.with <= share:
			truncated.add(removed)
		default:
			return list, truncated
		}
		list = rest
	}
	return list, truncated
}

// baseLoss is the base loss y at which the loss is l.
func (p *lossPair) baseLoss(l float64) float64 {
	if l > 600 {
		return l - math.Log(p.rate)
	}
	return math.Log1p(math.Expm1(l) / p.rate)
}

// likelihoodRatio is r-1 and log r at base loss y.
func (p *lossPair) likelihoodRatio(y float64) (excess, logRatio float64) {
	if p.rate == 1 {
		return math.Expm1(y), y
	}
	if p.near != 0 {
		return p.mixturePair().LikelihoodRatio(y)
	}
	if y > 600 {
		return math.Inf(1), y + math.Log(p.rate)
	}
	excess = p.rate * math.Expm1(y)
	return excess, math.Log1p(excess)
}

// lossConditioning is how errors affect the logarithm l of the likelihood ratio r at base loss
// y: an error of y by up to slope times its size, a relative error of r - 1 by up to excess
// times its size. For a mixture in both data sets it is the sum for both.
func (p *lossPair) lossConditioning(y float64) (slope, excess float64) {
	if p.rate == 1 && p.near == 0 {
		return 1, 0
	}
	_, l := p.likelihoodRatio(y)
	if p.near != 0 {
		base := p.mixturePair().LogBase(y)
		l += base
		excess = math.Abs(math.Expm1(-base))
		slope = p.mixturePair().LogBaseSlope(y)
	}
	return slope + min(1, p.rate*math.Exp(min(700, y-l))), excess + math.Abs(math.Expm1(-l))
}

func (p *lossPair) mixturePair() dpevent.MixturePair {
	return dpevent.MixturePair{Rate: p.rate, Far: p.slope, Near: p.near}
}

// zeroCoordinate is the x at which the loss is 0.
func (p *lossPair) zeroCoordinate() float64 {
	if p.gaussian {
		return p.mixturePair().EqualAt()
	}
	return p.coordinate(0)
}

func (p *lossPair) logDensity(x float64) float64 {
	if !p.gaussian {
		return -x - math.Ln2
	}
	density := -x*x/2 - 0.918938533204672741780329736406 // log √2π
	if p.near != 0 {
		density += p.mixturePair().LogBase(p.slope*x + p.offset)
	}
	return density
}

// zeroLossProbability is the probability that the two mirrored halves of a symmetric pair,
// with the given atoms, leave at loss 0, and a bound of its rounding error.
func (p *lossPair) zeroLossProbability(atoms []atom) (probability, errorBound float64) {
	halves := p.halvesProbability(atoms)
	return max(0, 1-halves), p.atomError + p.atomLossError + roundingUnit*float64(256+2*len(atoms))
}

// halvesProbability is the probability of the two mirrored halves of a symmetric pair.
func (p *lossPair) halvesProbability(atoms []atom) float64 {
	halves := 0.0
	if p.continuous {
		tail := p.tailProbabilities(p.zeroCoordinate())
		halves += tail.with + tail.without
	}
	for _, a := range atoms {
		if a.y > 0 {
			_, loss := p.likelihoodRatio(a.y)
			halves += math.Exp(a.logQ) + math.Exp(a.logQ+loss)
		}
	}
	return halves
}

// tailProbabilities is the probability of the continuous part beyond x under P and Q.
func (p *lossPair) tailProbabilities(x float64) probabilities {
	without, with := p.unsampledTail(x)
	tail := probabilities{p.rate*with + (1-p.rate)*without, without}
	if p.near != 0 {
		tail.without = p.rate*gaussian.TailProbability(x-p.near) + (1-p.rate)*without
	}
	return tail
}

// unsampledTail is the probability of the continuous part beyond x, without and with the
// record, before sampling.
func (p *lossPair) unsampledTail(x float64) (without, with float64) {
	if p.gaussian {
		return gaussian.TailProbability(x), gaussian.TailProbability(x - p.slope)
	}
	return (math.Exp(-x) - math.Exp(-p.to)) / 2, (1 - math.Exp(x-p.to)) / 2
}
