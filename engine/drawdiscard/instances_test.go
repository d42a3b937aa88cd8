package drawdiscard

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/noise"
)

// updateWithNoise runs updates without gradients: the weights change only by noise of variance 1.
func updateWithNoise(t *testing.T, all *Instances, updates int, seed uint64, every int, visit func()) {
	t.Helper()
	bank, err := NewNoiseBank(Gaussian, all.Weights(), seed)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	next := &Instance{Weights: make([]float32, all.Weights())}
	for i := range updates {
		copy(next.Weights, all.At(r.IntN(all.Count())).Weights)
		bank.AddTo(next.Weights, 1)
		next = all.Swap(r.IntN(all.Count()), next)
		if (i+1)%every == 0 {
			visit()
		}
	}
}

// Theorem 3.1: the variance among the instances stays at kσ²/2 from the first update on. All
// weights share the random slots, so the spread of one moment varies by about half of its
// mean and is correlated over k²/2 updates. The mean over 10⁵ updates has a standard deviation of
// about 3% for k = 20; the bound of 15% is 5 of them (false alarm below 1e-6; the seed is fixed).
func TestInstances_VarianceIsStationary(t *testing.T) {
	const updates, weights = 100_000, 64
	for _, k := range []int{2, 5, 20} {
		all, err := NewInstances(make([]float32, weights), k, 1, noise.NewSeeded(uint64(k)))
		if err != nil {
			t.Fatal(err)
		}
		want := StationaryVariance(k, 1)
		sum, first, samples := 0.0, 0.0, 0
		updateWithNoise(t, all, updates, uint64(k), 10, func() {
			sum += all.Spread()
			if samples++; samples == updates/20 {
				first = sum
			}
		})
		halves := [2]float64{first / float64(samples/2), (sum - first) / float64(samples/2)}
		for half, got := range halves {
			if math.Abs(got/want-1) > 0.2 {
				t.Errorf("k = %d, half %d: mean spread %.3g, want %.3g", k, half+1, got, want)
			}
		}
		if got := sum / float64(samples); math.Abs(got/want-1) > 0.15 {
			t.Errorf("k = %d: mean spread %.3g, want %.3g", k, got, want)
		}
	}
}

// Without instances to average, noise adds up: after T updates the square of each weight is Tσ² on
// average. The mean of k instances moves at a k-th of that rate. The mean over 1,000 weights has a
// relative standard deviation of √(2/1000) = 4.5% for one instance. For k = 20 the shared slots
// add little: the walk has T/k independent steps of instances.
func TestInstances_OneInstanceDiverges(t *testing.T) {
	const updates, weights = 100_000, 1000
	for _, k := range []int{1, 20} {
		all, err := NewInstances(make([]float32, weights), k, 1, noise.NewSeeded(3))
		if err != nil {
			t.Fatal(err)
		}
		updateWithNoise(t, all, updates, 4, updates, func() {})
		mean := make([]float32, weights)
		all.Average(mean)
		square := 0.0
		for _, v := range mean {
			square += float64(v) * float64(v) / weights
		}
		want := updates * MeanStepVariance(k, 1)
		if math.Abs(square/want-1) > 0.27 {
			t.Errorf("k = %d: the mean moved by %.4g on average, want %.4g", k, square, want)
		}
		if spread := all.Spread(); k == 1 && spread != 0 || k > 1 && (spread == 0 || spread > 10*StationaryVariance(k, 1)) {
			t.Errorf("k = %d: spread %v", k, spread)
		}
	}
}

// The start has the stationary variance: the mean over 10,000 weights of the sample variance of k
// values has a relative standard deviation of √(2/(k-1))/100.
func TestNewInstances_StartWithStationaryVariance(t *testing.T) {
	initial := make([]float32, 10_000)
	for i := range initial {
		initial[i] = float32(i % 7)
	}
	for _, k := range []int{1, 2, 10} {
		all, err := NewInstances(initial, k, 0.25, noise.NewSeeded(9))
		if err != nil {
			t.Fatal(err)
		}
		want := StationaryVariance(k, 0.25)
		if got := all.Spread(); math.Abs(got-want) > 6*want*math.Sqrt2/100 {
			t.Errorf("k = %d: spread %v, want %v", k, got, want)
		}
	}
}

func TestNewInstances_RejectInvalid(t *testing.T) {
	src := noise.NewSeeded(1)
	for name, try := range map[string]func() (*Instances, error){
		"no instance":       func() (*Instances, error) { return NewInstances(make([]float32, 2), 0, 1, src) },
		"too many":          func() (*Instances, error) { return NewInstances(make([]float32, 2), MaxInstances+1, 1, src) },
		"no weights":        func() (*Instances, error) { return NewInstances(nil, 2, 1, src) },
		"negative variance": func() (*Instances, error) { return NewInstances(make([]float32, 2), 2, -1, src) },
		"NaN variance":      func() (*Instances, error) { return NewInstances(make([]float32, 2), 2, math.NaN(), src) },
		"other widths": func() (*Instances, error) {
			return RestoreInstances([]*Instance{{Weights: make([]float32, 2)}, {Weights: make([]float32, 3)}})
		},
	} {
		if _, err := try(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestInstances_Moments(t *testing.T) {
	all, err := RestoreInstances([]*Instance{{Weights: []float32{1, 5}}, {Weights: []float32{2, 5}}, {Weights: []float32{6, 5}}})
	if err != nil {
		t.Fatal(err)
	}
	mean, variance := make([]float64, 2), make([]float64, 2)
	all.Moments(mean, variance)
	if mean[0] != 3 || variance[0] != 7 || mean[1] != 5 || variance[1] != 0 {
		t.Errorf("mean %v, variance %v", mean, variance)
	}
	if got := all.Spread(); got != 3.5 {
		t.Errorf("spread %v", got)
	}
	average := make([]float32, 2)
	all.Average(average)
	if average[0] != 3 || average[1] != 5 {
		t.Errorf("average %v", average)
	}
	if old := all.Discard(&Instance{Weights: []float32{7, 7}}); old.Weights[1] != 5 {
		t.Errorf("discarded %v", old.Weights)
	}
}
