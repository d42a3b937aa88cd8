package bench

import (
	"flag"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/models"
)

var (
	device    = flag.String("device", "cpu", "device of BenchmarkStep: cpu or cuda:N")
	precision = flag.String("precision", "fp32", "precision of matrix products on a GPU: fp32, tf32 or bf16")
)

// deviceFromFlags returns the device that the flags select.
func deviceFromFlags() (h DeviceConfig, err error) {
	if *device == "cpu" {
		return h, nil
	}
	h.GPU = true
	if _, err := fmt.Sscanf(*device, "cuda:%d", &h.Ordinal); err != nil {
		return h, fmt.Errorf("-device %s: cpu or cuda:N", *device)
	}
	h.Precision, err = cuda.ParsePrecision(*precision)
	return h, err
}

// The test runs two steps of every workload. Weights stay finite and change (with noise, all of
// them), and a step allocates nothing.
func TestStep_AllWorkloads(t *testing.T) {
	for _, w := range Workloads() {
		for _, kind := range Kinds {
			t.Run(name(w, kind), func(t *testing.T) {
				operations, err := w.FloatingPointOperations()
				if err != nil {
					t.Fatal(err)
				}
				if operations > 1e9 && (testing.Short() || simd.ISA() == "go") {
					t.Skipf("%.0f million operations a step", operations/1e6)
				}
				s, err := NewStep(w, kind, DeviceConfig{})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				var before [][]float32
				for _, v := range s.executable.State().Weights {
					before = append(before, append([]float32(nil), v...))
				}
				// An allocation of the step occurs in every try. The runtime may allocate in some
				// tries, for example when a thread goes to sleep.
				n := 1.0
				for try := 0; try < 3 && n != 0 && err == nil; try++ {
					n = testing.AllocsPerRun(1, func() { err = s.Run() })
				}
				if n != 0 || err != nil {
					t.Errorf("%v allocations, error %v", n, err)
				}
				moved := 0
				for v, weights := range s.executable.State().Weights {
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
					if kind != Plain && by < len(weights)/2 {
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

// The memory of a step stays below its limit: backward signals are used at once, scores end when the
// loss is known, results overwrite operands, and a large batch is split. The Wide-ResNet took 150 MB
// when norms were computed after the whole backward pass; the transformer took 150 MB in one piece.
func TestStep_MemoryPerWorkload(t *testing.T) {
	most := map[string]int{"wrn16-4-16": 118e6, "transformer-32": 77e6}
	for _, w := range Workloads() {
		p, err := w.microbatchProgram(plan.TrainingOptions{Norms: true, Exact: true}, cpu.NewDevice(0))
		if err != nil {
			t.Fatal(err)
		}
		if limit, large := most[w.Name]; large && p.Bytes() > limit || !large && p.Bytes() > 57e6 {
			t.Errorf("%s: a microbatch of %d records takes %d bytes", w.Name, p.Records, p.Bytes())
		}
	}
}

func name(w Workload, kind Kind) string { return w.Name + "/" + string(kind) }

// The multiply-adds of one example in the forward pass, counted by hand from the networks'
// descriptions: those that read the data, and the others.
func TestWorkload_FloatingPointOperations(t *testing.T) {
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
				got, err := w.FloatingPointOperations()
				if want := 2 * float64(w.Batch) * (2*c.data + 3*c.other); err != nil || got != want {
					t.Errorf("%v operations, want %v (%v)", got, want, err)
				}
				return
			}
			t.Error("there is no such workload")
		})
	}
}

// Ten private steps of every workload on the first GPU give the CPU's weights, and so do two plain
// steps. Without noise, ten steps of the Wide-ResNet amplify the rounding differences of two devices
// to 1.5% of the change of the weights, two steps to 0.04%. The emulated device runs only a small
// workload.
func TestStep_OnGPU(t *testing.T) {
	gpus := listGPUs(t)
	list := []Workload{{"tiny", "mlp:16", models.DataSpec{Shape: []int{20}, Classes: 10}, 24}}
	if !gpus[0].Emulated {
		list = append(list, Workloads()...)
	}
	for _, w := range list {
		for _, kind := range Kinds {
			t.Run(name(w, kind), func(t *testing.T) {
				steps := 2
				if kind != Plain {
					steps = 10
				}
				start, want := trainedWeights(t, w, kind, DeviceConfig{}, 0), trainedWeights(t, w, kind, DeviceConfig{}, steps)
				var off, way float64
				for v, weights := range trainedWeights(t, w, kind, DeviceConfig{GPU: true}, steps) {
					for i, x := range weights {
						off += math.Pow(float64(x-want[v][i]), 2)
						way += math.Pow(float64(want[v][i]-start[v][i]), 2)
					}
				}
				if off, way := math.Sqrt(off), math.Sqrt(way); !(off <= 5e-3*way) {
					t.Errorf("weights are %.2g from the CPU's, which went %.2g", off, way)
				}
			})
		}
	}
}

// listGPUs skips the test if there is no GPU.
func listGPUs(t *testing.T) []cuda.Device {
	t.Helper()
	gpus, err := cuda.Devices()
	if err != nil && cuda.Built {
		t.Fatal(err)
	}
	if len(gpus) == 0 {
		t.Skip("no GPU was found; make test-emu PKG=./bench RUN=OnGPU runs this test on the emulated device")
	}
	return gpus
}

// A private step takes at most 1.2 times the GPU memory of a plain step. Exceptions are networks whose
// memory is mostly sums, which are 64-bit integers, or rows, which are kept as 16-bit integers too.
func TestStep_MemoryOnGPU(t *testing.T) {
	if listGPUs(t)[0].Emulated {
		t.Skip("on the emulated device every buffer has memory of its own; make gpu-memory runs this test as on a GPU")
	}
	most := map[string]float64{
		"logistic-2048": 1.25, "mlp-256": 1.35, "mlp-1024": 1.45, "mnist-cnn-256": 1.55, "lstm-64": 1.3, "embbag-256": 1.55,
	}
	for _, w := range Workloads() {
		t.Run(w.Name, func(t *testing.T) {
			taken := map[Kind]int64{}
			for _, kind := range Kinds {
				before := allocatedOnGPU(t)
				s, err := NewStep(w, kind, DeviceConfig{GPU: true})
				if err != nil {
					t.Fatal(err)
				}
				taken[kind] = allocatedOnGPU(t) - before
				s.Close()
			}
			ratio := float64(taken[Private]) / float64(taken[Plain])
			t.Logf("MB: private %.1f, float %.1f, plain %.1f", float64(taken[Private])/1e6, float64(taken[Float])/1e6, float64(taken[Plain])/1e6)
			if limit := max(1.2, most[w.Name]); ratio > limit {
				t.Errorf("a private step takes %.2f times the memory of a plain step, at most %.2f is expected", ratio, limit)
			}
		})
	}
}

func allocatedOnGPU(t *testing.T) int64 {
	t.Helper()
	bytes, err := cuda.AllocatedMemory(0)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// trainedWeights returns a workload's weights after the given number of steps.
func trainedWeights(t *testing.T, w Workload, kind Kind, h DeviceConfig, steps int) (weights [][]float32) {
	t.Helper()
	s, err := NewStep(w, kind, h)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range steps {
		if err := s.Run(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.executable.SyncState(); err != nil {
		t.Fatal(err)
	}
	for _, v := range s.executable.State().Weights {
		weights = append(weights, append([]float32(nil), v...))
	}
	return weights
}

// BenchmarkStep times a whole step of each workload on the device given by -device. On the CPU, %peak
// is the ratio to the fused multiply-adds that the same number of threads reaches in the same run.
func BenchmarkStep(b *testing.B) {
	h, err := deviceFromFlags()
	if err != nil {
		b.Fatal(err)
	}
	peak := 0.0
	for _, w := range Workloads() {
		for _, kind := range Kinds {
			b.Run(name(w, kind), func(b *testing.B) {
				operations, err := w.FloatingPointOperations()
				if err != nil {
					b.Fatal(err)
				}
				s, err := NewStep(w, kind, h)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				if !h.GPU {
					peak = max(peak, Peak(0))
				}
				second := timeSteps(b, s)
				b.ReportMetric(float64(w.Batch)/second, "examples/s")
				b.ReportMetric(operations/second/1e9, "GFLOP/s")
				if peak > 0 {
					b.ReportMetric(100*operations/second/1e9/peak, "%peak")
				}
			})
		}
	}
}

// timeSteps reports the milliseconds of a step, and returns its seconds. The first two do not count.
func timeSteps(b *testing.B, s *Step) (second float64) {
	b.Helper()
	for range 2 {
		if err := s.Run(); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	start := time.Now()
	for b.Loop() {
		if err := s.Run(); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Wait(); err != nil { // a GPU may still compute the last steps
		b.Fatal(err)
	}
	second = time.Since(start).Seconds() / float64(b.N)
	b.ReportMetric(1e3*second, "ms/step")
	return second
}
