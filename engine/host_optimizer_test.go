package engine

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// hostRules are optimizers that the host computes.
var hostRules = []string{"adambc", "lowpass:a=-0.5,b=0.25/0.25+adam:eps=0.01", "disk:kappa=0.4+momentum"}

func parseRule(t testing.TB, spec string) optim.Rule {
	t.Helper()
	r, err := optim.ParseRule(spec)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hostSGD is sgd as a rule of a user, with a factor.
type hostSGD struct{ factor float64 }

func (hostSGD) Slots() int         { return 1 }
func (hostSGD) Check() error       { return nil }
func (h hostSGD) Describe() string { return fmt.Sprintf("hostSGD%+v", h) }

func (h hostSGD) Update(s optim.Step, weights, gradient []float32, state [][]float32) error {
	for i, g := range gradient {
		weights[i] -= float32(h.factor*s.Rate) * g
		state[0][i]++
	}
	return nil
}

// A rule of a user that computes sgd gives the bits of sgd on every device: it gets the gradient
// that the device releases, noise included.
func TestHostOptimizer_GetsReleasedGradient(t *testing.T) {
	devices, _ := Devices()
	for _, device := range devices {
		for _, average := range []float64{0, 0.9} {
			c := testConfig(t)
			c.Device.Name, c.Optimization.Average.Decay = device.Name, average
			c.Optimization.LearningRateMultiplier = multiplierOf("fc1.bias", 2)
			sgd := newRun(t, c)
			trainRun(t, sgd, nil)
			c.Optimization.Optimizer, c.Files.Ledger = hostSGD{1}, filepath.Join(t.TempDir(), "ledger.jsonl")
			host := newRun(t, c)
			var rate float64
			trainRun(t, host, func(p *Progress) error { rate = p.LearningRate; return nil })
			if d := relativeDistance(flatWeights(t, host), flatWeights(t, sgd)); d > 1e-6 {
				t.Errorf("%s, average %v: off by %g", device.Name, average, d)
			}
			if rate != 0.1 {
				t.Errorf("%s: the observer gets the learning rate %v", device.Name, rate)
			}
			for _, p := range host.lot.Optimizer.State(host.network.Executable).Slots {
				if p[0][0] != float32(c.Steps) {
					t.Errorf("%s: %v updates", device.Name, p[0][0])
				}
			}
		}
	}
}

// The same holds for changes of users' local steps.
func TestHostOptimizer_GetsReleasedChange(t *testing.T) {
	c := testConfig(t)
	c.Train, c.Records, c.Sampling.Lot = examplesOfUsers(), Records{Users: true, Examples: 3}, 5
	c.LocalTraining, c.Optimization.Schedule.Base = LocalTraining{Steps: 2, Rate: 0.1}, 0.7
	sgd := newRun(t, c)
	trainRun(t, sgd, nil)
	c.Optimization.Optimizer, c.Files.Ledger = hostSGD{1}, filepath.Join(t.TempDir(), "ledger.jsonl")
	host := newRun(t, c)
	trainRun(t, host, nil)
	if d := relativeDistance(flatWeights(t, host), flatWeights(t, sgd)); d > 1e-6 {
		t.Errorf("off by %g", d)
	}
}

// quadraticNetwork has one weight, initially 1. The loss of an example is (x·w)²/2, and its
// gradient x²·w depends on the point at which it is computed.
func quadraticNetwork(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	x := n.Input("x0", 1)
	w := n.Parameter("w0", layer.Constant(1), 1, 1)
	square := n.Try(func() (*G.Node, error) { return G.Square(G.Must(G.Mul(x, w))) })
	half := n.Try(func() (*G.Node, error) { return G.Mul(square, G.NewConstant(float32(0.5))) })
	n.SetLoss(n.Try(func() (*G.Node, error) { return G.Reshape(half, []int{batch}) }), nil)
	return n.Network()
}

// DiSK's gradients are those at the extrapolated point, and the run has the weights of its
// result, on every device.
func TestHostOptimizer_ExtrapolatedPoint(t *testing.T) {
	const steps, kappa, rate = 12, 0.4, 0.3
	devices, _ := Devices()
	for _, device := range devices {
		c := testConfig(t)
		c.Mechanism.NonPrivate, c.Files.Ledger = true, ""
		c.Network, c.Train, c.Sampling.Lot, c.Sampling.Rate, c.Steps = quadraticNetwork, newColumnTable(4, func(i, k, j int) float32 { return float32(i) / 2 }, 1), 0, 1, steps
		c.Device.Name, c.Optimization.Optimizer, c.Optimization.Schedule.Base = device.Name, optim.DiSK{Kappa: kappa, Base: optim.Optimizer{Kind: optim.KindSGD}}, rate
		r := newRun(t, c)
		if w := flatWeights(t, r); w[0] != 1 {
			t.Fatalf("%s: the run starts from %v", device.Name, w)
		}
		curvature := (0 + 0.25 + 1 + 2.25) / 4
		x, point, estimate := 1.0, 1.0, 0.0
		lot := 0
		trainRun(t, r, func(*Progress) error {
			g := curvature * point
			if lot++; lot == 1 {
				estimate = g
			}
			estimate = (1-kappa)*estimate + kappa*g
			before := x
			x -= rate * estimate
			point = x + (1-kappa)/kappa*(x-before)
			if w := flatWeights(t, r); math.Abs(float64(w[0])-x) > 1e-6 {
				t.Fatalf("%s, lot %d: the weight is %v, want %v", device.Name, lot, w[0], x)
			}
			return nil
		})
	}
}

// Every rule gives the same weights on every device, without noise.
func TestHostOptimizer_DevicesAgree(t *testing.T) {
	devices, _ := Devices()
	for _, spec := range hostRules {
		var want []float32
		for _, device := range devices {
			c := testConfig(t)
			c.Mechanism.NonPrivate, c.Files.Ledger, c.Sampling = true, "", Sampling{Rate: 1}
			c.Device.Name, c.Optimization.Optimizer, c.Optimization.Average.Decay = device.Name, parseRule(t, spec), 0.5
			r := newRun(t, c)
			trainRun(t, r, nil)
			if want == nil {
				want = flatWeights(t, r)
			} else if d := relativeDistance(flatWeights(t, r), want); d > 1e-5 {
				t.Errorf("%s on %s: off by %g", spec, device.Name, d)
			}
		}
	}
}

// A rule gets the standard deviation of the noise in its gradient: the spread of released zeros.
// The variance of 20000 normals is within 6 standard errors: a false alarm has a probability
// below 1e-8.
func TestHostOptimizer_NoiseDeviation(t *testing.T) {
	const size = 20000
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		c := testConfig(t)
		c.Network, c.Train, c.Steps = linearNetwork(size), newColumnTable(60, zeros, size), 1
		c.Mechanism.Arithmetic, c.Mechanism.NoiseMultiplier = arithmetic, 3
		spy := &noiseSpy{}
		c.Optimization.Optimizer = spy
		trainRun(t, newRun(t, c), nil)
		if want := 3.0 / 12; math.Abs(spy.step.NoiseDeviation/want-1) > 1e-6 {
			t.Errorf("%s: the deviation is %v, want %v", arithmetic, spy.step.NoiseDeviation, want)
		}
		if ratio := spy.variance / (spy.step.NoiseDeviation * spy.step.NoiseDeviation); math.Abs(ratio-1) > 6*math.Sqrt(2.0/size) {
			t.Errorf("%s: the variance is %v times the stated one", arithmetic, ratio)
		}
	}
}

// noiseSpy records a step and the mean square of its gradient.
type noiseSpy struct {
	hostSGD
	step     optim.Step
	variance float64
}

func (n *noiseSpy) Update(s optim.Step, weights, gradient []float32, state [][]float32) error {
	n.step, n.variance = s, 0
	for _, g := range gradient {
		n.variance += float64(g) * float64(g) / float64(len(gradient))
	}
	return nil
}

// A resumed run gives the bits of an uninterrupted one: the checkpoint contains all of a rule's
// state. Lots that take every record have nothing to draw.
func TestHostOptimizer_ResumedRunHasSameWeights(t *testing.T) {
	for _, spec := range hostRules {
		c := checkpointedConfig(t)
		c.Mechanism.NonPrivate, c.Sampling, c.Optimization.Optimizer, c.Steps = true, Sampling{Rate: 1}, parseRule(t, spec), 9
		c.Optimization.Average.Decay = 0
		whole := newRun(t, c)
		trainRun(t, whole, nil)
		want := flatWeights(t, whole)

		c.Files.CheckpointFolder, c.Steps = filepath.Join(t.TempDir(), "checkpoint"), 4
		first := newRun(t, c)
		trainRun(t, first, nil)
		first.Close()
		c.Steps = 9
		second := resumeRun(t, c)
		trainRun(t, second, nil)
		if !slices.Equal(flatWeights(t, second), want) {
			t.Errorf("%s: other weights", spec)
		}
	}
}

// A run is not resumed with another rule, or with the same one and other hyperparameters.
func TestHostOptimizer_ResumeRefusesOtherRule(t *testing.T) {
	c := checkpointedConfig(t)
	c.Optimization.Optimizer = parseRule(t, "disk:kappa=0.5")
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	c.Steps++
	for _, spec := range []string{"disk:kappa=0.6", "disk:kappa=0.5+momentum", "sgd", "adambc"} {
		c.Optimization.Optimizer = parseRule(t, spec)
		if _, err := Resume(c); err == nil || !isOneLineWith(err, "optimizer is") {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

type greedyRule struct{ hostSGD }

func (greedyRule) Slots() int { return 1000 }

type failingRule struct{ hostSGD }

func (failingRule) Update(optim.Step, []float32, []float32, [][]float32) error {
	return fmt.Errorf("no")
}

func TestHostOptimizer_Refuses(t *testing.T) {
	for want, rule := range map[string]optim.Rule{
		"has 1000 state values": greedyRule{},
		"kappa is 0":            optim.DiSK{Base: optim.Optimizer{Kind: optim.KindSGD}},
		"is not stable":         optim.LowPass{A: []float64{-2}, B: []float64{1}, Base: optim.Optimizer{Kind: optim.KindSGD}},
		"floor is 0":            optim.AdamBC{},
	} {
		c := testConfig(t)
		c.Optimization.Optimizer = rule
		if _, err := New(c); !isOneLineWith(err, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := testConfig(t)
	c.Optimization.Optimizer = failingRule{}
	if err := newRun(t, c).Train(t.Context(), nil); !isOneLineWith(err, "lot 0: optimizer, parameter fc1.weight: no") {
		t.Errorf("%v", err)
	}
}

func isOneLineWith(err error, want string) bool {
	return err != nil && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "\n")
}
