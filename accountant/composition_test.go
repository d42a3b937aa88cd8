package accountant

import (
	"errors"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// A Composition returns the same numbers as Epsilon.
func TestComposition_AgreesWithEpsilon(t *testing.T) {
	both := fixedLots(4, 10)
	both.Lots = append(both.Lots, poisson(.01, 2, 5).Lots...)
	passes := Plan{Sampling: ledger.Sampling{Policy: ledger.Shuffle, LotSize: 100, Records: 1000}, Steps: 25, Noise: 3}.History()
	for policy, h := range map[string]ledger.History{"poisson": poisson(.01, 1, 100), "fixed": fixedLots(4, 10), "both": both, "shuffle": passes} {
		p := Compose(h)
		for _, name := range Names() {
			want, err := Epsilon(h, 1e-5, name)
			if err != nil {
				t.Fatal(err)
			}
			epsilon, failed := p.ProvenEpsilon(1e-5, name)
			again, err := p.Epsilon(1e-5, name)
			if epsilon != want.Epsilon || again != want || errors.Join(failed, err) != nil {
				t.Errorf("%s, %s: ε = %v, %+v (%v), want %+v", policy, name, epsilon, again, errors.Join(failed, err), want)
			}
			if other, err := p.ProvenEpsilon(1e-6, name); err != nil || other <= epsilon && name != "naive" {
				t.Errorf("%s, %s: ε = %v at a smaller δ, %v at the other (%v)", policy, name, other, epsilon, err)
			}
		}
	}
	for _, p := range []*Composition{Compose(poisson(2, 1, 1)), Compose(fixedLots(-1, 1))} {
		if _, err := p.ProvenEpsilon(1e-5, ""); !errors.Is(err, ErrArgument) {
			t.Errorf("lots that cannot be: %v", err)
		}
	}
	p := Compose(passes)
	for _, delta := range []float64{0, 1} {
		if _, err := p.ProvenEpsilon(delta, ""); !errors.Is(err, ErrArgument) {
			t.Errorf("δ = %v: %v", delta, err)
		}
	}
	if _, err := p.ProvenEpsilon(1e-5, "unknown"); !errors.Is(err, ErrArgument) {
		t.Errorf("unknown accountant: %v", err)
	}
}

// For lots of a fixed size three accountants use pld, which computes each result once: the
// published curve and the proven curve.
func TestComposition_CachesPLD(t *testing.T) {
	p := Compose(fixedLots(4, 10))
	if _, err := p.ProvenEpsilon(1e-5, "pld"); err != nil {
		t.Fatal(err)
	}
	if len(p.composed.pldEpsilons) != 2 {
		t.Errorf("pld was asked %d times", len(p.composed.pldEpsilons))
	}
	const mark = 12345.
	p.composed.pldEpsilons[pldQuery{1e-5, false}] = Guarantee{Epsilon: mark}
	p.composed.pldEpsilons[pldQuery{1e-5, true}] = Guarantee{Epsilon: 2 * mark}
	for _, name := range []string{"pld", "rdp", "strong"} {
		a, err := p.Epsilon(1e-5, name)
		if err != nil || a.Epsilon != 2*mark {
			t.Errorf("%s: ε = %v (%v), not what had been proven", name, a.Epsilon, err)
		}
		if published := a.Published; name != "strong" && published != mark {
			t.Errorf("%s: published ε = %v, not what pld had answered", name, published)
		}
	}
}
