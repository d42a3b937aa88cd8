package engine

import (
	"math"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/projection"
	"github.com/dptrain/dptrain/engine/sample"
)

// blankedSet is a set of which some examples are blank. Their values stay, so that a test sees
// whether these contribute.
type blankedSet struct {
	*data.Table
	blank []bool
}

func (b blankedSet) Blank() []bool { return b.blank }

// blanked returns a table of numbers 1 to count, the rows of which are blank as given.
func blanked(t *testing.T, count int, users []int32, rows ...int) blankedSet {
	values := make([]float32, count)
	for i := range values {
		values[i] = float32(i + 1)
	}
	table, err := data.NewTable([]data.Column{{Name: "x0", Shape: []int{1}}}, [][]float32{values}, users)
	if err != nil {
		t.Fatal(err)
	}
	s := blankedSet{table, make([]bool, count)}
	for _, row := range rows {
		s.blank[row] = true
	}
	return s
}

// A blank record contributes 0 to the sum of a lot, to its statistics, to the second moments and to
// the validation, for each unit of privacy and in each microbatch. Of a record that is partly
// blank, the other examples count.
func TestBlankRecord_ContributesNothing(t *testing.T) {
	users := []int32{0, 1, 0, 2, 1, 2, 3}
	for _, c := range []struct {
		name    string
		records Records
		users   []int32
		blank   []int
		values  []float64 // of the records that contribute: the mean of their examples
	}{
		{"examples", Records{}, nil, []int{1, 6}, []float64{1, 3, 4, 5, 6}},
		{"all", Records{}, nil, []int{0, 1, 2, 3, 4, 5, 6}, nil},
		{"pairs", Records{Examples: 2}, nil, []int{2, 3, 4, 6}, []float64{1.5, 6}},
		{"users", Records{Users: true, Examples: 2}, users, []int{1, 4, 5}, []float64{2, 4, 7}},
	} {
		for _, microbatch := range []int{1, 2, 5} {
			config := floatConfig(t)
			useUnitSteps(&config)
			config.Network, config.Train, config.Records = linearNetwork(1), blanked(t, 7, c.users, c.blank...), c.records
			config.Sampling, config.Microbatch, config.Steps = Sampling{Rate: 1}, microbatch, 1
			config.Mechanism.Clipping = clip.Flat(clip.Constant(1e9), nil)
			config.Statistics = []Statistic{{Name: "count", Size: 1, Sensitivity: 1, Noise: 1e-9, Of: func(to []float64, _ []load.Example) { to[0] = 1 }}}
			r := newRun(t, config)
			disableNoise(r)
			var count float64
			trainRun(t, r, func(p *Progress) error { count = p.Released[0].Mean[0]; return nil })
			want := 0.0
			for _, v := range c.values {
				want += v
			}
			records := float64(r.index.Records)
			if got := -float64(flatWeights(t, r)[0]) * records; !(math.Abs(got-want) <= 1e-4) {
				t.Errorf("%s in microbatches of %d: a sum of %v, want %v", c.name, microbatch, got, want)
			}
			if got := count * records; !(math.Abs(got-float64(len(c.values))) <= 1e-4) {
				t.Errorf("%s: statistics of %v records, want %d", c.name, got, len(c.values))
			}
			moments, err := (&projection.Moments{Train: config.Train, Index: r.index, Threads: 1}).Sum(t.Context(), true)
			if err != nil || !(math.Abs(moments[0]-float64(len(c.values))) <= 1e-6) {
				t.Errorf("%s: second moments of %v records, want %d; %v", c.name, moments, len(c.values), err)
			}
			scores := slices.Repeat([]float64{1}, 7)
			if sum, err := sumOfRecordMeans(scores, config.Train, c.records); err != nil || sum != float64(len(c.values)) {
				t.Errorf("%s: a validation sum of %v, want %d; %v", c.name, sum, len(c.values), err)
			}
		}
	}
}

// Replacing a record by a blank one removes its contribution and changes neither the event nor the
// lots: the neighbours of the zero-out relation.
func TestBlankRecord_IsZeroOutNeighbour(t *testing.T) {
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle} {
		var sums [2][]float64
		for side := range sums {
			c := floatConfig(t)
			useUnitSteps(&c)
			set := blanked(t, 30, nil)
			set.blank[11] = side == 1
			c.Network, c.Train, c.Steps, c.Sampling.Policy, c.Sampling.Lot = linearNetwork(1), set, 10, policy, 10
			c.Mechanism.Clipping = clip.Flat(clip.Constant(100), nil)
			r := newRun(t, c)
			disableNoise(r)
			before := 0.0
			trainRun(t, r, func(*Progress) error {
				w := float64(flatWeights(t, r)[0])
				sums[side] = append(sums[side], (before-w)*10)
				before = w
				return nil
			})
		}
		with := 0
		for lot := range sums[0] {
			switch d := sums[0][lot] - sums[1][lot]; {
			case math.Abs(d) < 1e-3:
			case math.Abs(d-12) < 1e-3:
				with++
			default:
				t.Errorf("%s, lot %d: the sums differ by %v, want the record's 12 or nothing", policy, lot, d)
			}
		}
		if with == 0 || with == len(sums[0]) {
			t.Errorf("%s: the record was in %d of %d lots: the test has no power", policy, with, len(sums[0]))
		}
	}
}

// Blanking a record replaces at most one held-out record, and changes the training set by one
// record in an empty place.
func TestHoldOut_BlankNeighbours(t *testing.T) {
	contributions := func(s data.Set) (values []float32) {
		x := make([]float32, 1)
		for row := range s.Len() {
			if blank := data.Blank(s); blank == nil || !blank[row] {
				if err := s.Read([][]float32{x}, []int{row}); err != nil {
					t.Fatal(err)
				}
				values = append(values, x[0])
			}
		}
		return values
	}
	train, held, err := Records{}.HoldOut(blanked(t, 20, nil), 5)
	if err != nil {
		t.Fatal(err)
	}
	for row := range 20 {
		trainBlank, heldBlank, err := Records{}.HoldOut(blanked(t, 20, nil, row), 5)
		if err != nil || trainBlank.Len() != 15 || heldBlank.Len() != 5 || len(contributions(heldBlank)) != 5 {
			t.Fatalf("%d and %d records, %v", trainBlank.Len(), heldBlank.Len(), err)
		}
		if n := countMissing(contributions(train), contributions(trainBlank)) + countMissing(contributions(trainBlank), contributions(train)); n != 1 {
			t.Errorf("row %d: the training sets differ in %d records, want 1", row, n)
		}
		if n := countMissing(contributions(held), contributions(heldBlank)); n > 1 {
			t.Errorf("row %d: %d held-out records are replaced, want at most 1", row, n)
		}
	}
}
