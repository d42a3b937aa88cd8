package accountant

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// event is what one lot does to the one record in which two data sets differ:
// the record takes part with probability rate, and then every group's sum moves
// by its sensitivity, or by twice that if the record is replaced.
//
// The Gaussian groups are one Gaussian: the joint release of N(x_g, σ_g²) with
// ‖x_g‖ ≤ S_g is, by rotation and scaling, one unit Gaussian moved by at most
// (Σ (S_g/σ_g)²)^(1/2) (McMahan et al. 2019, section 3).
type event struct {
	rate     float64   // 1: no sampling
	replace  bool      // the record is replaced, not added or removed
	fixed    bool      // replaced in a lot of a fixed size, drawn without replacement
	gaussian float64   // (Σ (S/σ)²)^(1/2) over the Gaussian groups
	laplace  []float64 // S/scale of every Laplace group
	lattice  []lattice // the discrete Gaussian groups
}

// lattice is a discrete Gaussian group: integers, moved by shift.
type lattice struct{ shift, sigma float64 }

// squared is (shift/σ)², without the squares of either, which may be out of range.
func (d lattice) squared() float64 { return d.shift / d.sigma * (d.shift / d.sigma) }

// pureGaussian tells that the lot has Gaussian noise alone.
func (e event) pureGaussian() bool { return len(e.laplace) == 0 && len(e.lattice) == 0 }

// sampled tells that the record may miss the lot.
func (e event) sampled() bool { return e.rate < 1 }

func (e event) key() string {
	return fmt.Sprint(e.rate, e.replace, e.fixed, e.gaussian, e.laplace, e.lattice)
}

func eventOf(lot ledger.Lot, scale float64) event {
	e := event{rate: 1}
	switch lot.Sampling.Policy {
	case ledger.Poisson:
		e.rate = lot.Sampling.Rate
	case ledger.FixedSize:
		e.rate = float64(lot.Sampling.LotSize) / float64(lot.Sampling.Records)
	}
	squares := 0.0
	for _, q := range lot.Queries {
		ratio := scale * q.Sensitivity / q.Noise
		switch {
		case ratio == 0:
		case q.Mechanism == ledger.Gaussian:
			squares += ratio * ratio
		case q.Mechanism == ledger.Laplace:
			e.laplace = append(e.laplace, ratio)
		case q.Mechanism == ledger.DiscreteGaussian:
			e.lattice = append(e.lattice, lattice{scale * q.Sensitivity, q.Noise})
		}
	}
	e.gaussian = math.Sqrt(squares)
	slices.Sort(e.laplace)
	return e
}

// worse is an event that tells at least as much as a and as b.
func worse(a, b event) event {
	w := event{rate: max(a.rate, b.rate), replace: a.replace || b.replace, gaussian: max(a.gaussian, b.gaussian)}
	few, many := a.laplace, b.laplace
	if len(few) > len(many) {
		few, many = many, few
	}
	w.laplace = slices.Clone(many)
	for i, ratio := range few {
		w.laplace[i] = max(ratio, many[i])
	}
	if slices.Equal(a.lattice, b.lattice) {
		w.lattice = a.lattice
	} else {
		w.lattice = slices.Concat(a.lattice, b.lattice)
	}
	return w
}
