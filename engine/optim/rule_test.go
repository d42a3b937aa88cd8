package optim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// hostRules are rules that the host computes.
var hostRules = []string{
	"adambc", "adambc:beta1=0.8,beta2=0.9,floor=1e-3",
	"lowpass", "lowpass:a=0,b=0.5/0.25/0.25", "lowpass:a=-1.2/0.4,b=0.1/0.1+adam", "lowpass:a=-0.5,b=0.5+momentum:weight-decay=0.1",
	"disk", "disk:kappa=0.4+adam:eps=0.01", "disk:kappa=1+nesterov", "disk:kappa=0.6+momentum:weight-decay=0.1",
}

func mustParseRule(t *testing.T, spec string) Rule {
	t.Helper()
	r, err := ParseRule(spec)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newRuleSlots(r Rule, weights int) [][]float32 {
	state := make([][]float32, r.Slots())
	for s := range state {
		state[s] = make([]float32, weights)
	}
	return state
}

// reference is a rule in float64 on one weight, from the formulas of the papers: it keeps all
// gradients, and computes sums over them instead of recursions where it can.
type reference struct {
	x, m, v   float64
	gradients []float64 // released
	filtered  []float64 // before the correction of the gain
	gains     []float64
}

func (r *reference) optimizer(o Optimizer, step int, rate, decay, g float64) {
	d := o.WeightDecay * decay
	switch o.Kind {
	case KindSGD:
		r.x -= rate * (g + d*r.x)
	case KindMomentum:
		r.m = o.Momentum*r.m + g + d*r.x
		r.x -= rate * r.m
	case KindNesterov:
		r.m = o.Momentum*r.m + g
		r.x -= rate * (g + o.Momentum*r.m)
	case KindAdam:
		r.m = o.Beta1*r.m + (1-o.Beta1)*g
		r.v = o.Beta2*r.v + (1-o.Beta2)*g*g
		r.x -= rate * r.m / (1 - math.Pow(o.Beta1, float64(step))) / (math.Sqrt(r.v/(1-math.Pow(o.Beta2, float64(step)))) + o.Epsilon)
	default:
		panic(o.Kind)
	}
}

// next performs a step, and returns the point of the next gradient.
func (r *reference) next(rule Rule, rate, deviation, decay, g float64) float64 {
	r.gradients = append(r.gradients, g)
	step := len(r.gradients)
	before := r.x
	switch o := rule.(type) {
	case AdamBC:
		m, v := 0.0, 0.0
		for s, g := range r.gradients {
			m += (1 - o.Beta1) * math.Pow(o.Beta1, float64(step-1-s)) * g
			v += (1 - o.Beta2) * math.Pow(o.Beta2, float64(step-1-s)) * g * g
		}
		m /= 1 - math.Pow(o.Beta1, float64(step))
		v /= 1 - math.Pow(o.Beta2, float64(step))
		r.x -= rate * m / math.Sqrt(math.Max(v-deviation*deviation, o.Floor))
	case LowPass:
		m, c := 0.0, 0.0
		for k, b := range o.B {
			if step-1-k >= 0 {
				m, c = m+b*r.gradients[step-1-k], c+b
			}
		}
		for k, a := range o.A {
			if step-2-k >= 0 {
				m, c = m-a*r.filtered[step-2-k], c-a*r.gains[step-2-k]
			}
		}
		r.filtered, r.gains = append(r.filtered, m), append(r.gains, c)
		r.optimizer(o.Base, step, rate, decay, m/c)
	case DiSK:
		estimate := r.gradients[0]
		for _, g := range r.gradients {
			estimate = (1-o.Kappa)*estimate + o.Kappa*g
		}
		r.optimizer(o.Base, step, rate, decay, estimate)
		return r.x + (1-o.Kappa)/o.Kappa*(r.x-before)
	}
	return r.x
}

// Every rule gives the values of the papers' formulas in float64. The gradient depends on the
// weights, so that the point of a gradient matters.
func TestRule_MatchesFloat64(t *testing.T) {
	const weights, steps, deviation, decay = 3, 60, 0.3, 2.0
	gradient := func(w float64, step, i int) float64 { return 0.5*w + gradientAt(step, i)/4 }
	for _, spec := range hostRules {
		rule := mustParseRule(t, spec)
		point, g, state := append([]float32(nil), start...), make([]float32, weights), newRuleSlots(rule, weights)
		references, points := make([]reference, weights), make([]float64, weights)
		for i := range references {
			references[i].x = float64(start[i])
			points[i] = references[i].x
		}
		for step := 1; step <= steps; step++ {
			rate := 0.05 / float64(step)
			for i := range g {
				g[i] = float32(gradient(float64(point[i]), step, i))
			}
			if err := rule.Update(Step{step, rate, decay, deviation}, point, g, state); err != nil {
				t.Fatal(err)
			}
			result := point
			if e, ok := rule.(Extrapolator); ok {
				result = e.Result(state)
			}
			for i := range references {
				points[i] = references[i].next(rule, rate, deviation, decay, gradient(points[i], step, i))
				if d := math.Abs(float64(point[i]) - points[i]); !(d <= 2e-5) {
					t.Fatalf("%s, step %d, weight %d: the next gradient is at %v, want %v", spec, step, i, point[i], points[i])
				}
				if d := math.Abs(float64(result[i]) - references[i].x); !(d <= 2e-5) {
					t.Fatalf("%s, step %d, weight %d: the result is %v, want %v", spec, step, i, result[i], references[i].x)
				}
			}
		}
	}
}

// With noise of deviation 1 on a constant gradient of 0.3, AdamBC's mean second moment is 0.09
// within 5 standard errors of an average over 40000 weights: a false alarm has a probability
// below 1e-6.
func TestAdamBC_SecondMomentIsUnbiased(t *testing.T) {
	const n, steps, signal = 40000, 30, 0.3
	rule := AdamBC{Beta1: 0.9, Beta2: 0.9, Floor: 1e-12}
	weights, g, state := make([]float32, n), make([]float32, n), newRuleSlots(rule, n)
	r := rand.New(rand.NewPCG(5, 6))
	for step := 1; step <= steps; step++ {
		for i := range g {
			g[i] = float32(signal + r.NormFloat64())
		}
		if err := rule.Update(Step{Number: step, Rate: 0.1, NoiseDeviation: 1}, weights, g, state); err != nil {
			t.Fatal(err)
		}
	}
	sum, squares := 0.0, 0.0
	for _, v := range state[1] {
		x := float64(v)/(1-math.Pow(rule.Beta2, steps)) - 1
		sum, squares = sum+x, squares+x*x
	}
	mean := sum / n
	if limit := 5 * math.Sqrt((squares/n-mean*mean)/n); !(math.Abs(mean-signal*signal) <= limit) {
		t.Errorf("the corrected second moment is %v ± %v, want %v", mean, limit, signal*signal)
	}
}

// A filter passes a constant gradient unchanged from the first step on.
func TestLowPass_ConstantGradient(t *testing.T) {
	for _, spec := range []string{"lowpass", "lowpass:a=-1.9834,b=1e-3/2e-3/1e-3", "lowpass:a=-1.9/0.9025,b=0.1", "lowpass:a=-0.999,b=0.001"} {
		rule, err := ParseRule(spec)
		if spec == "lowpass:a=-1.9834,b=1e-3/2e-3/1e-3" {
			checkError(t, spec, err, "is not stable")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		weights, state := []float32{0}, newRuleSlots(rule, 1)
		for step := 1; step <= 300; step++ {
			g := []float32{0.7}
			if err := rule.Update(Step{Number: step, Rate: 1}, weights, g, state); err != nil {
				t.Fatal(err)
			}
			if !(math.Abs(float64(g[0])-0.7) <= 1e-5) {
				t.Fatalf("%s: the optimizer gets %v at step %d, want 0.7", spec, g[0], step)
			}
		}
	}
}

// The gain of a late step is that of the recursion, although it stops when it has converged.
func TestLowPass_GainOfLateStep(t *testing.T) {
	l := LowPass{A: []float64{-1.9, 0.9025}, B: []float64{0.1, 0.2, 0.1}}
	var past [2]float64
	for step := 1; step <= 5000; step++ {
		c := 0.1*float64(min(step, 2)*min(step, 2)) + 1.9*past[0] - 0.9025*past[1]
		if step == 2 {
			c = 0.3 + 1.9*past[0]
		}
		past = [2]float64{c, past[0]}
		if got := l.gain(step); !(math.Abs(got-c) <= 1e-12*c) {
			t.Fatalf("the gain of step %d is %v, want %v", step, got, c)
		}
	}
}

func TestRule_IndependentOfBlocks(t *testing.T) {
	const n = 37
	for _, spec := range hostRules {
		rule := mustParseRule(t, spec)
		whole, split := make([]float32, n), make([]float32, n)
		state, parts := newRuleSlots(rule, n), newRuleSlots(rule, n)
		for step := 1; step <= 4; step++ {
			a, b := make([]float32, n), make([]float32, n)
			for i := range a {
				a[i] = float32(gradientAt(step, i))
				b[i] = a[i]
			}
			s := Step{step, 0.1, 1, 0.1}
			if err := rule.Update(s, whole, a, state); err != nil {
				t.Fatal(err)
			}
			for first := 0; first < n; first += 10 {
				end := min(first+10, n)
				block := make([][]float32, len(parts))
				for k := range parts {
					block[k] = parts[k][first:end]
				}
				if err := rule.Update(s, split[first:end], b[first:end], block); err != nil {
					t.Fatal(err)
				}
			}
		}
		if fmt.Sprint(whole, state) != fmt.Sprint(split, parts) {
			t.Errorf("%s: one block and several give different results", spec)
		}
	}
}

func TestRule_AllocatesNothing(t *testing.T) {
	weights, g := make([]float32, 100), make([]float32, 100)
	for _, spec := range append(Kinds(), hostRules...) {
		rule := mustParseRule(t, spec)
		state := newRuleSlots(rule, 100)
		if n := testing.AllocsPerRun(10, func() {
			if err := rule.Update(Step{3, 0.1, 1, 1}, weights, g, state); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", spec, n)
		}
	}
}

func TestRule_InvalidShapes(t *testing.T) {
	row := make([]float32, 3)
	for _, spec := range []string{"adambc", "lowpass", "disk"} {
		rule := mustParseRule(t, spec)
		state := newRuleSlots(rule, 3)
		for i, err := range []error{
			rule.Update(Step{Rate: 1}, row, row, state),
			rule.Update(Step{Number: 1}, row, row[:2], state),
			rule.Update(Step{Number: 1}, row, row, state[1:]),
			rule.Update(Step{Number: 1}, row[:2], row[:2], state),
		} {
			if err == nil {
				t.Errorf("%s: case %d was accepted", spec, i)
			}
		}
	}
}

func TestParseRule_Specifications(t *testing.T) {
	for spec, want := range map[string]string{
		"adam":                             mustParse(t, "adam").Describe(),
		"adambc":                           "adambc{Beta1:0.9 Beta2:0.999 Floor:5e-08}",
		"adambc:floor=1e-9":                "adambc{Beta1:0.9 Beta2:0.999 Floor:1e-09}",
		"lowpass":                          "lowpass{A:[-0.9] B:[0.05 0.05]}+" + mustParse(t, "sgd").Describe(),
		"lowpass+adam:beta2=0.9":           "lowpass{A:[-0.9] B:[0.05 0.05]}+" + mustParse(t, "adam:beta2=0.9").Describe(),
		"lowpass:a=-0.5/0.1,b=1+momentum":  "lowpass{A:[-0.5 0.1] B:[1]}+" + mustParse(t, "momentum").Describe(),
		"disk:kappa=0.3":                   "disk{Kappa:0.3}+" + mustParse(t, "sgd").Describe(),
		"disk+adamw:weight-decay=0.2":      "disk{Kappa:0.7}+" + mustParse(t, "adamw:weight-decay=0.2").Describe(),
		"disk:kappa=1+sgd:weight-decay=.1": "disk{Kappa:1}+" + mustParse(t, "sgd:weight-decay=.1").Describe(),
	} {
		if got := mustParseRule(t, spec).Describe(); got != want {
			t.Errorf("%s is %s, want %s", spec, got, want)
		}
	}
	for spec, want := range map[string]string{
		"":                              "unknown optimizer",
		"adambcc":                       "did you mean adambc?",
		"low-pass":                      "did you mean lowpass?",
		"adam+disk":                     "unknown optimizer",
		"adambc+adam":                   "use lowpass or disk before the sign +",
		"adambc:floor=0":                "floor is 0",
		"adambc:beta1=1":                "beta1 is 1",
		"adambc:beta2=-1":               "beta2 is -1",
		"adambc:epsilon=1":              "unknown option of adambc",
		"disk:kappa=0":                  "kappa is 0",
		"disk:kappa=1.1":                "kappa is 1.1",
		"disk:kappa=NaN":                "kappa is NaN",
		"disk:gamma=1":                  "unknown option of disk",
		"disk+adma":                     "did you mean adam?",
		"disk+":                         "unknown optimizer",
		"disk+disk":                     "unknown optimizer",
		"lowpass:a=-1":                  "is not stable",
		"lowpass:a=-1.9/0.95/0.2":       "is not stable",
		"lowpass:a=x":                   "is not a number",
		"lowpass:b=":                    "is not a number",
		"lowpass:b=1/-1":                "a gain of",
		"lowpass:b=-1":                  "a gain of",
		"lowpass:b=Inf":                 "not finite",
		"lowpass:a=NaN":                 "not finite",
		"lowpass:a=0/0/0/0/0/0/0/0/0.1": "use at most 8",
		"lowpass+adam:eps=0":            "eps is 0",
	} {
		_, err := ParseRule(spec)
		checkError(t, spec, err, want)
	}
	for _, name := range Names() {
		mustParseRule(t, name)
	}
}

// A rule that was parsed keeps the gain of the last step, and has that of every other step.
func TestLowPass_KeepsGainOfStep(t *testing.T) {
	rule, err := ParseRule("lowpass:a=-0.98,b=0.01/0.01")
	if err != nil {
		t.Fatal(err)
	}
	kept := rule.(LowPass)
	plain := LowPass{A: kept.A, B: kept.B}
	for _, step := range []int{1, 1, 2, 50, 50, 3, 100000} {
		if got, want := kept.gain(step), plain.gain(step); got != want || kept.last.step != step {
			t.Errorf("step %d: a gain of %v, want %v", step, got, want)
		}
	}
}
