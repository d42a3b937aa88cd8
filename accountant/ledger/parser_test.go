package ledger

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// withChecksum ends a line, given without its closing brace, as FORMAT.md requires.
func withChecksum(content string) []byte { return appendChecksum([]byte(content), []byte(content)) }

const (
	noPrev     = `,"prev":"0000000000000000000000000000000000000000000000000000000000000000"`
	roundedLot = `{"sampling":{"policy":"none"},"queries":[{"group":"all","mechanism":"rounded-gaussian","sensitivity":0.5,"noise":5,"lattice":1,"grid":-5}]}`
	fullLot    = `{"sampling":{"policy":"poisson","rate":0.5,"records":7},"queries":[{"group":"all","mechanism":"gaussian","sensitivity":1,"noise":2.5}]}`
)

func TestParser_AcceptsEquivalentJSON(t *testing.T) {
	for _, content := range []string{
		`{"spend":3,"lot":` + fullLot + noPrev,
		` { "spend" : 3 , "lot" : ` + strings.ReplaceAll(fullLot, ":", "\t: ") + " " + noPrev,
		`{"lot":` + fullLot + `,"spend":3` + noPrev,
		`{"spend":3,"lot":` + strings.NewReplacer("0.5", "5.0E-1", "2.5", "25e-1", `"all"`, `"\u0061ll"`).Replace(fullLot) + noPrev,
		`{"spend":3,"lot":` + strings.NewReplacer("0.5", "0.005e2", "2.5", "0.25E+1").Replace(fullLot) + noPrev,
		`{"spend":3,"lot":{"queries":[{"noise":2.5,"sensitivity":1,"mechanism":"gaussian","group":"all"}],"sampling":{"records":7,"rate":0.5,"policy":"poisson"}}` + noPrev,
	} {
		var p parser
		e, why := p.line(withChecksum(content), digest{})
		want := entry{kind: spendLine, count: 3, lot: Lot{
			Sampling{Policy: Poisson, Rate: 0.5, Records: 7},
			[]Query{{Group: "all", Mechanism: Gaussian, Sensitivity: 1, Noise: 2.5}},
		}}
		if why != "" || !reflect.DeepEqual(e, want) {
			t.Errorf("%s\nis read as %+v, %s", content, e, why)
		}
	}
}

func TestParser_RejectsAmbiguousJSON(t *testing.T) {
	spend := func(lot string) string { return `{"spend":1,"lot":` + lot + noPrev }
	change := func(old, new string) string {
		if !strings.Contains(fullLot, old) {
			t.Fatalf("%s is not in the lot", old)
		}
		return spend(strings.Replace(fullLot, old, new, 1))
	}
	changeRounded := func(old, new string) string {
		if !strings.Contains(roundedLot, old) {
			t.Fatalf("%s is not in the lot", old)
		}
		return spend(strings.Replace(roundedLot, old, new, 1))
	}
	var p parser
	if e, why := p.line(withChecksum(spend(roundedLot)), digest{}); why != "" || e.lot.Queries[0] != RoundedQuery("all", 0.5, 5, 1) {
		t.Errorf("%s is read as %+v, %s", roundedLot, e, why)
	}
	for _, content := range []string{
		`{"spend":1` + noPrev,
		`{"lot":` + fullLot + noPrev,
		`{"spend":1,"return":1,"lot":` + fullLot + noPrev,
		`{"spend":1,"spend":1,"lot":` + fullLot + noPrev,
		`{"Spend":1,"lot":` + fullLot + noPrev,
		`{"spend":01,"lot":` + fullLot + noPrev,
		`{"spend":-1,"lot":` + fullLot + noPrev,
		`{"spend":1.0,"lot":` + fullLot + noPrev,
		`{"spend":1e3,"lot":` + fullLot + noPrev,
		`{"spend":"1","lot":` + fullLot + noPrev,
		`{"spend":1,` + "\r" + `"lot":` + fullLot + noPrev,
		`{"spend":9007199254740993,"lot":` + fullLot + noPrev,
		`{"spend":99999999999999999999,"lot":` + fullLot + noPrev,
		`{"spend":1,"lot":` + fullLot,
		`{"insecure":false` + noPrev,
		`{"end":1,"complete":false` + noPrev,
		`{"spend":1,"complete":true,"lot":` + fullLot + noPrev,
		`{"budget":"b1946ac92492d2347c6235b4d2611184","complete":true` + noPrev,
		`{` + noPrev[1:] + `,"insecure":true`,
		`{"note":"x"` + noPrev,
		`{"ledger":"other","version":5,"run":"5f0c2a8e91d34b7796e1c0d8a37b42f6","unit":"example","records":1,"adjacency":"zero-out","secure":true`,
		`{"ledger":"dptrain","version":5,"run":"5f0c2a8e91d34b7796e1c0d8a37b42f6","unit":"example","records":1,"adjacency":"zero-out"`,
		change(`0.5`, `.5`), change(`0.5`, `0.`), change(`0.5`, `5e`), change(`0.5`, `0x1p-1`), change(`0.5`, `1e999`),
		change(`2.5`, `NaN`), change(`2.5`, `Infinity`), change(`2.5`, `+2.5`), change(`2.5`, `null`), change(`2.5`, `0`),
		change(`2.5}]`, `2.5}`), change(`2.5}]`, `2.5},]`), change(`[{`, `[`), change(`"noise"`, `"Noise"`),
		change(`"all"`, "\"a\x01ll\""), change(`"all"`, "\"a\xffll\""), change(`"all"`, `"\x61ll"`), change(`"all"`, `"all`),
		change(`,"noise":2.5`, ``), change(`"sensitivity":1,`, ``), change(`"group":"all",`, ``), change(`"mechanism":"gaussian",`, ``),
		change(`"rate":0.5`, `"rate"=0.5`), change(`"queries":[`, `"queries":{`), string(withChecksum(spend(fullLot))),
		`{"ledger":"dptrain","version":5,"run":"5f0c2a8e91d34b7796e1c0d8a37b42f6","unit":"example","records":1,"adjacency":"zero-out","secure":null`, change(`"rate":0.5`, `"rate":0.5,"rate":0.1`), change(`"rate":0.5`, `"rate":1.5`),
		change(`"records":7}`, `"records":7,"seed":1}`),
		changeRounded(`,"grid":-5`, ``), changeRounded(`"lattice":1,`, ``), changeRounded(`rounded-gaussian`, `gaussian`), changeRounded(`rounded-`, `discrete-`),
		changeRounded(`-5}`, `-5.0}`), changeRounded(`-5}`, `- 5}`), changeRounded(`-5}`, `-05}`), changeRounded(`-5}`, `+5}`), changeRounded(`-5}`, `5}`), changeRounded(`-5}`, `-6}`), changeRounded(`-5}`, `-4}`),
		changeRounded(`-5}`, `-99999999999999999999}`), changeRounded(`-5}`, `-5,"grid":-5}`), changeRounded(`"lattice":1`, `"lattice":-1`), changeRounded(`"lattice":1`, `"lattice":1.0`), changeRounded(`"lattice":1`, `"lattice":0`),
		change(`2.5}`, `2.5,"lattice":0,"grid":0}`), change(`2.5}`, `2.5,"lattice":4,"grid":-5}`), change(`2.5}`, `2.5,"grid":0}`),
		spend(`{"sampling":{"policy":"none"}}`), spend(`{"sampling":{"policy":"none"},"queries":[]}`), spend(`{}`), spend(`[]`), spend(``),
	} {
		var p parser
		if e, why := p.line(withChecksum(content), digest{}); why == "" {
			t.Errorf("%s\nis accepted as %+v", content, e)
		}
	}
}

// encoding/json reads each accepted line as the same content, and so does the parser after
// the content is written again.
func FuzzLedgerLine(f *testing.F) {
	for line := range bytes.SplitSeq(record(f).file, []byte("\n")) {
		if len(line) > checksumSize {
			f.Add(string(line[:len(line)-checksumSize]))
		}
	}
	f.Add(`{"spend":3,"lot":` + fullLot + noPrev)
	f.Add(`{ "return" : 12 ` + noPrev)
	f.Add(`{"end":12,"complete":true` + noPrev)
	f.Add(`{"budget":"b1946ac92492d2347c6235b4d2611184"` + noPrev)
	f.Add(`{"spend":1,"lot":` + roundedLot + noPrev)
	f.Add(`{"spend":1,"lot":` + strings.NewReplacer(`"grid":-5`, `"grid":-0`, `"noise":5`, `"noise":128.5`).Replace(roundedLot) + noPrev)
	f.Add(`{"spend":1,"lot":{"sampling":{"policy":"fixed","lot":3,"records":9},"queries":[{"group":"\u00e9\"\\","mechanism":"laplace","sensitivity":1e-300,"noise":2E+5}]}` + noPrev)
	f.Fuzz(func(t *testing.T, content string) {
		var p parser
		e, why := p.line(withChecksum(content), digest{})
		var c chain
		c.lines, c.lots, c.runLots, c.runs = 1, 5, 5, 1
		c.history.Lots = []RepeatedLot{{exampleLot(1), 5}}
		c.guess(&p, []byte(content)) // must not crash
		if why != "" {
			return
		}
		var oracle struct {
			Header
			Ledger                           string
			Spend, Torn, Return, Resume, End int
			Insecure                         bool
			Weights, Budget                  string
			Complete                         bool
			Lot                              Lot
		}
		if err := json.Unmarshal(withChecksum(content), &oracle); err != nil {
			t.Fatalf("%s is accepted, encoding/json reads %v", content, err)
		}
		if count := oracle.Spend + oracle.Torn + oracle.Return + oracle.Resume + oracle.End; count != e.count {
			t.Fatalf("%s has count %d, encoding/json reads %d", content, e.count, count)
		}
		if oracle.Weights != e.weights || oracle.Budget != e.budget || oracle.Complete != e.complete || oracle.Run != e.header.Run || e.kind == headerLine && oracle.Header != e.header || !reflect.DeepEqual(oracle.Lot, e.lot) {
			t.Fatalf("%s is read as %+v, encoding/json reads %+v", content, e, oracle)
		}
		again, _ := appendLine(nil, e, digest{})
		if back, why := p.line(again[:len(again)-1], digest{}); why != "" || !reflect.DeepEqual(back, e) {
			t.Fatalf("%s is written as %s and read back as %+v, %s", content, again, back, why)
		}
	})
}

// No file makes the reader panic, and its sums agree.
func FuzzLedger(f *testing.F) {
	file := record(f).file
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, c, err := scanBytes(file)
		if err != nil {
			return
		}
		if h.LotCount() != c.lots {
			t.Fatalf("%d lots in the history, %d in the chain", h.LotCount(), c.lots)
		}
	})
}
