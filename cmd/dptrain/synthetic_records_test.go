package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// rowTokenizer is a tokenizer.json of 17 pieces that cuts texts such as "n: 3, w: x".
const rowTokenizer = `{"added_tokens":[{"id":0,"content":"n: "},{"id":1,"content":", w: "}],
"model":{"type":"BPE","merges":[],"vocab":{"0":2,"1":3,"~":4,"2":5,"3":6,"4":7,"5":8,"6":9,"7":10,"8":11,"9":12,"x":13,"y":14,"?":15,"-":16}}}`

// A decoder learns rows of a table, and writes rows that fit the schema. A random one writes texts that are dropped.
func TestGenerate_Records(t *testing.T) {
	withCheckpoint(t, "gpt2-next")
	rows := "id,n,w\n"
	for i := range 60 {
		rows += fmt.Sprintf("%d,%d,%s\n", i, i%5, []string{"x", "y"}[i%2])
	}
	for name, text := range map[string]string{"people.csv": rows, "ck/tokenizer.json": rowTokenizer} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const onRows = "train --data people.csv --text * --next --bounds n=0:4 --vocabulary w=x|y --ignore * --length 8 --lot 20 --seed 3 --model hf:ck "
	if _, stderr, code := dptrain(onRows + "--non-private --steps 300 --lr 0.02 --out run"); code != exitcode.Done {
		t.Fatal(stderr)
	}
	if _, stderr, code := dptrain("generate run --count 50 --seed 1 --out rows.csv"); code != exitcode.Done || !strings.Contains(stderr, "50 records of ") {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	table, err := csv.NewReader(strings.NewReader(string(readFile(t, "rows.csv")))).ReadAll()
	if err != nil || len(table) != 51 || strings.Join(table[0], ",") != "n,w" {
		t.Fatalf("%d lines, header %v, error %v", len(table), table[0], err)
	}
	for _, row := range table[1:] {
		if !strings.Contains("01234", row[0]) || row[1] != "x" && row[1] != "y" && row[1] != "" {
			t.Errorf("row %q", row)
		}
	}
	got := runJSON(t, "generate run --count 5 --seed 1")
	if rows := got["rows"].([]any); len(rows) != 5 || got["records"] != 5.0 || rows[0].(map[string]any)["n"] != table[1][0] {
		t.Errorf("%v, and the file begins with %v", got, table[1])
	}
	if lines, _, code := dptrain("generate run --count 3 --seed 1 --format jsonl"); code != exitcode.Done || !strings.HasPrefix(lines, fmt.Sprintf(`{"n":%s,"w":"%s"}`, table[1][0], table[1][1])) {
		t.Errorf("exit %d, %s", code, lines)
	}
	// Synthetic rows are read as the rows of training.
	if p, is := runJSON(t, "eval run --data rows.csv")["perplexity"].(float64); !is || !(p > 1 && p < 4) {
		t.Errorf("synthetic rows have the perplexity %v", p)
	}
	if _, stderr, code := dptrain(onRows + "--noise 1 --steps 1 --out random"); code != exitcode.Done {
		t.Fatal(stderr)
	}
	if _, stderr, code := dptrain("generate random --count 2 --seed 1"); code != exitcode.Failed || !strings.Contains(stderr, "of 40 texts are records of the schema") {
		t.Errorf("a random network: exit %d, %s", code, stderr)
	}
	for line, want := range map[string]string{
		"generate run --count 0":              "--count 0: give at least 1",
		"generate run --count 3 --format xml": "--format xml: write csv or jsonl",
		"generate run --count 3 --prompt n":   "--prompt is for texts",
		"generate run --format csv":           "--format and --out are for the records of --count N",
		strings.Replace(onRows, "--next", "", 1) + "--label id --classes 3 --steps 1 --out o": "writes each row as one text",
	} {
		checkUsageError(t, line, want)
	}
}
