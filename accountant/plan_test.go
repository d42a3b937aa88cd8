package accountant

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/pld"
	"github.com/dptrain/dptrain/accountant/ledger"
)

func TestCalibrateNoise_PublishedValues(t *testing.T) {
	for _, c := range []struct {
		rate           float64
		steps          int
		epsilon, delta float64
		accountant     string
		want           float64
		tolerance      float64
	}{
		{.04, 2000, 8, 1e-5, "rdp", 1.3562, 1e-4},
		{.04, 2000, 8, 1e-5, "pld", 1.28997, 1e-3},
		{1, 1, 1, 1e-6, "pld", 4.22467888932684, 1e-12},
		{1, 1, 1, 1e-6, "rdp", 4.530877117, 1e-6},
		{.01, 1, 1, 1e-5, "pld", .67379294682, 1e-3},
		{.001, 25, 1, 1e-5, "pld", 3.20956502598 / 6, 1e-3},
	} {
		plan := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: c.rate}, Steps: c.steps}
		got, err := CalibrateNoise(plan, c.epsilon, c.delta, c.accountant)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "noise", got, c.want, c.tolerance)
	}
}

// A calibrated value, used again, never exceeds the target and is within 0.1% of it.
func TestCalibrate_NeverExceedsTarget(t *testing.T) {
	t.Parallel()
	cases := 30
	if testing.Short() {
		cases = 6
	}
	r := rand.New(rand.NewPCG(9, 10))
	for range cases {
		for _, name := range []string{"pld", "rdp", "moments"} {
			epsilon, delta := .3+8*r.Float64(), math.Pow(10, -4-4*r.Float64())
			plan := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: math.Pow(10, -2.5*r.Float64())}, Steps: 1 + r.IntN(3000)}
			noise, err := CalibrateNoise(plan, epsilon, delta, name)
			if err != nil {
				t.Fatal(err)
			}
			plan.Noise = noise
			check := func(what string, p Plan, tolerance float64) {
				t.Helper()
				got := epsilonOf(t, p.History(), delta, name).Epsilon
				if got > epsilon || got < epsilon*(1-tolerance) {
					t.Errorf("%s by %s: %+v spends %v of %v at %v", what, name, p, got, epsilon, delta)
				}
			}
			check("noise", plan, 1e-3)
			target := epsilon * (.5 + r.Float64())
			if least, err := CalibrateDelta(plan, target, name); err != nil {
				t.Fatal(err)
			} else if back := epsilonOf(t, plan.History(), least, name).Epsilon; back > target || back < target*(1-1e-3) {
				t.Errorf("delta by %s: %+v at %v spends %v of %v", name, plan, least, back, target)
			}

			if plan.Noise *= 1.3; plan.Sampling.Rate < .7 {
				if plan.Sampling.Rate, err = CalibrateRate(plan, epsilon, delta, name); err != nil {
					t.Fatal(err)
				}
				if plan.Sampling.Rate < 1 {
					check("rate", plan, 1e-3)
				}
			}
			if plan.Steps, err = CalibrateSteps(plan, epsilon, delta, name); err != nil {
				t.Fatal(err)
			}
			check("steps", plan, 1)
			plan.Steps++
			if got := epsilonOf(t, plan.History(), delta, name).Epsilon; got <= epsilon {
				t.Errorf("one step more than %d still spends %v of %v", plan.Steps-1, got, epsilon)
			}
		}
	}
}

// Where an accountant's δ at ε is much larger than needed, CalibrateDelta searches with ε at δ.
func TestCalibrateDelta_IsLeast(t *testing.T) {
	plan := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 1e-3}, Steps: 10, Noise: .02}
	const epsilon = .5
	delta, err := CalibrateDelta(plan, epsilon, "pld")
	if err != nil {
		t.Fatal(err)
	}
	if back := epsilonOf(t, plan.History(), delta, "pld").Epsilon; back > epsilon || back < epsilon*(1-1e-3) {
		t.Errorf("at δ = %v it spends %v of %v", delta, back, epsilon)
	}
	plan = Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson}, Steps: 1, Noise: 100}
	if rate, err := CalibrateRate(plan, epsilon, 1e-5, "pld"); err != nil || rate != 1 {
		t.Errorf("all records may take part in every lot: a rate of %v (%v)", rate, err)
	}
}

// Calibration for lots of a fixed size uses the proven bound for any data: it never exceeds the
// target, and the larger of it and the published ε is within 0.1% of the target.
func TestCalibrate_FixedSizeUsesProvenBound(t *testing.T) {
	t.Parallel()
	cases := 5
	if testing.Short() {
		cases = 2
	}
	r := rand.New(rand.NewPCG(11, 12))
	for range cases {
		for _, name := range []string{"pld", "rdp"} {
			const records = 10000
			epsilon, delta := .3+8*r.Float64(), math.Pow(10, -4-4*r.Float64())
			plan := Plan{Sampling: ledger.Sampling{Policy: ledger.FixedSize, LotSize: int(between(r.Float64(), 10, records)), Records: records}, Steps: 1 + r.IntN(3000)}
			proven := func(p Plan, delta float64) float64 {
				t.Helper()
				s, err := dpevent.FromHistory(p.History())
				if err != nil {
					t.Fatal(err)
				}
				epsilon, _, err := pld.Epsilon(s.Events, true, delta)
				if err != nil {
					t.Fatal(err)
				}
				return epsilon
			}
			check := func(what string, p Plan, delta, tolerance float64) {
				t.Helper()
				most := max(proven(p, delta), epsilonOf(t, p.History(), delta, name).Epsilon)
				if most > epsilon || most < epsilon*(1-tolerance) {
					t.Errorf("%s by %s: %+v spends %v of %v at %v", what, name, p, most, epsilon, delta)
				}
			}
			var err error
			if plan.Noise, err = CalibrateNoise(plan, epsilon, delta, name); err != nil {
				t.Fatal(err)
			}
			check("noise", plan, delta, 1e-3)
			epsilon *= .5 + r.Float64()
			if least, err := CalibrateDelta(plan, epsilon, name); err != nil || least == 1 {
				t.Errorf("delta by %s: %v, %v", name, least, err)
			} else {
				check("delta", plan, least, 1e-3)
			}
			plan.Noise *= 1.3
			if rate, err := CalibrateRate(plan, epsilon, delta, name); err != nil {
				t.Errorf("rate by %s: %v", name, err)
			} else {
				plan.Sampling.LotSize = int(rate*records + .5)
				check("rate", plan, delta, 1)
			}
			if plan.Steps, err = CalibrateSteps(plan, epsilon, delta, name); err != nil {
				t.Fatal(err)
			}
			check("steps", plan, delta, 1)
			if plan.Steps++; max(proven(plan, delta), epsilonOf(t, plan.History(), delta, name).Epsilon) <= epsilon {
				t.Errorf("one step more than %d still spends at most %v", plan.Steps-1, epsilon)
			}
		}
	}
}

func TestCalibrateNoise_Groups(t *testing.T) {
	plan := Plan{
		Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: .01}, Steps: 500,
		Groups: []ledger.Query{{Group: "a", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 3}, {Group: "b", Mechanism: ledger.Gaussian, Sensitivity: 2, Noise: 2}},
	}
	factor, err := CalibrateNoise(plan, 2, 1e-5, "rdp")
	if err != nil {
		t.Fatal(err)
	}
	alone, err := CalibrateNoise(Plan{Sampling: plan.Sampling, Steps: 500}, 2, 1e-5, "rdp")
	if err != nil {
		t.Fatal(err)
	}
	near(t, "factor", factor, alone*math.Sqrt(1./9+1), 1e-9)
}

func TestAccountant_RejectsInvalidInput(t *testing.T) {
	good := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: .01}, Steps: 100, Noise: 1}
	with := func(change func(*Plan)) Plan {
		p := good
		change(&p)
		return p
	}
	taken := good.History()
	taken.Lots = append(taken.Lots, ledger.RepeatedLot{Lot: taken.Lots[0].Lot, Count: -50})
	fixed := ledger.Sampling{Policy: ledger.FixedSize, LotSize: 10, Records: 5}
	endless := good.History()
	endless.Lots = []ledger.RepeatedLot{{Lot: endless.Lots[0].Lot, Count: math.MaxInt}, {Lot: endless.Lots[0].Lot, Count: math.MaxInt}}
	wide := ledger.History{Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: good.Sampling, Queries: []ledger.Query{{Group: "a", Mechanism: ledger.DiscreteGaussian, Sensitivity: 1e12, Noise: 1}}}, Count: 1}}}
	half := ledger.History{Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: good.Sampling, Queries: []ledger.Query{{Group: "a", Mechanism: ledger.DiscreteGaussian, Sensitivity: 1.25, Noise: 3}}}, Count: 1}}}
	halfFixed := ledger.History{Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FixedSize, LotSize: 5, Records: 50}, Queries: half.Lots[0].Lot.Queries}, Count: 1}}}
	query := func(sensitivity, noise float64) ledger.History {
		return ledger.History{Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: good.Sampling, Queries: []ledger.Query{{Group: "a", Mechanism: ledger.Laplace, Sensitivity: sensitivity, Noise: noise}}}, Count: 1}}}
	}
	for what, err := range map[string]error{
		"sensitivity":   second(Epsilon(query(-1, 1), 1e-5, "rdp")),
		"no number":     second(Epsilon(query(math.NaN(), 1), 1e-5, "rdp")),
		"no bound":      second(Epsilon(query(math.Inf(1), 1), 1e-5, "rdp")),
		"endless noise": second(Epsilon(query(1, math.Inf(1)), 1e-5, "rdp")),
		"points":        second(Epsilon(wide, 1e-5, "pld")),
		"wide noise":    second(Epsilon(ledger.History{Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: good.Sampling, Queries: []ledger.Query{{Group: "a", Mechanism: ledger.DiscreteGaussian, Sensitivity: 1, Noise: 5e4}}}, Count: 1}}}, 1e-5, "pld")),
		"half a point":  second(Epsilon(half, 1e-5, "pld")),
		"of fixed lots": second(Epsilon(halfFixed, 1e-5, "rdp")),
		"their delta":   second(Delta(halfFixed, 1, "rdp")),
		"their strong":  second(Epsilon(halfFixed, 1e-5, "strong")),
		"delta 0":       second(Epsilon(good.History(), 0, "pld")),
		"delta 1":       second(Epsilon(good.History(), 1, "pld")),
		"delta NaN":     second(Epsilon(good.History(), math.NaN(), "pld")),
		"accountant":    second(Epsilon(good.History(), 1e-5, "abacus")),
		"rate 0":        second(Epsilon(with(func(p *Plan) { p.Sampling.Rate = 0 }).History(), 1e-5, "rdp")),
		"rate 2":        second(Epsilon(with(func(p *Plan) { p.Sampling.Rate = 2 }).History(), 1e-5, "rdp")),
		"noise 0":       second(Epsilon(with(func(p *Plan) { p.Noise = 0 }).History(), 1e-5, "rdp")),
		"noise NaN":     second(Epsilon(with(func(p *Plan) { p.Noise = math.NaN() }).History(), 1e-5, "rdp")),
		"lot too large": second(Epsilon(with(func(p *Plan) { p.Sampling = fixed }).History(), 1e-5, "rdp")),
		"mechanism":     second(Epsilon(with(func(p *Plan) { p.Groups = []ledger.Query{{Group: "a", Mechanism: "dice", Sensitivity: 1, Noise: 1}} }).History(), 1e-5, "rdp")),
		"policy":        second(Epsilon(with(func(p *Plan) { p.Sampling.Policy = "raffle" }).History(), 1e-5, "rdp")),
		"adjacency":     second(Epsilon(with(func(p *Plan) { p.Adjacency = "far" }).History(), 1e-5, "rdp")),
		"lot of none":   second(Epsilon(with(func(p *Plan) { p.Sampling = ledger.Sampling{Policy: ledger.FixedSize, Records: 5} }).History(), 1e-5, "rdp")),
		"pass of none":  second(Epsilon(with(func(p *Plan) { p.Sampling = ledger.Sampling{Policy: ledger.Shuffle, Records: 5} }).History(), 1e-5, "rdp")),
		"negative lots": second(Epsilon(taken, 1e-5, "rdp")),
		"lots":          second(Epsilon(endless, 1e-5, "rdp")),
		"epsilon":       second(Delta(good.History(), -1, "rdp")),
		"filter":        second(NewFilter(1, 1.5, 3, ledger.AddRemove)),
		"order":         second(NewFilter(1, 1e-5, 1, ledger.AddRemove)),
		"target":        second(CalibrateNoise(good, 0, 1e-5, "pld")),
		"no steps":      second(CalibrateNoise(with(func(p *Plan) { p.Steps = 0 }), 1, 1e-5, "pld")),
		"no rate":       second(CalibrateRate(with(func(p *Plan) { p.Sampling.Policy = ledger.FullBatch }), 1, 1e-5, "pld")),
	} {
		if !errors.Is(err, ErrArgument) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"steps": second(CalibrateSteps(with(func(p *Plan) { p.Noise = .2; p.Sampling.Rate = 1 }), .1, 1e-5, "pld")),
		"rate":  second(CalibrateRate(with(func(p *Plan) { p.Noise = .05; p.Steps = 1e9 }), .01, 1e-15, "rdp")),
		"a lot": second(CalibrateRate(with(func(p *Plan) { p.Sampling = ledger.Sampling{Policy: ledger.FixedSize, Records: 50}; p.Noise = .05 }), .01, 1e-15, "zcdp")),
		"order": second(NewFilter(.1, 1e-9, 3, ledger.AddRemove)),
	} {
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The cost depends on S/σ, also where S² or σ² is out of range. Where (S/σ)² is out of range,
// there is no protection.
func TestCalibrateNoise_WideRange(t *testing.T) {
	epsilon := func(m ledger.Mechanism, sensitivity, noise float64, accountant string) float64 {
		return epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Queries: []ledger.Query{{Group: "a", Mechanism: m, Sensitivity: sensitivity, Noise: noise}}}, Count: 3}}}, 1e-5, accountant).Epsilon
	}
	for _, accountant := range []string{"rdp", "moments", "zcdp", "naive", "gdp", "strong"} {
		for _, m := range []ledger.Mechanism{ledger.Gaussian, ledger.DiscreteGaussian} {
			for _, scale := range []float64{1e-200, 1e200} {
				near(t, fmt.Sprint(accountant, m, scale), epsilon(m, scale, 2*scale, accountant), epsilon(m, 1, 2, accountant), 1e-9)
			}
			if got := epsilon(m, 1, 1e-200, accountant); !math.IsInf(got, 1) {
				t.Errorf("%s, %s: ε = %v without noise to speak of", accountant, m, got)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestFilter_KeepsBudget(t *testing.T) {
	lot := poisson(.01, 1, 1).Lots[0].Lot
	answer := epsilonOf(t, poisson(.01, 1, 1000), 1e-5, "rdp")
	f, err := NewFilter(answer.Epsilon*(1+1e-12), 1e-5, answer.Order, ledger.AddRemove)
	if err != nil {
		t.Fatal(err)
	}
	for _, lots := range []int{400, 600} { // the filter admits the lots that rdp allows for the same run
		if ok, err := f.Admit(lot, lots); !ok || err != nil {
			t.Fatalf("%d lots refused: %v", lots, err)
		}
	}
	if ok, _ := f.Admit(lot, 1); ok {
		t.Error("one lot more was admitted")
	}
	near(t, "used", f.UsedFraction(), 1, 1e-9)
	lot.Sampling.Rate = 2
	if ok, err := f.Admit(lot, 1); ok || !errors.Is(err, ErrArgument) {
		t.Errorf("a lot that is none: %v, %v", ok, err)
	}
}

// Lots of a fixed size are accounted under replace-one and shuffled lots under zero-out. These
// costs cannot be added to costs under add-or-remove-one.
func TestFilter_OneAdjacency(t *testing.T) {
	query := []ledger.Query{{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 4}}
	for policy, good := range map[ledger.Policy]ledger.Adjacency{ledger.FixedSize: ledger.ReplaceOne, ledger.Shuffle: ledger.ZeroOut} {
		for _, adjacency := range []ledger.Adjacency{"", ledger.AddRemove, ledger.ReplaceOne, ledger.ZeroOut} {
			f, err := NewFilter(10, 1e-5, 4, adjacency)
			if err != nil {
				t.Fatal(err)
			}
			ok, err := f.Admit(ledger.Lot{Sampling: ledger.Sampling{Policy: policy, LotSize: 10, Records: 100}, Queries: query}, 1)
			if want := adjacency == good || adjacency == ledger.ReplaceOne; ok != want || (err == nil) != want {
				t.Errorf("%s lots under %q: %v, %v", policy, adjacency, ok, err)
			}
			if ok, err := f.Admit(poisson(.1, 4, 1).Lots[0].Lot, 1); !ok || err != nil {
				t.Errorf("then a Poisson sample under %q: %v, %v", adjacency, ok, err)
			}
		}
	}
}

func TestMeter_AgreesWithEpsilon(t *testing.T) {
	past := poisson(.02, 1.5, 300)
	lot := poisson(.01, 1, 1).Lots[0].Lot
	m, err := NewMeter(past, lot, 1e-5, "pld")
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Epsilon(700)
	if err != nil {
		t.Fatal(err)
	}
	all := past
	all.Lots = append(all.Lots, ledger.RepeatedLot{Lot: lot, Count: 700})
	near(t, "epsilon", got, epsilonOf(t, all, 1e-5, "pld").Epsilon, 1e-12)
	most, err := m.MaxLots(got)
	if err != nil {
		t.Fatal(err)
	}
	if most < 698 || most > 702 {
		t.Errorf("%d lots fit where 700 do", most)
	}
	fixed := fixedLots(4, 1)
	if m, err = NewMeter(ledger.History{Header: fixed.Header}, fixed.Lots[0].Lot, 1e-5, "pld"); err != nil {
		t.Fatal(err)
	}
	if got, err = m.Epsilon(10000); err != nil {
		t.Fatal(err)
	}
	near(t, "epsilon of lots of a fixed size", got, 5.818, 1e-3)
	if _, err := NewMeter(past, lot, 1e-5, "rpd"); !errors.Is(err, ErrArgument) {
		t.Errorf("an accountant that there is not: %v", err)
	}
	if gdp, err := NewMeter(past, lot, 1e-5, "gdp"); err != nil {
		t.Error(err)
	} else if _, err = gdp.MaxLots(1); !errors.Is(err, ErrArgument) {
		t.Errorf("gdp as a stop condition: %v", err)
	}
}
