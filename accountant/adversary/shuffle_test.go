package adversary

import (
	"math"
	"testing"
)

// enumerate computes the δ of the pair (A+D, C-A+1-D), (A+1-D, C-A+D) from its joint distribution.
func enumerate(local float64, clients int, epsilon float64) float64 {
	n, share := float64(clients-1), math.Exp(-local)
	p := math.Exp(local) / (1 + math.Exp(local))
	delta := 0.0
	for c := 0.0; c <= n; c++ {
		total := choose(n, c) * math.Pow(share, c) * math.Pow(1-share, n-c)
		heads := func(a float64) float64 {
			if a < 0 || a > c {
				return 0
			}
			return choose(c, a) * math.Pow(0.5, c)
		}
		for u := 0.0; u <= c+1; u++ {
			left := p*heads(u-1) + (1-p)*heads(u)
			right := (1-p)*heads(u-1) + p*heads(u)
			delta += total * max(0, left-math.Exp(epsilon)*right)
		}
	}
	return delta
}

func TestShuffledDelta_MatchesEnumeration(t *testing.T) {
	for _, local := range []float64{0.2, 1, 3} {
		for _, clients := range []int{1, 2, 9, 100, 400} {
			bound := ShuffledDelta(local, clients)
			for _, part := range []float64{0, 0.05, 0.3, 0.7, 0.99} {
				want, got := enumerate(local, clients, part*local), bound(part*local)
				if got < want*(1-1e-9) || got > want*(1+2*roundingUp)+1e-13 {
					t.Errorf("ε₀ = %g, %d clients, ε = %g: δ = %g, want %g", local, clients, part*local, got, want)
				}
			}
		}
	}
}

// The shuffled outputs of binary randomized response are a count, whose distribution is exact. The
// bound must not be below it. The other clients all hold 0.
func TestShuffledDelta_CoversRandomizedResponse(t *testing.T) {
	for _, local := range []float64{0.5, 1, 2} {
		for _, clients := range []int{2, 10, 200} {
			q, n := 1/(1+math.Exp(local)), float64(clients-1)
			ones := func(x float64) float64 {
				if x < 0 || x > n {
					return 0
				}
				return choose(n, x) * math.Pow(q, x) * math.Pow(1-q, n-x)
			}
			for _, epsilon := range []float64{0, 0.1, 0.4} {
				up, down := 0.0, 0.0
				for x := 0.0; x <= n+1; x++ {
					zero := (1-q)*ones(x) + q*ones(x-1)
					one := q*ones(x) + (1-q)*ones(x-1)
					up += max(0, one-math.Exp(epsilon)*zero)
					down += max(0, zero-math.Exp(epsilon)*one)
				}
				if got := ShuffledDelta(local, clients)(epsilon); got < max(up, down)*(1-1e-9) {
					t.Errorf("ε₀ = %g, %d clients, ε = %g: δ = %g is below %g of randomized response", local, clients, epsilon, got, max(up, down))
				}
			}
		}
	}
}

// The closed form of Feldman, McMillan and Talwar 2021, theorem 3.1, is above the numerical bound,
// and the numerical bound decreases with the number of clients.
func TestShuffledEpsilon_BelowClosedForm(t *testing.T) {
	const delta = 1e-6
	for _, local := range []float64{0.5, 1, 4} {
		previous := local
		for _, clients := range []int{1000, 10_000, 100_000, 10_000_000} {
			got := ShuffledEpsilon(local, clients, delta)
			if got > previous || got <= 0 {
				t.Errorf("ε₀ = %g, %d clients: ε = %g after %g", local, clients, got, previous)
			}
			previous = got
			n, e := float64(clients), math.Exp(local)
			if local > math.Log(n/(16*math.Log(2/delta))) {
				continue // outside the theorem
			}
			closed := math.Log1p((e - 1) / (e + 1) * (8*math.Sqrt(e*math.Log(4/delta))/math.Sqrt(n) + 8*e/n))
			if got > closed || got < closed/30 {
				t.Errorf("ε₀ = %g, %d clients: ε = %g, closed form %g", local, clients, got, closed)
			}
		}
	}
}
