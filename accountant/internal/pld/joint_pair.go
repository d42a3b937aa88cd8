package pld

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// jointPair is the dominating pair of several groups with different noise in one sampled lot.
// It discretises their joint loss before sampling, and then applies sampling to the points,
// as to any dominating pair (Zhu, Dong and Wang 2022,
// "Optimal Accounting of Differential Privacy via Characteristic Function",
// theorem 11). At most `share` of the probability mass is truncated.
func jointPair(e dpevent.Event, share float64) lossPair {
	var parts []lossPair
	if e.GaussianShift > 0 {
		p := gaussianPair(e.GaussianShift)
		p.from, p.to = -quantileBound(1e-25*share), p.slope+quantileBound(share)
		without, with := p.unsampledTail(p.to)
		p.truncated = probabilities{with + 1e-25*share, without + 1e-25*share}
		parts = append(parts, p)
	}
	for _, ratio := range e.LaplaceShifts {
		parts = append(parts, laplacePair(ratio))
	}
	for _, loss := range e.PureLosses {
		parts = append(parts, purePair(loss))
	}
	for _, d := range e.DiscreteGaussians {
		parts = append(parts, discreteGaussianPair(d, share))
	}
	joint := parts[0]
	for i := range parts[1:] {
		joint = convolvePairs(&joint, &parts[i+1])
	}
	return joint
}

// Losses of groups are discretised with the tilt balancedTilt, at which P and Q have equal
// weight, in cells of jointCellWidth standard deviations.
const (
	balancedTilt   = -0.5
	jointCellWidth = 0.01
)

// convolvePairs is the discretised pair of two independent releases.
func convolvePairs(a, b *lossPair) lossPair {
	var x, y tiltedCumulants
	x.evaluate(a.samples(), balancedTilt, 1e-18)
	y.evaluate(b.samples(), balancedTilt, 1e-18)
	step := jointCellWidth * math.Sqrt(x.variance+y.variance)
	discretize := func(p *lossPair) discretizedLoss {
		s := tiltPair(*p, balancedTilt, 1e-290)
		l := s.discretize(2*jointCellWidth*jointCellWidth*s.variance, 2*step)
		missing := 2 * s.truncatedUntilted
		if !(l.estimates[pessimistic].missingMass < math.Inf(1)) {
			missing = 1 // the estimate has no information
		}
		l.truncated.add(probabilities{missing, missing})
		return l
	}
	left, right := discretize(a), discretize(b)
	out := lossPair{rate: 1, truncated: left.truncated,
		atomError: left.estimates[pessimistic].relativeError + right.estimates[pessimistic].relativeError + 32*roundingUnit}
	out.truncated.add(right.truncated)
	var underflowed probabilities
	var errors, optimisticErrors convolutionError
	out.atoms, underflowed, errors = convolve(left.estimates[pessimistic], right.estimates[pessimistic], step, true)
	out.truncated.add(underflowed)
	out.optimisticAtoms, _, optimisticErrors = convolve(left.estimates[optimistic], right.estimates[optimistic], step, false)
	out.atomError += max(errors.mass, optimisticErrors.mass)
	out.atomLossError = max(errors.loss, optimisticErrors.loss)
	return out
}

// convolutionError bounds the relative errors of the masses of atoms, and the errors of their
// base losses.
type convolutionError struct{ mass, loss float64 }

// minProduct is far above the range in which products of probabilities lose precision.
const minProduct = 1e-295

// convolve is the distribution of the sum of two losses, as points in increasing order, split
// between the ends of cells or merged as in discretize. Products that would underflow are
// omitted; underflowed is their total.
func convolve(a, b lossEstimate, step float64, split bool) (atoms []atom, underflowed probabilities, bound convolutionError) {
	start := a.loss[0] + b.loss[0]
	n := int((a.loss[len(a.loss)-1]+b.loss[len(b.loss)-1]-start)/step) + 3
	mass, moment := make([]float64, n), make([]float64, n)
	additions := make([]int, n+1)
	cellGrowth, tiltFactor := math.Expm1(step), math.Exp(balancedTilt*step)
	for i, x := range a.loss {
		for k, y := range b.loss {
			loss := x + y
			if a.mass[i]*b.mass[k] < minProduct {
				with := math.Log(a.mass[i]) + math.Log(b.mass[k]) + a.logScale + b.logScale - balancedTilt*loss
				underflowed.add(probabilities{math.Exp(with), math.Exp(with - loss)})
				continue
			}
			cell := int((loss - start) / step)
			offset := loss - (start + float64(cell)*step)
			additions[cell]++
			probability := a.mass[i] * b.mass[k] * math.Exp(-balancedTilt*offset) // as if at the left end
			if split {
				part := math.Expm1(step-offset) / cellGrowth
				mass[cell] += probability * part
				mass[cell+1] += probability * (1 - part) * tiltFactor
			} else {
				mass[cell] += probability
				moment[cell] += probability * math.Expm1(-offset)
			}
		}
	}
	for i, m := range mass {
		if m > 0 {
			end := start + float64(i)*step
			loss := end - math.Log1p(moment[i]/m)
			atoms = append(atoms, atom{loss, math.Log(m) + a.logScale + b.logScale - balancedTilt*end - loss})
			operations := float64(additions[i] + additions[max(i-1, 0)])
			magnitude := math.Abs(math.Log(m)) + math.Abs(a.logScale) + math.Abs(b.logScale) + math.Abs(end) + math.Abs(loss)
			bound.mass = max(bound.mass, roundingUnit*(operations+8*magnitude))
			bound.loss = max(bound.loss, roundingUnit*(16*(math.Abs(start)+math.Abs(end)+step)+(32+2*operations)*math.Sinh(step/2)))
		}
	}
	// The estimates moved their losses to one side; in the other direction that is an error.
	bound.loss += 2 * (a.lossError + b.lossError)
	bound.mass += bound.loss
	return atoms, underflowed, bound
}
