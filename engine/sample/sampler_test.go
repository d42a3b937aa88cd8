package sample

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/noise"
)

// The statistical tests use fixed seeds. With a new seed, the probability that one of them
// fails is less than one in a million: chi-square sums are compared with their quantiles at
// z = ±5.2 (2·10⁻⁷, Wilson and Hilferty's approximation), and the bounds of single normal
// scores are next to them.

// chiSquare fails if a sum of squared scores is improbably large or small.
func chiSquare(t *testing.T, what string, sum float64, freedom int) {
	t.Helper()
	k := float64(freedom)
	z := (math.Cbrt(sum/k) - (1 - 2/(9*k))) / math.Sqrt(2/(9*k))
	if !(math.Abs(z) <= 5.2) {
		t.Errorf("%s: chi-square %.1f with %d degrees of freedom, z = %.1f", what, sum, freedom, z)
	}
}

func drawLot(t *testing.T, s Sampler, lot uint64, block int) []int {
	t.Helper()
	if err := s.StartLot(lot); err != nil {
		t.Fatal(err)
	}
	var all []int
	dst := make([]int, block)
	for {
		n, err := s.Next(dst)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, dst[:n]...)
		if n < block {
			return all
		}
	}
}

func must[S Sampler](s S, err error) S {
	if err != nil {
		panic(err)
	}
	return s
}

func newSamplers(lot, records int, source *noise.Source) []Sampler {
	return []Sampler{
		must(NewPoisson(float64(lot)/float64(records), records, source)),
		must(NewFixed(lot, records, source)),
		must(NewShuffle(lot, records, source)),
	}
}

func TestSampler_LotDependsOnlyOnNumber(t *testing.T) {
	source := noise.NewSeeded(1)
	for i, s := range newSamplers(70, 999, source) {
		again := newSamplers(70, 999, source)[i]
		seen := map[string]bool{}
		for _, lot := range []uint64{0, 1, 14, 15, 16, 1 << 40, noise.MaxLots - 1} {
			want := drawLot(t, s, lot, 1000)
			for _, block := range []int{1, 7, 64, 70} {
				if err := again.StartLot(3); err != nil { // leave the rest of a lot unread
					t.Fatal(err)
				}
				if _, err := again.Next(make([]int, 9)); err != nil {
					t.Fatal(err)
				}
				if got := drawLot(t, again, lot, block); !slices.Equal(got, want) {
					t.Fatalf("%s: lot %d read in blocks of %d is %v, want %v", s.Event().Policy, lot, block, got, want)
				}
			}
			sorted := slices.Sorted(slices.Values(want))
			if len(slices.Compact(sorted)) != len(want) || sorted[0] < 0 || sorted[len(sorted)-1] >= 999 {
				t.Fatalf("%s: lot %d is %v", s.Event().Policy, lot, want)
			}
			if key := fmt.Sprint(want); seen[key] {
				t.Fatalf("%s: lot %d equals an earlier lot", s.Event().Policy, lot)
			} else {
				seen[key] = true
			}
		}
		if other := drawLot(t, newSamplers(70, 999, noise.NewSeeded(2))[i], 1, 1000); slices.Equal(other, drawLot(t, s, 1, 1000)) {
			t.Errorf("%s: another key draws the same lot", s.Event().Policy)
		}
	}
}

func TestSampler_ExtremeRatesAndSizes(t *testing.T) {
	source := noise.NewSeeded(3)
	for _, n := range []int{1, 2, 7, 8, 9, 63, 64, 65, 1000} {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		for _, s := range newSamplers(n, n, source) { // rate 1, lot = records
			if got := slices.Sorted(slices.Values(drawLot(t, s, 5, 11))); !slices.Equal(got, all) {
				t.Errorf("%+v: all of %d records are %v", s.Event(), n, got)
			}
			if s.Event().ExpectedLot() != float64(n) {
				t.Errorf("%+v: expected lot %v", s.Event(), s.Event().ExpectedLot())
			}
		}
	}
	never := must(NewPoisson(math.SmallestNonzeroFloat64, 100000, source))
	if got := drawLot(t, never, 0, 8); len(got) != 0 {
		t.Errorf("rate 2⁻⁶⁴ included %v", got)
	}
	if never.Event().Rate != 0x1p-64 {
		t.Errorf("rate %v, want 2⁻⁶⁴", never.Event().Rate)
	}
}

func TestEvent_ExpectedLotAndEpoch(t *testing.T) {
	source := noise.NewSeeded(16)
	for _, c := range []struct {
		s        Sampler
		event    Event
		expected float64
		epoch    float64
	}{
		{must(NewPoisson(0.125, 10, source)), Event{Policy: PolicyPoisson, Rate: 0.125, Records: 10}, 1.25, 8},
		{must(NewFixed(4, 10, source)), Event{Policy: PolicyFixed, LotSize: 4, Records: 10}, 4, 2.5},
		{must(NewShuffle(4, 10, source)), Event{Policy: PolicyShuffle, LotSize: 4, Records: 10}, 4, 3},
	} {
		if got := c.s.Event(); got != c.event || got.ExpectedLot() != c.expected || got.LotsPerEpoch() != c.epoch {
			t.Errorf("%+v with an expected lot of %v, %v an epoch, want %+v with %v, %v", got, got.ExpectedLot(), got.LotsPerEpoch(), c.event, c.expected, c.epoch)
		}
	}
}

// If a stream cannot be read, Next returns an error and no records. The next lot is
// complete.
func TestSampler_StreamError(t *testing.T) {
	source := noise.NewSeeded(17)
	w := wordReader{source: source}
	w.open(noise.MaxLots, fixedWords)
	if w.below(7); w.err == nil {
		t.Error("a number was drawn from an invalid stream")
	}
	if must(NewShuffle(2, 5, source)).shuffle(noise.MaxLots) {
		t.Error("records were shuffled by an invalid stream")
	}
	p := must(NewPoisson(0.3, 5000, source))
	want := drawLot(t, p, 2, 100)
	for _, stream := range []*wordReader{&p.bytes, &p.ties} {
		if err := p.StartLot(2); err != nil {
			t.Fatal(err)
		}
		stream.open(noise.MaxLots, poissonBytes)
		if n, err := p.Next(make([]int, 5000)); n != 0 || err == nil {
			t.Errorf("%d records were drawn, %v", n, err)
		}
		if got := drawLot(t, p, 2, 100); !slices.Equal(got, want) {
			t.Errorf("the next lot is %v, want %v", got, want)
		}
	}
}

func TestSampler_AllocatesNothing(t *testing.T) {
	for _, s := range newSamplers(300, 10000, noise.NewSeeded(4)) {
		dst := make([]int, 64)
		lot := uint64(0)
		allocs := testing.AllocsPerRun(50, func() {
			if err := s.StartLot(lot); err != nil {
				t.Fatal(err)
			}
			for n := len(dst); n == len(dst); {
				var err error
				if n, err = s.Next(dst); err != nil {
					t.Fatal(err)
				}
			}
			lot++
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations for each lot", s.Event().Policy, allocs)
		}
	}
}

func TestSampler_InvalidArguments(t *testing.T) {
	source := noise.NewSeeded(5)
	checkError := func(what string, err error) {
		t.Helper()
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "sample: ") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	for _, rate := range []float64{0, -1, math.Nextafter(1, 2), math.NaN(), math.Inf(1)} {
		_, err := NewPoisson(rate, 10, source)
		checkError(fmt.Sprint("rate ", rate), err)
	}
	most := maxRecords
	for _, n := range []int{0, -1, most + 1} {
		_, err := NewPoisson(0.5, n, source)
		checkError(fmt.Sprint(n, " records"), err)
	}
	for _, c := range [][2]int{{0, 10}, {-1, 10}, {11, 10}, {1, 0}} {
		_, err := NewFixed(c[0], c[1], source)
		checkError(fmt.Sprint("fixed ", c), err)
		_, err = NewShuffle(c[0], c[1], source)
		checkError(fmt.Sprint("shuffle ", c), err)
	}
	for _, s := range newSamplers(3, 10, source) {
		if n, err := s.Next(make([]int, 5)); n != 0 || err != nil {
			t.Errorf("%s: before StartLot: %d records, %v", s.Event().Policy, n, err)
		}
		if err := s.StartLot(0); err != nil { // no record of this lot is read
			t.Fatal(err)
		}
		checkError(string(s.Event().Policy), s.StartLot(noise.MaxLots))
		if n, _ := s.Next(make([]int, 5)); n != 0 {
			t.Errorf("%s: a lot after an error of StartLot has %d records", s.Event().Policy, n)
		}
	}
}

func BenchmarkLot(b *testing.B) {
	for _, c := range []struct{ lot, records int }{{256, 60_000}, {30_000, 60_000}, {4096, 100_000_000}} {
		for _, s := range newSamplers(c.lot, c.records, noise.NewSeeded(6))[:2] {
			b.Run(fmt.Sprintf("%s/%d of %d", s.Event().Policy, c.lot, c.records), func(b *testing.B) {
				dst := make([]int, 256)
				lot := uint64(0)
				for b.Loop() {
					if err := s.StartLot(lot); err != nil {
						b.Fatal(err)
					}
					for n := len(dst); n == len(dst); {
						n, _ = s.Next(dst)
					}
					lot++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.records), "ns/record")
			})
		}
	}
}
