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
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/host/lock"
)

// Budget is the content of a budget file.
type Budget struct {
	Identity       string // names the budget in the ledgers of its runs
	Epsilon, Delta float64
	Draws          []Draw // one for each run, in the order of its first draw

	place string // where the file was when it was last changed
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

	// Planned is the least that the run costs once its plan has ended: the cost of its lots up to the
	// last, or up to its limit on ε. A later plan that is smaller does not lower it, because releases may
	// have decided that plan.
	Planned float64 `json:"planned,omitempty"`
	// Process is the identifier of the process of the run that drew last. The ledger contains it, unless
	// the ledger is an earlier copy.
	Process string `json:"process,omitempty"`
}

// ErrExceeded is wrapped by the error of a draw that the budget does not allow.
var ErrExceeded = errors.New("the project budget does not allow it")

// ErrDamaged is wrapped by the error of a file that is not a valid budget.
var ErrDamaged = errors.New("the project budget is damaged")

// line is a line of the file: the header, a draw, the settlement of a draw, or the place of the
// file. A draw of a run that has drawn before raises its ε, and never lowers it; its δ stays.
type line struct {
	Format    string           `json:"budget,omitempty"`
	Version   int              `json:"version,omitempty"`
	Identity  string           `json:"identity,omitempty"`
	File      string           `json:"file,omitempty"`
	Kind      string           `json:"kind,omitempty"`
	Run       string           `json:"run,omitempty"`
	Epsilon   float64          `json:"epsilon"`
	Delta     float64          `json:"delta,omitempty"`
	Unit      string           `json:"unit,omitempty"`
	Adjacency ledger.Adjacency `json:"adjacency,omitempty"`
	What      string           `json:"what,omitempty"`
	Planned   float64          `json:"planned,omitempty"`
	Process   string           `json:"process,omitempty"`
}

const (
	kindDraw   = "draw"
	kindSettle = "settle"
	kindPlace  = "place"
)

// planRounding is the relative difference that the costs of a plan and of the run that did it may
// have, because they are computed in other orders.
const planRounding = 1e-6

// Create creates a budget file. An existing file is an error.
func Create(path string, epsilon, delta float64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	place, err := absolutePath(path)
	if err == nil {
		err = appendLine(f, line{Format: "dptrain", Version: 2, Identity: newIdentity(), File: place, Epsilon: epsilon, Delta: delta})
	}
	if err != nil {
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
			if l.Format != "dptrain" || l.Version != 2 || l.Identity == "" || l.File == "" || !(l.Epsilon > 0 && l.Delta > 0 && l.Delta < 1) {
				return nil, 0, fmt.Errorf("%s, line 1: %w: it is not the header of a budget of version 2", path, ErrDamaged)
			}
			b = &Budget{Identity: l.Identity, Epsilon: l.Epsilon, Delta: l.Delta, place: l.File}
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
	d := b.Find(l.Run)
	switch {
	case l.Kind == kindPlace && l.File != "" && l.Run == "" && l.Identity == "":
		b.place = l.File
	case l.Run == "" || !(l.Epsilon >= 0):
		return "a draw needs a run and an epsilon"
	case l.Kind == kindDraw && d == nil:
		b.Draws = append(b.Draws, Draw{Run: l.Run, Epsilon: l.Epsilon, Delta: l.Delta, Unit: l.Unit,
			Adjacency: l.Adjacency, What: l.What, Planned: l.Planned, Process: l.Process})
	case l.Kind == kindDraw:
		d.Epsilon, d.Settled, d.Planned = max(d.Epsilon, l.Epsilon), false, max(d.Planned, l.Planned)
		if l.Process != "" {
			d.Process = l.Process
		}
	case l.Kind == kindSettle && d != nil:
		d.Epsilon, d.Settled, d.Planned = l.Epsilon, true, max(d.Planned, l.Epsilon)
	default:
		return "it is neither a draw nor the settlement of one"
	}
	return ""
}

// Find returns the draw of a run, or nil.
func (b *Budget) Find(run string) *Draw {
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
	if before := b.Find(d.Run); before != nil && d.Run != "" && before.Delta != d.Delta {
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
			if err == nil {
				err = w.locate()
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

// Draw writes a draw. When it returns without an error, the draw is on disk. A run that has drawn
// before keeps at least what it drew.
func (w *Writer) Draw(d Draw) error {
	before := w.Find(d.Run)
	if before != nil {
		d.Epsilon, d.Planned = max(d.Epsilon, before.Epsilon), max(d.Planned, before.Planned)
	}
	if err := w.Check(d); err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	if before != nil && before.Epsilon == d.Epsilon && before.Planned == d.Planned && before.Process == d.Process && !before.Settled {
		return nil
	}
	return w.write(d.line())
}

func (d Draw) line() line {
	return line{Kind: kindDraw, Run: d.Run, Epsilon: d.Epsilon, Delta: d.Delta, Unit: d.Unit,
		Adjacency: d.Adjacency, What: d.What, Planned: d.Planned, Process: d.Process}
}

// Record writes the cost of a run that has already spent it, also if it exceeds the budget. The cost
// must be the run's guarantee, as for Settle. A draw of the run that covers the cost stays as it is.
func (w *Writer) Record(d Draw) error {
	before := w.Find(d.Run)
	if before != nil {
		d.Epsilon = max(d.Epsilon, before.Epsilon)
	}
	err := w.Check(d)
	if err != nil && !errors.Is(err, ErrExceeded) {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	if before == nil || before.Epsilon < d.Epsilon {
		if failed := w.write(d.line()); failed != nil {
			return failed
		}
		if failed := w.write(line{Kind: kindSettle, Run: d.Run, Epsilon: d.Epsilon}); failed != nil {
			return failed
		}
	}
	if err != nil {
		return fmt.Errorf("%s: the run is recorded, but %w", w.path, err)
	}
	return nil
}

// Settle returns what a run drew and did not spend. The cost must be the run's guarantee: that
// of the whole plan where a release may have ended the run. At least the cost of each plan with which
// the run drew stays spent, and what it spent when it ended before. A run that drew nothing has
// nothing to return.
func (w *Writer) Settle(run string, epsilon float64) error {
	d := w.Find(run)
	if d == nil {
		return nil
	}
	if planned := d.Planned * (1 - planRounding); epsilon < planned {
		epsilon = planned
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
