package drawdiscard

import (
	"math"
	"testing"
)

// The vectors of a bank have the mean, the variance and the fourth moment of the noise, and their
// coordinates are uncorrelated. The bounds are at least 6 standard errors of the 65,536 values of a
// ring: 0.4% of the mean, 0.6% and 0.9% of the variances, 5% of the fourth moment of Laplace noise.
func TestNoiseBank_Moments(t *testing.T) {
	for _, c := range []struct {
		distribution     Distribution
		variance, fourth float64
	}{{Gaussian, 1, 3}, {Laplace, 2, 24}} {
		const width, vectors = 200, 2000
		bank, err := NewNoiseBank(c.distribution, width, 7)
		if err != nil {
			t.Fatal(err)
		}
		mean, second, fourth, neighbours := 0.0, 0.0, 0.0, 0.0
		v := make([]float32, width)
		for range vectors {
			clear(v)
			bank.AddTo(v, 1)
			for i, x := range v {
				x := float64(x)
				mean += x
				second += x * x
				fourth += x * x * x * x
				if i > 0 {
					neighbours += x * float64(v[i-1])
				}
			}
		}
		n := float64(width * vectors)
		if m := mean / n; math.Abs(m) > 0.03 {
			t.Errorf("%s: mean %v", c.distribution, m)
		}
		if s := second / n; math.Abs(s/c.variance-1) > 0.06 {
			t.Errorf("%s: variance %v, want %v", c.distribution, s, c.variance)
		}
		if f := fourth / n; math.Abs(f/c.fourth-1) > 0.3 {
			t.Errorf("%s: fourth moment %v, want %v", c.distribution, f, c.fourth)
		}
		if r := neighbours / n / c.variance; math.Abs(r) > 0.03 {
			t.Errorf("%s: neighbours have correlation %v", c.distribution, r)
		}
	}
}

// One coordinate of successive vectors is a sequence of independent values: its partial sums grow
// like a random walk. 200 walks of 500 steps; their mean square has a relative standard deviation
// of 10% (Laplace and shared values add little), and the bound is 60%.
func TestNoiseBank_SumsGrowLikeAWalk(t *testing.T) {
	const width, steps = 200, 500
	bank, err := NewNoiseBank(Gaussian, width, 8)
	if err != nil {
		t.Fatal(err)
	}
	sums := make([]float32, width)
	for range steps {
		bank.AddTo(sums, 1)
	}
	square := 0.0
	for _, s := range sums {
		square += float64(s) * float64(s) / width
	}
	if math.Abs(square/steps-1) > 0.6 {
		t.Errorf("mean square %v after %d steps", square, steps)
	}
}

// After the ring has been replaced as a whole, no value of the start is left.
func TestNoiseBank_ReplacesAllValues(t *testing.T) {
	bank, err := NewNoiseBank(Gaussian, 700, 9)
	if err != nil {
		t.Fatal(err)
	}
	before := append([]float32(nil), bank.values...)
	v := make([]float32, 700)
	for range bankRefresh*bank.ring/700 + 1 {
		bank.AddTo(v, 1)
	}
	kept := 0
	for i, x := range bank.values {
		if x == before[i] {
			kept++
		}
	}
	if kept > len(before)/1000 {
		t.Errorf("%d of %d values were kept", kept, len(before))
	}
	for i := range bank.width {
		if bank.values[i] != bank.values[bank.ring+i] {
			t.Fatalf("value %d and its copy after the ring differ", i)
		}
	}
}
