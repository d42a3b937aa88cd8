package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/host/lock"
)

// ErrLocked reports that another program, or another part of this one, is writing to the
// ledger.
var ErrLocked = errors.New("another writer has locked the ledger")

// ErrNotEmpty reports that a ledger has lots and must be kept.
var ErrNotEmpty = errors.New("the ledger has lots")

var (
	errClosed   = errors.New("the ledger is closed")
	errReplaced = errors.New("the file was removed or replaced")
)

const (
	// minStepsPerSync bounds the share of time spent on syncs: a reservation grows until the
	// lots that it covers take minStepsPerSync times as long as a sync.
	minStepsPerSync = 100
	// maxReservation bounds the lots that a crash can overstate.
	maxReservation = 1 << 16
)

// Writer appends the lots of a run to a ledger. It promises that at any moment, even after
// the process is killed or the power fails, the file states at least every lot for which
// Spend has returned nil, as long as the disk keeps what it reports as synced. FORMAT.md
// describes the file.
//
// A sync may take longer than a lot. A synced line may therefore reserve equal lots before
// they run. After a crash all reserved lots count as spent. Close, or a lot that differs,
// returns the unused ones. A Writer may be used by several goroutines.
//
// A Writer of [NewWriter] has a weaker promise.
type Writer struct {
	mu    sync.Mutex
	file  *os.File // nil: the lines go to an io.Writer
	path  string   // absolute, so that it stays valid if the working directory changes
	write func([]byte) (int, error)
	sync  func() error
	fault error // why nothing more can be written, or nil

	chain    chain
	lot      Lot // of the last reservation
	reserved int // lots stated and not yet spent
	stated   int // lots of the last reservation
	ahead    int // limit on the lots of a reservation

	weights  string // SHA-256 of the released weights for the end line, or ""
	complete bool   // for the end line

	syncTime time.Duration // smoothed duration of a sync
	synced   time.Time     // end of the last sync
	line     []byte
}

// Create begins a ledger in a new file. It returns an error if the file exists. It
// writes the current version, which a Version of 0 means too, and draws a run identifier in
// place of h.Run.
func Create(path string, h Header) (*Writer, error) {
	h, err := beginHeader(h)
	if err != nil {
		return nil, fmt.Errorf("ledger %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("ledger: %w: resume that run or use another folder", err)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := newWriter(file, chain{})
	if err = lockFile(file); err == nil {
		err = l.append(entry{kind: headerLine, header: h})
	}
	if err == nil {
		err = atomicfile.SyncFolder(filepath.Dir(path))
	}
	if err == nil {
		return l, nil
	}
	if errors.Is(err, ErrLocked) || errors.Is(err, errReplaced) {
		file.Close() // the file now belongs to another writer
	} else {
		remove(file) // nothing was released under it
	}
	return nil, fmt.Errorf("ledger %s: %w", path, err)
}

// beginHeader returns the header of a new ledger, with a fresh run identifier.
func beginHeader(h Header) (Header, error) {
	if h.Version == 0 {
		h.Version = formatVersion
	}
	if h.Version != formatVersion {
		return h, fmt.Errorf("format version %d cannot be written; leave Header.Version at 0", h.Version)
	}
	h.Run = newRunID()
	if why := checkHeader(h); why != "" {
		return h, errors.New(why)
	}
	return h, nil
}

// lockFile locks the file for one writer and checks that it is still at its path: the
// writer that had the lock before may have removed the file, and then no reader would find
// what is written to it.
func lockFile(f *os.File) error {
	err := lock.TryLock(f)
	if errors.Is(err, lock.ErrLocked) {
		return fmt.Errorf("%w: wait until it ends or use another folder", ErrLocked)
	}
	if err != nil {
		return err
	}
	if err = checkInPlace(f, f.Name()); err == errReplaced {
		return fmt.Errorf("%w: it removed the file; try again", ErrLocked)
	}
	return err
}

// remove removes a locked file before another writer can lock it. Windows cannot remove an
// open file, even one opened by another process.
func remove(f *os.File) error {
	if runtime.GOOS == "windows" {
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
	return errors.Join(os.Remove(f.Name()), f.Close())
}

// Discard removes the ledger of a run that stopped before it spent a lot, even one with a
// truncated header. It returns an error if the ledger has lots (ErrNotEmpty), is damaged
// (*DamageError) or is in use by a Writer (ErrLocked).
func Discard(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if err = lockFile(file); err == nil {
		err = checkEmpty(file)
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("ledger %s: %w", path, err)
	}
	return remove(file)
}

func checkEmpty(file *os.File) error {
	s, err := scan(file)
	if err != nil && !s.headless {
		return err
	}
	if s.history().LotCount() > 0 {
		return ErrNotEmpty
	}
	return nil
}

func newWriter(file *os.File, c chain) *Writer {
	path, err := filepath.Abs(file.Name())
	if err != nil {
		path = file.Name()
	}
	return &Writer{file: file, path: path, write: file.Write, sync: file.Sync, chain: c, ahead: MaxLots}
}

// checkInPlace returns errReplaced if path is no longer the open file f: readers would not
// find what is written to f.
func checkInPlace(f *os.File, path string) error {
	open, err := f.Stat()
	if err != nil {
		return err
	}
	found, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(open, found) {
		return errReplaced
	}
	return err
}

// Open continues a ledger, for the next run on the same data set or the rest of a run that
// stopped. It checks every line and replaces a truncated last line by the most that it may
// have stated. It returns an error if the ledger is
// damaged (*DamageError) or in use by a Writer (ErrLocked). The header does not change; a
// run that is not secure must call MarkInsecure.
func Open(path string) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l, err := resume(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("ledger %s: %w", path, err)
	}
	return l, nil
}

func resume(file *os.File) (*Writer, error) {
	// The lock comes first: a ledger that another writer appends to must not be repaired.
	if err := lockFile(file); err != nil {
		return nil, err
	}
	s, err := scan(file)
	if err != nil {
		return nil, err
	}
	l := newWriter(file, s.chain)
	var entries []entry
	switch t := s.tail; {
	case t.whole:
		if _, err := file.Write([]byte("\n")); err != nil {
			return nil, err
		}
		l.chain.apply(t.entry, t.hash)
	case t.size > 0:
		if err := truncate(file, t.offset); err != nil {
			return nil, fmt.Errorf("its last line is truncated and cannot be repaired: %w", err)
		}
		if t.counts {
			entries = append(entries, t.entry)
		}
	}
	return l, l.append(append(entries, l.chain.nextRun())...)
}

func truncate(file *os.File, offset int64) error {
	if err := file.Truncate(offset); err != nil {
		return err
	}
	_, err := file.Seek(offset, io.SeekStart)
	return err
}

// Spend states one lot. If it returns nil, the lot is on disk and may be released. If it
// returns an error, the lot must not be released; unless the lot itself was invalid, no
// later Spend succeeds either. While a reservation lasts, Spend costs one comparison and
// does not allocate.
func (l *Writer) Spend(lot Lot) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reserved == 0 || !sameLot(lot, l.lot) {
		if err := l.reserve(lot); err != nil {
			return err
		}
	}
	l.reserved--
	l.ahead = max(0, l.ahead-1)
	return nil
}

// LimitReservations limits reservations to the next lots lots, such as those left in the
// run or in a budget. Later lots are stated one at a time.
func (l *Writer) LimitReservations(lots int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead = max(0, lots)
}

// MarkInsecure states that from here on noise or sampling comes from a generator that is
// seeded or not cryptographic. The whole ledger then counts as insecure, permanently.
func (l *Writer) MarkInsecure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil && !l.chain.history.Header.Secure {
		return nil
	}
	return l.append(append(l.returnUnused(), entry{kind: insecureLine})...)
}

// History returns what the ledger would state if the process died now, including reserved
// lots.
func (l *Writer) History() History {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.chain.history
	h.Lots = slices.Clone(h.Lots)
	for i := range h.Lots {
		h.Lots[i].Lot = cloneLot(h.Lots[i].Lot)
	}
	return h
}

// Head returns the hash of the last line on disk, in hexadecimal.
func (l *Writer) Head() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return hex.EncodeToString(l.chain.head[:])
}

// SetWeights gives the SHA-256 of the file of weights that the run releases. Close states it
// in the end line, so that a model can be matched with the ledger of its cost.
func (l *Writer) SetWeights(sum [sha256.Size]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.weights = hex.EncodeToString(sum[:])
}

// SetComplete states that no release decides when the run ends: its plan, or its limit on ε, has
// ended it. Close states it in the end line. The cost of the ledger is then that of its lots. A run
// that ends earlier costs as much as its plan.
func (l *Writer) SetComplete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.complete = true
}

// NameBudget states that the cost of this ledger is counted in the project budget with this
// identity: 16 random bytes in lower-case hexadecimal. A ledger names one project budget.
func (l *Writer) NameBudget(identity string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch named := l.chain.history.Budget; {
	case !isHex(identity, runIDSize):
		return fmt.Errorf("ledger %s: the identity of a project budget has %d lower-case hexadecimal digits, and %q does not", l.path, 2*runIDSize, identity)
	case l.fault == nil && named == identity:
		return nil
	case named != "" && named != identity:
		return fmt.Errorf("ledger %s: its cost is counted in the project budget %s, and not in %s", l.path, named, identity)
	}
	return l.append(append(l.returnUnused(), entry{kind: budgetLine, budget: identity})...)
}

// Close returns the reserved lots that did not run, ends the run and unlocks the file. If
// this cannot be written, the reserved lots stay spent.
func (l *Writer) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == errClosed {
		return nil
	}
	err := l.append(append(l.returnUnused(), entry{kind: endLine, count: l.chain.lots - l.reserved,
		weights: l.weights, complete: l.complete})...)
	l.fault = errClosed
	if l.file == nil {
		return err
	}
	return errors.Join(err, l.file.Close())
}

// returnUnused returns the line that returns the reserved lots, if there are any.
func (l *Writer) returnUnused() []entry {
	if l.reserved == 0 {
		return nil
	}
	return []entry{{kind: returnLine, count: l.reserved}}
}

// reserve states lot one or more times and returns when that is on disk.
func (l *Writer) reserve(lot Lot) error {
	if why := checkLot(lot); why != "" {
		return fmt.Errorf("ledger %s: %s", l.path, why)
	}
	entries := l.returnUnused()
	count := 1
	if l.stated > 0 && sameLot(lot, l.lot) {
		count = l.nextReservation()
		lot = l.lot
	} else {
		lot = cloneLot(lot)
	}
	if err := l.append(append(entries, entry{kind: spendLine, count: count, lot: lot})...); err != nil {
		return err
	}
	l.lot, l.stated, l.reserved = lot, count, count
	return nil
}

// nextReservation returns the number of lots to state at once: enough that syncs take a
// small share of the time at the pace of the lots so far, at most twice as many as in the
// last reservation (so that the line before a truncated line bounds it), and at most
// l.ahead.
//
// The pace depends on the private sizes of the lots, and the ledger is public. The number that
// follows from the pace is therefore rounded down to a power of two.
func (l *Writer) nextReservation() int {
	enough := maxReservation
	if pace := time.Since(l.synced) / time.Duration(l.stated); pace > 0 {
		enough = int(min(maxReservation, l.syncTime*minStepsPerSync/pace))
	}
	if enough > 0 {
		enough = 1 << (bits.Len(uint(enough)) - 1)
	}
	return max(1, min(enough, 2*l.stated, l.ahead))
}

// append writes entries and returns when they are on disk. After a failure the end of the
// file is unknown, so every later append fails too.
func (l *Writer) append(entries ...entry) error {
	if l.fault != nil {
		return l.fault
	}
	l.line = l.line[:0]
	hashes := make([]digest, len(entries))
	head := l.chain.head
	for i, e := range entries {
		l.line, head = appendLine(l.line, e, head)
		hashes[i] = head
	}
	before := time.Now()
	_, err := l.write(l.line)
	if err == nil {
		err = l.sync()
	}
	if err == nil && l.file != nil {
		err = checkInPlace(l.file, l.path)
	}
	if err != nil {
		l.fault = fmt.Errorf("the ledger cannot be written, so no further lot may be released: %w", err)
		l.reserved = 0
		return l.fault
	}
	for i, e := range entries {
		l.chain.apply(e, hashes[i])
	}
	l.reserved, l.stated = 0, 0
	l.synced = time.Now()
	if cost := l.synced.Sub(before); l.syncTime == 0 {
		l.syncTime = cost
	} else {
		l.syncTime += (cost - l.syncTime) / 4
	}
	return nil
}
