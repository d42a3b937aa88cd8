package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
)

// journal makes the instances of one model survive a crash. A folder contains a snapshot of all
// instances and the journal files of the replacements after it.
//
// Append returns after the record was handed to the operating system and the file was found at its
// path, so a process that is killed loses no acknowledged update, and no update is acknowledged
// after the folder is gone. A power failure can lose the updates since the last sync, which happens
// every second; it never leaves a part of an instance.
//
// A crash leaves a part of the last record of the last file, zeros that the file system put in the
// place of data that were not synced, or a part of the header of a file that was being created.
// Everything else is damage, which recover reports and does not touch: a record of another
// checksum, a number that does not follow the one before, a file that is missing or follows an
// incomplete one, a missing snapshot.
//
// File n contains the replacements after those of file n-1, which is synced before file n is created.
// A snapshot names the file that follows it, which is created and synced before the snapshot. Files
// have the layout
//
//	header  magic, SHA-256 of the model's description, number, checksum
//	record  slot u32, update u64, born i64 (Unix nanoseconds), weights f32…, checksum
//
// little-endian; a checksum is CRC-32C over the bytes before it, from the start of the header or
// record.
type journal struct {
	folder   string
	identity [32]byte
	weights  int
	limit    int64 // bytes of a file after which a snapshot replaces it

	file    *os.File
	number  uint64
	size    int64
	dirty   bool // the file was written since the last sync
	broken  error
	scratch []byte
}

const (
	journalMagic   = "dpdraw1\n"
	journalHeader  = len(journalMagic) + 32 + 8 + 4
	recordHead     = 4 + 8 + 8
	snapshotMagic  = "dpsnap1\n"
	snapshotHeader = len(snapshotMagic) + 32 + 4*8
	snapshotName   = "snapshot"
	journalPrefix  = "journal-"
	lockName       = "lock"
	minFileLimit   = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// state is what a folder contains.
type state struct {
	instances []*drawdiscard.Instance
	updates   uint64
	dropped   int64 // bytes of an incomplete record at the end
	torn      torn
}

// torn is the file with the incomplete record or header.
type torn struct {
	path string
	size int64 // without it
}

func newJournal(folder string, identity [32]byte, k, weights int) *journal {
	return &journal{folder: folder, identity: identity, weights: weights, limit: max(minFileLimit, 16*int64(k)*int64(weights))}
}

// recover reads the state. After a DamagedError of a journal file the state is that before the damage;
// it is nil if there is no snapshot, and also without an error in a folder that was never used.
func (j *journal) recover() (*state, error) {
	numbers, err := j.files()
	if err != nil {
		return nil, err
	}
	s, next, err := j.readSnapshot()
	switch {
	case err != nil:
		return nil, err
	case s == nil && (len(numbers) == 0 || len(numbers) == 1 && numbers[0] == 0 && j.isUnused()):
		return nil, nil
	case s == nil:
		return nil, &DamagedError{filepath.Join(j.folder, snapshotName), "it is missing, and the folder contains a journal"}
	}
	numbers = slices.DeleteFunc(numbers, func(n uint64) bool { return n < next }) // a crash before their removal
	last := next + uint64(max(1, len(numbers))) - 1
	for j.number = next; j.number <= last; j.number++ {
		if !slices.Contains(numbers, j.number) {
			return s, &DamagedError{j.path(j.number), "the file is missing"}
		}
		if err := j.replay(j.number, s, j.number == last, j.number == next); err != nil {
			return s, err
		}
	}
	if s.torn.path == j.path(last) && s.torn.size == 0 {
		j.number = last // the file is created again
	}
	return s, nil
}

// files lists the numbers of the journal files.
func (j *journal) files() (numbers []uint64, err error) {
	entries, err := os.ReadDir(j.folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if text, ok := strings.CutPrefix(e.Name(), journalPrefix); ok {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil || e.Name() != filepath.Base(j.path(n)) {
				return nil, &DamagedError{filepath.Join(j.folder, e.Name()), "its name is not that of a journal file"}
			}
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// isUnused reports whether the first file has no record, and no description was written: the process
// ended before the folder had a snapshot.
func (j *journal) isUnused() bool {
	info, err := os.Stat(j.path(0))
	_, described := os.Stat(filepath.Join(j.folder, descriptionName))
	return err == nil && info.Size() <= int64(journalHeader) && errors.Is(described, os.ErrNotExist)
}

// DamagedError reports that a file of the server's folder is damaged. It is an engine.ErrDamaged.
type DamagedError struct{ Path, Reason string }

func (e *DamagedError) Unwrap() error { return engine.ErrDamaged }

func (e *DamagedError) Error() string {
	return e.Path + " is damaged: " + e.Reason + "; dptrain serve check lists what can be saved"
}

// replay applies the records of file n. Only the last file may end with an incomplete record, and only
// one that no snapshot names with an incomplete header.
func (j *journal) replay(n uint64, s *state, last, synced bool) error {
	path := j.path(n)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	damaged := func(format string, values ...any) error { return &DamagedError{path, fmt.Sprintf(format, values...)} }
	r := bufio.NewReaderSize(file, 1<<16)
	head := make([]byte, journalHeader)
	_, err = io.ReadFull(r, head)
	switch short := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); {
	case err != nil && !short:
		return err
	case !short && (!isZero(head) || info.Size() > int64(journalHeader)):
	case last && !synced:
		s.drop(path, 0, info.Size())
		return nil
	default:
		return damaged("it ends within its header, after %d bytes", info.Size())
	}
	if string(head) != string(j.header(n)) {
		return damaged("its header is not that of this model")
	}
	record := make([]byte, j.recordSize())
	for at := int64(journalHeader); ; at += int64(len(record)) {
		_, err := io.ReadFull(r, record)
		switch cut := errors.Is(err, io.ErrUnexpectedEOF); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !cut:
			return err
		case cut && !last:
			return damaged("it ends within the record at byte %d, and another file follows", at)
		case last && (cut || isZero(record) && restIsZero(r)):
			s.drop(path, at, info.Size())
			return nil
		}
		if err := s.apply(record); err != nil {
			return damaged("the record at byte %d, of update %d: %v", at, s.updates+1, err)
		}
	}
}

// drop drops the end of a file.
func (s *state) drop(path string, from, to int64) {
	s.dropped, s.torn = to-from, torn{path, from}
}

// apply puts the instance of a record into its slot.
func (s *state) apply(record []byte) error {
	body := record[:len(record)-4]
	slot := binary.LittleEndian.Uint32(body)
	update := binary.LittleEndian.Uint64(body[4:])
	switch {
	case crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(record[len(body):]):
		return errors.New("its checksum does not match its content")
	case update != s.updates+1:
		return fmt.Errorf("it is update %d", update)
	case int(slot) >= len(s.instances):
		return fmt.Errorf("there is no instance %d", slot)
	}
	s.instances[slot] = &drawdiscard.Instance{
		Update:  update,
		Born:    time.Unix(0, int64(binary.LittleEndian.Uint64(body[12:]))),
		Weights: decodeWeights(body[recordHead:]),
	}
	s.updates = update
	return nil
}

// restIsZero reports whether only zeros follow.
func restIsZero(r io.Reader) bool {
	b := make([]byte, 1<<16)
	for {
		n, err := r.Read(b)
		if !isZero(b[:n]) || err != nil && !errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			return true
		}
	}
}

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// start begins the next file and writes the snapshot before it.
func (j *journal) start(s *state) error {
	if err := errors.Join(j.removeTorn(s), j.create(j.number)); err != nil {
		return err
	}
	return j.replaceBefore(s, j.number)
}

// removeTorn removes what a crash left at the end of the last file, before another file follows it.
func (j *journal) removeTorn(s *state) error {
	switch {
	case s.torn.path == "":
		return nil
	case s.torn.size == 0:
		return errors.Join(os.Remove(s.torn.path), atomicfile.SyncFolder(j.folder))
	}
	file, err := os.OpenFile(s.torn.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(s.torn.size), file.Sync(), file.Close())
}

// replaceBefore writes a snapshot that replaces the files before n. Records may be appended to
// file n at the same time.
func (j *journal) replaceBefore(s *state, n uint64) error {
	if err := j.writeSnapshot(s, n); err != nil {
		return err
	}
	return j.removeBefore(n)
}

// create begins file n, after it synced the file before.
func (j *journal) create(n uint64) error {
	if j.file != nil {
		if err := errors.Join(j.broken, j.file.Sync()); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(j.path(n), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.Write(j.header(n)); err != nil {
		file.Close()
		return err
	}
	if err := errors.Join(file.Sync(), atomicfile.SyncFolder(j.folder)); err != nil {
		file.Close()
		return err
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.number, j.size, j.dirty = file, n, int64(journalHeader), false
	return nil
}

// checkInPlace returns an error if the file is no longer at its path. What is written to it would be
// lost with its last name.
func (j *journal) checkInPlace() error {
	open, err := j.file.Stat()
	if err != nil {
		return err
	}
	found, err := os.Lstat(j.path(j.number))
	if err == nil && !os.SameFile(open, found) {
		err = fmt.Errorf("%s was replaced by another file", j.path(j.number))
	}
	return err
}

// encode returns a record in memory that the next call uses again.
func (j *journal) encode(slot int, i *drawdiscard.Instance) []byte {
	b := binary.LittleEndian.AppendUint32(j.scratch[:0], uint32(slot))
	b = binary.LittleEndian.AppendUint64(b, i.Update)
	b = binary.LittleEndian.AppendUint64(b, uint64(i.Born.UnixNano()))
	b = appendWeights(b, i.Weights)
	j.scratch = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return j.scratch
}

// append writes a record.
func (j *journal) append(slot int, i *drawdiscard.Instance) error {
	if j.broken != nil {
		return j.broken
	}
	b := j.encode(slot, i)
	n, err := j.file.WriteAt(b, j.size)
	if err == nil {
		err = j.checkInPlace()
	}
	if err != nil {
		if n > 0 { // records after a part of one would not be read
			if cut := j.file.Truncate(j.size); cut != nil {
				j.broken = fmt.Errorf("%w, and the part that was written cannot be removed: %v", err, cut)
			}
		}
		return err
	}
	j.size += int64(len(b))
	j.dirty = true
	return nil
}

func (j *journal) sync() error {
	if !j.dirty {
		return nil
	}
	j.dirty = false
	return j.file.Sync()
}

func (j *journal) close() error { return errors.Join(j.sync(), j.file.Close()) }

func (j *journal) path(n uint64) string {
	return filepath.Join(j.folder, fmt.Sprintf("%s%020d", journalPrefix, n))
}

func (j *journal) header(n uint64) []byte {
	b := append([]byte(journalMagic), j.identity[:]...)
	b = binary.LittleEndian.AppendUint64(b, n)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (j *journal) recordSize() int { return recordHead + 4*j.weights + 4 }

// removeBefore removes the files before n, which a snapshot replaced.
func (j *journal) removeBefore(n uint64) error {
	entries, err := os.ReadDir(j.folder)
	if err != nil {
		return err
	}
	current := filepath.Base(j.path(n))
	for _, e := range entries {
		old := strings.HasPrefix(e.Name(), journalPrefix) && e.Name() < current
		if old || strings.HasPrefix(e.Name(), atomicfile.TemporaryPrefix) {
			err = errors.Join(err, os.Remove(filepath.Join(j.folder, e.Name())))
		}
	}
	return err
}

// writeSnapshot writes the instances, which do not change while it runs, and the number of the
// file that follows.
func (j *journal) writeSnapshot(s *state, next uint64) error {
	path := filepath.Join(j.folder, snapshotName)
	err := atomicfile.WriteFunc(path, func(w io.Writer) error {
		sum := crc32.New(castagnoli)
		out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<20)
		b := append([]byte(snapshotMagic), j.identity[:]...)
		for _, v := range []uint64{next, s.updates, uint64(len(s.instances)), uint64(j.weights)} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		out.Write(b)
		for _, i := range s.instances {
			b = binary.LittleEndian.AppendUint64(b[:0], i.Update)
			b = binary.LittleEndian.AppendUint64(b, uint64(i.Born.UnixNano()))
			for part := range slices.Chunk(i.Weights, 1<<14) {
				b = appendWeights(b, part)
				out.Write(b)
				b = b[:0]
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		_, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
		return err
	})
	if err != nil {
		return err
	}
	return atomicfile.SyncFolder(j.folder)
}

func (j *journal) readSnapshot() (*state, uint64, error) {
	path := filepath.Join(j.folder, snapshotName)
	all, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	damaged := func(reason string) (*state, uint64, error) { return nil, 0, &DamagedError{path, reason} }
	if len(all) < snapshotHeader+4 || string(all[:len(snapshotMagic)]) != snapshotMagic {
		return damaged("it is not a snapshot")
	}
	body := all[:len(all)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(all[len(body):]) {
		return damaged("its checksum does not match its content")
	}
	if string(body[len(snapshotMagic):][:32]) != string(j.identity[:]) {
		return damaged("it is of another model")
	}
	var v [4]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(body[len(snapshotMagic)+32+8*i:])
	}
	one := 16 + 4*uint64(j.weights)
	if v[2] < 1 || v[2] > drawdiscard.MaxInstances || v[3] != uint64(j.weights) || uint64(len(body)-snapshotHeader) != v[2]*one {
		return damaged("its size does not match its content")
	}
	s := &state{updates: v[1]}
	for rest := body[snapshotHeader:]; len(rest) > 0; rest = rest[one:] {
		s.instances = append(s.instances, &drawdiscard.Instance{
			Update:  binary.LittleEndian.Uint64(rest),
			Born:    time.Unix(0, int64(binary.LittleEndian.Uint64(rest[8:]))),
			Weights: decodeWeights(rest[16:one]),
		})
	}
	return s, v[0], nil
}

func appendWeights(b []byte, weights []float32) []byte {
	at := len(b)
	b = slices.Grow(b, 4*len(weights))[:at+4*len(weights)]
	for i, w := range weights {
		binary.LittleEndian.PutUint32(b[at+4*i:], math.Float32bits(w))
	}
	return b
}

func decodeWeights(b []byte) []float32 {
	w := make([]float32, len(b)/4)
	for i := range w {
		w[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return w
}
