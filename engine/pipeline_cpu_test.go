package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/internal/lot"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// asyncPipeline is a pipeline on the CPU. It computes a microbatch when the next one arrives,
// and overwrites its buffers in between, as a device may.
type asyncPipeline struct {
	plan.Executable
	isResident         bool // the data set is on the device
	read               func(dst [][]float32, rows []int) error
	sizes              []int // numbers of each input
	vectors            int
	formula            clipping.Formula
	next               pushedMicrobatch
	waiting            *pushedMicrobatch
	counted            plan.LotCounts
	configuredExamples int
}

// pushedMicrobatch is what the host passes for a microbatch.
type pushedMicrobatch struct {
	rows              []int32
	inputs            [][]float32
	weights, maskSeed []float32
	records           int
	bounds            []float64
}

func (a *asyncPipeline) newBuffers() {
	spoilt := func(n int) (x []float32) {
		for range n {
			x = append(x, float32(math.NaN()))
		}
		return x
	}
	a.next = pushedMicrobatch{weights: spoilt(len(a.Executable.ExampleWeights())), maskSeed: spoilt(len(a.Executable.MaskSeed()))}
	for _, n := range a.sizes {
		a.next.inputs = append(a.next.inputs, spoilt(n))
	}
	if a.isResident {
		a.next.rows = slices.Repeat([]int32{math.MinInt32}, a.sizes[1])
	}
}

func (a *asyncPipeline) Configure(f clipping.Formula, examples int, read func([][]float32, []int) error) error {
	a.formula, a.read = f, read
	a.isResident = a.isResident && read != nil
	a.configuredExamples = examples
	a.counted.Within = make([]int, len(f.Groups))
	a.newBuffers()
	return nil
}

func (a *asyncPipeline) Rows() []int32             { return a.next.rows }
func (a *asyncPipeline) Input(k int) []float32     { return a.next.inputs[k] }
func (a *asyncPipeline) ExampleWeights() []float32 { return a.next.weights }
func (a *asyncPipeline) MaskSeed() []float32       { return a.next.maskSeed }

func (a *asyncPipeline) Push(records int, bounds []float64) error {
	if err := a.compute(); err != nil {
		return err
	}
	pushed := a.next
	pushed.records, pushed.bounds = records, slices.Clone(bounds)
	a.waiting = &pushed
	a.newBuffers()
	return nil
}

func (a *asyncPipeline) compute() error {
	if a.waiting == nil {
		return nil
	}
	w := *a.waiting
	a.waiting = nil
	copy(a.Executable.ExampleWeights(), w.weights)
	copy(a.Executable.MaskSeed(), w.maskSeed)
	if w.rows != nil {
		there := slices.IndexFunc(w.rows, func(r int32) bool { return r < 0 })
		if there < 0 {
			there = len(w.rows)
		}
		rows, dst := make([]int, there), make([][]float32, len(a.sizes))
		for i := range rows {
			rows[i] = int(w.rows[i])
		}
		for k, in := range w.inputs {
			clear(in)
			dst[k] = in[:len(in)/len(w.rows)*there]
		}
		if err := a.read(dst, rows); err != nil {
			return err
		}
	}
	for k, in := range w.inputs {
		copy(a.Executable.Input(k), in)
	}
	if err := a.Forward(); err != nil {
		return err
	}
	for r := range a.ClipFactors(0) {
		a.computeFactors(r, w)
		if r < w.records {
			a.addLoss(r, w)
		}
	}
	return a.AddClippedSums()
}

// computeFactors applies the formula to one record.
func (a *asyncPipeline) computeFactors(r int, w pushedMicrobatch) {
	taken := r < w.records
	for v := range a.vectors {
		a.ClipFactors(v)[r] = 0
		if sq := a.SquaredNorms(v)[r]; r < w.records && !(sq >= 0 && sq <= math.MaxFloat32) {
			taken = false
		}
	}
	if !taken {
		if r < w.records {
			a.counted.NonFinite++
		}
		return
	}
	whole := true
	for g, f := range a.formula.Groups {
		sum := f.Absolute
		for i, v := range f.Parameters {
			sum += f.Weights[i] * float64(a.SquaredNorms(v)[r])
		}
		upper := math.Sqrt(sum * a.formula.Inverse)
		c := min(1, w.bounds[g]/upper, w.bounds[g]*a.formula.Margin/upper)
		if upper <= w.bounds[g] {
			a.counted.Within[g]++
		}
		whole = whole && float32(c) >= 1
		for _, v := range f.Parameters {
			a.ClipFactors(v)[r] = float32(c)
		}
	}
	if whole {
		a.counted.Unclipped++
	}
}

// addLoss adds the mean loss of a record's examples.
func (a *asyncPipeline) addLoss(r int, w pushedMicrobatch) {
	each := len(a.Losses()) / len(a.ClipFactors(0))
	sum, count := 0.0, 0
	for i := r * each; i < (r+1)*each; i++ {
		if w.weights == nil || w.weights[i] > 0 {
			sum += float64(a.Losses()[i])
			count++
		}
	}
	a.counted.Loss += sum / float64(count)
}

func (a *asyncPipeline) FinishLot(t *plan.LotCounts) error {
	if err := a.compute(); err != nil {
		return err
	}
	copy(t.Within, a.counted.Within)
	within := t.Within
	*t = a.counted
	t.Within = within
	clear(a.counted.Within)
	a.counted = plan.LotCounts{Within: a.counted.Within}
	return nil
}

// A pipelined device gives the same bits as the host, whether it keeps the data set or gets
// every example, and the same PrivateStats of each lot.
func TestPipeline_MatchesHost(t *testing.T) {
	for what, change := range map[string]func(*Config){
		"examples": func(c *Config) {
			x, labels := make([]float32, 60*features), make([]float32, 60)
			for i := range x {
				x[i] = float32(i%11) / 10
			}
			x[0] = math.MaxFloat32 // the norm overflows
			c.Train, c.Sampling.Lot = newTable(x, labels, nil), 45
		},
		"adaptive": func(c *Config) {
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 0.5, Target: 0.5, Rate: 0.5, Noise: 4}, nil)
		},
		"users": func(c *Config) {
			x, labels, users := make([]float32, 60*features), make([]float32, 60), make([]int32, 60)
			for i := range users {
				x[i*features], labels[i], users[i] = float32(i%7), float32(i%classes), int32(i%23)
			}
			c.Train, c.Records = newTable(x, labels, users), Records{Users: true, Examples: 3}
		},
		"views": func(c *Config) {
			c.Augmentation = Augmentation{2, func(view [][]float32, r *rand.Rand) { view[0][0] += r.Float32() }}
		},
	} {
		for _, stays := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", what, stays), func(t *testing.T) {
				c := floatConfig(t)
				c.Network, c.Microbatch = mlpWithDropout(0.5), 5
				change(&c)
				host := newRun(t, c)
				c.Files.Ledger += "2"
				led := newRun(t, c)
				a := &asyncPipeline{Executable: led.network.Executable, isResident: stays, vectors: len(led.network.Program.Parameters)}
				for k := range c.Train.Columns() {
					a.sizes = append(a.sizes, len(led.network.Executable.Input(k)))
				}
				led.network.Executable = a
				var err error
				if led.lot, err = lot.New(led.lot.Parts, led.config.lotOptions()); err != nil {
					t.Fatal(err)
				}
				if _, ok := led.lot.Method.(*lot.Pipeline); !ok || a.configuredExamples != c.Train.Len() {
					t.Fatalf("a data set of %d examples was announced, want %d", a.configuredExamples, c.Train.Len())
				}
				var seen []PrivateStats
				trainRun(t, host, func(*Progress) error { seen = append(seen, host.PrivateStats()); return nil })
				trainRun(t, led, func(*Progress) error {
					got, want := led.PrivateStats(), seen[0]
					if math.Abs(got.Loss-want.Loss) < 1e-12 {
						got.Loss = want.Loss
					}
					if got != want {
						t.Errorf("PrivateStats %+v, want %+v", got, want)
					}
					seen = seen[1:]
					return nil
				})
				if got, want := flatWeights(t, led), flatWeights(t, host); !slices.Equal(got, want) {
					t.Errorf("weights %v, want %v", got, want)
				}
			})
		}
	}
}
