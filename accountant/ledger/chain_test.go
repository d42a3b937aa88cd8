package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestChain_RejectsInvalidOrder(t *testing.T) {
	header := entry{kind: headerLine, header: exampleHeader}
	spend := func(n int) entry { return entry{kind: spendLine, count: n, lot: exampleLot(1)} }
	id, sum := strings.Repeat("0a", runIDSize), strings.Repeat("0b", 32)
	v2 := entry{kind: headerLine, header: Header{Version: 2, Unit: "example", Records: 9, Adjacency: ZeroOut, Run: id}}
	v5, named := v2, entry{kind: budgetLine, budget: id}
	v5.header.Version = 5
	rounded := entry{kind: spendLine, count: 1, lot: Lot{exampleLot(1).Sampling, []Query{RoundedQuery("all", 1, 4, 1<<22)}}}
	laplace := entry{kind: spendLine, count: 1, lot: Lot{exampleLot(1).Sampling, []Query{DiscreteLaplaceQuery("all", 1, 3<<21, 1<<22)}}}
	choice := entry{kind: spendLine, count: 1, lot: Lot{Sampling{Policy: FullBatch}, []Query{{Group: "choice", Mechanism: PermuteAndFlip, Sensitivity: 1, Noise: 4}}}}
	truncated := entry{kind: spendLine, count: 1, lot: Lot{Sampling{Policy: Truncated, Rate: .5, LotSize: 6, Records: 9}, []Query{{Group: "all", Mechanism: Gaussian, Sensitivity: 1, Noise: 4}}}}
	for _, test := range []struct {
		why   string // "" if the last line is sound
		lines []entry
	}{
		{"", []entry{header, spend(3), {kind: returnLine, count: 3}, {kind: endLine}}},
		{"", []entry{header, spend(3), spend(4), {kind: returnLine, count: 5}, {kind: endLine, count: 2}}},
		{"", []entry{header, {kind: endLine}, {kind: resumeLine, count: 2}, {kind: resumeLine, count: 3}}},
		{"", []entry{v2, {kind: endLine, weights: sum}, {kind: resumeLine, count: 2, header: Header{Run: id}}, {kind: endLine}}},
		{"", []entry{header, {kind: resumeLine, count: 2}, {kind: resumeLine, count: 3, header: Header{Version: 2, Run: id}}, {kind: resumeLine, count: 4, header: Header{Run: id}}, {kind: endLine, weights: sum}}},
		{"requires the key \"run\"", []entry{v2, {kind: resumeLine, count: 2}}},
		{"requires the key \"run\"", []entry{header, {kind: resumeLine, count: 2, header: Header{Version: 2, Run: id}}, {kind: resumeLine, count: 3}}},
		{"key \"run\" is unknown", []entry{header, {kind: resumeLine, count: 2, header: Header{Run: id}}}},
		{"key \"weights\" is unknown", []entry{header, {kind: endLine, weights: sum}}},
		{"format version from 2 to 2", []entry{v2, {kind: resumeLine, count: 2, header: Header{Version: 2, Run: id}}}},
		{"format version from 1 to 6", []entry{header, {kind: resumeLine, count: 2, header: Header{Version: 6, Run: id}}}},
		{"requires the key \"run\"", []entry{{kind: headerLine, header: Header{Version: 2, Unit: "example", Records: 9, Adjacency: ZeroOut}}}},
		{"hexadecimal", []entry{{kind: headerLine, header: Header{Version: 2, Unit: "example", Records: 9, Adjacency: ZeroOut, Run: strings.ToUpper(id)}}}},
		{"", []entry{v2, {kind: resumeLine, count: 2, header: Header{Version: 3, Run: id}}, rounded, truncated, {kind: endLine, count: 2}}},
		{"\"rounded-gaussian\" is unknown in format version 2", []entry{v2, rounded}},
		{"\"truncated\" is unknown in format version 2", []entry{v2, truncated}},
		{"", []entry{v2, {kind: resumeLine, count: 2, header: Header{Version: 4, Run: id}}, rounded, laplace, choice, {kind: endLine, count: 3}}},
		{"\"discrete-laplace\" is unknown in format version 3", []entry{v2, {kind: resumeLine, count: 2, header: Header{Version: 3, Run: id}}, laplace}},
		{"\"permute-and-flip\" is unknown in format version 3", []entry{v2, {kind: resumeLine, count: 2, header: Header{Version: 3, Run: id}}, rounded, choice}},
		{"", []entry{v5, named, spend(1), {kind: resumeLine, count: 2, header: Header{Run: id}}, spend(1), {kind: endLine, count: 2, weights: sum, complete: true}}},
		{"", []entry{v5, spend(1), {kind: endLine, count: 1, complete: true}, {kind: resumeLine, count: 2, header: Header{Run: id}}, named}},
		{"", []entry{v2, {kind: resumeLine, count: 2, header: Header{Version: 5, Run: id}}, named}},
		{"second project budget", []entry{v5, named, spend(1), named}},
		{"key \"budget\" is unknown", []entry{v2, named}},
		{"key \"complete\" is unknown", []entry{v2, {kind: endLine, complete: true}}},
		{"not a resume line", []entry{v5, {kind: endLine}, named}},
		{"hexadecimal", []entry{v5, {kind: budgetLine, budget: strings.ToUpper(id)}}},
		{"\"rounded-gaussian\" is unknown in format version 1", []entry{header, spend(1), rounded}},
		{"header", []entry{spend(1)}},
		{"second header", []entry{header, header}},
		{"below 1", []entry{header, spend(0)}},
		{"has more than", []entry{header, spend(MaxLots), spend(1)}},
		{"returns", []entry{header, spend(3), {kind: returnLine, count: 4}}},
		{"returns", []entry{header, spend(3), {kind: returnLine, count: 0}}},
		{"returns", []entry{header, spend(3), {kind: returnLine, count: 2}, {kind: returnLine, count: 2}}},
		{"returns", []entry{header, spend(3), {kind: resumeLine, count: 2}, {kind: returnLine, count: 1}}},
		{"run 3", []entry{header, {kind: resumeLine, count: 3}}},
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
	// The examples of earlier versions of the page.
	for _, version := range []int{3, 4} {
		path = filepath.Join("testdata", fmt.Sprintf("version%d.jsonl", version))
		if got := read(t, path); !reflect.DeepEqual(got, History{Header{version, "example", 60000, AddRemove, true, report.Run}, "", want}) {
			t.Errorf("%s is read as %+v", path, got)
		}
	}
	want[0].Lot.Queries[0] = Query{Group: "all", Mechanism: Gaussian, Sensitivity: 1, Noise: 4}
	for _, old := range []struct {
		file   string
		head   string
		header Header
	}{
		{"version1.jsonl", "3d204fc96190bede5bf3be4003c57e85f2631dfbfd4f91f2682232feb97d4439", exampleHeader},
		{"version2.jsonl", "73ee325a56ad9aa2266b5c78b83c3ade4aec2fc560af8c0a150735b0fb1b98d1", Header{2, "example", 60000, AddRemove, true, report.Run}},
	} {
		path = filepath.Join("testdata", old.file)
		got, err := Verify(path)
		if err != nil || got.Entries != 3 || got.Lots != 10 || got.Head != old.head || got.Run != old.header.Run || !got.Ended {
			t.Errorf("%s is verified as %+v, %v", old.file, got, err)
		}
		if got := read(t, path); !reflect.DeepEqual(got, History{old.header, "", want}) {
			t.Errorf("%s is read as %+v", old.file, got)
		}
	}
}
