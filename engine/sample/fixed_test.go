package sample

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/noise"
)

// All C(6, k) lots of k of six records are equally likely.
func TestFixed_LotsAreUniform(t *testing.T) {
	const records, lots = 6, 30000
	for k := 1; k < records; k++ {
		f := must(NewFixed(k, records, noise.NewSeeded(10)))
		counts := map[int]float64{}
		dst := make([]int, records+1)
		for lot := range uint64(lots) {
			if err := f.StartLot(lot); err != nil {
				t.Fatal(err)
			}
			n, err := f.Next(dst)
			if err != nil || n != k || !slices.IsSorted(dst[:n]) {
				t.Fatalf("lot %v of %d: %v", dst[:n], k, err)
			}
			set := 0
			for _, r := range dst[:n] {
				set |= 1 << r
			}
			counts[set]++
		}
		sets := 1
		for i := range k {
			sets = sets * (records - i) / (i + 1)
		}
		if len(counts) != sets {
			t.Fatalf("%d lots of %d, want %d", len(counts), k, sets)
		}
		uniform(t, fmt.Sprint("lots of ", k), counts, lots)
	}
}

func uniform[K comparable](t *testing.T, what string, counts map[K]float64, total float64) {
	t.Helper()
	expected := total / float64(len(counts))
	sum := 0.0
	for _, n := range counts {
		sum += (n - expected) * (n - expected) / expected
	}
	if len(counts) > 1 {
		chiSquare(t, what, sum, len(counts)-1)
	}
}

// With more records, each record is in L/N of the lots. The counts are negatively
// correlated. Scaled by (N−1)/N, their squared scores have a chi-square distribution with
// N−1 degrees of freedom.
func TestFixed_InclusionsAreUniform(t *testing.T) {
	const records, size, lots = 1500, 131, 6000
	f := must(NewFixed(size, records, noise.NewSeeded(11)))
	counts := make([]float64, records)
	for lot := range uint64(lots) {
		got := drawLot(t, f, lot, 50)
		if len(got) != size {
			t.Fatalf("lot of %d, want %d", len(got), size)
		}
		for _, r := range got {
			counts[r]++
		}
	}
	const q = float64(size) / records
	sum := 0.0
	for _, n := range counts {
		sum += (n - lots*q) * (n - lots*q) / (lots * q * (1 - q))
	}
	chiSquare(t, "inclusions", sum*(records-1)/records, records-1)
}

func TestWordReaderBelow_IsUniform(t *testing.T) {
	w := wordReader{source: noise.NewSeeded(12)}
	w.open(0, fixedWords)
	counts := map[uint64]float64{}
	for range 60000 {
		counts[w.below(7)]++
	}
	if len(counts) != 7 {
		t.Fatalf("numbers below 7: %v", counts)
	}
	uniform(t, "below 7", counts, 60000)

	// For n = 3·2⁶² a quarter of the words is rejected. Without rejection a third of the
	// numbers would be twice as frequent. Each third must get a third of the draws.
	const n, draws = 3 << 62, 60000
	thirds := map[uint64]float64{}
	for range draws {
		x := w.below(n)
		if x >= n {
			t.Fatalf("%d is not below %d", x, uint64(n))
		}
		thirds[x%3]++
	}
	uniform(t, "below 3·2⁶², mod 3", thirds, draws)
	if read := float64(w.next) - float64(w.unread) - 60000; !(math.Abs(read-draws*4/3) <= 5.2*math.Sqrt(draws*4.0/9)) {
		t.Errorf("%v words for %d numbers, want about %d", read, draws, draws*4/3)
	}

	// For n = 2⁶³+1 nearly half of the words are rejected.
	before := float64(w.next) - float64(w.unread)
	for range draws {
		w.below(1<<63 + 1)
	}
	if read := float64(w.next) - float64(w.unread) - before; !(math.Abs(read-draws*2) <= 5.2*math.Sqrt(draws*2)) {
		t.Errorf("%v words for %d numbers, want about %d", read, draws, draws*2)
	}
}
