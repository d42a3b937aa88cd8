package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/random"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"

	G "gorgonia.org/gorgonia"
)

// useUnitSteps makes a lot subtract the released sum over q·N from the weights.
func useUnitSteps(c *Config) {
	c.Optimization.Optimizer, c.Optimization.Schedule = optim.Optimizer{Kind: optim.KindSGD}, optim.Schedule{Base: 1}
}

// The normaliser is 1/(qN) in every lot of any size. Data sets that differ in a record differ by
// that record's clipped gradient over qN.
func TestNormalizer_IsPublic(t *testing.T) {
	one := func(i, k, j int) float32 { return 0.5 }
	without := func(i, k, j int) float32 {
		if i == 11 {
			return 0
		}
		return 0.5
	}
	var sums [2][]float64
	var sizes []int
	for k, value := range []func(i, k, j int) float32{one, without} {
		c := testConfig(t)
		useUnitSteps(&c)
		c.Network, c.Train, c.Steps = linearNetwork(1), newColumnTable(60, value, 1), 12
		r := newRun(t, c)
		disableNoise(r)
		r.network.Executable = &releaseSpy{r.network.Executable, func(p *plan.Release) error {
			if p.Scale != 1/r.Event().ExpectedLot() {
				t.Errorf("scale %v, want %v", p.Scale, 1/r.Event().ExpectedLot())
			}
			return nil
		}}
		before := 0.0
		trainRun(t, r, func(p *Progress) error {
			w := float64(flatWeights(t, r)[0])
			sums[k] = append(sums[k], -(w-before)*12)
			before = w
			if k == 0 {
				sizes = append(sizes, r.PrivateStats().Records)
			}
			return nil
		})
	}
	with := 0
	for lot, n := range sizes {
		if !(math.Abs(sums[0][lot]-0.5*float64(n)) <= 1e-4) {
			t.Errorf("lot of %d records of gradient 0.5: a sum of %v", n, sums[0][lot])
		}
		switch d := sums[0][lot] - sums[1][lot]; {
		case math.Abs(d) < 1e-4:
		case math.Abs(d-0.5) < 1e-4:
			with++
		default:
			t.Errorf("lot %d: sums differ by %v, want the record's 0.5 or nothing", lot, d)
		}
	}
	slices.Sort(sizes)
	if sizes[0] == sizes[len(sizes)-1] || with == 0 || with == len(sizes) {
		t.Fatalf("lots of %v records, %d with the one that differs: the test has no power", sizes, with)
	}
}

// An empty lot moves the weights by noise and is spent.
func TestEmptyLot_IsReleasedAndSpent(t *testing.T) {
	c := testConfig(t)
	c.Sampling.Lot, c.Sampling.Rate, c.Steps = 0, 1e-12, 3
	c.Optimization.Schedule.Base = 1e-12
	r := newRun(t, c)
	before := flatWeights(t, r)
	trainRun(t, r, func(*Progress) error {
		if n := r.PrivateStats().Records; n != 0 {
			t.Fatalf("a lot of %d records", n)
		}
		after := flatWeights(t, r)
		for i := range after {
			if after[i] != before[i] {
				before = after
				return nil
			}
		}
		t.Error("an empty lot changed no weight")
		return nil
	})
	r.Close()
	if n := readLedger(t, c.Files.Ledger).LotCount(); n != 3 {
		t.Errorf("the ledger contains %d lots, want 3", n)
	}
}

// With gradients that are powers of two, the sum shows that no record of the lot is missing or
// counted twice, and that padding adds nothing.
func TestLot_CountsEachRecordOnce(t *testing.T) {
	const records = 20
	bit := func(i, k, j int) float32 { return float32(uint32(1) << i) }
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle} {
		for _, microbatch := range []int{1, 3, 8, 20} {
			c := floatConfig(t)
			useUnitSteps(&c)
			c.Network, c.Train, c.Sampling.Policy, c.Microbatch, c.Sampling.Lot, c.Steps = linearNetwork(1), newColumnTable(records, bit, 1), policy, microbatch, 8, 5
			c.Mechanism.Clipping = clip.Flat(clip.Constant(1e9), nil)
			r := newRun(t, c)
			disableNoise(r)
			seen := 0
			for lot := range c.Steps {
				// Starting from weight 0 makes the difference exact.
				r.network.Executable.State().Weights[0][0] = 0
				members := map[int]bool{}
				if err := r.sampler.StartLot(uint64(lot)); err != nil {
					t.Fatal(err)
				}
				drawn := make([]int, records+1)
				n, err := r.sampler.Next(drawn)
				if err != nil {
					t.Fatal(err)
				}
				want := 0.0
				for _, m := range drawn[:n] {
					if members[m] {
						t.Fatalf("record %d twice in a lot", m)
					}
					members[m] = true
					want += float64(uint32(1) << m)
				}
				seen += n
				if err := r.runLot(); err != nil {
					t.Fatal(err)
				}
				got := -float64(flatWeights(t, r)[0]) * 8
				if !(math.Abs(got-want) <= 0.25) {
					t.Errorf("%s in microbatches of %d: a sum of %.2f, want %.0f", policy, microbatch, got, want)
				}
			}
			if seen == 0 {
				t.Fatal("no record was drawn")
			}
		}
	}
}

// A record whose gradient is not finite does not change the sum of the others, and is counted in
// PrivateStats only.
func TestNonFiniteGradient_ContributesNothing(t *testing.T) {
	// The gradient of √x·w in w is √x, which is NaN for x < 0.
	root := func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x := n.Input("x0", 2)
		w := n.Parameter("w0", layer.Constant(0), 2, 1)
		y := n.Try(func() (*G.Node, error) { return G.Sqrt(x) })
		y = n.Try(func() (*G.Node, error) { return G.Mul(y, w) })
		n.SetLoss(n.Try(func() (*G.Node, error) { return G.Reshape(y, []int{batch}) }), nil)
		return n.Network()
	}
	run := func(bad float32) ([]float32, int) {
		c := floatConfig(t)
		useUnitSteps(&c)
		c.Network, c.Sampling.Lot, c.Sampling.Rate, c.Steps, c.Microbatch = root, 0, 1, 2, 4
		c.Train = newColumnTable(10, func(i, k, j int) float32 {
			if i == 5 && j == 1 {
				return bad
			}
			return float32(i + j)
		}, 2)
		r := newRun(t, c)
		disableNoise(r)
		trainRun(t, r, nil)
		return flatWeights(t, r), r.PrivateStats().NonFinite
	}
	// A valid record adds its gradient clipped to norm 1.
	sound, none := run(6)
	bad, one := run(-1)
	if none != 0 || one != 1 {
		t.Errorf("%d and %d records refused, want 0 and 1", none, one)
	}
	for j, x := range []float64{5, 6} {
		want := -math.Sqrt(x) / math.Sqrt(11) / 10 * 2 // lots
		if d := float64(sound[j] - bad[j]); !(math.Abs(d-want) <= 1e-5) {
			t.Errorf("element %d: the bad record changed the sum by %v, want only its own %v missing", j, d, want)
		}
	}
}

// PrivateStats describe the last lot, as computed by hand.
func TestPrivateStats_OfLastLot(t *testing.T) {
	c := testConfig(t)
	// The gradients are 1 to 10. Losses are 0 for weight 0, and then x·w.
	c.Network, c.Train = linearNetwork(1), newColumnTable(10, func(i, k, j int) float32 { return float32(i + 1) }, 1)
	c.Mechanism.Clipping, c.Sampling.Lot, c.Sampling.Rate, c.Steps, c.Microbatch = clip.Flat(clip.Constant(4.5), nil), 0, 1, 2, 3
	r := newRun(t, c)
	if p := r.PrivateStats(); p != (PrivateStats{}) {
		t.Errorf("%+v before the first lot", p)
	}
	w := 0.0
	trainRun(t, r, func(*Progress) error {
		p := r.PrivateStats()
		if p.Records != 10 || p.NonFinite != 0 || p.Unclipped != 4 || !(math.Abs(p.Loss-5.5*w) <= 1e-5) {
			t.Errorf("%+v, want 10 records, 4 of them whole, a mean loss of %v", p, 5.5*w)
		}
		w = float64(flatWeights(t, r)[0])
		return nil
	})
}

// When an executable is asked to release, the ledger's file contains the lot.
func TestLedger_PrecedesRelease(t *testing.T) {
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle} {
		c := testConfig(t)
		c.Sampling.Policy, c.Steps = policy, 40
		r := newRun(t, c)
		asked := 0
		r.network.Executable = &releaseSpy{r.network.Executable, func(*plan.Release) error {
			asked++
			if n := readLedger(t, c.Files.Ledger).LotCount(); n < asked || n > c.Steps {
				t.Errorf("release %d while the ledger contains %d lots", asked, n)
			}
			return nil
		}}
		trainRun(t, r, nil)
		if asked != 40 {
			t.Errorf("%d releases, want 40", asked)
		}
	}
}

// Where the lot cannot be written, nothing is released, then or later.
func TestLedger_FailurePreventsRelease(t *testing.T) {
	c := testConfig(t)
	c.Statistics = []Statistic{MeanLoss(1, 1)}
	c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 3}, nil)
	r := newRun(t, c)
	if err := r.account.Ledger.Close(); err != nil {
		t.Fatal(err)
	}
	before, bounds := flatWeights(t, r), r.lot.Mechanism.Clipper.State(nil)
	for range 2 {
		err := r.Train(context.Background(), func(*Progress) error { t.Error("the observer was called"); return nil })
		if err == nil || !strings.Contains(err.Error(), "ledger") {
			t.Errorf("error %v, want one about the ledger", err)
		}
	}
	if relativeDistance(before, flatWeights(t, r)) != 0 || r.StepsDone() != 0 || released(r, 0)[0] != 0 || !slices.Equal(bounds, r.lot.Mechanism.Clipper.State(nil)) {
		t.Error("the state changed")
	}
}

// After a lot that failed half-way, another attempt would count records twice or draw the same
// noise.
func TestFailedRelease_EndsRun(t *testing.T) {
	c := testConfig(t)
	r := newRun(t, c)
	calls := 0
	r.network.Executable = &releaseSpy{r.network.Executable, func(*plan.Release) error { calls++; return errors.New("device lost") }}
	for range 3 {
		if err := r.Train(context.Background(), nil); err == nil || err.Error() != "lot 0: device lost" {
			t.Errorf("error %v", err)
		}
	}
	if calls != 1 {
		t.Errorf("%d releases, want 1", calls)
	}
	r.Close()
	if n := readLedger(t, c.Files.Ledger).LotCount(); n != 1 {
		t.Errorf("the ledger contains %d lots, want the one that may have been released", n)
	}
}

// Over runs, lots, parameters, statistics and adaptive counts no value of noise occurs twice.
// The gradients are zero, so that releases are noise only. A false alarm needs two of fewer than
// 1,000 independent normals within 1e-12: probability below 1e-6; float32 values are compared
// three at a time, within 1e-4 each: below 1e-6, too. Rounded noise is one of about 1,400 equally
// likely values, so statistics, and counts of consecutive lots, are compared four at a time: two of 60
// such vectors are equal with a probability below 1e-9.
func TestNoise_NeverRepeats(t *testing.T) {
	var triples [][3]float64
	var quadruples [][4]float64
	var singles []float64
	for _, arithmetic := range []Arithmetic{ExactArithmetic, ExactArithmetic, FloatArithmetic, FloatArithmetic} {
		c := testConfig(t)
		c.Mechanism.Arithmetic = arithmetic
		useUnitSteps(&c)
		c.Seed = nil
		c.Network, c.Train, c.Steps = linearNetwork(3, 3, 3), newColumnTable(30, zeros, 3, 3, 3), 12
		c.Mechanism.Clipping = []clip.Group{
			{Name: "a", Parameters: []string{"w0"}, Bound: clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 5}},
			{Name: "b", Parameters: []string{"w1", "w2"}, Bound: clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 5}},
		}
		nothing := func([]float64, []load.Example) {}
		c.Statistics = []Statistic{
			{Name: "s", Size: 4, Sensitivity: 1, Noise: 2, Of: nothing},
			{Name: "t", Size: 4, Sensitivity: 1, Noise: 2, Of: nothing},
		}
		r := newRun(t, c)
		var before []float32
		bounds := []float64{1, 1}
		var counts [2][]float64
		var sigma []float64
		r.network.Executable = &releaseSpy{r.network.Executable, func(p *plan.Release) error {
			before = append(before[:0], flatWeights(t, r)...)
			sigma = sigma[:0]
			for v := range p.Sigma {
				sigma = append(sigma, r.lot.Mechanism.NoiseOf(v))
			}
			return nil
		}}
		trainRun(t, r, func(p *Progress) error {
			after := flatWeights(t, r)
			for v := range 3 {
				var z [3]float64
				for j := range z {
					z[j] = -float64(after[3*v+j]-before[3*v+j]) * 12 / sigma[v]
				}
				triples = append(triples, z)
			}
			for _, s := range p.Released {
				if arithmetic == ExactArithmetic {
					quadruples = append(quadruples, [4]float64(s.Mean))
					continue
				}
				for _, m := range s.Mean {
					singles = append(singles, m*12/2)
				}
			}
			for g, b := range r.lot.Mechanism.Clipper.State(nil) {
				// b = old·exp(−0.2·(noised/12 + ½ − ½)), and noised is the records' ½ each and 5·z.
				noised := -math.Log(b/bounds[g]) / 0.2 * 12
				z := (noised - 0.5*float64(r.PrivateStats().Records)) / 5
				bounds[g] = b
				if arithmetic == FloatArithmetic {
					singles = append(singles, z)
				} else if counts[g] = append(counts[g], z); len(counts[g]) == 4 {
					quadruples, counts[g] = append(quadruples, [4]float64(counts[g])), nil
				}
			}
			return nil
		})
	}
	for i, a := range quadruples {
		for j, b := range quadruples[:i] {
			if math.Abs(a[0]-b[0])+math.Abs(a[1]-b[1])+math.Abs(a[2]-b[2])+math.Abs(a[3]-b[3]) < 1e-9 {
				t.Errorf("vectors of noise %d and %d are both %v", i, j, a)
			}
		}
	}
	for i, a := range triples {
		for j, b := range triples[:i] {
			near := 0
			for k := range a {
				if math.Abs(a[k]-b[k]) < 1e-4 {
					near++
				}
			}
			if near == 3 {
				t.Errorf("vectors of noise %d and %d are both %v", i, j, a)
			}
		}
	}
	slices.Sort(singles)
	for i := range singles[1:] {
		if singles[i+1]-singles[i] < 1e-12 {
			t.Errorf("the noise %v was drawn twice", singles[i])
		}
	}
	if len(triples) != 2*72 || len(quadruples) != 2*(24+6) || len(singles) != 2*12*10 {
		t.Fatalf("%d and %d vectors and %d numbers of noise", len(triples), len(quadruples), len(singles))
	}
}

// The ledger and the description mark a seeded run; printing a run reveals no key.
func TestSeed_IsMarkedInsecure(t *testing.T) {
	for _, seeded := range []bool{true, false} {
		c := testConfig(t)
		if !seeded {
			c.Seed = nil
		}
		r := newRun(t, c)
		if d := r.Describe(); d.Secure == seeded {
			t.Errorf("seeded %v: described as secure %v", seeded, d.Secure)
		}
		if h := readLedger(t, c.Files.Ledger); h.Header.Secure == seeded {
			t.Errorf("seeded %v: secure %v in the ledger", seeded, h.Header.Secure)
		}
		key := random.KeyOf(r.source)
		text := fmt.Sprintf("%v %+v %#v", r.source, r.lot.Mechanism.Step, r.sampler)
		for _, word := range key {
			if word > 1<<16 && (strings.Contains(text, fmt.Sprint(word)) || strings.Contains(text, fmt.Sprintf("%x", word))) {
				t.Errorf("a word of the key is in %q", text)
			}
		}
	}
}

// An observer gets the same values for two data sets that differ in one record, except for
// values released with noise, when both draw the same lots and the same noise.
func TestNeighbours_ObserverSeesSamePublicValues(t *testing.T) {
	type seen struct {
		Public   []string
		Released [][]float64
		Weights  []float32
	}
	look := func(set data.Set, policy sample.Policy) seen {
		c := testConfig(t)
		c.Train, c.Sampling.Policy, c.Steps, c.Files.CheckpointFolder = set, policy, 12, t.TempDir()
		c.Statistics = []Statistic{Accuracy(1, 3), MeanLoss(2, 3)}
		r := newRun(t, c)
		var s seen
		show := func(v any) {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			s.Public = append(s.Public, string(b))
		}
		show(r.Describe())
		trainRun(t, r, func(p *Progress) error {
			public := *p
			public.Released, public.Epsilon = nil, 0
			if p.Lot%6 == 0 { // the computation of ε depends on time
				r.account.Meter.Counted = 0
				public.Epsilon = r.account.Meter.Current(0)
			}
			show(public)
			show(r.StepsDone())
			for _, released := range p.Released {
				s.Released = append(s.Released, slices.Clone(released.Mean))
			}
			return nil
		})
		s.Weights = flatWeights(t, r)
		saved, err := state.Newest(c.Files.CheckpointFolder)
		if err != nil {
			t.Fatal(err)
		}
		saved.Close()
		saved.Head = "" // the ledger's lines depend on the duration of a sync
		show(saved)
		r.Close()
		stated := readLedger(t, c.Files.Ledger)
		stated.Header.Run = "" // random, and independent of the data
		show(stated)
		return s
	}
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle} {
		a := look(mlpExamples(60, 3), policy)
		x, labels := make([]float32, 60*features), make([]float32, 60)
		all := make([]int, 60)
		for i := range all {
			all[i] = i
		}
		if err := mlpExamples(60, 3).Read([][]float32{x, labels}, all); err != nil {
			t.Fatal(err)
		}
		for j := range features {
			x[20*features+j] = 1e4
		}
		labels[20] = float32(classes-1) - labels[20]
		b := look(newTable(x, labels, nil), policy)
		if !slices.Equal(a.Public, b.Public) {
			for i := range a.Public {
				if a.Public[i] != b.Public[i] {
					t.Errorf("%s: one saw %s\nthe other %s", policy, a.Public[i], b.Public[i])
				}
			}
		}
		// Without a difference the test would have no power.
		if slices.Equal(a.Weights, b.Weights) || fmt.Sprint(a.Released) == fmt.Sprint(b.Released) {
			t.Errorf("%s: the record that differs changed nothing", policy)
		}
	}
}

// The ledger states how lots were drawn, from which records, and how often; shuffled lots never
// appear as Poisson samples.
func TestLedger_StatesSamplingThatRan(t *testing.T) {
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyTruncated, sample.PolicyFixed, sample.PolicyShuffle} {
		c := testConfig(t)
		c.Sampling.Policy = policy
		r := newRun(t, c)
		e := r.Event()
		trainRun(t, r, nil)
		r.Close()
		h := readLedger(t, c.Files.Ledger)
		if len(h.Lots) != 1 || h.Lots[0].Count != c.Steps {
			t.Fatalf("%s: the ledger contains %+v", policy, h.Lots)
		}
		want := ledger.Sampling{Policy: ledger.Policy(policy), Rate: e.Rate, LotSize: e.LotSize, Records: 60}
		if got := h.Lots[0].Lot.Sampling; got != want {
			t.Errorf("sampling %+v, want %+v", got, want)
		}
		if h.Header.Adjacency != (Sampling{Policy: policy}).Adjacency() || h.Header.Unit != "example" || h.Header.Records != 60 {
			t.Errorf("header %+v", h.Header)
		}
		if policy == sample.PolicyPoisson && e.Rate < float64(c.Sampling.Lot)/60 {
			t.Errorf("rate %v is below the requested rate", e.Rate)
		}
	}
}
