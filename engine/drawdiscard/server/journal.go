package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/internal/atomicfile"
)

// journal makes the instances of one model survive a crash. A folder contains a snapshot of all
// instances and the journal files of the replacements after it.
//
// A record is complete on disk, or its checksum shows that it is not and reading stops before it.
// Append returns after the record was handed to the operating system, so a process that is killed
// loses no acknowledged update. A power failure can lose the updates since the last sync, which
// happens every second; it never leaves a part of an instance.
//
// File n contains the replacements after those of file n-1. A snapshot names the file that follows
// it. Files have the layout
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
	journalMagic  = "dpdraw1\n"
	journalHeader = len(journalMagic) + 32 + 8 + 4
	recordHead    = 4 + 8 + 8
	snapshotMagic = "dpsnap1\n"
	snapshotName  = "snapshot"
	journalPrefix = "journal-"
	minFileLimit  = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// state is what a folder contains.
type state struct {
	instances []*drawdiscard.Instance
	updates   uint64
	dropped   int64 // bytes of an incomplete record at the end
}

func newJournal(folder string, identity [32]byte, k, weights int) *journal {
	return &journal{folder: folder, identity: identity, weights: weights, limit: max(minFileLimit, 16*int64(k)*int64(weights))}
}

// recover reads the state, or returns nil if the folder has no snapshot.
func (j *journal) recover() (*state, error) {
	s, next, err := j.readSnapshot()
	if err != nil || s == nil {
		return nil, err
	}
	for n := next; ; n++ {
		switch err := j.replay(n, s); {
		case errors.Is(err, os.ErrNotExist):
			j.number = n
			return s, nil
		case err != nil:
			return nil, err
		}
	}
}

// DamagedError reports that a file of the server's folder is damaged. It is an engine.ErrDamaged.
type DamagedError struct{ Path, Reason string }

func (e *DamagedError) Unwrap() error { return engine.ErrDamaged }

func (e *DamagedError) Error() string { return e.Path + " is damaged: " + e.Reason }

// replay applies the records of file n. An incomplete record ends it. After a crash that is the
// end of the last file: the files are written one after another, each is synced before the next
// begins.
func (j *journal) replay(n uint64, s *state) error {
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
	r := bufio.NewReaderSize(file, 1<<20)
	head := make([]byte, journalHeader)
	if _, err := io.ReadFull(r, head); err != nil {
		s.dropped += info.Size() // the process was killed while it created the file
		return nil
	}
	if want := j.header(n); string(head) != string(want) {
		return &DamagedError{path, "its header is not that of this model"}
	}
	record := make([]byte, j.recordSize())
	for at := int64(journalHeader); ; at += int64(len(record)) {
		if _, err := io.ReadFull(r, record); err != nil {
			s.dropped += info.Size() - at
			return nil
		}
		body := record[:len(record)-4]
		slot := binary.LittleEndian.Uint32(body)
		if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(record[len(body):]) || int(slot) >= len(s.instances) {
			s.dropped += info.Size() - at
			return nil
		}
		i := &drawdiscard.Instance{
			Update:  binary.LittleEndian.Uint64(body[4:]),
			Born:    time.Unix(0, int64(binary.LittleEndian.Uint64(body[12:]))),
			Weights: decodeWeights(body[recordHead:]),
		}
		s.instances[slot] = i
		s.updates = i.Update
	}
}

// start begins the next file and writes the snapshot before it.
func (j *journal) start(s *state) error {
	if err := j.create(j.number); err != nil {
		return err
	}
	return j.replaceBefore(s, j.number)
}

// replaceBefore writes a snapshot that replaces the files before n. Records may be appended to
// file n at the same time.
func (j *journal) replaceBefore(s *state, n uint64) error {
	if err := j.writeSnapshot(s, n); err != nil {
		return err
	}
	return j.removeBefore(n)
}

// create begins file n.
func (j *journal) create(n uint64) error {
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
		if err := j.sync(); err != nil {
			file.Close()
			return err
		}
		j.file.Close()
	}
	j.file, j.number, j.size, j.dirty = file, n, int64(journalHeader), false
	return nil
}

// append writes a record.
func (j *journal) append(slot int, i *drawdiscard.Instance) error {
	if j.broken != nil {
		return j.broken
	}
	b := j.scratch[:0]
	b = binary.LittleEndian.AppendUint32(b, uint32(slot))
	b = binary.LittleEndian.AppendUint64(b, i.Update)
	b = binary.LittleEndian.AppendUint64(b, uint64(i.Born.UnixNano()))
	b = appendWeights(b, i.Weights)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	j.scratch = b
	if n, err := j.file.WriteAt(b, j.size); err != nil {
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
	const head = len(snapshotMagic) + 32 + 4*8
	if len(all) < head+4 || string(all[:len(snapshotMagic)]) != snapshotMagic {
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
	if v[2] < 1 || v[2] > drawdiscard.MaxInstances || v[3] != uint64(j.weights) || uint64(len(body)-head) != v[2]*one {
		return damaged("its size does not match its content")
	}
	s := &state{updates: v[1]}
	for rest := body[head:]; len(rest) > 0; rest = rest[one:] {
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
