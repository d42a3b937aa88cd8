package engine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/state"
)

// firstNumbers returns the first number of each example.
func firstNumbers(t *testing.T, s data.Set) []float32 {
	t.Helper()
	out := make([]float32, 0, s.Len())
	for row := range s.Len() {
		x, label := make([]float32, 1), make([]float32, 1)
		if err := s.Read([][]float32{x, label}, []int{row}); err != nil {
			t.Fatal(err)
		}
		out = append(out, x[0])
	}
	return out
}

// countMissing counts the numbers of a that b lacks.
func countMissing(a, b []float32) int {
	n := 0
	for _, x := range a {
		if !slices.Contains(b, x) {
			n++
		}
	}
	return n
}

// Adding a record changes the training set by that record and replaces at most one held-out
// record: the neighbours of the two sensitivities.
func TestHoldOut_Neighbours(t *testing.T) {
	build := func(without int, owners bool) data.Set {
		var x, labels []float32
		var users []int32
		for i := range 12 {
			record := i
			if owners {
				record = i % 6
			}
			if record == without {
				continue
			}
			x, labels = append(x, float32(i)), append(labels, 0)
			users = append(users, int32(record))
		}
		if !owners {
			users = nil
		}
		return newTable(x, labels, users)
	}
	for _, kind := range []struct {
		records Records
		owners  bool
		count   int
		each    int // examples in a record
	}{{Records{}, false, 12, 1}, {Records{Users: true, Examples: 4}, true, 6, 2}} {
		whole, wholeHeld, err := kind.records.HoldOut(build(-1, kind.owners), 3)
		if err != nil {
			t.Fatal(err)
		}
		if n := kind.records.Count(wholeHeld); n != 3 {
			t.Errorf("%d records held out, want 3", n)
		}
		for i := range kind.count {
			part, held, err := kind.records.HoldOut(build(i, kind.owners), 3)
			if err != nil {
				t.Fatal(err)
			}
			a, b := firstNumbers(t, whole), firstNumbers(t, part)
			if countMissing(b, a) != 0 || countMissing(a, b) != kind.each {
				t.Errorf("without record %d, %v is trained on where it was %v", i, b, a)
			}
			a, b = firstNumbers(t, wholeHeld), firstNumbers(t, held)
			if len(a) != len(b) || countMissing(a, b) > kind.each || countMissing(b, a) > kind.each {
				t.Errorf("without record %d, %v is held out where it was %v", i, b, a)
			}
		}
	}
	// Equal records do not stay together: of 600 alike and 400 others in order, held
	// out are some of both, within 6 deviations of the hypergeometric (1e-8).
	x := make([]float32, 1000)
	for i := 600; i < 1000; i++ {
		x[i] = 1
	}
	_, held, err := Records{}.HoldOut(newTable(x, make([]float32, 1000), nil), 200)
	if err != nil {
		t.Fatal(err)
	}
	ones := 0
	for _, v := range firstNumbers(t, held) {
		ones += int(v)
	}
	if !(math.Abs(float64(ones)-80) <= 6*6.2) {
		t.Errorf("%d of 200 held out are of the kind that 400 of 1000 are", ones)
	}
	few := uncheckedUsers{uncheckedSet{build(-1, true).Columns(), [][]float32{x, x}}, []int32{0, 1}} // a user's own set
	if _, _, err := (Records{Users: true, Examples: 4}).HoldOut(few, 1); err == nil || !strings.Contains(err.Error(), "2 users") {
		t.Errorf("a thousand examples of two owners: %v", err)
	}
	for _, n := range []int{-1, 0, 12, 13} {
		if _, _, err := (Records{}).HoldOut(build(-1, false), n); err == nil {
			t.Errorf("%d of 12 records were held out", n)
		}
	}
}

// A share becomes a number of records by public numbers alone: with a declared number of records, of that
// number. What cannot be divided is refused, and names the setting.
func TestConfig_HoldOut(t *testing.T) {
	set := newTable(make([]float32, 40), make([]float32, 40), nil)
	c := Config{Train: set}
	if err := c.HoldOut(0.1); err != nil || c.Train.Len() != 36 || c.Validation.Set.Len() != 4 || c.Sampling.Population != 0 {
		t.Errorf("a tenth of 40 records: %v, %v are held out, population %d", err, c.Validation.Set, c.Sampling.Population)
	}
	c = Config{Train: set, Sampling: Sampling{Population: 60}}
	if err := c.HoldOut(0.1); err != nil || c.Validation.Set.Len() != 6 || c.Sampling.Population != 54 {
		t.Errorf("a tenth of a declared number of 60: %v, population %d", err, c.Sampling.Population)
	}
	for _, share := range []float64{0, 1, -0.1, math.NaN(), 0.01, 0.99} {
		c = Config{Train: set}
		var refused *SettingError
		if err := c.HoldOut(share); !errors.As(err, &refused) || refused.Setting != "Validation.Share" || c.Validation.Set != nil {
			t.Errorf("a share of %v: %v", share, err)
		}
	}
}

// smallExample is an example of a set with few distinct contents.
type smallExample struct {
	value, label float32
	weight       float64
	blank        bool
	user         int32
	state        data.CellState
}

// smallSet is a set of such examples.
type smallSet []smallExample

func (s smallSet) Len() int { return len(s) }
func (s smallSet) Columns() []data.Column {
	return []data.Column{{Name: "x", Shape: []int{1}}, {Name: "label", Kind: data.Label, Classes: 2}}
}

func (s smallSet) Read(dst [][]float32, rows []int) error {
	for i, row := range rows {
		dst[0][i], dst[1][i] = s[row].value, s[row].label
	}
	return nil
}

func (s smallSet) Users() (users []int32) {
	for _, e := range s {
		users = append(users, e.user)
	}
	return users
}

func (s smallSet) Weights() (weights []float64) {
	for _, e := range s {
		weights = append(weights, e.weight)
	}
	return weights
}

func (s smallSet) CellStates() (states []data.CellState) {
	for _, e := range s {
		states = append(states, e.state)
	}
	return states
}

// Blank returns nil where no example is blank, as sets that files are read into do.
func (s smallSet) Blank() (blank []bool) {
	for _, e := range s {
		blank = append(blank, e.blank)
	}
	if !slices.Contains(blank, true) {
		return nil
	}
	return blank
}

// recordsOf returns the rows of each record.
func (s smallSet) recordsOf(r Records) (records [][]int) {
	place := map[int32]int{}
	for row, e := range s {
		owner := int32(row / r.Examples)
		if r.Users {
			owner = e.user
		}
		if _, known := place[owner]; !known {
			place[owner] = len(records)
			records = append(records, nil)
		}
		records[place[owner]] = append(records[place[owner]], row)
	}
	return records
}

// contributions returns, sorted, all that each record adds to a lot: its examples that take part, and
// their mean weight, each limited to 1. That of a blank record is "".
func (s smallSet) contributions(r Records) (all []string) {
	for _, rows := range s.recordsOf(r) {
		text, weight, n := "", 0., 0
		for _, row := range rows {
			if e := s[row]; !e.blank && n < r.Examples {
				if e.weight > 0 { // not for NaN
					weight += min(e.weight, 1)
				}
				text += fmt.Sprint(e.value, e.label, e.state, " ")
				n++
			}
		}
		if n > 0 {
			text += fmt.Sprint(weight / float64(n))
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// read returns the examples of a set that HoldOut returned.
func readSmallSet(t *testing.T, s data.Set) smallSet {
	out := make(smallSet, s.Len())
	blank, weights, users := data.Blank(s), data.Weights(s), data.Users(s)
	x, label := make([]float32, 1), make([]float32, 1)
	for row := range out {
		if err := s.Read([][]float32{x, label}, []int{row}); err != nil {
			t.Fatal(err)
		}
		out[row] = smallExample{x[0], label[0], weights[row], blank != nil && blank[row], users[row], data.CellStates(s)[row]}
	}
	return out
}

// randomSmallSet returns a set in which many records are equal, and in which blank examples have
// the numbers of readable ones.
func randomSmallSet(random *rand.Rand) smallSet {
	s := make(smallSet, 3+random.IntN(10))
	for i := range s {
		s[i] = smallExample{float32(random.IntN(2)), float32(random.IntN(2)), 1, random.IntN(4) == 0, int32(random.IntN(5)), data.CellState(random.IntN(3))}
		if random.IntN(2) == 0 {
			s[i].weight = []float64{0, 0.5, 1, 7, math.NaN()}[random.IntN(5)]
		}
		if s[i].blank && random.IntN(2) == 0 {
			s[i].value, s[i].label = 0, 0
		}
	}
	return s
}

// missing returns the elements of a, with their number, that b lacks.
func missing(a, b []string) (all []string) {
	b = slices.Clone(b)
	for _, x := range a {
		if i := slices.Index(b, x); i >= 0 {
			b = slices.Delete(b, i, i+1)
		} else {
			all = append(all, x)
		}
	}
	return all
}

// Of all neighbours of many small sets, at most one record changes in training and at most one is
// replaced among the held-out, whose scores then change by at most 1. This is the sensitivity that
// the ledger states for lots and for the validation.
func TestHoldOut_AllNeighboursOfSmallSets(t *testing.T) {
	random := rand.New(rand.NewPCG(36, 1))
	sets := 1500
	if testing.Short() {
		sets = 300
	}
	divide := func(s smallSet, r Records, n int) (train, held []string, score float64) {
		a, b, err := r.HoldOut(s, n)
		if err != nil {
			t.Fatal(err)
		}
		heldOut := readSmallSet(t, b)
		scores := make([]float64, len(heldOut))
		for i, e := range heldOut {
			scores[i] = float64(e.value+2*e.label) / 3
		}
		index, err := r.index(b)
		if err != nil {
			t.Fatal(err)
		}
		index.ForEachMean(scores, func(mean float64) { score += mean })
		return readSmallSet(t, a).contributions(r), heldOut.contributions(r), score
	}
	for range sets {
		s := randomSmallSet(random)
		for _, r := range []Records{{Examples: 1}, {Examples: 2}, {Examples: 3}, {Examples: 2, Users: true}} {
			records := s.recordsOf(r)
			if len(records) < 3 {
				continue
			}
			n := 1 + random.IntN(len(records)-2)
			train, held, score := divide(s, r, n)
			for i, rows := range records {
				blanked := slices.Clone(s)
				for _, row := range rows {
					blanked[row].blank = true
					if random.IntN(2) == 0 {
						blanked[row].value, blanked[row].label = 0, 0
					}
				}
				removed := smallSet{}
				replaced := slices.Clone(s)
				other := randomSmallSet(random)
				for row := range s {
					if !slices.Contains(rows, row) {
						removed = append(removed, s[row])
					} else {
						replaced[row].value, replaced[row].weight, replaced[row].blank = 1-s[row].value, other[0].weight, other[0].blank
						if random.IntN(2) == 0 { // only the state changes
							replaced[row] = s[row]
							replaced[row].state = other[0].state
						}
					}
				}
				for relation, neighbour := range map[string]smallSet{"blank": blanked, "removed": removed, "replaced": replaced} {
					trainAfter, heldAfter, scoreAfter := divide(neighbour, r, n)
					gone, come := missing(train, trainAfter), missing(trainAfter, train)
					switch {
					case relation == "blank" && (len(gone) != len(come) || len(gone) > 1 || len(come) == 1 && come[0] != ""),
						relation == "removed" && (len(gone) != 1 || len(come) != 0),
						relation == "replaced" && (len(gone) != len(come) || len(gone) > 1):
						t.Fatalf("%+v of %v, %d held out, record %d %s: trained without %q and with %q", r, s, n, i, relation, gone, come)
					case len(heldAfter) != len(held) || len(missing(held, heldAfter)) > 1:
						t.Fatalf("%+v of %v, record %d %s: %q held out, %q before", r, s, i, relation, heldAfter, held)
					case !(math.Abs(scoreAfter-score) <= 1+1e-12):
						t.Fatalf("%+v of %v, record %d %s: a score of %v, %v before", r, s, i, relation, scoreAfter, score)
					}
				}
			}
		}
	}
}

// A checkpoint of an earlier version, which may have divided records by another rule, is refused in one
// line.
func TestResume_RefusesEarlierVersions(t *testing.T) {
	c := validationConfig(t, 4)
	c.Files.CheckpointFolder = t.TempDir()
	trainedRun(t, c).Close()
	names, err := state.List(c.Files.CheckpointFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		earlier := strings.Replace(string(readFile(t, name)), "dptrain checkpoint 2", "dptrain checkpoint 1", 1)
		if err := os.WriteFile(name, []byte(earlier), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Resume(c); !errors.Is(err, state.ErrDamaged) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "this version") {
		t.Errorf("a checkpoint of an earlier version: %v", err)
	}
}
