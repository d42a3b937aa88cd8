package adversary

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestInsiderExpectedLoss_CountsOverwrittenDraws simulates the server with two instances. The drawn
// instance survives in a share of (k-1)/k of the updates, which is the lemma's figure. It also shows
// why the figure is no guarantee: where the drawn instance is overwritten, an insider who sees only
// the instances afterwards still distinguishes the client's data, because the other instance hints
// at the drawn one. The measured advantage is compared with 0. False-alarm rate: 1e-7.
func TestInsiderExpectedLoss_CountsOverwrittenDraws(t *testing.T) {
	const k, runs = 2, 100_000
	random := rand.New(rand.NewPCG(5, 6))
	survived := 0
	var guesses, overwritten [2]float64
	for run := range runs {
		var w [k]float64
		for range 20 { // instances of one server: their variance is nearly stationary
			i, j := random.IntN(k), random.IntN(k)
			w[j] = w[i] + laplace(random)
		}
		bit := run % 2
		i, j := random.IntN(k), random.IntN(k)
		w[j] = w[i] + float64(bit) + laplace(random)
		if i != j {
			survived++
			continue
		}
		overwritten[bit]++
		if w[j]-w[1-j] > 0.5 {
			guesses[bit]++
		}
	}
	if got, margin := float64(survived)/runs, hoeffding(runs, 1e-7/2); math.Abs(got-InsiderExpectedLoss(k, 1)) > margin {
		t.Errorf("the drawn instance survives in %.4f of the updates, want %.4f", got, InsiderExpectedLoss(k, 1))
	}
	advantage := guesses[1]/overwritten[1] - guesses[0]/overwritten[0]
	if margin := 2 * hoeffding(int(min(overwritten[0], overwritten[1])), 1e-7/2); advantage < margin {
		t.Errorf("advantage %.4f on overwritten draws is not above the margin %.4f", advantage, margin)
	}
}
