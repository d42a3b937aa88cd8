package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// A schema that does not fit the test file is seen: bounds that are wrong by a factor of ten, other
// words, and Latin-1. Small shares are notes, large ones are warnings in run.json.
func TestTrain_ComparesTestFileWithSchema(t *testing.T) {
	t.Chdir(t.TempDir())
	people(t, "people.csv", 500)
	people(t, "test.csv", 100)
	const run = "train --data people.csv --label income --classes low,high --ignore id --model logistic --lot 50 --steps 2 --noise 1 --accountant rdp --delta 1e-5"
	writeText(t, "latin.csv", strings.ReplaceAll(string(readFile(t, "test.csv")), "baker", "b\xe4cker"))
	finding := func(column string, outside, unknown float64) map[string]any {
		return map[string]any{"column": column, "outside": outside, "unknown": unknown}
	}
	shares := map[string]float64{} // of the test rows
	for _, row := range strings.Split(strings.TrimSpace(string(readFile(t, "test.csv"))), "\n")[1:] {
		cells := strings.Split(row, ",")
		shares[cells[2]] += 0.01
		var age int
		fmt.Sscan(cells[1], &age)
		for _, limit := range []int{7, 68} {
			if age > limit {
				shares[fmt.Sprint(limit)] += 0.01
			}
		}
	}
	for i, c := range []struct {
		flags string
		lines []string
		want  []map[string]any
		loud  bool
	}{
		{" --test test.csv --bounds age=0:100 --vocabulary job=baker|tailor", nil, []map[string]any{}, false},
		{" --test test.csv --bounds age=0:7 --vocabulary job=baker|tailor", []string{"age: 100% outside its bounds"}, []map[string]any{finding("age", shares["7"], 0)}, true},
		{" --test test.csv --bounds age=0:68 --vocabulary job=baker|tailor", []string{"age: "}, []map[string]any{finding("age", shares["68"], 0)}, false},
		{" --test test.csv --bounds age=0:100 --vocabulary job=Baker|tailor", []string{"not in its vocabulary"}, []map[string]any{finding("job", 0, shares["baker"])}, true},
		{" --test latin.csv --bounds age=0:100 --vocabulary job=bäcker|tailor", []string{"not UTF-8 (save the file as UTF-8)"}, nil, true},
		{" --bounds age=0:100 --vocabulary job=baker|tailor", []string{"Nothing was compared with the schema"}, nil, false},
	} {
		flags := run + c.flags + fmt.Sprintf(" --out run%d", i)
		stdout, stderr, code := dptrain(flags)
		if code != exitcode.Done {
			t.Fatalf("%s: exit %d, %s", c.flags, code, stderr)
		}
		for _, line := range c.lines {
			if !strings.Contains(stderr, line) {
				t.Errorf("%s: %q is missing in\n%s%s", c.flags, line, stdout, stderr)
			}
		}
		var got map[string]any
		if err := json.Unmarshal(readFile(t, fmt.Sprintf("run%d/run.json", i)), &got); err != nil {
			t.Fatal(err)
		}
		list, compared := got["schema_report"].([]any)
		if compared != strings.Contains(c.flags, "--test") {
			t.Errorf("%s: schema_report %v", c.flags, got["schema_report"])
		}
		if c.want != nil {
			if len(list) != len(c.want) {
				t.Errorf("%s: findings %v, want %v", c.flags, list, c.want)
			}
			for k, want := range c.want[:min(len(list), len(c.want))] {
				if fmt.Sprintf("%.3v", list[k]) != fmt.Sprintf("%.3v", want) {
					t.Errorf("%s: findings %v, want %v", c.flags, list, c.want)
				}
			}
		}
		if loud := strings.Contains(fmt.Sprint(got["warnings"]), "does not fit the schema"); loud != c.loud {
			t.Errorf("%s: warnings %v", c.flags, got["warnings"])
		}
	}
	checked := runJSON(t, "schema check latin.csv --schema "+schemaFile(t))
	if list := checked["schema_report"].([]any); len(list) != 1 || list[0].(map[string]any)["not_utf8"] != true {
		t.Errorf("schema check: %v", checked)
	}
	if text := runText(t, "schema check test.csv --schema people.yaml"); !strings.Contains(text, "▇") && !strings.Contains(text, "█") {
		t.Errorf("there is no picture:\n%s", text)
	}
}

func schemaFile(t *testing.T) string {
	t.Helper()
	writeText(t, "people.yaml", "label: income\nclasses: [low, high]\nbounds: {age: 0:100}\nvocabulary: {job: baker|tailor}\nignore: id\n")
	return "people.yaml"
}

// Cells without a value train by default, and the run says what they count as.
func TestTrain_MissingValues(t *testing.T) {
	t.Chdir(t.TempDir())
	people(t, "people.csv", 500)
	text := string(readFile(t, "people.csv"))
	lines := strings.Split(text, "\n")
	for i := 1; i < len(lines)-1; i += 3 {
		cells := strings.Split(lines[i], ",")
		cells[1+i%2] = ""
		lines[i] = strings.Join(cells, ",")
	}
	writeText(t, "holes.csv", strings.Join(lines, "\n"))
	run := "train --data holes.csv --schema " + schemaFile(t) + " --model logistic --lot 50 --steps 2 --noise 1 --accountant rdp --delta 1e-5 --show-private"
	for flags, blank := range map[string]string{"": "0 of 500", " --missing blank": "167 of 500", " --missing age=blank": "of 500"} {
		_, stderr, code := dptrain(run + flags + " --out run" + fmt.Sprint(len(flags)))
		said := strings.Contains(stderr, "middle of their bounds")
		if code != exitcode.Done || said != (flags == "") || blank != "0 of 500" && !strings.Contains(stderr, blank) || blank == "0 of 500" && strings.Contains(stderr, "are blank") && !strings.Contains(stderr, blank) {
			t.Errorf("%q: exit %d, %s", flags, code, stderr)
		}
	}
	for flags, want := range map[string]string{
		" --missing mean":          "write blank, zero, middle or indicator",
		" --missing age=word":      "write blank, zero, middle or indicator",
		" --missing job=zero":      "write blank or word",
		" --scale age=root":        "write log or asinh",
		" --scale age=log":         "lower bound above 0",
		" --dates day=1.2.2000":    "--dates",
		" --separator colon":       "write comma, semicolon, tab or pipe",
		" --only age --ignore '*'": "",
	} {
		if want != "" {
			checkUsageError(t, run+flags+" --out none", want)
		}
	}
}
