package ledger

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestWriter_MillionEqualLots(t *testing.T) {
	l, path := create(t)
	reserveGreedily(l)
	lot := exampleLot(1)
	spendLots(t, l, lot, 1_000_000)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 32<<10 {
		t.Errorf("a million equal lots take %d bytes", info.Size())
	}
	h := read(t, path)
	if h.LotCount() != 1_000_000 || len(h.Lots) != 1 {
		t.Errorf("%d lots in %d entries", h.LotCount(), len(h.Lots))
	}
}

// A lot of many groups is a line longer than the read buffer.
func TestRead_LongLine(t *testing.T) {
	l, path := create(t)
	lot := exampleLot(1)
	for i := range 1500 {
		lot.Queries = append(lot.Queries, Query{Group: fmt.Sprintf("block%d.attention.weight", i), Mechanism: Gaussian, Sensitivity: 1, Noise: 2})
	}
	spendLots(t, l, lot, 1)
	spendLots(t, l, exampleLot(1), 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, path).Lots, []RepeatedLot{{lot, 1}, {exampleLot(1), 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%d lots, or other lots than were spent", len(got))
	}
}

func scheduled(i, n int) Lot {
	return Lot{Sampling{Policy: Poisson, Rate: 0.01, Records: 60000}, []Query{{Group: "all", Mechanism: Gaussian, Sensitivity: 1, Noise: 1 + float64(i)/float64(n)}}}
}

// writeSchedule writes a ledger of a million different lots, without syncs.
func writeSchedule(t testing.TB) string {
	t.Helper()
	const n = 1_000_000
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriterSize(file, 1<<20)
	line, head := appendLine(nil, entry{kind: headerLine, header: exampleHeader}, digest{})
	for i := range n {
		out.Write(line)
		line, head = appendLine(line[:0], entry{kind: spendLine, count: 1, lot: scheduled(i, n)}, head)
	}
	out.Write(line)
	if err := errors.Join(out.Flush(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWriter_DifferentLots(t *testing.T) {
	const n = 20_000
	l, path := create(t)
	l.sync = func() error { return nil }
	for i := range n {
		spendLots(t, l, scheduled(i, n), 1)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	h := read(t, path)
	if h.LotCount() != n || len(h.Lots) != n {
		t.Errorf("%d lots in %d entries", h.LotCount(), len(h.Lots))
	}
}

func TestRead_MillionDifferentLots(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a million lots, in -short")
	}
	h := read(t, writeSchedule(t))
	if h.LotCount() != 1_000_000 || len(h.Lots) != 1_000_000 {
		t.Errorf("%d lots in %d entries", h.LotCount(), len(h.Lots))
	}
}

func BenchmarkReadMillionDifferentLots(b *testing.B) {
	path := writeSchedule(b)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	b.ReportAllocs()
	for b.Loop() {
		read(b, path)
	}
}

// A million equal lots are a small file.
func BenchmarkReadMillionEqualLots(b *testing.B) {
	l, path := create(b)
	reserveGreedily(l)
	spendLots(b, l, exampleLot(1), 1_000_000)
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		read(b, path)
	}
}

// Different lots need a sync each.
func BenchmarkSpendDifferent(b *testing.B) {
	l, _ := create(b)
	lot := exampleLot(1)
	for b.Loop() {
		lot.Queries[0].Noise += 1e-6
		if err := l.Spend(lot); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSpendReserved(b *testing.B) {
	l, _ := create(b)
	reserveGreedily(l)
	lot := exampleLot(1)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Spend(lot); err != nil {
			b.Fatal(err)
		}
	}
}
