package ledger

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/lock"
)

// ErrLocked says that another program, or another part of this one, is writing
// to the ledger.
var ErrLocked = errors.New("another writer holds the ledger")

// ErrNotEmpty says that a ledger has lots, and must be kept.
var ErrNotEmpty = errors.New("lots were spent")

var (
	errClosed = errors.New("the ledger is closed")
	errGone   = errors.New("somebody removed or replaced the file")
)

const (
	// syncShare is the share of the time that syncing may take: a reservation
	// grows until a sync costs one part in syncShare.
	syncShare = 100
	// mostReserved bounds what a crash can overstate, whatever a sync costs.
	mostReserved = 1 << 16
)

// Writer writes what a run spends. It keeps one promise: at any moment, were the
// process killed or the power cut, the file states at least every lot whose Spend
// has returned, as long as the disk keeps what it says it has synced. FORMAT.md
// describes the file.
//
// A sync may cost more than a lot. So a synced line may state equal lots before
// they run; after a crash these count as spent, and Close, or a lot that differs,
// gives the rest back. A Ledger may be used by several goroutines.
type Writer struct {
	mu    sync.Mutex
	file  *os.File
	place string // where the file is, whatever the working folder
	write func([]byte) (int, error)
	sync  func() error
	fault error // why nothing can be written any more

	chain    chain
	lot      Lot // of the last reservation
	reserved int // lots stated and not yet run
	stated   int // lots of the last reservation
	ahead    int // lots that a reservation may reach

	syncTime time.Duration // what a sync costs, smoothed
	synced   time.Time     // when the last one was done
	line     []byte
}

// Create begins a ledger in a new file and refuses a file that exists. A Version
// of 0 stands for the current one.
func Create(path string, h Header) (*Writer, error) {
	if h.Version == 0 {
		h.Version = formatVersion
	}
	if why := headerFault(h); why != "" {
		return nil, fmt.Errorf("ledger %s: %s", path, why)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("ledger: %w: resume that run, or choose another folder", err)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := newLedger(file, chain{})
	if err = lockFile(file); err == nil {
		err = l.append(entry{kind: headerLine, header: h})
	}
	if err == nil {
		err = atomicfile.SyncFolder(filepath.Dir(path))
	}
	if err == nil {
		return l, nil
	}
	if errors.Is(err, ErrLocked) || errors.Is(err, errGone) {
		file.Close() // what is there now is another's
	} else {
		remove(file) // nothing was released under it
	}
	return nil, fmt.Errorf("ledger %s: %w", path, err)
}

// lockFile takes the file for one writer, if it is still where it was opened: whoever had
// it before may have removed it, and nobody would read what is written to it.
func lockFile(f *os.File) error {
	err := lock.TryLock(f)
	if errors.Is(err, lock.ErrLocked) {
		return fmt.Errorf("%w: wait until it ends, or choose another folder", ErrLocked)
	}
	if err != nil {
		return err
	}
	if err = inPlace(f, f.Name()); err == errGone {
		return fmt.Errorf("%w: it removed the file; try again", ErrLocked)
	}
	return err
}

// remove removes a file that is held, before another writer can take it. Windows removes
// no open file, be it another's.
func remove(f *os.File) error {
	if runtime.GOOS == "windows" {
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
	return errors.Join(os.Remove(f.Name()), f.Close())
}

// Discard removes the ledger of a run that was stopped before it spent anything, even one
// whose header was cut short. It refuses a ledger that has lots (ErrSpent), is damaged
// (*Damage) or is being written (ErrLocked).
func Discard(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if err = lockFile(file); err == nil {
		err = unspent(file)
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("ledger %s: %w", path, err)
	}
	return remove(file)
}

func unspent(file *os.File) error {
	s, err := scan(file)
	if err != nil && !s.headless {
		return err
	}
	if s.history().LotCount() > 0 {
		return ErrNotEmpty
	}
	return nil
}

func newLedger(file *os.File, c chain) *Writer {
	place, err := filepath.Abs(file.Name())
	if err != nil {
		place = file.Name()
	}
	return &Writer{file: file, place: place, write: file.Write, sync: file.Sync, chain: c, ahead: MaxLots}
}

// inPlace refuses a file that was removed or replaced while it is written: nobody would
// read what it states.
func inPlace(f *os.File, place string) error {
	held, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(place)
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(held, there) {
		return errGone
	}
	return err
}

// Open continues a ledger: the next run of the same data set, or the rest of a
// run that stopped. It checks every line, completes a last line that was cut
// short with the most that it may have stated, and refuses a ledger that is
// damaged (*Damage) or being written (ErrLocked). The header stays as it was;
// a run that is not secure must say so with MarkInsecure.
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
	// The lock comes first: a ledger that is being written must not be repaired.
	if err := lockFile(file); err != nil {
		return nil, err
	}
	s, err := scan(file)
	if err != nil {
		return nil, err
	}
	l := newLedger(file, s.chain)
	var entries []entry
	switch t := s.tail; {
	case t.whole:
		if _, err := file.Write([]byte("\n")); err != nil {
			return nil, err
		}
		l.chain.apply(t.entry, t.hash)
	case t.size > 0:
		if err := cut(file, t.offset); err != nil {
			return nil, fmt.Errorf("its last line is cut short and cannot be repaired: %w", err)
		}
		if t.stands {
			entries = append(entries, t.entry)
		}
	}
	return l, l.append(append(entries, entry{kind: resumeLine, count: l.chain.runs + 1})...)
}

func cut(file *os.File, offset int64) error {
	if err := file.Truncate(offset); err != nil {
		return err
	}
	_, err := file.Seek(offset, io.SeekStart)
	return err
}

// Spend states one lot. When it returns nil the lot is on disk, and may be
// released; when it returns an error the lot must not be released, and nothing
// can be spent from this ledger any more unless the lot itself was the fault. It
// does not allocate, and costs a comparison, while a reservation lasts.
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

// LimitReservations promises that no reservation reaches beyond the next lots lots:
// those left in the run, or those that a budget still allows. After them, lots
// are stated one at a time.
func (l *Writer) LimitReservations(lots int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead = max(0, lots)
}

// MarkInsecure states that from here on noise or sampling comes from a generator
// that is seeded or not cryptographic. There is no way back: the whole ledger is
// insecure from then on.
func (l *Writer) MarkInsecure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil && !l.chain.history.Header.Secure {
		return nil
	}
	return l.append(append(l.leftover(), entry{kind: insecureLine})...)
}

// History is what the ledger would say if the process died now, so it includes
// what is reserved.
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

// Head is the hash of the last line on disk, in hexadecimal.
func (l *Writer) Head() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return hex.EncodeToString(l.chain.head[:])
}

// Close gives back what was reserved and did not run, ends the run and lets
// another writer in. If that cannot be written, the reserved lots stay spent.
func (l *Writer) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == errClosed {
		return nil
	}
	err := l.append(append(l.leftover(), entry{kind: endLine, count: l.chain.lots - l.reserved})...)
	l.fault = errClosed
	return errors.Join(err, l.file.Close())
}

// leftover is the line that gives back what is reserved, if anything is.
func (l *Writer) leftover() []entry {
	if l.reserved == 0 {
		return nil
	}
	return []entry{{kind: returnLine, count: l.reserved}}
}

// reserve states lot, once or more often, and returns when that is on disk.
func (l *Writer) reserve(lot Lot) error {
	if why := lotFault(lot); why != "" {
		return fmt.Errorf("ledger %s: %s", l.file.Name(), why)
	}
	entries := l.leftover()
	count := 1
	if l.stated > 0 && sameLot(lot, l.lot) {
		count = l.appetite()
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

// appetite is how many lots to state at once: enough that syncing takes a small
// share of the time at the pace of the lots so far, at most twice as many as
// before (so that a line cut short can be bounded by the line before it) and no
// more than were allowed.
func (l *Writer) appetite() int {
	enough := mostReserved
	if pace := time.Since(l.synced) / time.Duration(l.stated); pace > 0 {
		enough = int(min(mostReserved, l.syncTime*syncShare/pace))
	}
	return max(1, min(enough, 2*l.stated, l.ahead))
}

// append writes entries and returns when they are on disk. After a failure the
// end of the file is unknown, so that the ledger takes no more.
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
	if err == nil {
		err = inPlace(l.file, l.place)
	}
	if err != nil {
		l.fault = fmt.Errorf("the ledger cannot be written, so nothing more may be released: %w", err)
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
