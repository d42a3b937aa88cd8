package projectbudget

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/host/lock"
)

func drawOf(run string, epsilon, delta float64) Draw {
	return Draw{Run: run, Epsilon: epsilon, Delta: delta, Unit: "example", Adjacency: ledger.ZeroOut, What: "runs/" + run}
}

func newBudget(t *testing.T, epsilon, delta float64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "people.budget")
	if err := Create(path, epsilon, delta); err != nil {
		t.Fatal(err)
	}
	return path
}

func change(t *testing.T, path string, f func(*Writer) error) error {
	t.Helper()
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return f(w)
}

func checkLeft(t *testing.T, path string, epsilon, delta float64) {
	t.Helper()
	b, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	e, d := b.Left()
	if e > epsilon || e < epsilon-1e-12 || d > delta || d < delta-1e-18 {
		t.Errorf("ε = %v and δ = %v are left, want %v and %v", e, d, epsilon, delta)
	}
}

func TestBudget_DrawsAndSettlements(t *testing.T) {
	path := newBudget(t, 4, 1e-5)
	if err := Create(path, 9, 1e-5); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating it again: %v", err)
	}
	draw := func(d Draw) error { return change(t, path, func(w *Writer) error { return w.Draw(d) }) }
	settle := func(run string, epsilon float64) error {
		return change(t, path, func(w *Writer) error { return w.Settle(run, epsilon) })
	}
	for _, step := range []struct {
		do         func() error
		exceeded   bool
		epsilon    float64 // left
		deltaParts float64 // of 1e-6, left
	}{
		{func() error { return draw(drawOf("a", 1, 1e-6)) }, false, 3, 9},
		{func() error { return draw(drawOf("b", 3.5, 1e-6)) }, true, 3, 9},
		{func() error { return draw(drawOf("b", 1, 1e-5)) }, true, 3, 9},
		{func() error { return draw(drawOf("b", 2, 1e-6)) }, false, 1, 8},
		{func() error { return draw(drawOf("b", 2, 1e-6)) }, false, 1, 8}, // resumed
		{func() error { return draw(drawOf("b", 3.5, 1e-6)) }, true, 1, 8},
		{func() error { return draw(drawOf("b", 2.5, 1e-6)) }, false, .5, 8}, // extended
		{func() error { return settle("b", 2.25) }, false, .75, 8},
		{func() error { return settle("a", 5) }, false, .75, 8}, // never more than drawn
		{func() error { return draw(drawOf("b", 2.5, 1e-6)) }, false, .5, 8},
		{func() error { return draw(drawOf("c", .5, 1e-6)) }, false, 0, 7},
		{func() error { return draw(drawOf("d", 1e-9, 1e-9)) }, true, 0, 7},
	} {
		if err := step.do(); errors.Is(err, ErrExceeded) != step.exceeded || (err != nil) != step.exceeded {
			t.Fatalf("error %v, want exceeded: %v", err, step.exceeded)
		}
		checkLeft(t, path, step.epsilon, step.deltaParts*1e-6)
	}
	if err := settle("x", 1); err != nil {
		t.Error(err)
	}
	checkLeft(t, path, 0, 7e-6)
	other := drawOf("e", 0, 0)
	other.Unit = "user"
	if err := draw(other); err == nil || errors.Is(err, ErrExceeded) || !strings.Contains(err.Error(), "user") {
		t.Errorf("another unit: %v", err)
	}
	if err := draw(drawOf("a", 1, 2e-6)); err == nil || !strings.Contains(err.Error(), "keep its δ") {
		t.Errorf("another δ: %v", err)
	}
	if err := change(t, path, func(w *Writer) error { return w.Record(drawOf("f", 2, 1e-6)) }); !errors.Is(err, ErrExceeded) {
		t.Errorf("recording more than is left: %v", err)
	}
	if b, _ := Read(path); b.Find("f") == nil || b.Find("f").Epsilon != 2 {
		t.Error("a cost that exceeds the budget is not recorded")
	}
}

// Draws of the parts that DeltaOf gives never exceed the budget's δ, and the sum of many draws is
// never above the budget.
func TestBudget_ManyDraws(t *testing.T) {
	b := Budget{Epsilon: 1, Delta: 1e-5}
	for i := range 30 {
		d := drawOf(fmt.Sprint(i), .1, b.DeltaOf(.1))
		if err := b.Check(d); err != nil {
			if i < 9 {
				t.Errorf("draw %d: %v", i, err)
			}
			break
		}
		b.Draws = append(b.Draws, d)
	}
	if n := len(b.Draws); n > 10 {
		t.Errorf("%d draws of a tenth", n)
	}
}

// A file that ends at any byte, as after a crash, counts every draw whose line is complete, and
// takes further draws. Damage elsewhere is an error with its line.
func TestRead_TruncatedAnywhere(t *testing.T) {
	path := newBudget(t, 4, 1e-5)
	for _, run := range []string{"a", "b"} {
		if err := change(t, path, func(w *Writer) error { return w.Draw(drawOf(run, 1, 1e-6)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := change(t, path, func(w *Writer) error { return w.Settle("a", .5) }); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil { // the files below are not copies then
		t.Fatal(err)
	}
	header := strings.Index(string(text), "\n") + 1
	for end := header; end <= len(text); end++ {
		cut := filepath.Join(t.TempDir(), "cut")
		if err := os.WriteFile(cut, text[:end], 0o644); err != nil {
			t.Fatal(err)
		}
		want := 4.0 - float64(min(2, strings.Count(string(text[header:end]), "\n")))
		if end == len(text) {
			want += .5
		}
		checkLeft(t, cut, want, 1e-5-1e-6*float64(min(2, strings.Count(string(text[header:end]), "\n"))))
		if err := change(t, cut, func(w *Writer) error { return w.Draw(drawOf("c", .25, 1e-7)) }); err != nil {
			t.Fatal(err)
		}
		checkLeft(t, cut, want-.25, 1e-5-1e-6*float64(min(2, strings.Count(string(text[header:end]), "\n")))-1e-7)
	}
	identity := strings.SplitN(string(text), `"identity":"`, 2)[1][:32]
	for line, wrong := range map[string]string{
		" line 1": strings.Replace(string(text), `"identity":"`+identity+`",`, "", 1),
		" line 5": string(text) + `{"kind":"place","identity":"` + identity + `","file":"/b","epsilon":0}` + "\n",
		"line 5":  string(text) + `{"kind":"place","epsilon":0}` + "\n",
		"line 1":  strings.Replace(string(text), `"version":2`, `"version":3`, 1),
		"line 2":  strings.Replace(string(text), `"kind":"draw"`, `"kind":"gift"`, 1),
		"line 3":  strings.Replace(string(text), `"run":"b","epsilon":1`, `"run":"b","epsilon":-1`, 1),
		"line 4":  strings.Replace(string(text), `"kind":"settle","run":"a"`, `"kind":"settle","run":"z"`, 1),
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, []byte(wrong), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(bad); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), line) {
			t.Errorf("damaged %s: %v", line, err)
		}
	}
}

// Only one process at a time changes the file. Draws at the same time never exceed the budget.
func TestOpen_OneWriter(t *testing.T) {
	path := newBudget(t, 1, 1e-5)
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(path, 0); !errors.Is(err, lock.ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { w.Close() })
	var all sync.WaitGroup
	var mu sync.Mutex
	drawn := 0
	for i := range 20 {
		all.Go(func() {
			w, err := Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Close()
			if w.Draw(drawOf(fmt.Sprint(i), .125, 1e-7)) == nil {
				mu.Lock()
				drawn++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if drawn != 7 && drawn != 8 {
		t.Errorf("%d draws of an eighth", drawn)
	}
}

// No draw, no record and no settlement lowers what a run costs: neither below an earlier draw, nor
// below the plan with which it drew, nor below what it cost when it ended before.
func TestBudget_NeverUnderstatesARun(t *testing.T) {
	path := newBudget(t, 10, 1e-5)
	planned := func(d Draw, epsilon float64) Draw {
		d.Planned = epsilon
		return d
	}
	for i, step := range []struct {
		do   func(w *Writer) error
		left float64
	}{
		{func(w *Writer) error { return w.Draw(planned(drawOf("a", 4, 1e-6), 3)) }, 6},
		{func(w *Writer) error { return w.Draw(planned(drawOf("a", 1, 1e-6), 1)) }, 6},
		{func(w *Writer) error { return w.Record(drawOf("a", 2, 1e-6)) }, 6},
		{func(w *Writer) error { return w.Settle("a", 1) }, 7 + 3*planRounding},
		{func(w *Writer) error { return w.Record(drawOf("a", 1, 1e-6)) }, 7 + 3*planRounding},
		{func(w *Writer) error { return w.Settle("a", .5) }, 7 + 3*planRounding},
		{func(w *Writer) error { return w.Draw(planned(drawOf("a", 5, 1e-6), 5)) }, 5},
		{func(w *Writer) error { return w.Settle("a", 3.5) }, 5 + 5*planRounding},
		{func(w *Writer) error { return w.Record(drawOf("a", 6, 1e-6)) }, 4},
		{func(w *Writer) error { return w.Draw(drawOf("a", 6.5, 1e-6)) }, 3.5},
		{func(w *Writer) error { return w.Settle("a", 1) }, 4 + 6*planRounding},
	} {
		if err := change(t, path, step.do); err != nil {
			t.Fatal(err)
		}
		b, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := b.Left(); !(left <= step.left+1e-12 && left >= step.left-1e-12) {
			t.Errorf("step %d: %v is left, want %v", i, left, step.left)
		}
	}
}

// A copy is refused while the budget is in its place, also under the name of a link, and after the
// budget moved.
func TestOpen_RefusesCopy(t *testing.T) {
	path := newBudget(t, 4, 1e-5)
	copyTo := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	draw := func(path string) error {
		w, err := Open(path)
		if err != nil {
			return err
		}
		defer w.Close()
		return w.Draw(drawOf("a", 1, 1e-6))
	}
	refused := func(path, where string) {
		t.Helper()
		if err := draw(path); err == nil || !strings.Contains(err.Error(), "this is a copy of the project budget "+where) || strings.Contains(err.Error(), "\n") {
			t.Errorf("a copy: %v", err)
		}
	}
	accepted := func(path string) {
		t.Helper()
		if err := draw(path); err != nil {
			t.Error(err)
		}
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "people.budget")
	in := func(name string) string { return filepath.Join(dir, name) }
	copyTo(path, in("copy"))
	refused(in("copy"), path)
	if err := os.Symlink(path, in("link")); err == nil { // not on every Windows host
		accepted(in("link"))
	}
	if err := os.Rename(path, in("moved")); err != nil {
		t.Fatal(err)
	}
	accepted(in("moved"))
	copyTo(in("moved"), in("copy"))
	refused(in("copy"), in("moved"))
	if err := os.WriteFile(in("moved"), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(in("copy"), in("moved")+", which is damaged")
	if err := os.Remove(in("moved")); err != nil {
		t.Fatal(err)
	}
	accepted(in("copy"))
	if err := Create(path, 4, 1e-5); err != nil { // another budget in the first place
		t.Fatal(err)
	}
	accepted(in("copy"))
}
