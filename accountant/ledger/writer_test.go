package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var exampleHeader = Header{Version: formatVersion, Unit: "example", Records: 60000, Adjacency: AddRemove, Secure: true, Run: exampleRun}

const exampleRun = "5f0c2a8e91d34b7796e1c0d8a37b42f6"

// newHeader is the header that Create gets: it sets the version and the run identifier.
var newHeader = Header{Unit: "example", Records: 60000, Adjacency: AddRemove, Secure: true}

func exampleLot(noise float64) Lot {
	return Lot{
		Sampling: Sampling{Policy: Poisson, Rate: 0.01, Records: 60000},
		Queries: []Query{
			{Group: "all", Mechanism: Gaussian, Sensitivity: 1, Noise: noise},
			{Group: "metrics \"λ\"", Mechanism: Laplace, Sensitivity: 0.5, Noise: 1e-7},
		},
	}
}

func create(t testing.TB) (*Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := Create(path, newHeader)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, path
}

// reserveGreedily makes reservations double without bound, independently of the clock.
func reserveGreedily(l *Writer) { l.syncTime = time.Hour }

func spendLots(t testing.TB, l *Writer, lot Lot, times int) {
	t.Helper()
	for range times {
		if err := l.Spend(lot); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t testing.TB, path string) History {
	t.Helper()
	h, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRead_ReturnsSpentLots(t *testing.T) {
	l, path := create(t)
	reserveGreedily(l)
	spendLots(t, l, exampleLot(1), 1000)
	spendLots(t, l, exampleLot(2), 3)
	spendLots(t, l, exampleLot(1), 1)
	if live, onDisk := l.History(), read(t, path); !reflect.DeepEqual(live, onDisk) {
		t.Errorf("the writer returns %v, the file states %v", live, onDisk)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want := History{l.History().Header, "", []RepeatedLot{{exampleLot(1), 1000}, {exampleLot(2), 3}, {exampleLot(1), 1}}}
	if got := read(t, path); !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	if got := l.History(); !reflect.DeepEqual(got, want) {
		t.Errorf("after Close the writer returns %v, want %v", got, want)
	}
	r, err := Verify(path)
	if err != nil {
		t.Fatal(err)
	}
	if r.Lots != 1004 || r.Runs != 1 || !r.Ended || r.Head != l.Head() || r.Entries > 25 {
		t.Errorf("report %+v, head %s", r, l.Head())
	}
}

func TestSpend_OnDiskWhenItReturns(t *testing.T) {
	l, path := create(t)
	for i := 1; i <= 300; i++ {
		spendLots(t, l, exampleLot(float64(1+i/100)), 1)
		if got := read(t, path).LotCount(); got < i {
			t.Fatalf("after lot %d the file states %d", i, got)
		}
	}
}

func TestOpen_ResumesLedger(t *testing.T) {
	l, path := create(t)
	reserveGreedily(l)
	spendLots(t, l, exampleLot(1), 4) // states 1+2+4
	l.file.Close()                    // dies

	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.History().LotCount(); got != 7 {
		t.Errorf("a killed run states %d lots, want the 7 that it reserved", got)
	}
	spendLots(t, l, exampleLot(1), 2)
	if err := l.MarkInsecure(); err != nil {
		t.Fatal(err)
	}
	spendLots(t, l, exampleLot(1), 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	h := read(t, path)
	if h.LotCount() != 10 || len(h.Lots) != 1 || h.Header.Secure {
		t.Errorf("got %d lots in %d runs, secure %v; want 10 equal ones, insecure", h.LotCount(), len(h.Lots), h.Header.Secure)
	}
	if r, err := Verify(path); err != nil || r.Runs != 2 || !r.Ended {
		t.Errorf("report %+v, %v", r, err)
	}
}

func TestWriter_Reservation(t *testing.T) {
	l, _ := create(t)
	reserveGreedily(l)
	l.LimitReservations(10)
	for i := 1; i <= 10; i++ {
		spendLots(t, l, exampleLot(1), 1)
		if got := l.History().LotCount(); got > 10 {
			t.Fatalf("lot %d: %d stated of 10 allowed", i, got)
		}
	}
	for i := 11; i <= 13; i++ {
		spendLots(t, l, exampleLot(1), 1)
		if got := l.History().LotCount(); got != i {
			t.Errorf("beyond what was allowed, lot %d is stated as %d", i, got)
		}
	}

	synctest.Test(t, func(t *testing.T) { // a slow lot needs none
		l, _ := create(t)
		spendLots(t, l, exampleLot(1), 1)
		for i := 2; i < 6; i++ {
			time.Sleep(time.Millisecond) // and a sync takes no time at all
			spendLots(t, l, exampleLot(1), 1)
			if got := l.History().LotCount(); got != i {
				t.Errorf("lot %d is stated as %d", i, got)
			}
		}
	})
}

// A reservation doubles until a sync takes 1% to 2% of the time. The duration of a lot, which depends
// on its private size, shows as a power of two only.
func TestWriter_ReservationFollowsClock(t *testing.T) { synctest.Test(t, followTheClock) }

func followTheClock(t *testing.T) {
	l, _ := create(t)
	for _, test := range []struct {
		sync, lot time.Duration
		before    int
		want      int
	}{
		{20 * time.Millisecond, 10 * time.Millisecond, 1000, 128},
		{20 * time.Millisecond, 14 * time.Millisecond, 1000, 128},
		{20 * time.Millisecond, 10 * time.Millisecond, 10, 20},
		{time.Millisecond, time.Second, 10, 1},
		{time.Hour, time.Millisecond, maxReservation, maxReservation},
		{20 * time.Millisecond, 0, 10, 20}, // a clock of long ticks
	} {
		l.syncTime, l.stated = test.sync, test.before
		l.synced = time.Now().Add(-time.Duration(test.before) * test.lot)
		if got := l.nextReservation(); got != test.want {
			t.Errorf("syncs of %v, lots of %v, %d reserved before: reserves %d, want %d", test.sync, test.lot, test.before, got, test.want)
		}
	}
}

func TestSpend_DoesNotAllocate(t *testing.T) {
	l, _ := create(t)
	reserveGreedily(l)
	lot := exampleLot(1)
	spendLots(t, l, lot, 1<<12) // uses its reservations up
	spendLots(t, l, lot, 1)     // reserves the next 1<<12
	if n := testing.AllocsPerRun(1000, func() { spendLots(t, l, lot, 1) }); n != 0 {
		t.Errorf("%v allocations a lot", n)
	}
}

func TestSpend_CopiesLot(t *testing.T) {
	l, path := create(t)
	reserveGreedily(l)
	lot := exampleLot(1)
	spendLots(t, l, lot, 2) // and a third is reserved
	lot.Queries[0].Noise = 5
	spendLots(t, l, lot, 2)
	lot.Sampling.Rate = 0.5
	spendLots(t, l, lot, 2)
	often := exampleLot(5)
	often.Sampling.Rate = 0.5
	want := []RepeatedLot{{exampleLot(1), 2}, {exampleLot(5), 2}, {often, 3}}
	seen := l.History().Lots
	seen[0].Lot.Queries[0].Noise, seen[1].Count = 7, 0
	if got := l.History().Lots; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	l.Close()
	want[2].Count = 2
	if got := read(t, path).Lots; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := l.Spend(lot); err == nil {
		t.Error("lots that Close returned are spent")
	}
}

func TestOpen_SecondWriterIsRefused(t *testing.T) {
	l, path := create(t)
	spendLots(t, l, exampleLot(1), 1)
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer gets %v", err)
	}
	if _, err := Create(path, newHeader); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating it again gives %v", err)
	}
	l.Close()
	second, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

func TestSpend_Concurrent(t *testing.T) {
	l, path := create(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				if err := l.Spend(exampleLot(float64(1 + i%2))); err != nil {
					t.Error(err)
				}
				if i == 0 {
					l.History()
					l.Head()
				}
			}
		})
	}
	all.Wait()
	l.Close()
	if got := read(t, path).LotCount(); got != 1600 {
		t.Errorf("%d lots, want 1600", got)
	}
	if _, err := Verify(path); err != nil {
		t.Error(err)
	}
}

func TestWriter_RejectsInvalidInput(t *testing.T) {
	header := func(change func(*Header)) Header { h := newHeader; change(&h); return h }
	for want, h := range map[string]Header{
		"version":   header(func(h *Header) { h.Version = 2 }),
		"unit":      header(func(h *Header) { h.Unit = "" }),
		"records":   header(func(h *Header) { h.Records = 0 }),
		"adjacency": header(func(h *Header) { h.Adjacency = "neighbours" }),
	} {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		if _, err := Create(path, h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("header with a wrong %s: %v", want, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("header with a wrong %s left a file", want)
		}
	}

	l, path := create(t)
	lot := func(change func(*Lot)) Lot { lot := exampleLot(1); change(&lot); return lot }
	for _, bad := range []Lot{
		{},
		lot(func(l *Lot) { l.Sampling.Policy = "bernoulli" }),
		lot(func(l *Lot) { l.Sampling.Rate = 0 }),
		lot(func(l *Lot) { l.Sampling.Rate = 1.5 }),
		lot(func(l *Lot) { l.Sampling.Rate = math.NaN() }),
		lot(func(l *Lot) { l.Sampling.LotSize = 5 }),
		lot(func(l *Lot) { l.Sampling.Records = -1 }),
		lot(func(l *Lot) { l.Sampling = Sampling{Policy: FixedSize, LotSize: 10, Records: 9} }),
		lot(func(l *Lot) { l.Sampling = Sampling{Policy: FixedSize, Records: 9} }),
		lot(func(l *Lot) { l.Sampling = Sampling{Policy: Shuffle, LotSize: 3, Records: 9, Rate: 0.1} }),
		lot(func(l *Lot) { l.Sampling = Sampling{Policy: FullBatch, Rate: 1} }),
		lot(func(l *Lot) { l.Sampling = Sampling{Policy: FullBatch, LotSize: 9, Records: 9} }),
		lot(func(l *Lot) { l.Sampling = Sampling{Policy: Truncated, Rate: 1, LotSize: 9, Records: 20} }),
		lot(func(l *Lot) { l.Sampling = Sampling{Policy: Truncated, Rate: .5, Records: 20} }),
		lot(func(l *Lot) { l.Sampling = Sampling{Policy: Truncated, Rate: .5, LotSize: 9} }),
		lot(func(l *Lot) {
			l.Sampling = Sampling{Policy: Truncated, Rate: .5, LotSize: 9, Records: 20}
			l.Queries[1].Mechanism = Laplace
		}),
		lot(func(l *Lot) { l.Queries = nil }),
		lot(func(l *Lot) { l.Queries[1].Mechanism = "uniform" }),
		lot(func(l *Lot) { l.Queries[1].Noise = 0 }),
		lot(func(l *Lot) { l.Queries[1].Noise = math.Inf(1) }),
		lot(func(l *Lot) { l.Queries[0].Sensitivity = -1 }),
		lot(func(l *Lot) { l.Queries[0].Sensitivity = math.NaN() }),
		lot(func(l *Lot) { l.Queries[0].Lattice = 1 << 22 }),
		lot(func(l *Lot) { l.Queries[1].Grid = 3 }),
	} {
		if err := l.Spend(bad); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("lot %+v: %v", bad, err)
		}
	}
	for _, sampling := range []Sampling{
		{Policy: Poisson, Rate: 1}, {Policy: FixedSize, LotSize: 1, Records: 1}, {Policy: Shuffle, LotSize: 1, Records: 9}, {Policy: FullBatch, Records: 9},
		{Policy: Truncated, Rate: .25, LotSize: 9, Records: 20}, {Policy: Truncated, Rate: .25, LotSize: 30, Records: 20},
	} {
		spendLots(t, l, lot(func(l *Lot) {
			l.Sampling = sampling
			for i := range l.Queries {
				l.Queries[i].Mechanism = Gaussian
			}
		}), 1)
	}
	l.Close()
	if err := l.Spend(exampleLot(1)); err == nil {
		t.Error("a closed ledger accepts a lot")
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if got := read(t, path).LotCount(); got != 6 {
		t.Errorf("%d lots, want 6", got)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestDiscard_OnlyWithoutLots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := Discard(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	l, begun := create(t)
	if err := Discard(begun); !errors.Is(err, ErrLocked) {
		t.Errorf("one that is being written: %v", err)
	}
	spendLots(t, l, exampleLot(1), 1)
	l.Close()
	file, err := os.ReadFile(begun)
	if err != nil {
		t.Fatal(err)
	}
	header, spend := bytes.IndexByte(file, '\n')+1, bytes.Index(file, []byte(`{"end"`))
	for name, c := range map[string]struct {
		text []byte
		want error
	}{
		"empty":                 {nil, nil},
		"half a header":         {file[:header/2], nil},
		"a header":              {file[:header], nil},
		"without its newline":   {file[:header-1], nil},
		"a lot":                 {file, ErrNotEmpty},
		"a lot that was killed": {file[:spend], ErrNotEmpty},
		"half a lot":            {file[:spend-9], ErrNotEmpty},
	} {
		if err := os.WriteFile(path, c.text, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Discard(path); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); (err == nil) != (c.want != nil) {
			t.Errorf("%s: afterwards %v", name, err)
		}
	}
	os.WriteFile(path, []byte("hello\n"), 0o644)
	var damage *DamageError
	if err := Discard(path); !errors.As(err, &damage) {
		t.Errorf("another file: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("another file was removed")
	}
}

// A file that was removed while a writer waited for its lock must not be written.
func TestOpen_FileRemovedWhileWaiting(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows removes no open file")
	}
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	for _, again := range []bool{false, true} {
		l, err := Create(path, newHeader)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		waiting, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := Discard(path); err != nil {
			t.Fatal(err)
		}
		if again {
			if l, err = Create(path, newHeader); err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
		if _, err := resume(waiting); !errors.Is(err, ErrLocked) {
			t.Errorf("replaced: %v; opening the removed file: %v", again, err)
		}
		waiting.Close()
	}
}

// Of several goroutines that discard an empty ledger and create it again, none loses a lot
// that another spends.
func TestDiscard_ConcurrentCreate(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		var all sync.WaitGroup
		var spent atomic.Int64
		for range 4 {
			all.Go(func() {
				for range 5 {
					if err := Discard(path); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, ErrLocked) && !errors.Is(err, ErrNotEmpty) {
						t.Error(err)
					}
					l, err := Create(path, newHeader)
					if err != nil {
						continue
					}
					if l.Spend(exampleLot(1)) == nil {
						spent.Add(1)
					}
					l.Close()
				}
			})
		}
		all.Wait()
		if got := read(t, path).LotCount(); spent.Load() != 1 || got != 1 {
			t.Fatalf("%d lots were spent, the ledger states %d, want 1", spent.Load(), got)
		}
	}
}

// A ledger contains the hashes of its lines and no others.
func TestContainsHead_EachLineHash(t *testing.T) {
	file := record(t).file
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := os.WriteFile(path, bytes.TrimSuffix(file, []byte("\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
	for i, line := range lines {
		sum := sha256.Sum256(line)
		if holds, err := ContainsHead(path, hex.EncodeToString(sum[:])); !holds || err != nil {
			t.Errorf("line %d: %v, %v", i+1, holds, err)
		}
		sum[0] ^= 1
		for _, other := range []string{hex.EncodeToString(sum[:]), hex.EncodeToString(sum[:31]), "", "x", strings.Repeat("0", 64), strings.Repeat("0", 66)} {
			if holds, err := ContainsHead(path, other); holds || err != nil {
				t.Errorf("%q: %v, %v", other, holds, err)
			}
		}
	}
}

// A ledger names at most one project budget, also after it was resumed. Its end line states that the
// run is complete.
func TestWriter_NamesOneBudget(t *testing.T) {
	const budget, other = "b1946ac92492d2347c6235b4d2611184", "0a946ac92492d2347c6235b4d2611184"
	l, path := create(t)
	reserveGreedily(l)
	spendLots(t, l, exampleLot(1), 5)
	if err := errors.Join(l.NameBudget(budget), l.NameBudget(budget)); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{other, "", strings.ToUpper(budget)} {
		if err := l.NameBudget(wrong); err == nil {
			t.Errorf("the budget %q is named as well", wrong)
		}
	}
	spendLots(t, l, exampleLot(1), 2)
	l.SetComplete()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	first := readFile(t, path)
	if s := first.Summary; s.Budget != budget || first.History.Budget != budget || !s.Complete || s.Lots != 7 || s.Process != s.Run {
		t.Errorf("%+v", s)
	}
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.NameBudget(other); err == nil {
		t.Error("a resumed ledger names a second budget")
	}
	if err := errors.Join(l.NameBudget(budget), l.Close()); err != nil {
		t.Fatal(err)
	}
	second := readFile(t, path)
	if s := second.Summary; s.Budget != budget || s.Complete || s.Process == s.Run || s.Process == "" {
		t.Errorf("resumed: %+v", s)
	}
	if !second.HasProcess(first.Summary.Process) || first.HasProcess(second.Summary.Process) || second.HasProcess("") {
		t.Error("the processes of a ledger are not those that wrote to it")
	}
	if !second.IsDescribedBy(first.Summary.Head) || second.IsDescribedBy(strings.Repeat("0", 64)) || second.IsDescribedBy("") {
		t.Error("no lots came after the first process")
	}
	continueRun(t, path, exampleLot(1), 1)
	if third := readFile(t, path); third.IsDescribedBy(first.Summary.Head) || !third.IsDescribedBy(third.Summary.Head) {
		t.Error("a lot came after the first process")
	}
}
