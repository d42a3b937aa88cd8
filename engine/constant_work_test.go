package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// callRecorder records the calls to an executable and the sizes of the buffers at each call.
type callRecorder struct {
	plan.Executable
	calls []string
}

func (c *callRecorder) record(call string) {
	c.calls = append(c.calls, fmt.Sprintf("%s with inputs %d and %d, norms %d", call, len(c.Input(0)), len(c.Input(1)), len(c.SquaredNorms(0))))
}

func (c *callRecorder) Forward() error { c.record("Forward"); return c.Executable.Forward() }
func (c *callRecorder) AddClippedSums() error {
	c.record("AddClippedSums")
	return c.Executable.AddClippedSums()
}
func (c *callRecorder) Release(r *plan.Release) error {
	c.record("Release")
	return c.Executable.Release(r)
}

func truncatedConfig(t testing.TB, most int) Config {
	c := testConfig(t)
	c.Sampling.Policy, c.Sampling.MaxLot, c.Sampling.ConstantWork = sample.PolicyTruncated, most, true
	c.Microbatch = 8
	return c
}

// With constant work a device gets the same calls with the same shapes for lots of each size
// from no record to the largest number, blank records included. Without it, it does not.
func TestConstantWork_SameCallsForEachLot(t *testing.T) {
	const most = 20
	for _, constant := range []bool{true, false} {
		var calls [][]string
		for _, blank := range []bool{false, true} {
			for size := range most + 1 {
				c := truncatedConfig(t, most)
				c.Sampling.ConstantWork = constant
				c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
				r := newRun(t, c)
				records := make([]int, size)
				for i := range records {
					records[i] = 3 * i
				}
				if blank {
					r.index.Blank = make([]bool, 60)
					for i := 0; i < size; i += 2 {
						r.index.Blank[records[i]] = true
					}
				}
				r.sampler = &fixedSampler{Sampler: r.sampler, records: records}
				spy := &callRecorder{Executable: r.network.Executable}
				r.network.Executable = spy
				if err := r.runLot(); err != nil {
					t.Fatal(err)
				}
				if want := size; !blank && r.PrivateStats().Records != want {
					t.Errorf("a lot of %d records counts %d", want, r.PrivateStats().Records)
				}
				calls = append(calls, spy.calls)
			}
		}
		slices.SortFunc(calls, slices.Compare)
		different := len(slices.CompactFunc(calls, slices.Equal))
		switch {
		case constant && (different != 1 || len(calls[0]) != 2*3+1):
			t.Errorf("%d different sequences of calls, want one of 3 microbatches: %v", different, calls[0])
		case !constant && different < 3:
			t.Errorf("%d different sequences of calls without constant work: the test is not conclusive", different)
		}
	}
}

// Padding does not change the sum of a lot.
func TestConstantWork_SameSum(t *testing.T) {
	const most = 30
	c := truncatedConfig(t, most)
	plain := c
	plain.Sampling.ConstantWork = false
	for _, records := range [][]int{{}, {4}, {1, 2, 3, 5, 8, 13, 21, 34, 55}} {
		if got, want := lotSum(t, c, 0, records...), lotSum(t, plain, 0, records...); !slices.Equal(got, want) {
			t.Errorf("records %v: the sums differ", records)
		}
	}
}

// The ledger and the plan contain the default of the largest lot, and no lot is larger.
func TestTruncated_LotsHaveLargestSize(t *testing.T) {
	for _, most := range []int{0, 9, 12} {
		c := truncatedConfig(t, most)
		c.Steps = 40
		planned := c.PlannedHistory()
		r := newRun(t, c)
		want := most
		if most == 0 {
			want = accountant.DefaultMaxLot(r.Event().Rate, 60)
		}
		largest := 0
		trainRun(t, r, func(*Progress) error {
			largest = max(largest, r.PrivateStats().Records)
			return nil
		})
		r.Close()
		h := readLedger(t, c.Files.Ledger)
		for _, got := range []ledger.Sampling{h.Lots[0].Lot.Sampling, planned.Lots[0].Lot.Sampling} {
			if got.Policy != ledger.Truncated || got.LotSize != want || got.Records != 60 {
				t.Errorf("largest lot %d: sampling %+v, want at most %d", most, got, want)
			}
		}
		if h.Header.Adjacency != ledger.ZeroOut || largest > want || most > 0 && largest != most {
			t.Errorf("largest lot %d: adjacency %s, a lot of %d records", most, h.Header.Adjacency, largest)
		}
	}
}

func TestTruncated_RefusesMoreRecordsThanDeclared(t *testing.T) {
	c := truncatedConfig(t, 20)
	c.Sampling.Population = 59
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "59") {
		t.Errorf("60 records where 59 are declared: %v", err)
	}
	c.Sampling.Population = 61
	r := newRun(t, c)
	if got := r.config.Sampling.Adjacency(); got != ledger.AddRemove || r.Event().Records != 61 {
		t.Errorf("adjacency %s, %d records", got, r.Event().Records)
	}
}

func TestTruncated_RefusesContradictions(t *testing.T) {
	for want, change := range map[string]func(s *Sampling){
		"ConstantWork requires": func(s *Sampling) { s.Policy, s.MaxLot = sample.PolicyPoisson, 0 },
		"MaxLot requires":       func(s *Sampling) { s.Policy, s.ConstantWork = sample.PolicyFixed, false },
		"MaxLot -1":             func(s *Sampling) { s.MaxLot = -1 },
		"a rate below 1":        func(s *Sampling) { s.Lot = 60 },
	} {
		c := truncatedConfig(t, 20)
		change(&c.Sampling)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// convolutional is the CNN of the mnist presets.
func convolutional(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	x := n.Input("x", 1, 28, 28)
	labels := n.Input("label")
	x = layer.Conv2D(n, x, "conv1", 16, layer.Window{Size: 8, Stride: 2, Pad: 3}, layer.Tanh)
	x = layer.MaxPool(n, x, layer.Window{Size: 2})
	x = layer.Conv2D(n, x, "conv2", 32, layer.Window{Size: 4, Stride: 2}, layer.Tanh)
	x = layer.MaxPool(n, x, layer.Window{Size: 2})
	h := layer.Dense(n, layer.Flatten(n, x), "fc1", 32, layer.Tanh)
	logits := layer.Dense(n, h, "fc2", 10, layer.Identity)
	n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
	return n.Network()
}

// BenchmarkConstantWork reports the time of lots without records, of the expected size and of the
// largest size, with and without constant work.
func BenchmarkConstantWork(b *testing.B) {
	const records = 4000
	images, labels := make([]float32, records*28*28), make([]float32, records)
	for i := range images {
		images[i] = float32(i%251) / 251
	}
	train, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{1, 28, 28}}, {Name: "label", Kind: data.Label, Classes: 10}}, [][]float32{images, labels}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, constant := range []bool{false, true} {
		for _, size := range []int{0, 256, 369} {
			b.Run(fmt.Sprintf("constant=%v/records=%d", constant, size), func(b *testing.B) {
				c := testConfig(b)
				c.Network, c.Train, c.Sampling.Lot, c.Steps = convolutional, train, 256, 1<<20
				c.Sampling.Policy, c.Sampling.ConstantWork = sample.PolicyTruncated, constant
				r := newRun(b, c)
				records := make([]int, size)
				for i := range records {
					records[i] = 7 * i
				}
				r.sampler = &fixedSampler{Sampler: r.sampler, records: records}
				b.ResetTimer()
				start := time.Now()
				for range b.N {
					if err := r.sumLot(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(time.Since(start).Microseconds())/float64(b.N), "µs/lot")
			})
		}
	}
}
