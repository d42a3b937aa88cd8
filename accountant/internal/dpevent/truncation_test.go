package dpevent

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

const tailPrecision = 300

// exactTail is P(Bin(n, q) ≥ k) in 300 bits, term by term.
func exactTail(n int, q float64, k int) *big.Float {
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(tailPrecision).SetFloat64(x) }
	rest := new(big.Float).SetPrec(tailPrecision).Sub(number(1), number(q))
	odds := new(big.Float).SetPrec(tailPrecision).Quo(number(q), rest)
	term := number(1)
	for i, square := n, new(big.Float).Copy(rest); i > 0; i >>= 1 {
		if i&1 == 1 {
			term.Mul(term, square)
		}
		square.Mul(square, square)
	}
	sum := number(0)
	for i := 0; i <= n; i++ {
		if i >= k {
			sum.Add(sum, term)
		}
		term.Mul(term, odds)
		term.Mul(term, number(float64(n-i)))
		term.Quo(term, number(float64(i+1)))
	}
	return sum
}

// The error of the tail is at most the stated bound, which is small.
func TestBinomialTail_ErrorIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 120 {
		n := 1 + r.IntN(60)
		if i%3 == 0 {
			n = 1 + r.IntN(4000)
		}
		q := math.Pow(10, -4*r.Float64()) * 0.98
		mean := float64(n) * q
		k := min(n, max(1, int(mean+(r.Float64()*14-4)*math.Sqrt(mean))))
		got, off := BinomialTail(n, q, k)
		exact := exactTail(n, q, k)
		difference := new(big.Float).Sub(new(big.Float).SetPrec(tailPrecision).SetFloat64(got), exact)
		distance, _ := difference.Quo(difference, exact).Float64()
		if !(math.Abs(distance) <= off) || off > 1e-9 {
			t.Errorf("P(Bin(%d, %v) ≥ %d) = %v has the error %.3g, stated is %.3g", n, q, k, got, distance, off)
		}
	}
	if got, _ := BinomialTail(5, .3, 6); got != 0 {
		t.Errorf("more than all: %v", got)
	}
}

// Truncation agrees with a list of all outcomes: every set of other records, whether the record
// is drawn, and every set that the lot may then be.
func TestTruncation_AgreesWithEnumeration(t *testing.T) {
	for _, c := range []struct {
		n, lot int
		q      *big.Rat
	}{{3, 1, big.NewRat(1, 2)}, {4, 2, big.NewRat(1, 4)}, {5, 2, big.NewRat(3, 4)}, {6, 3, big.NewRat(1, 8)}, {7, 6, big.NewRat(15, 16)}, {8, 1, big.NewRat(1, 16)}} {
		truncated, present := new(big.Rat), new(big.Rat)
		not := new(big.Rat).Sub(big.NewRat(1, 1), c.q)
		for drawn := range 1 << c.n { // record 0 is the one in which the data sets differ
			probability := big.NewRat(1, 1)
			for i := range c.n {
				if drawn>>i&1 == 1 {
					probability.Mul(probability, c.q)
				} else {
					probability.Mul(probability, not)
				}
			}
			size := bits.OnesCount(uint(drawn))
			if bits.OnesCount(uint(drawn>>1)) < c.lot {
				continue
			}
			truncated.Add(truncated, probability)
			kept, sets := int64(0), int64(0)
			for lot := range 1 << c.n {
				if lot&^drawn == 0 && bits.OnesCount(uint(lot)) == min(size, c.lot) {
					sets++
					kept += int64(lot & 1)
				}
			}
			present.Add(present, new(big.Rat).Mul(probability, big.NewRat(kept, sets)))
		}
		q, _ := c.q.Float64()
		got := newTruncation(ledger.Sampling{Policy: ledger.Truncated, Rate: q, LotSize: c.lot, Records: c.n}, ledger.ZeroOut)
		wantProbability, _ := truncated.Float64()
		wantRate, _ := new(big.Rat).Quo(present, truncated).Float64()
		if math.Abs(got.Probability-wantProbability) > got.Error*wantProbability || !(got.Rate >= wantRate && got.Rate <= wantRate*(1+1e-12)) {
			t.Errorf("%d records, at most %d, q = %v: %+v, want probability %v and rate %v", c.n, c.lot, q, got, wantProbability, wantRate)
		}
	}
}

func TestTruncation_NeverTruncated(t *testing.T) {
	for _, lot := range []int{10, 11, 1000} {
		if got := newTruncation(ledger.Sampling{Policy: ledger.Truncated, Rate: .5, LotSize: lot, Records: 10}, ledger.ZeroOut); got != (Truncation{}) {
			t.Errorf("lots of at most %d of 10 records: %+v", lot, got)
		}
	}
}
