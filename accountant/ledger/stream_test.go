package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var streamHeader = Header{Unit: "example", Records: 100, Adjacency: ZeroOut, Secure: true}

func streamLot(noise float64) Lot {
	return Lot{Sampling: Sampling{Policy: Poisson, Rate: 0.1}, Queries: []Query{{Group: "all", Mechanism: Gaussian, Sensitivity: 1, Noise: noise}}}
}

// A ledger on a writer has the lines of a ledger in a file: Read and Verify accept them, and Parse
// returns the same.
func TestNewWriter_ReadsLikeFile(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, streamHeader)
	if err != nil {
		t.Fatal(err)
	}
	for _, noise := range []float64{1, 1, 1, 2, 2} {
		if err := w.Spend(streamLot(noise)); err != nil {
			t.Fatal(err)
		}
	}
	w.SetComplete()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Spend(streamLot(1)); err == nil {
		t.Error("a closed ledger accepted a lot")
	}
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	verified, err := Verify(path)
	if err != nil {
		t.Fatal(err)
	}
	history, summary, err := Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(history, fromFile) || summary != verified {
		t.Errorf("Parse: %+v, %+v; from the file: %+v, %+v", history, summary, fromFile, verified)
	}
	if history.LotCount() != 5 || !summary.Complete || !summary.Ended {
		t.Errorf("the ledger states %d lots, %+v; 5 ran to their end", history.LotCount(), summary)
	}
}

// A lot whose line the writer did not accept is refused, and so is every later one.
func TestNewWriter_FailedWriteRefusesLots(t *testing.T) {
	w, err := NewWriter(&failingWriter{lines: 2}, streamHeader)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Spend(streamLot(1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Spend(streamLot(2)); !errors.Is(err, errFull) {
			t.Errorf("a lot that no line states: %v; the error of the writer is wanted", err)
		}
	}
}

func TestParse_FindsDamage(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, streamHeader)
	if err != nil {
		t.Fatal(err)
	}
	for _, noise := range []float64{1, 2} {
		if err := w.Spend(streamLot(noise)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(b.String(), "\n")
	for name, text := range map[string]string{
		"a changed number": strings.Replace(b.String(), "0.1", "0.2", 1),
		"a missing line":   strings.Join(append(lines[:1:1], lines[2:]...), ""),
		"a truncated line": b.String()[:b.Len()-3],
		"no ledger":        "{}\n",
		"nothing":          "",
	} {
		var damage *DamageError
		if _, _, err := Parse(strings.NewReader(text)); !errors.As(err, &damage) {
			t.Errorf("%s: %v; a DamageError is wanted", name, err)
		}
	}
}

var errFull = errors.New("full")

// failingWriter accepts some lines.
type failingWriter struct{ lines int }

func (f *failingWriter) Write(b []byte) (int, error) {
	f.lines -= bytes.Count(b, []byte("\n"))
	if f.lines < 0 {
		return 0, errFull
	}
	return len(b), nil
}
