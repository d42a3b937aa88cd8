package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestChain_RejectsInvalidOrder(t *testing.T) {
	header := entry{kind: headerLine, header: exampleHeader}
	spend := func(n int) entry { return entry{kind: spendLine, count: n, lot: exampleLot(1)} }
	sum, named := strings.Repeat("0b", 32), entry{kind: budgetLine, budget: exampleRun}
	headerOf := func(version int, run string) entry {
		return entry{kind: headerLine, header: Header{Version: version, Unit: "example", Records: 9, Adjacency: ZeroOut, Run: run}}
	}
	resume := func(n, version int) entry {
		return entry{kind: resumeLine, count: n, header: Header{Version: version, Run: exampleRun}}
	}
	header4 := headerOf(4, exampleRun)
	for _, test := range []struct {
		why   string // "" if the last line is sound
		lines []entry
	}{
		{"", []entry{header, spend(3), {kind: returnLine, count: 3}, {kind: endLine}}},
		{"", []entry{header, spend(3), spend(4), {kind: returnLine, count: 5}, {kind: endLine, count: 2}}},
		{"", []entry{header, {kind: endLine, weights: sum}, resume(2, 0), resume(3, 0), {kind: endLine}}},
		{"", []entry{header, named, spend(1), resume(2, 0), spend(1), {kind: endLine, count: 2, weights: sum, complete: true}}},
		{"", []entry{header, spend(1), {kind: endLine, count: 1, complete: true}, resume(2, 0), named}},
		{"", []entry{header4, resume(2, 5), named}},
		{"keys do not form", []entry{header, {kind: resumeLine, count: 2}}},
		{"keys do not form", []entry{headerOf(5, "")}},
		{"hexadecimal", []entry{headerOf(5, strings.ToUpper(exampleRun))}},
		{"hexadecimal", []entry{header, {kind: budgetLine, budget: strings.ToUpper(exampleRun)}}},
		{"versions from 4 on", []entry{headerOf(3, exampleRun)}},
		{"versions up to 5", []entry{headerOf(6, exampleRun)}},
		{"format version from 5 to 5", []entry{header, resume(2, 5)}},
		{"format version from 4 to 6", []entry{header4, resume(2, 6)}},
		{"key \"budget\" is unknown", []entry{header4, named}},
		{"key \"complete\" is unknown", []entry{header4, {kind: endLine, complete: true}}},
		{"second project budget", []entry{header, named, spend(1), named}},
		{"not a resume line", []entry{header, {kind: endLine}, named}},
		{"header", []entry{spend(1)}},
		{"second header", []entry{header, header}},
		{"below 1", []entry{header, spend(0)}},
		{"has more than", []entry{header, spend(MaxLots), spend(1)}},
		{"returns", []entry{header, spend(3), {kind: returnLine, count: 4}}},
		{"returns", []entry{header, spend(3), {kind: returnLine, count: 0}}},
		{"returns", []entry{header, spend(3), {kind: returnLine, count: 2}, {kind: returnLine, count: 2}}},
		{"the lines before it state", []entry{header, spend(3), {kind: endLine, count: 2}}},
		{"not a resume line", []entry{header, spend(3), {kind: endLine, count: 3}, spend(1)}},
		{"not a resume line", []entry{header, {kind: endLine}, {kind: endLine}}},
	} {
		var file []byte
		var head digest
		for _, e := range test.lines {
			file, head = appendLine(file, e, head)
		}
		got := damagedLine(file)
		if test.why == "" && got != 0 || test.why != "" && got != len(test.lines) {
			t.Errorf("want %q, got damage at line %d in\n%s", test.why, got, file)
		}
		if err := verifyBytes(t, file); test.why != "" && !strings.Contains(err.Error(), test.why) {
			t.Errorf("want %q, got %v", test.why, err)
		}
		if len(test.lines) < 2 {
			continue
		}
		if s, err := scan(bytes.NewReader(file[:len(file)-1])); err != nil || s.tail.whole != (test.why == "") {
			t.Errorf("want %q, but without its newline the last line is valid: %v, %v", test.why, s.tail.whole, err)
		}
	}
}

// A return line removes the lots that were stated last.
func TestChain_ReturnedLots(t *testing.T) {
	var c chain
	for _, e := range []entry{
		{kind: headerLine, header: exampleHeader}, {kind: spendLine, count: 3, lot: exampleLot(1)}, {kind: spendLine, count: 4, lot: exampleLot(2)}, {kind: returnLine, count: 4}, {kind: returnLine, count: 1},
	} {
		c.apply(e, digest{})
	}
	if want := []RepeatedLot{{exampleLot(1), 2}}; c.lots != 2 || !reflect.DeepEqual(c.history.Lots, want) {
		t.Errorf("%d lots remain, %+v", c.lots, c.history.Lots)
	}
}

// The example in FORMAT.md was written by an independent implementation of that page.
func TestRead_ExampleInFormatDocument(t *testing.T) {
	page, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(page, []byte("A complete ledger of ten lots, whose head is `"))
	head, rest, _ := bytes.Cut(rest, []byte("`"))
	_, rest, _ = bytes.Cut(rest, []byte("```json\n"))
	file, _, found := bytes.Cut(rest, []byte("```"))
	if !found {
		t.Fatal("FORMAT.md has no example")
	}
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(nil) // the weights are an empty file
	const budget = "b1946ac92492d2347c6235b4d2611184"
	report, err := Verify(path)
	if want := (Summary{Entries: 4, Lots: 10, Runs: 1, Head: string(head), Run: "5f0c2a8e91d34b7796e1c0d8a37b42f6", Process: "5f0c2a8e91d34b7796e1c0d8a37b42f6",
		Weights: hex.EncodeToString(sum[:]), Budget: budget, Ended: true, Complete: true}); err != nil || report != want {
		t.Errorf("verified as %+v, %v, want %+v", report, err, want)
	}
	sampling := Sampling{Policy: Poisson, Rate: 0.01, Records: 60000}
	want := []RepeatedLot{{Lot{sampling, []Query{{Group: "all", Mechanism: RoundedGaussian, Sensitivity: 1, Noise: 4, Lattice: 1 << 22, Grid: 16}}}, 10}}
	if got := read(t, path); !reflect.DeepEqual(got, History{Header{5, "example", 60000, AddRemove, true, report.Run}, budget, want}) {
		t.Errorf("read as %+v", got)
	}
	// The example of the page of version 4.
	path = filepath.Join("testdata", "version4.jsonl")
	if got := read(t, path); !reflect.DeepEqual(got, History{Header{4, "example", 60000, AddRemove, true, report.Run}, "", want}) {
		t.Errorf("%s is read as %+v", path, got)
	}
}
