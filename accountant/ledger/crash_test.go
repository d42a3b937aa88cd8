package ledger

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// recording is a ledger file together with, for each moment at which a lot could be
// released, the file size and the number of releases of each lot.
type recording struct {
	file    []byte
	moments []moment
}

type moment struct {
	size     int
	released map[float64]int // by the noise of the first query
}

func (r *recording) releasedBy(size int) map[float64]int {
	var last map[float64]int
	for _, m := range r.moments {
		if m.size <= size {
			last = m.released
		}
	}
	return last
}

// record writes a ledger with reservations, changes of lot, a crash and a clean end.
func record(t testing.TB) *recording {
	t.Helper()
	l, path := create(t)
	reserveGreedily(l)
	r := &recording{}
	released := map[float64]int{}
	pay := func(noise float64, times int) {
		for range times {
			spendLots(t, l, exampleLot(noise), 1)
			released[noise]++
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			r.moments = append(r.moments, moment{int(info.Size()), maps.Clone(released)})
		}
	}
	pay(1, 6)
	pay(2, 1)
	pay(1.25, 9)
	l.file.Close() // dies with lots reserved
	var err error
	if l, err = Open(path); err != nil {
		t.Fatal(err)
	}
	reserveGreedily(l)
	pay(1.25, 2)
	if err := l.MarkInsecure(); err != nil {
		t.Fatal(err)
	}
	pay(1.25, 4)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r.file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return r
}

func byNoise(h History) map[float64]int {
	n := map[float64]int{}
	for _, s := range h.Lots {
		n[s.Lot.Queries[0].Noise] += s.Count
	}
	return n
}

func scanBytes(file []byte) (History, *chain, error) {
	s, err := scan(bytes.NewReader(file))
	if err != nil {
		return History{}, nil, err
	}
	if s.tail.counts {
		s.chain.apply(s.tail.entry, digest{})
	}
	return s.chain.history, &s.chain, nil
}

func TestRead_TruncatedAnywhereNeverUnderstates(t *testing.T) {
	r := record(t)
	headerSize := bytes.IndexByte(r.file, '\n') + 1
	for size := range len(r.file) + 1 {
		h, _, err := scanBytes(r.file[:size])
		if size < headerSize {
			if err == nil {
				t.Fatalf("a header of %d bytes is accepted", size)
			}
			continue
		}
		if err != nil {
			t.Fatalf("truncated at byte %d: %v", size, err)
		}
		stated := byNoise(h)
		for noise, n := range r.releasedBy(size) {
			if stated[noise] < n {
				t.Fatalf("truncated at byte %d: %d lots of noise %g stated, %d released", size, stated[noise], noise, n)
			}
		}
	}
}

// A disk may lose the end of what it reported as synced. If the lost line repeats the lots
// of the line before, that line bounds it.
func TestRead_LostEndOfSyncedLineCounts(t *testing.T) {
	l, path := create(t)
	reserveGreedily(l)
	for i := range 17 {
		spendLots(t, l, exampleLot(1), 1)
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		start := bytes.LastIndexByte(file[:len(file)-1], '\n') + 1
		for size := start + 1; size < len(file) && i > 0; size++ {
			h, _, err := scanBytes(file[:size])
			if err != nil {
				t.Fatal(err)
			}
			if h.LotCount() < i+1 {
				t.Fatalf("%d lots were released, but %q states %d", i+1, file[start:size], h.LotCount())
			}
		}
	}
}

// The lots that a truncated last line counts for, including one of another program.
func TestGuess_TruncatedLine(t *testing.T) {
	file, head := appendLine(nil, entry{kind: headerLine, header: exampleHeader}, digest{})
	file, _ = appendLine(file, entry{kind: spendLine, count: 4, lot: exampleLot(1)}, head)
	for cut, want := range map[string]int{
		`{`: 12, `{"spend":5`: 12, `{"spend":500`: 504, `{"spend":500,`: 504, `{"spend":3,"lo`: 7, `{"torn":3,`: 7,
		`{"r`: 4, `{"return":2`: 4, `{"resume":2`: 4, `{"end":4,`: 4, `{"insecure":true`: 4, `{"other":9`: 12,
		"{\"retur\x00\x00\x00": 4, "{\"\x00\x00": 12, `{"spend":3,` + "\x00": 7,
	} {
		if h, _, err := scanBytes(append(bytes.Clone(file), cut...)); err != nil || h.LotCount() != want {
			t.Errorf("truncated to %s: %d lots, want %d (%v)", cut, h.LotCount(), want, err)
		}
	}
	line, _ := appendLine(nil, entry{kind: spendLine, count: 3, lot: exampleLot(1)}, digest{})
	for size := range line { // of a lot that is not read to its end, nothing is taken
		if h, _, err := scanBytes(append(bytes.Clone(file), line[:size]...)); err != nil || len(h.Lots) != 1 {
			t.Errorf("truncated to %s: %+v, %v", line[:size], h.Lots, err)
		}
	}
	file, _ = appendLine(file, entry{kind: resumeLine, count: 2, header: Header{Run: exampleRun}}, sha256.Sum256(bytes.TrimSpace(file[bytes.IndexByte(file, '\n'):])))
	if h, _, err := scanBytes(append(file, `{"spend":`...)); err != nil || h.LotCount() != 5 {
		t.Errorf("in another run: %d lots, want 5 (%v)", h.LotCount(), err)
	}
}

// A read error is not the end of a ledger.
func TestRead_InputError(t *testing.T) {
	broken := errors.New("input/output error")
	for size, file := 0, record(t).file; size < len(file); size += 97 {
		if _, err := scan(io.MultiReader(bytes.NewReader(file[:size]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", size, err)
		}
	}
}

// A file system may leave zeros where data was not yet written.
func TestRead_ZerosAtEnd(t *testing.T) {
	r := record(t)
	for size := bytes.IndexByte(r.file, '\n') + 1; size < len(r.file); size++ {
		h, _, err := scanBytes(append(bytes.Clone(r.file[:size]), make([]byte, 100)...))
		if err != nil {
			t.Fatalf("zeros from byte %d: %v", size, err)
		}
		for noise, n := range r.releasedBy(size) {
			if byNoise(h)[noise] < n {
				t.Fatalf("zeros from byte %d: fewer lots than were released", size)
			}
		}
	}
}

func TestOpen_RepairsTruncatedFile(t *testing.T) {
	t.Parallel()
	r := record(t)
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	step := 3
	if testing.Short() {
		step = 29
	}
	for size := bytes.IndexByte(r.file, '\n') + 1; size <= len(r.file); size += step {
		if err := os.WriteFile(path, r.file[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		before := read(t, path)
		l, err := Open(path)
		if err != nil {
			t.Fatalf("truncated at byte %d: %v", size, err)
		}
		if got, want := fmt.Sprint(l.History()), fmt.Sprint(before); got != want {
			t.Fatalf("truncated at byte %d: read as %s, opened as %s", size, want, got)
		}
		spendLots(t, l, exampleLot(3), 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(path); err != nil {
			t.Fatalf("truncated at byte %d, after the repair: %v", size, err)
		}
		if got, want := read(t, path).LotCount(), before.LotCount()+1; got != want {
			t.Fatalf("truncated at byte %d: %d lots after the repair and one more, want %d", size, got, want)
		}
	}
}

func verifyBytes(t testing.TB, file []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Verify(path)
	return err
}

// damagedLine is the line that Verify reports, or 0 for a valid file.
func damagedLine(file []byte) int {
	s, err := scan(bytes.NewReader(file))
	var damage *DamageError
	switch {
	case errors.As(err, &damage):
		return damage.Line
	case err == nil && s.tail.size > 0:
		return s.chain.lines + 1
	}
	return 0
}

func TestVerify_DetectsFlippedBit(t *testing.T) {
	t.Parallel()
	r := record(t)
	line := 1
	for i := range r.file {
		for bit := range 8 {
			if testing.Short() && bit != i%8 {
				continue
			}
			r.file[i] ^= 1 << bit
			if got := damagedLine(r.file); got != line {
				t.Fatalf("bit %d of byte %d, in line %d: Verify reports line %d", bit, i, line, got)
			}
			r.file[i] ^= 1 << bit
		}
		if r.file[i] == '\n' {
			line++
		}
	}
	if got := damagedLine(r.file); got != 0 {
		t.Fatalf("the unchanged ledger is reported as damaged at line %d", got)
	}
}

func TestVerify_DetectsMissingMovedAndRepeatedLines(t *testing.T) {
	r := record(t)
	lines := bytes.SplitAfter(r.file, []byte("\n"))
	lines = lines[:len(lines)-1]
	check := func(what string, want int, changed ...[]byte) {
		t.Helper()
		var damage *DamageError
		err := verifyBytes(t, bytes.Join(changed, nil))
		if !errors.As(err, &damage) || damage.Line != want {
			t.Errorf("%s: %v, want damage at line %d", what, err, want)
		} else if !strings.Contains(err.Error(), "ledger.jsonl: line "+strconv.Itoa(want)) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: unclear message %q", what, err)
		}
	}
	join := func(parts ...[][]byte) (all [][]byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for i := range lines {
		if i < len(lines)-1 {
			check(fmt.Sprintf("line %d dropped", i+1), i+1, join(lines[:i], lines[i+1:])...)
			check(fmt.Sprintf("lines %d and %d exchanged", i+1, i+2), i+1, join(lines[:i], lines[i+1:i+2], lines[i:i+1], lines[i+2:])...)
		}
		check(fmt.Sprintf("line %d doubled", i+1), i+2, join(lines[:i+1], lines[i:])...)
	}
	check("the last line cut short", len(lines), join(lines[:len(lines)-1], [][]byte{lines[len(lines)-1][:9]})...)
	for i := 2; i < len(lines); i++ {
		for j := 1; j < i-1; j++ {
			check(fmt.Sprintf("line %d moved to %d", i+1, j+1), j+1, join(lines[:j], lines[i:i+1], lines[j:i], lines[i+1:])...)
		}
	}
	// Without its end line a ledger is valid, but Ended is false and its head differs from
	// the one in the run's summary.
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := os.WriteFile(path, bytes.Join(lines[:len(lines)-1], nil), 0o644); err != nil {
		t.Fatal(err)
	}
	if report, err := Verify(path); err != nil || report.Ended {
		t.Errorf("without its end: %+v, %v", report, err)
	}
}

// An edit that also corrects the line's crc is detected at the next line.
func TestVerify_DetectsEditWithValidChecksum(t *testing.T) {
	r := record(t)
	lines := bytes.SplitAfter(r.file, []byte("\n"))
	lines[2] = bytes.Replace(lines[2], []byte(`"noise":1,`), []byte(`"noise":9,`), 1)
	lines[2] = bytes.Replace(lines[2], []byte(`"noise":1}`), []byte(`"noise":9}`), 1)
	content := lines[2][:len(lines[2])-1-checksumSize]
	lines[2] = append(appendChecksum(bytes.Clone(content), content), '\n')
	if bytes.Equal(bytes.Join(lines, nil), r.file) {
		t.Fatal("nothing was edited")
	}
	if got := damagedLine(bytes.Join(lines, nil)); got != 4 {
		t.Errorf("Verify reports line %d, want 4, which does not follow line 3", got)
	}
}

func TestRead_NotALedger(t *testing.T) {
	for name, text := range map[string]string{
		"empty":          "",
		"text":           "hello\nworld\n",
		"no newline":     "hello",
		"another object": `{"a":1}` + "\n",
		"zeros":          string(make([]byte, 1000)),
		"newlines":       "\n\n\n",
		"no header":      string(bytes.SplitN(record(t).file, []byte("\n"), 2)[1]),
		"endless line":   strings.Repeat("x", maxLineSize+1<<20),
	} {
		var damage *DamageError
		if err := verifyBytes(t, []byte(text)); !errors.As(err, &damage) || damage.Line != 1 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("a directory is accepted as a ledger")
	}
}

func TestWriter_FailingDisk(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	stride := 1
	if testing.Short() {
		stride = 7
	}
	for written := 0; written < 600; written += stride {
		l, path := create(t)
		reserveGreedily(l)
		spendLots(t, l, exampleLot(1), 3)
		room := written
		l.write = func(b []byte) (int, error) {
			if len(b) <= room {
				room -= len(b)
				return l.file.Write(b)
			}
			n, _ := l.file.Write(b[:room])
			room = 0
			return n, full
		}
		released := 3
		var err error
		for err == nil {
			if err = l.Spend(exampleLot(1)); err == nil {
				released++
			}
		}
		if !errors.Is(err, full) {
			t.Fatal(err)
		}
		if err := l.Spend(exampleLot(1)); !errors.Is(err, full) {
			t.Fatalf("after a failure the ledger accepts another lot: %v", err)
		}
		if err := l.Close(); !errors.Is(err, full) {
			t.Fatalf("closing a ledger that failed: %v", err)
		}
		if got := read(t, path).LotCount(); got < released {
			t.Fatalf("%d bytes written: %d lots were released, the file states %d", written, released, got)
		}
	}

	// Reserved lots are rejected after a write failed.
	reserving, _ := create(t)
	reserveGreedily(reserving)
	spendLots(t, reserving, exampleLot(1), 4) // the third line states four lots
	reserving.sync = func() error { return full }
	for _, lot := range []Lot{exampleLot(2), exampleLot(1)} {
		if err := reserving.Spend(lot); !errors.Is(err, full) {
			t.Errorf("after a failure the ledger accepts a reserved lot: %v", err)
		}
	}
	reserving.Close()

	l, path := create(t)
	l.sync = func() error { return full }
	if err := l.Spend(exampleLot(1)); !errors.Is(err, full) {
		t.Errorf("a failing sync: %v", err)
	}
	l.Close()
	if l, err := Open(path); err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
}

// If the file was removed or replaced, no reader would find the lots, so Spend fails.
func TestWriter_FileRemovedWhileOpen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows removes no open file")
	}
	for name, harm := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("another"), 0o644))
		},
	} {
		l, path := create(t)
		spendLots(t, l, exampleLot(1), 3)
		if err := harm(path); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := l.Spend(exampleLot(2)); !errors.Is(err, errReplaced) {
				t.Errorf("%s: spending gives %v", name, err)
			}
		}
		if err := l.Close(); !errors.Is(err, errReplaced) {
			t.Errorf("%s: closing gives %v", name, err)
		}
		if content, err := os.ReadFile(path); err == nil && string(content) != "another" {
			t.Errorf("%s: the file in its place contains %q", name, content)
		}
	}
	// The path stays valid when the working directory changes.
	t.Chdir(t.TempDir())
	l, err := Create("ledger.jsonl", newHeader)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	spendLots(t, l, exampleLot(1), 3)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A process that spends as fast as possible is killed repeatedly. Each time the ledger is
// compared with the releases that the process reported.
func TestWriter_KilledProcess(t *testing.T) {
	if path := os.Getenv("DPTRAIN_TEST_SPENDER"); path != "" {
		spendUntilKilled(path)
	}
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := Create(path, newHeader)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	random := rand.New(rand.NewPCG(1, 2))
	total := 0
	for range rounds {
		child := exec.Command(os.Args[0], "-test.run=^TestWriter_KilledProcess$")
		child.Env = append(os.Environ(), "DPTRAIN_TEST_SPENDER="+path)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// The number of lots in a given time depends on the disk, so wait for the first lots.
		first := make([]byte, 1+random.IntN(100))
		if _, err := io.ReadFull(out, first); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(3_000)) * time.Microsecond)
		child.Process.Kill()
		rest, _ := io.ReadAll(out)
		child.Wait()
		total += len(first) + len(rest)
		if got := read(t, path).LotCount(); got < total {
			t.Fatalf("%d lots were released, the ledger states %d", total, got)
		}
	}
}

func spendUntilKilled(path string) {
	l, err := Open(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		if err := l.Spend(exampleLot(float64(1 + i/50%3))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Stdout.Write([]byte{'.'}) // released
	}
}
