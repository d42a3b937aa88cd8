package accountant

import "math"

// jointPair is the pair of several groups of different noise in one sampled lot.
// Their joint loss, before sampling, is laid on points; sampling then acts on
// points, as it acts on any pair that dominates (Zhu, Dong and Wang 2022,
// "Optimal Accounting of Differential Privacy via Characteristic Function",
// theorem 11). Of the losses chance share at most is lost.
func jointPair(e event, share float64) pair {
	var parts []pair
	if e.gaussian > 0 {
		p := gaussianPair(e.gaussian)
		p.from, p.to = -quantile(1e-25*share), p.slope+quantile(share)
		without, with := p.above(p.to)
		p.lost = portion{with + 1e-25*share, without + 1e-25*share}
		parts = append(parts, p)
	}
	for _, ratio := range e.laplace {
		parts = append(parts, laplacePair(ratio))
	}
	for _, d := range e.lattice {
		parts = append(parts, latticePair(d, share))
	}
	joint := parts[0]
	for i := range parts[1:] {
		joint = both(&joint, &parts[i+1])
	}
	return joint
}

// Losses of groups are laid on points tilted by evenly, where P and Q count alike, in
// cells of finest of their standard deviation.
const (
	evenly = -0.5
	finest = 0.01
)

// both is the pair of two independent releases, on points.
func both(a, b *pair) pair {
	var x, y cumulants
	x.at(a.points(), evenly, 1e-18)
	y.at(b.points(), evenly, 1e-18)
	step := finest * math.Sqrt(x.variance+y.variance)
	of := func(p *pair) losses {
		s := newSurvey(*p, evenly, 1e-290)
		l := s.discretize(2*finest*finest*s.variance, 2*step)
		missing := 2 * s.missing
		if !(l.twins[up].slack < math.Inf(1)) {
			missing = 1 // nothing is known of it
		}
		l.lost.add(portion{missing, missing})
		return l
	}
	left, right := of(a), of(b)
	out := pair{rate: 1, lost: left.lost, rough: left.twins[up].rough + right.twins[up].rough + 32*unit}
	out.lost.add(right.lost)
	var faded portion
	out.atoms, faded = sum(left.twins[up], right.twins[up], step, true)
	out.lost.add(faded)
	out.lowAtoms, _ = sum(left.twins[low], right.twins[low], step, false)
	return out
}

// least is far above where products of chances lose their precision.
const least = 1e-295

// sum is what two losses add up to, as points rising: split between the ends of cells,
// or gathered, as in discretize. What is too small for a number is left out, and said.
func sum(a, b twin, step float64, split bool) (atoms []atom, faded portion) {
	start := a.loss[0] + b.loss[0]
	n := int((a.loss[len(a.loss)-1]+b.loss[len(b.loss)-1]-start)/step) + 3
	mass, moment := make([]float64, n), make([]float64, n)
	whole, grow := math.Expm1(step), math.Exp(evenly*step)
	for i, x := range a.loss {
		for k, y := range b.loss {
			loss := x + y
			if a.mass[i]*b.mass[k] < least {
				with := math.Log(a.mass[i]) + math.Log(b.mass[k]) + a.log + b.log - evenly*loss
				faded.add(portion{math.Exp(with), math.Exp(with - loss)})
				continue
			}
			cell := int((loss - start) / step)
			beyond := loss - (start + float64(cell)*step)
			chance := a.mass[i] * b.mass[k] * math.Exp(-evenly*beyond) // as if at the left end
			if split {
				part := math.Expm1(step-beyond) / whole
				mass[cell] += chance * part
				mass[cell+1] += chance * (1 - part) * grow
			} else {
				mass[cell] += chance
				moment[cell] += chance * math.Expm1(-beyond)
			}
		}
	}
	for i, m := range mass {
		if m > 0 {
			end := start + float64(i)*step
			loss := end - math.Log1p(moment[i]/m)
			atoms = append(atoms, atom{loss, math.Log(m) + a.log + b.log - evenly*end - loss})
		}
	}
	return atoms, faded
}
