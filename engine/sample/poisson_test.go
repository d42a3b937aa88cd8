package sample

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/noise"
)

// The accounted rate equals the threshold of the draws to the bit. It is less than 2⁻⁶⁴
// above the requested rate.
func TestPoisson_RateIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rates := []float64{1, math.Nextafter(1, 0), 0.5, 1.0 / 3, 0.01, 256.0 / 60000, 1e-9, 0x1p-64, 0x1.8p-64, 0x1p-65, 1e-300}
	for range 1000 {
		rates = append(rates, math.Exp(-40*random.Float64()))
	}
	for _, q := range rates {
		p := must(NewPoisson(q, 10, noise.NewSeeded(0)))
		threshold := new(big.Int).Lsh(big.NewInt(int64(p.top)), 56)
		threshold.Add(threshold, new(big.Int).SetUint64(p.low))
		drawn := new(big.Rat).SetFrac(threshold, new(big.Int).Lsh(big.NewInt(1), 64))
		if stated := new(big.Rat).SetFloat64(p.Event().Rate); stated.Cmp(drawn) != 0 {
			t.Fatalf("rate %v: stated %v, drawn %v", q, stated, drawn)
		}
		over := new(big.Rat).Sub(drawn, new(big.Rat).SetFloat64(q))
		if over.Sign() < 0 || over.Cmp(big.NewRat(1, 1<<62)) >= 0 || over.Cmp(new(big.Rat).SetFloat64(0x1p-64)) >= 0 {
			t.Fatalf("rate %v: drawn %v, which is %v above", q, drawn, over)
		}
	}
}

// The lots equal those of a direct implementation of the doc comment, with one comparison
// for each record: the top byte first, and the other bytes if the top bytes are equal.
func TestPoisson_OneComparisonPerRecord(t *testing.T) {
	source := noise.NewSeeded(7)
	for _, q := range []float64{1e-6, 1.0 / 512, 1.0 / 256, 0.0043, 0.0061, 0.3, 127.5 / 256, 0.5, 128.5 / 256, 0.9, 0.999, math.Nextafter(1, 0)} {
		const records = 20003
		p := must(NewPoisson(q, records, source))
		for lot := range uint64(5) {
			bytes, ties := make([]uint64, records/8+1), make([]uint64, records)
			for vector, words := range [][]uint64{bytes, ties} {
				if err := source.Uint64s(words, noise.Stream{Purpose: noise.Sampling, Lot: lot, Vector: uint32(vector)}, 0); err != nil {
					t.Fatal(err)
				}
			}
			threshold := uint64(math.Ceil(math.Ldexp(q, 64)))
			var want []int
			for i := range records {
				number := bytes[i/8] >> (8 * (i % 8)) << 56
				if number>>56 == threshold>>56 {
					number |= ties[0] >> 8
					ties = ties[1:]
				}
				if number < threshold {
					want = append(want, i)
				}
			}
			if got := drawLot(t, p, lot, 100); !slices.Equal(got, want) {
				t.Fatalf("rate %v, lot %d: %d records, want %d", q, lot, len(got), len(want))
			}
		}
	}
}

// The comparison is strict: a number just below the threshold includes the record, and the
// threshold itself does not.
func TestPoisson_StrictThreshold(t *testing.T) {
	for _, q := range []float64{0.3, 1e-3, 0.9} {
		p := must(NewPoisson(q, 8, noise.NewSeeded(0)))
		for _, below := range []uint64{0, 1} {
			if err := p.StartLot(0); err != nil {
				t.Fatal(err)
			}
			for i := range p.bytes.buffer {
				p.bytes.buffer[i] = uint64(p.top) * 0x0101010101010101
				p.ties.buffer[i] = (p.low - below) << 8
			}
			p.bytes.unread, p.ties.unread = 128, 128
			if n, err := p.Next(make([]int, 9)); n != 8*int(below) || err != nil {
				t.Errorf("rate %v, threshold − %d: %d of 8 records included, %v", q, below, n, err)
			}
		}
	}
}

func TestPoisson_CountsAreBinomial(t *testing.T) {
	for _, c := range []struct {
		rate          float64
		records, lots int
	}{{0.013, 997, 20000}, {1.0 / 512, 5000, 8000}, {1.5 / 256, 2000, 8000}, {0.5, 300, 4000}, {0.97, 300, 4000}} {
		if testing.Short() {
			c.lots /= 4
		}
		p := must(NewPoisson(c.rate, c.records, noise.NewSeeded(8)))
		counts := make([]float64, c.records)
		mean, variance := c.rate*float64(c.records), c.rate*(1-c.rate)*float64(c.records)
		spread, total := 0.0, 0.0
		dst := make([]int, c.records)
		for lot := range c.lots {
			if err := p.StartLot(uint64(lot)); err != nil {
				t.Fatal(err)
			}
			n, err := p.Next(dst)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range dst[:n] {
				counts[r]++
			}
			total += float64(n)
			spread += (float64(n) - mean) * (float64(n) - mean) / variance
		}
		sum := 0.0
		expected := float64(c.lots) * c.rate
		for _, n := range counts {
			sum += (n - expected) * (n - expected) / (expected * (1 - c.rate))
		}
		name := fmt.Sprintf("rate %v", c.rate)
		chiSquare(t, name+": inclusions of each record", sum, c.records)
		chiSquare(t, name+": sizes of lots", spread, c.lots)
		all := float64(c.lots) * mean
		if z := (total - all) / math.Sqrt(all*(1-c.rate)); math.Abs(z) > 5.2 { // 2·10⁻⁷
			t.Errorf("%s: %v inclusions, want %v, z = %v", name, total, all, z)
		}
	}
}

// The joint frequency of each pair of records, in one lot and in consecutive lots, is that
// of independent records. The probability that any of the 552 scores exceeds 6.5 is 1 in 20
// million.
func TestPoisson_RecordsArePairwiseIndependent(t *testing.T) {
	const records, lots, rate = 24, 100000, 0.3
	p := must(NewPoisson(rate, records, noise.NewSeeded(9)))
	var same, next [records][records]float64
	var before []int
	dst := make([]int, 2*records)
	for lot := range uint64(lots) {
		if err := p.StartLot(lot); err != nil {
			t.Fatal(err)
		}
		now := dst[lot%2*records:][:records]
		n, err := p.Next(now)
		if err != nil {
			t.Fatal(err)
		}
		now = now[:n]
		for _, i := range now {
			for _, j := range now {
				same[i][j]++
			}
			for _, j := range before {
				next[i][j]++
			}
		}
		before = now
	}
	const both = rate * rate
	score := func(count float64) float64 {
		return (count - lots*both) / math.Sqrt(lots*both*(1-both))
	}
	for i := range records {
		for j := range records {
			if z := score(same[i][j]); i != j && !(math.Abs(z) <= 6.5) {
				t.Errorf("records %d and %d share %v lots, z = %.1f", i, j, same[i][j], z)
			}
			if z := score(next[i][j]); !(math.Abs(z) <= 6.5) {
				t.Errorf("record %d follows %d in %v lots, z = %.1f", i, j, next[i][j], z)
			}
		}
	}
}

func TestAnyBelow_MatchesBytewiseComparison(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200000 {
		limit := 1 + random.Uint64N(128)
		x := random.Uint64()
		if random.IntN(2) == 0 { // bytes near the limit
			x = 0
			for k := range 8 {
				x |= (limit - 1 + random.Uint64N(3)) & 0xff << (8 * k)
			}
		}
		want := false
		for k := range 8 {
			want = want || x>>(8*k)&0xff < limit
		}
		if anyBelow(x, limit) != want {
			t.Fatalf("%#x below %d: want %v", x, limit, want)
		}
	}
}

// Where the number of records is declared, the lots are drawn from the real records and the
// Event, which is public, states only the declared number.
func TestPoisson_DeclaredNumberOfRecords(t *testing.T) {
	const rate, declared = .25, 100
	for _, records := range []int{90, 110} {
		p := must(NewPoissonOf(declared, rate, records, noise.NewSeeded(1)))
		if e := p.Event(); e != (Event{Policy: PolicyPoisson, Rate: rate, Records: declared}) || e.ExpectedLot() != rate*declared {
			t.Errorf("%d records: %+v", records, e)
		}
		plain := must(NewPoisson(rate, records, noise.NewSeeded(1)))
		if got, want := drawLot(t, p, 3, 50), drawLot(t, plain, 3, 50); !slices.Equal(got, want) {
			t.Errorf("%d records: drew %v, want %v", records, got, want)
		}
	}
	if _, err := NewPoissonOf(0, rate, 10, noise.NewSeeded(1)); err == nil {
		t.Error("a declared number of 0 records was accepted")
	}
}
