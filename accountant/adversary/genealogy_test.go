package adversary

import (
	"math"
	"math/rand/v2"
	"testing"
)

// hoeffding is the deviation that the mean of n values in [0,1] exceeds, up or down, with
// probability at most alarm.
func hoeffding(n int, alarm float64) float64 {
	return math.Sqrt(math.Log(2/alarm) / (2 * float64(n)))
}

// The oracle follows the number of descendants forwards: with x descendants among k instances, an
// update adds or removes one with probability x(k-x)/k² each.
func TestGoneProbability_MatchesForwardChain(t *testing.T) {
	for _, k := range []int{1, 2, 3, 7, 20, 50} {
		p := make([]float64, k+1)
		p[1] = 1
		for updates := range 3000 {
			if got := GoneProbability(k, float64(updates)); math.Abs(got-p[0]) > 1e-12 {
				t.Fatalf("k = %d: gone after %d updates with probability %.15g, want %.15g", k, updates, got, p[0])
			}
			next := make([]float64, k+1)
			for x, mass := range p {
				move := float64(x*(k-x)) / float64(k*k)
				next[x] += mass * (1 - 2*move)
				if move > 0 {
					next[x-1] += mass * move
					next[x+1] += mass * move
				}
			}
			p = next
		}
	}
}

func TestGoneProbability_Limits(t *testing.T) {
	for _, k := range []int{1, 2, 20, 1000, 1_000_000} {
		if got := GoneProbability(k, 0); got > 1e-9 {
			t.Errorf("k = %d: gone at once with probability %g", k, got)
		}
		n := float64(k)
		if got, want := GoneProbability(k, 1), (n-1)/(n*n); math.Abs(got-want) > 1e-9 {
			t.Errorf("k = %d: gone after one update with probability %g, want %g", k, got, want)
		}
		if got, want := GoneProbability(k, 1e15), 1-1/n; math.Abs(got-want) > 1e-12 {
			t.Errorf("k = %d: gone in the end with probability %g, want %g", k, got, want)
		}
	}
}

// TestLineage_Simulated draws the server's indices as the process does. It checks the probability
// that a contribution is gone, that a random instance descends from it with probability 1/k, and
// that the length of its lineage is binomial and independent of that. False-alarm rate: 1e-7.
func TestLineage_Simulated(t *testing.T) {
	const k, updates, runs = 5, 30, 400_000
	random := rand.New(rand.NewPCG(1, 2))
	var gone, descends, short, both int
	for range runs {
		var from, length [k]int // the lineage of each instance: 1 if it descends, and its updates
		from[random.IntN(k)] = 1
		for range updates {
			i, j := random.IntN(k), random.IntN(k)
			from[j], length[j] = from[i], length[i]+1
		}
		if from == [k]int{} {
			gone++
		}
		seen := random.IntN(k)
		isShort := length[seen] <= 5
		if from[seen] == 1 {
			descends++
		}
		if isShort {
			short++
		}
		if isShort && from[seen] == 1 {
			both++
		}
	}
	shortProbability := 0.0
	for n := 0.0; n <= 5; n++ {
		shortProbability += choose(updates, n) * math.Pow(1.0/k, n) * math.Pow(1-1.0/k, updates-n)
	}
	margin := hoeffding(runs, 1e-7/4)
	for _, c := range []struct {
		what        string
		count       int
		probability float64
	}{
		{"the contribution is gone", gone, GoneProbability(k, updates)},
		{"a random instance descends from it", descends, 1.0 / k},
		{"a lineage has at most 5 updates", short, shortProbability},
		{"both", both, shortProbability / k},
	} {
		if got := float64(c.count) / runs; math.Abs(got-c.probability) > margin {
			t.Errorf("%s: %.4f of %d runs, want %.4f ± %.4f", c.what, got, runs, c.probability, margin)
		}
	}
}

func choose(n, k float64) float64 {
	product := 1.0
	for i := 1.0; i <= k; i++ {
		product *= (n - k + i) / i
	}
	return product
}
