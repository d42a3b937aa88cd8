package projectbudget

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/lock"
)

// Budget is the content of a budget file.
type Budget struct {
	Epsilon, Delta float64
	Draws          []Draw // one for each run, in the order of its first draw
}

// Draw is what a run may cost.
type Draw struct {
	Run       string           `json:"run"` // the identifier in the run's ledger
	Epsilon   float64          `json:"epsilon"`
	Delta     float64          `json:"delta"`
	Unit      string           `json:"unit"`
	Adjacency ledger.Adjacency `json:"adjacency"`
	What      string           `json:"what"` // the run's directory
	Settled   bool             `json:"settled"`
}

// ErrExceeded is wrapped by the error of a draw that the budget does not allow.
var ErrExceeded = errors.New("the project budget does not allow it")

// ErrDamaged is wrapped by the error of a file that is not a valid budget.
var ErrDamaged = errors.New("the project budget is damaged")

// line is a line of the file: the header, a draw or the settlement of a draw. A draw of a run
// that has drawn before replaces its ε; its δ stays.
type line struct {
	Format    string           `json:"budget,omitempty"`
	Version   int              `json:"version,omitempty"`
	Kind      string           `json:"kind,omitempty"`
	Run       string           `json:"run,omitempty"`
	Epsilon   float64          `json:"epsilon"`
	Delta     float64          `json:"delta,omitempty"`
	Unit      string           `json:"unit,omitempty"`
	Adjacency ledger.Adjacency `json:"adjacency,omitempty"`
	What      string           `json:"what,omitempty"`
}

const (
	kindDraw   = "draw"
	kindSettle = "settle"
)

// Create creates a budget file. An existing file is an error.
func Create(path string, epsilon, delta float64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err = appendLine(f, line{Format: "dptrain", Version: 1, Epsilon: epsilon, Delta: delta}); err != nil {
		f.Close()
		os.Remove(path)
		return err
	}
	return errors.Join(f.Close(), atomicfile.SyncFolder(filepath.Dir(path)))
}

// appendLine writes and syncs a line.
func appendLine(f *os.File, l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// Read reads a budget file.
func Read(path string) (*Budget, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b, _, err := parse(path, text)
	return b, err
}

// parse returns the budget and the length of its complete lines. A last line without a newline
// is a draw or a settlement that a crash interrupted: nothing was released under it.
func parse(path string, text []byte) (b *Budget, complete int, err error) {
	number := 0
	for {
		end := bytes.IndexByte(text[complete:], '\n')
		if end < 0 {
			break
		}
		number++
		var l line
		d := json.NewDecoder(bytes.NewReader(text[complete : complete+end]))
		d.DisallowUnknownFields()
		if d.Decode(&l) != nil || d.More() {
			return nil, 0, fmt.Errorf("%s, line %d: %w: it is not a line of a budget", path, number, ErrDamaged)
		}
		complete += end + 1
		if number == 1 {
			if l.Format != "dptrain" || l.Version != 1 || !(l.Epsilon > 0 && l.Delta > 0 && l.Delta < 1) {
				return nil, 0, fmt.Errorf("%s, line 1: %w: it is not the header of a budget of version 1", path, ErrDamaged)
			}
			b = &Budget{Epsilon: l.Epsilon, Delta: l.Delta}
			continue
		}
		if why := b.apply(l); why != "" {
			return nil, 0, fmt.Errorf("%s, line %d: %w: %s", path, number, ErrDamaged, why)
		}
	}
	if b == nil {
		return nil, 0, fmt.Errorf("%s: %w: it has no header", path, ErrDamaged)
	}
	return b, complete, nil
}

// apply applies a line after the header, and returns why it is invalid, or "".
func (b *Budget) apply(l line) string {
	d := b.find(l.Run)
	switch {
	case l.Run == "" || !(l.Epsilon >= 0):
		return "a draw needs a run and an epsilon"
	case l.Kind == kindDraw && d == nil:
		b.Draws = append(b.Draws, Draw{Run: l.Run, Epsilon: l.Epsilon, Delta: l.Delta, Unit: l.Unit, Adjacency: l.Adjacency, What: l.What})
	case l.Kind == kindDraw:
		d.Epsilon, d.Settled = l.Epsilon, false
	case l.Kind == kindSettle && d != nil:
		d.Epsilon, d.Settled = l.Epsilon, true
	default:
		return "it is neither a draw nor the settlement of one"
	}
	return ""
}

func (b *Budget) find(run string) *Draw {
	for i := range b.Draws {
		if b.Draws[i].Run == run {
			return &b.Draws[i]
		}
	}
	return nil
}

// Left returns what is not drawn, rounded down.
func (b *Budget) Left() (epsilon, delta float64) { return b.leftWithout("") }

// leftWithout is Left as if a run had not drawn.
func (b *Budget) leftWithout(run string) (epsilon, delta float64) {
	epsilon, delta = b.Epsilon, b.Delta
	for _, d := range b.Draws {
		if d.Run != run {
			epsilon, delta = subtractDown(epsilon, d.Epsilon), subtractDown(delta, d.Delta)
		}
	}
	return max(0, epsilon), max(0, delta)
}

// subtractDown is the largest float64 that is not above a - b.
func subtractDown(a, b float64) float64 {
	difference := a - b
	part := difference - a
	if missing := (a - (difference - part)) - (b + part); missing < 0 { // exact (Knuth 1969, section 4.2.2)
		return math.Nextafter(difference, math.Inf(-1))
	}
	return difference
}

// DeltaOf returns the δ that belongs to a part epsilon of the budget: an equal part of its δ,
// rounded down.
func (b *Budget) DeltaOf(epsilon float64) float64 {
	return math.Nextafter(b.Delta*(epsilon/b.Epsilon)*(1-1e-12), 0)
}

// Check returns an error if a draw is not allowed. If the run has drawn before, its δ stays, and
// its ε is that of the new draw.
func (b *Budget) Check(d Draw) error {
	if len(b.Draws) > 0 {
		if first := b.Draws[0]; d.Unit != first.Unit || d.Adjacency != first.Adjacency {
			return fmt.Errorf("the runs of this budget protect the unit %s under %s adjacency, and this run %s under %s: use another budget", first.Unit, first.Adjacency, d.Unit, d.Adjacency)
		}
	}
	epsilon, delta := b.leftWithout(d.Run)
	if before := b.find(d.Run); before != nil && d.Run != "" && before.Delta != d.Delta {
		return fmt.Errorf("this run drew δ = %v before and would now draw %v: keep its δ", before.Delta, d.Delta)
	}
	switch {
	case d.Epsilon > epsilon:
		return fmt.Errorf("%w: the run costs ε = %.6g, and %.6g is left", ErrExceeded, d.Epsilon, epsilon)
	case d.Delta > delta:
		return fmt.Errorf("%w: the run costs δ = %.6g, and %.6g is left", ErrExceeded, d.Delta, delta)
	}
	return nil
}

// Writer changes a budget file. No other process can change it until Close.
type Writer struct {
	Budget
	path string
	file *os.File
}

// lockPatience is the time to wait for another process, which has the lock while it starts a
// run.
const lockPatience = 2 * time.Minute

// Open opens a budget file to change it. It waits while another process does so.
func Open(path string) (*Writer, error) { return open(path, lockPatience) }

func open(path string, patience time.Duration) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if err = lock.TryLock(f); !errors.Is(err, lock.ErrLocked) || time.Now().After(deadline) {
			break
		}
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(f)
	}
	w := &Writer{path: path, file: f}
	if err == nil {
		var b *Budget
		var complete int
		if b, complete, err = parse(path, text); err == nil {
			w.Budget = *b
			if complete < len(text) { // what a crash left
				err = f.Truncate(int64(complete))
			}
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

// OpenFor opens a budget file, if it allows a draw.
func OpenFor(path string, d Draw) (*Writer, error) {
	w, err := Open(path)
	if err != nil {
		return nil, fmt.Errorf("--budget: %w", err)
	}
	if err := w.Check(d); err != nil {
		w.Close()
		return nil, fmt.Errorf("--budget %s: %w", path, err)
	}
	return w, nil
}

// Draw writes a draw. When it returns without an error, the draw is on disk.
func (w *Writer) Draw(d Draw) error {
	if err := w.Check(d); err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	if before := w.find(d.Run); before != nil && before.Epsilon == d.Epsilon && !before.Settled {
		return nil
	}
	return w.write(line{Kind: kindDraw, Run: d.Run, Epsilon: d.Epsilon, Delta: d.Delta, Unit: d.Unit, Adjacency: d.Adjacency, What: d.What})
}

// Record writes the cost of a run that has already spent it, also if it exceeds the budget.
func (w *Writer) Record(d Draw) error {
	err := w.Check(d)
	if err != nil && !errors.Is(err, ErrExceeded) {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	if failed := w.write(line{Kind: kindDraw, Run: d.Run, Epsilon: d.Epsilon, Delta: d.Delta, Unit: d.Unit, Adjacency: d.Adjacency, What: d.What}); failed != nil {
		return failed
	}
	if failed := w.write(line{Kind: kindSettle, Run: d.Run, Epsilon: d.Epsilon}); failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("%s: the run is recorded, but %w", w.path, err)
	}
	return nil
}

// Settle returns what a run drew and did not spend. The cost must be the run's guarantee: that
// of the whole plan where a release may have ended the run. A run that drew nothing has nothing
// to return.
func (w *Writer) Settle(run string, epsilon float64) error {
	d := w.find(run)
	if d == nil {
		return nil
	}
	return w.write(line{Kind: kindSettle, Run: run, Epsilon: min(epsilon, d.Epsilon)})
}

func (w *Writer) write(l line) error {
	if err := appendLine(w.file, l); err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	w.apply(l)
	return nil
}

// Close lets other processes change the file.
func (w *Writer) Close() error { return w.file.Close() }
