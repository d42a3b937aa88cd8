package timing

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

var identity = Identity{"a card", "12.9", "0123"}

var names = []string{"large", "small", "library"}

// clock measures by a table of times and counts its use.
type clock struct {
	seconds []float64
	used    int
}

func (c *clock) measure() ([]float64, error) {
	c.used++
	return c.seconds, nil
}

func TestTable_ChoosesFastest(t *testing.T) {
	table := Load("", identity)
	for _, c := range []struct {
		key     string
		seconds []float64
		want    int
	}{{"first", []float64{1, 2, 3}, 0}, {"middle", []float64{3, 1, 2}, 1}, {"last", []float64{3, 2, 1}, 2}, {"equal", []float64{2, 1, 1}, 1},
		{"impossible", []float64{math.Inf(1), 2, 3}, 1}} {
		if table.Find(c.key, names) != -1 {
			t.Errorf("%s: chosen before it is measured", c.key)
		}
		now := clock{seconds: c.seconds}
		for range 2 {
			if got, err := table.Choose(c.key, names, now.measure); err != nil || got != c.want {
				t.Errorf("%s: chose %d (%v), want %d", c.key, got, err, c.want)
			}
		}
		if now.used != 1 {
			t.Errorf("%s: %d measurements, want one", c.key, now.used)
		}
	}
}

func TestTable_FailedMeasurementChoosesNothing(t *testing.T) {
	table := Load("", identity)
	broken := errors.New("the device is lost")
	if _, err := table.Choose("key", names, func() ([]float64, error) { return nil, broken }); err != broken {
		t.Errorf("the error is %v", err)
	}
	if table.Find("key", names) != -1 {
		t.Error("a failed measurement is a choice")
	}
}

// A table is read again by a process of the same card, driver and kernels, and by no other.
func TestTable_SavedForIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "choices.json")
	table := Load(path, identity)
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("an empty table is written")
	}
	slow := clock{seconds: []float64{2, 1, 3}}
	if _, err := table.Choose("key", names, slow.measure); err != nil {
		t.Fatal(err)
	}
	other := Load(path, identity) // another process, at the same time
	if _, err := other.Choose("other", names, slow.measure); err != nil {
		t.Fatal(err)
	}
	for _, each := range []*Table{table, other} {
		if err := each.Save(); err != nil {
			t.Fatal(err)
		}
	}
	again := Load(path, identity)
	if again.Find("key", names) != 1 || again.Find("other", names) != 1 {
		t.Errorf("read %v", again.choices)
	}
	for _, key := range []string{"key", "other"} { // the seconds are stored beside the choices
		if want := map[string]float64{"large": 2, "small": 1, "library": 3}; !maps.Equal(again.seconds[key], want) {
			t.Errorf("%s took %v, want %v", key, again.seconds[key], want)
		}
	}
	if again.Find("key", names[:1]) != -1 {
		t.Error("a way that does not exist is chosen")
	}
	now := clock{seconds: []float64{1, 2}}
	if got, err := again.Choose("key", []string{"new", "newer"}, now.measure); err != nil || got != 0 || again.Find("key", []string{"new"}) != 0 {
		t.Errorf("in place of a way that does not exist: %d, %v", got, err)
	}
	for _, changed := range []Identity{{"b card", "12.9", "0123"}, {"a card", "13.0", "0123"}, {"a card", "12.9", "4567"}} {
		if Load(path, changed).Find("other", names) != -1 {
			t.Errorf("%v uses the table of %v", changed, identity)
		}
		if FileName(changed) == FileName(identity) {
			t.Errorf("%v and %v share a file", changed, identity)
		}
	}
}

// A damaged file counts as absent, and is replaced.
func TestTable_IgnoresDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "choices.json")
	table := Load(path, identity)
	now := clock{seconds: []float64{2, 1, 3}}
	if _, err := table.Choose("key", names, now.measure); err != nil {
		t.Fatal(err)
	}
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", "null", "[]", `{"choices":{"key":7}}`, string(whole[:len(whole)/2])} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		table := Load(path, identity)
		if table.Find("key", names) != -1 {
			t.Errorf("%q contains a choice", text)
		}
		if _, err := table.Choose("key", names, now.measure); err != nil {
			t.Fatal(err)
		}
		if err := table.Save(); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(whole) {
			t.Errorf("%q is replaced by %q", text, after)
		}
	}
}

// Goroutines that measure the same computation at the same time agree on its choice.
func TestTable_GoroutinesAgree(t *testing.T) {
	table := Load("", identity)
	var got [8]int
	var all sync.WaitGroup
	for g := range got {
		all.Go(func() {
			now := clock{seconds: make([]float64, len(got))}
			for i := range now.seconds {
				now.seconds[i] = float64((i + g) % len(got))
			}
			got[g], _ = table.Choose("key", []string{"a", "b", "c", "d", "e", "f", "g", "h"}, now.measure)
		})
	}
	all.Wait()
	for _, g := range got {
		if g != got[0] {
			t.Fatalf("the choices are %v", got)
		}
	}
}
