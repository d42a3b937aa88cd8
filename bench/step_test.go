package bench

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/internal/simd"
)

// TestSteps runs two steps of every workload: weights stay finite, they move, all
// of them under noise, and nothing is allocated.
func TestSteps(t *testing.T) {
	for _, w := range Workloads() {
		for _, private := range []bool{true, false} {
			t.Run(name(w, private), func(t *testing.T) {
				operations, err := w.Operations()
				if err != nil {
					t.Fatal(err)
				}
				if operations > 1e9 && (testing.Short() || simd.ISA() == "go") {
					t.Skipf("%.0f million operations a step", operations/1e6)
				}
				s, err := NewStep(w, private, Host{})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				var before [][]float32
				for _, v := range s.machine.State().Weights {
					before = append(before, append([]float32(nil), v...))
				}
				if n := testing.AllocsPerRun(1, func() { err = s.Run() }); n != 0 || err != nil {
					t.Errorf("%v allocations, error %v", n, err)
				}
				moved := 0
				for v, weights := range s.machine.State().Weights {
					by := 0
					for i, x := range weights {
						if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
							t.Fatalf("vector %d has %v", v, x)
						}
						if x != before[v][i] {
							by++
						}
					}
					moved += by
					// Noise of deviation 1.1·0.01/batch is above the rounding of most weights.
					if private && by < len(weights)/2 {
						t.Errorf("vector %d: %d of %d weights moved", v, by, len(weights))
					}
				}
				if moved == 0 {
					t.Error("no weight moved")
				}
			})
		}
	}
}

func name(w Workload, private bool) string {
	if private {
		return w.Name + "/private"
	}
	return w.Name + "/plain"
}

// Multiply-adds of an example, forward, counted by hand from the networks'
// descriptions: those that read the data, and the others.
func TestOperations(t *testing.T) {
	const (
		wide  = 1024*64*576 + 256*128*1152 + 64*256*2304
		block = 64 * (128*384 + 128*128 + 2*128*512 + 128*65) // half of what is looked at is masked
	)
	for _, c := range []struct {
		name        string
		data, other float64
	}{
		{"logistic-256", 784 * 10, 0},
		{"logistic-2048", 784 * 10, 0},
		{"mlp-256", 784 * 1000, 1000 * 10},
		{"mlp-1024", 784 * 1000, 1000 * 10},
		{"abadi-mlp-600", 60 * 1000, 1000 * 10},
		{"mnist-cnn-256", 196 * 16 * 64, 25*32*256 + 512*32 + 320},
		{"cifar-abadi-64", 576 * 64 * 75, 144*64*1600 + 2304*384 + 3840},
		{"cifar-tanh-64", 1024 * 32 * 27, 1024*32*288 + 256*64*(288+576) + 64*128*(576+1152) + 2048*128 + 1280},
		{"wrn16-4-16", 1024 * 16 * 27, 3*wide + 1024*64*(16+144) + 256*128*(64+576) + 64*256*(128+1152) + 2560},
		{"lstm-64", 0, 64*(100+128)*512 + 256},
		{"transformer-32", 0, 2*block + 64*128*5000},
		{"embbag-256", 0, 16*16 + 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, w := range Workloads() {
				if w.Name != c.name {
					continue
				}
				got, err := w.Operations()
				if want := 2 * float64(w.Batch) * (2*c.data + 3*c.other); err != nil || got != want {
					t.Errorf("%v operations, want %v (%v)", got, want, err)
				}
				return
			}
			t.Error("there is no such workload")
		})
	}
}

// BenchmarkStep is a whole step of each workload. %peak is its share of the
// fused multiply-adds that as many threads reach in the same run.
func BenchmarkStep(b *testing.B) {
	peak := 0.0
	for _, w := range Workloads() {
		for _, private := range []bool{true, false} {
			b.Run(name(w, private), func(b *testing.B) {
				operations, err := w.Operations()
				if err != nil {
					b.Fatal(err)
				}
				s, err := NewStep(w, private, Host{})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				peak = max(peak, Peak(0))
				for range 2 {
					if err := s.Run(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Run(); err != nil {
						b.Fatal(err)
					}
				}
				second := b.Elapsed().Seconds() / float64(b.N)
				b.ReportMetric(1e3*second, "ms/step")
				b.ReportMetric(float64(w.Batch)/second, "examples/s")
				b.ReportMetric(operations/second/1e9, "GFLOP/s")
				if peak > 0 {
					b.ReportMetric(100*operations/second/1e9/peak, "%peak")
				}
			})
		}
	}
}
