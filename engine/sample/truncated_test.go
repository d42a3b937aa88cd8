package sample

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/noise"
)

// Each set of records is a lot with exactly the probability of the definition, by a list of all
// drawn sets.
func TestTruncated_DistributionOfLots(t *testing.T) {
	const records, lots = 6, 60000
	for _, c := range []struct {
		rate float64
		most int
	}{{.5, 1}, {.5, 3}, {.25, 2}, {.75, 5}, {.5, 6}, {.5, 9}} {
		want := map[int]float64{}
		for drawn := range 1 << records {
			size := bits.OnesCount(uint(drawn))
			probability := math.Pow(c.rate, float64(size)) * math.Pow(1-c.rate, float64(records-size))
			var sets []int
			for set := range 1 << records {
				if set&^drawn == 0 && bits.OnesCount(uint(set)) == min(size, c.most) {
					sets = append(sets, set)
				}
			}
			for _, set := range sets {
				want[set] += probability / float64(len(sets))
			}
		}
		s := must(NewTruncated(records, c.rate, c.most, records, noise.NewSeeded(21)))
		counts := map[int]float64{}
		for lot := range uint64(lots) {
			set := 0
			for _, r := range drawLot(t, s, lot, 4) {
				set |= 1 << r
			}
			counts[set]++
		}
		sum := 0.0
		for set, n := range counts {
			if want[set] == 0 {
				t.Fatalf("%+v: lot %b", c, set)
			}
			sum += (n - lots*want[set]) * (n - lots*want[set]) / (lots * want[set])
		}
		if len(counts) != len(want) {
			t.Fatalf("%+v: %d different lots, want %d", c, len(counts), len(want))
		}
		chiSquare(t, fmt.Sprintf("%+v", c), sum, len(want)-1)
	}
}

// A lot that is not truncated is the Poisson lot of the same source and number. A truncated one
// is a part of it. A lot is the same each time it is drawn.
func TestTruncated_IsPartOfPoissonLot(t *testing.T) {
	const records, most = 3000, 310
	source := noise.NewSeeded(22)
	p, s := must(NewPoisson(.1, records, source)), must(NewTruncated(records, .1, most, records, source))
	truncated := 0
	for lot := range uint64(300) {
		all, got := drawLot(t, p, lot, 100), drawLot(t, s, lot, 33)
		again := drawLot(t, s, lot, 500)
		sorted := slices.Sorted(slices.Values(got))
		switch {
		case !slices.Equal(got, again):
			t.Fatalf("lot %d is drawn differently again", lot)
		case len(all) <= most && !slices.Equal(sorted, all):
			t.Fatalf("lot %d: %v, want %v", lot, sorted, all)
		case len(all) > most:
			truncated++
			if len(slices.Compact(sorted)) != most || slices.ContainsFunc(sorted, func(r int) bool { return !slices.Contains(all, r) }) {
				t.Fatalf("lot %d: %v is no part of %d records of %v", lot, sorted, most, all)
			}
		}
	}
	if truncated < 30 || truncated > 270 {
		t.Errorf("%d of 300 lots are truncated: the test is not conclusive", truncated)
	}
}

func TestTruncated_Event(t *testing.T) {
	s := must(NewTruncated(50, .3, 20, 40, noise.NewSeeded(0)))
	if got, want := s.Event(), (Event{PolicyTruncated, must(NewPoisson(.3, 40, noise.NewSeeded(0))).Event().Rate, 20, 50}); got != want {
		t.Errorf("event %+v, want %+v", got, want)
	}
	if got := s.Event().ExpectedLot(); math.Abs(got-15) > 1e-12 {
		t.Errorf("expected lot %v, want 15", got)
	}
}

func TestNewTruncated_RejectsInvalidInput(t *testing.T) {
	for _, c := range []struct {
		declared, most, records int
		rate                    float64
		want                    string
	}{{10, 5, 10, 1, "rate 1"}, {10, 0, 10, .5, "at most 0"}, {10, 5, 11, .5, "more records"}, {10, 5, 10, 0, "sampling rate"}, {0, 5, 0, .5, "records"}} {
		if _, err := NewTruncated(c.declared, c.rate, c.most, c.records, noise.NewSeeded(0)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}
