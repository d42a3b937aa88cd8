package optim

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
)

// pytorch contains the weights after 1, 2 and 10 steps of PyTorch 1.13.1's optimizers
// (torch.optim, float64) from start, with the gradients of gradient and learning rate 0.05.
// In PyTorch, nesterov is SGD with nesterov=True, momentum is SGD with momentum, and beta2
// of rmsprop is alpha.
var pytorch = []struct {
	spec string
	want [3][3]float64
}{
	{"sgd", [3][3]float64{{0.4504167595, -1.292737988, 2.079475421}, {0.4631938146, -1.197577781, 2.195390094}, {0.4960298707, -1.165105589, 2.149516326}}},
	{"sgd:weight-decay=0.1", [3][3]float64{{0.4479167595, -1.286487988, 2.069475421}, {0.4584542308, -1.184895341, 2.175042717}, {0.4727656767, -1.104545608, 2.047299047}}},
	{"momentum", [3][3]float64{{0.4504167595, -1.292737988, 2.079475421}, {0.4185688981, -1.23604197, 2.266917973}, {0.3465594129, -1.100407842, 2.702796725}}},
	{"momentum:momentum=0.5,weight-decay=0.1", [3][3]float64{{0.4479167595, -1.286487988, 2.069475421}, {0.4324126105, -1.203139335, 2.209780428}, {0.4198335602, -1.055143118, 2.075234071}}},
	{"nesterov", [3][3]float64{{0.405791843, -1.331202177, 2.1510033}, {0.3899058229, -1.185015554, 2.43561627}, {0.3579333423, -1.030472647, 2.782033378}}},
	{"nesterov:weight-decay=0.1", [3][3]float64{{0.401041843, -1.319327177, 2.1320033}, {0.3793209254, -1.155544445, 2.388262239}, {0.2677776883, -0.7632403116, 2.258550401}}},
	{"adam", [3][3]float64{{0.4500000005, -1.299999999, 2.05}, {0.4268467975, -1.279776448, 2.099630518}, {0.4082091746, -1.253814236, 2.144245472}}},
	{"adam:beta1=0.8,beta2=0.95,eps=0.01,weight-decay=0.1", [3][3]float64{{0.4504754367, -1.299324105, 2.049642732}, {0.4274847565, -1.273392072, 2.099204168}, {0.3978978417, -1.214300762, 2.090111641}}},
	{"adamw", [3][3]float64{{0.4497500005, -1.299374999, 2.049}, {0.4263719225, -1.27850176, 2.097606018}, {0.406057835, -1.247494978, 2.133763259}}},
	{"adamw:weight-decay=0.3", [3][3]float64{{0.4425000005, -1.281249999, 2.02}, {0.4127092975, -1.241807698, 2.039330518}, {0.3478428225, -1.076162114, 1.849311223}}},
	{"rmsprop", [3][3]float64{{5.042025752e-08, -1.749999942, 2.499999969}, {0.1253577123, -1.293505204, 2.913040116}, {0.3173112863, -1.253602249, 2.685643617}}},
	{"rmsprop:beta2=0.9,eps=0.1,weight-decay=0.1", [3][3]float64{{0.378707881, -1.360312166, 2.128801027}, {0.404621598, -1.229761354, 2.247681007}, {0.4335700681, -1.16608284, 2.130943228}}},
	{"adagrad", [3][3]float64{{0.45, -1.3, 2.05}, {0.4624768531, -1.254388851, 2.091237924}, {0.4814888293, -1.250716953, 2.068455745}}},
	{"adagrad:eps=0.1,weight-decay=0.1", [3][3]float64{{0.4543795692, -1.293974159, 2.046643188}, {0.4634151566, -1.248997812, 2.086834522}, {0.4721669938, -1.231963705, 2.049019155}}},
}

var start = []float32{0.5, -1.25, 2}

func gradientAt(step, i int) float64 {
	return math.Sin(1.7*float64(step)+float64(i)) * float64(1+i)
}

func newSlots(o Optimizer, weights int) [][]float32 {
	state := make([][]float32, o.Slots())
	for s := range state {
		state[s] = make([]float32, weights)
	}
	return state
}

func mustParse(t *testing.T, spec string) Optimizer {
	t.Helper()
	o, err := Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOptimizer_MatchesPyTorch(t *testing.T) {
	tested := map[Kind]bool{}
	for _, c := range pytorch {
		o := mustParse(t, c.spec)
		tested[o.Kind] = true
		weights, g := append([]float32(nil), start...), make([]float32, 3)
		state := newSlots(o, 3)
		for step := 1; step <= 10; step++ {
			for i := range g {
				g[i] = float32(gradientAt(step, i))
			}
			if err := o.Apply(step, 0.05, weights, g, state); err != nil {
				t.Fatal(err)
			}
			at := map[int]int{1: 0, 2: 1, 10: 2}
			row, ok := at[step]
			if !ok {
				continue
			}
			for i, want := range c.want[row] {
				if got := float64(weights[i]); !(math.Abs(got-want) <= 2e-6) {
					t.Errorf("%s: weight %d after %d steps is %.9g, want %.9g", c.spec, i, step, got, want)
				}
			}
		}
	}
	for _, kind := range Kinds() {
		if !tested[Kind(kind)] {
			t.Errorf("%s has no PyTorch reference", kind)
		}
	}
}

// The first two steps match manual calculation, from w = 1 with gradients 2 and −1, rate 0.1.
func TestOptimizer_FirstTwoSteps(t *testing.T) {
	for _, c := range []struct {
		o    Optimizer
		want [2]float64
	}{
		{Optimizer{Kind: KindSGD, WeightDecay: 0.5}, [2]float64{1 - 0.1*2.5, 0.75 - 0.1*(-1+0.375)}},
		{Optimizer{Kind: KindMomentum, Momentum: 0.5}, [2]float64{0.8, 0.8}},                    // m = 2, then 0
		{Optimizer{Kind: KindNesterov, Momentum: 0.5}, [2]float64{1 - 0.1*3, 0.7 - 0.1*(-1+0)}}, // g + m/2
		{Optimizer{Kind: KindAdam, Beta1: 0.5, Beta2: 0.75, Epsilon: 1}, [2]float64{
			1 - 0.1*2/3, // m̂ = 2, √v̂ = 2
			1 - 0.1*2/3, // m = 1/2 − 1/2 = 0
		}},
		{Optimizer{Kind: KindAdamW, Beta1: 0.5, Beta2: 0.75, Epsilon: 1, WeightDecay: 0.5}, [2]float64{
			0.95 - 0.1*2/3, 0.95 * (0.95 - 0.1*2/3),
		}},
		{Optimizer{Kind: KindRMSProp, Beta2: 0.75, Epsilon: 1}, [2]float64{1 - 0.1*2/2, 0.9 + 0.1/2}}, // v = 1, then 1
		{Optimizer{Kind: KindAdagrad, Epsilon: 1}, [2]float64{1 - 0.1*2/3, 1 - 0.1*2/3 + 0.1/(math.Sqrt(5)+1)}},
	} {
		weights, state := []float32{1}, newSlots(c.o, 1)
		for i, g := range []float32{2, -1} {
			if err := c.o.Apply(i+1, 0.1, weights, []float32{g}, state); err != nil {
				t.Fatal(err)
			}
			if got := float64(weights[0]); !(math.Abs(got-c.want[i]) <= 1e-6) {
				t.Errorf("%+v: %v after step %d, want %v", c.o, got, i+1, c.want[i])
			}
		}
	}
}

func TestOptimizerApply_IndependentOfBlocks(t *testing.T) {
	const n = 37
	for _, kind := range Kinds() {
		o := mustParse(t, kind)
		whole, split, g := make([]float32, n), make([]float32, n), make([]float32, n)
		state, parts := newSlots(o, n), newSlots(o, n)
		for step := 1; step <= 4; step++ {
			for i := range g {
				g[i] = float32(gradientAt(step, i))
			}
			if err := o.Apply(step, 0.1, whole, g, state); err != nil {
				t.Fatal(err)
			}
			for first := 0; first < n; first += 10 {
				end := min(first+10, n)
				block := make([][]float32, len(parts))
				for s := range parts {
					block[s] = parts[s][first:end]
				}
				if err := o.Apply(step, 0.1, split[first:end], g[first:end], block); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range whole {
			if whole[i] != split[i] {
				t.Fatalf("%s: weight %d is %v in one block and %v in several", kind, i, whole[i], split[i])
			}
		}
	}
}

func TestOptimizerApply_AllocatesNothing(t *testing.T) {
	weights, g := make([]float32, 100), make([]float32, 100)
	for _, kind := range Kinds() {
		o := mustParse(t, kind)
		state := newSlots(o, 100)
		if n := testing.AllocsPerRun(10, func() {
			if err := o.Apply(3, 0.1, weights, g, state); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", kind, n)
		}
	}
}

func TestOptimizerApply_InvalidShapes(t *testing.T) {
	row := make([]float32, 3)
	adam := mustParse(t, "adam")
	for i, err := range []error{
		adam.Apply(0, 1, row, row, [][]float32{row, row}),
		adam.Apply(1, 1, row, row[:2], [][]float32{row, row}),
		adam.Apply(1, 1, row[:2], row, [][]float32{row[:2], row[:2]}),
		adam.Apply(1, 1, row, row, [][]float32{row}),
		adam.Apply(1, 1, row, row, [][]float32{row, row, row}),
		adam.Apply(1, 1, row, row, [][]float32{row, row[:2]}),
		Optimizer{}.Apply(1, 1, row, row, nil),
	} {
		if err == nil {
			t.Errorf("case %d was accepted", i)
		}
	}
}

// A hyperparameter that the kind does not use is an error.
func TestOptimizerCheck_UnusedHyperparameter(t *testing.T) {
	for want, o := range map[string]Optimizer{
		"sgd does not use momentum, which is 0.9": {Kind: KindSGD, Momentum: 0.9},
		"sgd does not use eps":                    {Kind: KindSGD, Epsilon: 1e-8},
		"momentum is 0, which is sgd":             {Kind: KindMomentum},
		"momentum does not use beta1":             {Kind: KindMomentum, Momentum: 0.9, Beta1: 0.9},
		"adagrad does not use beta2":              {Kind: KindAdagrad, Beta2: 0.999, Epsilon: 1e-8},
	} {
		checkError(t, "an optimizer", o.Check(), want)
	}
}

func TestParse_Optimizers(t *testing.T) {
	if o := mustParse(t, "adamw:beta2=0.98,weight-decay=0"); o != (Optimizer{Kind: KindAdamW, Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-8}) {
		t.Errorf("parsed %+v", o)
	}
	for spec, epsilon := range map[string]float64{"adam": 1e-8, "adamw": 1e-8, "rmsprop": 1e-8, "adagrad": 1e-10} { // torch.optim's
		if o := mustParse(t, spec); o.Epsilon != epsilon {
			t.Errorf("%s: eps is %v, want %v", spec, o.Epsilon, epsilon)
		}
	}
	if o := mustParse(t, "adam:eps=1,weight-decay=2"); o.Epsilon != 1 || o.WeightDecay != 2 {
		t.Errorf("parsed %+v", o)
	}
	for spec, want := range map[string]string{
		"":                          `unknown optimizer ""`,
		"adma":                      "did you mean adam?",
		"sdg":                       "did you mean sgd",
		"rmsporp":                   "did you mean rmsprop",
		"SGD":                       "unknown optimizer",
		"nestorov":                  "did you mean nesterov",
		"adam:":                     "unknown option of adam",
		"adam:beta3=0.5":            "did you mean beta1",
		"sgd:momentum=0.9":          `unknown option of sgd "momentum"`,
		"adam:beta1":                "is not a number",
		"adam:beta1=x":              `"x" is not a number`,
		"adam:beta1=1":              "beta1 is 1",
		"adam:beta2=NaN":            "beta2 is NaN",
		"momentum:momentum=-0.1":    "momentum is -0.1",
		"adagrad:eps=0":             "eps is 0",
		"adagrad:eps=1e-60":         "eps is 1e-60",
		"adam:eps=Inf":              "eps is +Inf",
		"sgd:weight-decay=-1":       "weight-decay is -1",
		"sgd:weight-decya=1":        "did you mean weight-decay",
		"momentum:momentum=1e400":   "is not a number",
		"momentum:momentum=0.9 ,x=": "is not a number",
	} {
		_, err := Parse(spec)
		checkError(t, spec, err, want)
	}
	if err := (Optimizer{Kind: "adma"}).Check(); err == nil {
		t.Error("an unknown kind was accepted")
	}
}

func checkError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "optim: ") && !strings.HasPrefix(err.Error(), "Optimization.") {
		t.Errorf("%q: error %v, want one line with %q", what, err, want)
	}
}

func BenchmarkApply(b *testing.B) {
	const n = 1 << 14
	weights, g := make([]float32, n), make([]float32, n)
	for _, kind := range Kinds() {
		o, err := Parse(kind)
		if err != nil {
			b.Fatal(err)
		}
		state := newSlots(o, n)
		b.Run(fmt.Sprint(kind), func(b *testing.B) {
			for b.Loop() {
				if err := o.Apply(2, 0.1, weights, g, state); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/weight")
		})
	}
}

// The device receives every field of an optimizer and of an average.
func TestForDevice_KeepsEveryField(t *testing.T) {
	o := Optimizer{Kind: KindAdamW, Momentum: 1, Beta1: 2, Beta2: 3, Epsilon: 4, WeightDecay: 5}
	want := plan.Optimizer{Kind: plan.AdamW, Momentum: 1, Beta1: 2, Beta2: 3, Epsilon: 4, WeightDecay: 5}
	if got := o.ForDevice(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if a := (Average{Decay: 0.5}).ForDevice(); a != (plan.Average{Decay: 0.5}) {
		t.Errorf("%+v", a)
	}
}
