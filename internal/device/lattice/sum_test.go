package lattice

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// addAll adds vectors of n integers as package cpu does, some contributions at a time.
func addAll(s *Sum, k *kernels, rng *rand.Rand, vectors [][]int32) {
	for len(vectors) > 0 {
		some := min(len(vectors), 1+rng.IntN(MaxUnsettled))
		if s.Reserve(some) {
			middle := rng.IntN(s.Len() + 1)
			s.settle(k, middle, s.Len())
			s.settle(k, 0, middle)
		}
		for _, v := range vectors[:some] {
			Add(s.Low(), v)
		}
		vectors = vectors[some:]
	}
}

func (s *Sum) values(k *kernels) []int64 {
	all := make([]int64, s.Len())
	s.read(k, all[:len(all)/3], 0)
	s.read(k, all[len(all)/3:], len(all)/3)
	return all
}

// Sums are those of math/big: of elements that are all as large as a contribution permits, of one
// sign for a long time, and of random ones; in lots of one contribution and of thousands.
func TestSum_AgreesWithOracle(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(21, 22))
		for _, n := range []int{1, 7, 8, 61, 4096 + 13} {
			s := NewSum(make([]int32, n))
			for _, lot := range []int{1, MaxUnsettled, MaxUnsettled + 1, 5000, 20, 1500} {
				want := make([]*big.Int, n)
				for i := range want {
					want[i] = new(big.Int)
				}
				vectors := make([][]int32, min(lot, 4_000_000/n))
				for r := range vectors {
					v := make([]int32, n)
					for i := range v {
						switch i % 4 {
						case 0:
							v[i] = Bound
						case 1:
							v[i] = -Bound
						case 2:
							v[i] = Bound - 1
							if r > len(vectors)/2 {
								v[i] = -Bound
							}
						default:
							v[i] = int32(rng.IntN(2*Bound+1) - Bound)
						}
						want[i].Add(want[i], big.NewInt(int64(v[i])))
					}
					vectors[r] = v
				}
				addAll(s, k, rng, vectors)
				for i, v := range s.values(k) {
					if want[i].Cmp(big.NewInt(v)) != 0 {
						t.Fatalf("%d sums of %d contributions: sum %d is %d, want %v", n, lot, i, v, want[i])
					}
				}
				s.Clear(0, n/2)
				s.Clear(n/2, n)
				s.Restart()
				if all := s.values(k); slices.ContainsFunc(all, func(v int64) bool { return v != 0 }) {
					t.Fatalf("%d sums of %d contributions are not zero after Clear: %v", n, lot, all)
				}
			}
		}
	})
}

// The bound on contributions between two settlings is the largest: at any sum, and not only at zero,
// MaxUnsettled more of them are read right, in both directions. One more would not be.
func TestSum_MaxUnsettledIsTheBound(t *testing.T) {
	for _, start := range []int64{0, 1, -1, 1<<28 - 1, 1 << 28, -1 << 28, -1<<28 - 1, 5<<28 - 1, 1<<42 + 12345} {
		for _, direction := range []int64{-1, 1} {
			end := start + direction*MaxUnsettled*Bound
			if got := sumOf(int32(end), int16(start>>28)); got != end {
				t.Errorf("from %d by %d: %d, want %d", start, direction*MaxUnsettled*Bound, got, end)
			}
		}
	}
	end := int64(-(MaxUnsettled + 1) * Bound)
	if sumOf(int32(end), 0) == end {
		t.Errorf("%d contributions are read right, too", MaxUnsettled+1)
	}
}

// A lot of millions of contributions of one sign leaves the 44 bits of low and high.
func TestSum_OfMillionsOfContributions(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		const n, times = 19, 4*maxSettled + 5
		s := NewSum(make([]int32, n))
		for lot := range 2 {
			want := make([]int64, n)
			for range times {
				if s.Reserve(MaxUnsettled) {
					s.settle(k, 0, n)
				}
				for i := range want { // in both directions
					all := int64(1-i%2*2) * (MaxUnsettled*Bound - int64(i))
					s.Low()[i] += int32(all)
					want[i] += all
				}
			}
			if got := s.values(k); !slices.Equal(got, want) || want[0] < math.MaxInt16<<28 {
				t.Fatalf("lot %d: %s", lot, firstDifference(got, want))
			}
			s.Clear(0, n)
			s.Restart()
			if got := s.values(k); slices.ContainsFunc(got, func(v int64) bool { return v != 0 }) {
				t.Errorf("lot %d ends with the sums %v, want zeros", lot, got)
			}
		}
	})
}

func TestSum_RefusesTooManyContributions(t *testing.T) {
	for _, n := range []int{-1, MaxUnsettled + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d contributions at once: no panic", n)
				}
			}()
			NewSum(make([]int32, 1)).Reserve(n)
		}()
	}
}
