package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// people writes a table whose label follows from its columns.
func people(t *testing.T, name string, rows int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(rows), 5))
	var b strings.Builder
	b.WriteString("id,age,job,income\n")
	for i := range rows {
		age, job := 20+r.IntN(50), r.IntN(2)
		fmt.Fprintf(&b, "p%d,%d,%s,%s\n", i, age, []string{"baker", "tailor"}[job], []string{"low", "high"}[min(1, (age+20*job)/60)])
	}
	writeText(t, name, b.String())
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A newcomer's path: a schema from a public sample, a check on public rows, a private run.
func TestSchema_FromPublicSampleToTraining(t *testing.T) {
	t.Chdir(t.TempDir())
	people(t, "people.csv", 2000)
	people(t, "sample.csv", 300)
	const run = "train --data people.csv --test sample.csv --model logistic --lot 100 --steps 100 --noise 1 --seed 1 --schema "

	writeText(t, "proposed.yaml", runText(t, "schema sample.csv --public"))
	checkUsageError(t, run+"proposed.yaml --out none", "the label column is not given")
	writeText(t, "chosen.yaml", strings.NewReplacer("# label", "label", "# classes", "classes").Replace(string(readFile(t, "proposed.yaml"))))
	writeText(t, "people.yaml", runText(t, "schema sample.csv --public --label income"))
	if report := runJSON(t, "schema check sample.csv --schema people.yaml"); report["blank_rows"] != 0.0 || len(report["columns"].([]any)) != 3 {
		t.Errorf("the sample and its own schema: %v", report)
	}
	first := runJSON(t, run+"people.yaml --out first")
	if accuracy := first["test_accuracy"].(float64); accuracy < 0.8 {
		t.Errorf("the accuracy is %v", accuracy)
	}
	if second := runJSON(t, run+"chosen.yaml --out second"); second["test_accuracy"] != first["test_accuracy"] {
		t.Errorf("the label of the proposal gives %v, --label gives %v", second["test_accuracy"], first["test_accuracy"])
	}
	writeText(t, "ages.yaml", runText(t, "schema sample.csv --public --target age"))
	if got := runJSON(t, run+"ages.yaml --out ages"); got["target"] != "age" {
		t.Errorf("with --target: %v", got)
	}
}

// A note names the skewed columns that the schema of a public table scales. With the scale, a class that
// depends on the logarithm is learned, and the settings of training do not change.
func TestSchema_ScalesSkewedNumbers(t *testing.T) {
	t.Chdir(t.TempDir())
	r := rand.New(rand.NewPCG(1, 6))
	for _, name := range []string{"people.csv", "sample.csv"} {
		var b strings.Builder
		b.WriteString("age,income,class\n")
		for range 1000 {
			z := r.NormFloat64()
			fmt.Fprintf(&b, "%d,%.4f,%s\n", 20+r.IntN(50), math.Exp(1.5*z), []string{"low", "high"}[min(1, max(0, int(z+0.2*r.NormFloat64()+1)))])
		}
		writeText(t, name, b.String())
	}
	const line = "schema sample.csv --public --label class"
	text, stderr, code := dptrain(line)
	if code != exitcode.Done || !strings.Contains(stderr, "scaled, because the numbers are skewed: income; to undo this, remove their lines below scale") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if _, stderr, _ := dptrain(line + " --quiet"); stderr != "" {
		t.Errorf("--quiet prints %s", stderr)
	}
	if got := runJSON(t, line); fmt.Sprint(got["scaled"]) != "[income]" {
		t.Errorf("JSON has %v", got)
	}
	writeText(t, "scaled.yaml", text)
	writeText(t, "undone.yaml", regexp.MustCompile("(?m)^scale:\n.*\n").ReplaceAllString(text, ""))
	accuracy := map[string]float64{}
	for _, name := range []string{"scaled", "undone"} {
		got := runJSON(t, "train --data people.csv --test sample.csv --epsilon 1 --delta 1e-5 --seed 1 --steps 50 --schema "+name+".yaml --out "+name)
		accuracy[name] = got["test_accuracy"].(float64)
	}
	if accuracy["scaled"] < accuracy["undone"]+0.05 {
		t.Errorf("accuracies %v", accuracy)
	}
}

// The schema of a private file depends on its header only, and training refuses it before it is
// finished.
func TestSchema_PrivateFile(t *testing.T) {
	t.Chdir(t.TempDir())
	people(t, "people.csv", 200)
	outputs := map[string]string{}
	for _, line := range []string{"schema people.csv", "schema people.csv --label income", "schema people.csv --json", "schema people.csv --quiet"} {
		outputs[line] = runText(t, line)
	}
	writeText(t, "people.yaml", outputs["schema people.csv"])
	checkUsageError(t, "train --data people.csv --schema people.yaml --out none", "the label column is not given")
	writeText(t, "labelled.yaml", outputs["schema people.csv --label income"])
	checkUsageError(t, "train --data people.csv --schema labelled.yaml --out none", `the classes of label column "income" are not given`)
	if outputs["schema people.csv --quiet"] != outputs["schema people.csv"] || runJSON(t, "schema people.csv")["schema"] != outputs["schema people.csv"] {
		t.Error("--quiet and --json print another schema")
	}
	for _, rows := range []string{"", "secret,NaN,\"\n", "1,2\n\"", strings.Repeat("9", 1<<17) + ",,,\n"} {
		writeText(t, "people.csv", "id,age,job,income\n"+rows)
		for line, want := range outputs {
			if got, stderr, code := dptrain(line); got != want || stderr != "" || code != exitcode.Done {
				t.Errorf("%s with the rows %.20q: exit %d, %s%s", line, rows, code, got, stderr)
			}
		}
	}
}

// Findings are a report: the exit code is 0. The report is marked as a function of the rows.
func TestSchemaCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	writeText(t, "s.yaml", "{label: income, classes: [low, high], bounds: {age: [0, 50]}, vocabulary: {job: [baker]}, ignore: [id]}")
	writeText(t, "a.csv", "id,age,job,income\n1,60,baker,low\n2,-1,spy,low\n3,x,baker,middle\n4\n5,,spy,low\n")
	got := runJSON(t, "schema check a.csv --schema s.yaml")
	columns := got["columns"].([]any)
	for i, want := range []map[string]any{
		{"name": "age", "outside": 2.0, "unknown": 0.0, "not_numbers": 1.0, "empty": 1.0, "constant": false, "described_by": "bounds", "histogram": make([]any, 16)},
		{"name": "job", "outside": 0.0, "unknown": 2.0, "not_numbers": 0.0, "empty": 0.0, "constant": false, "described_by": "vocabulary", "histogram": []any{2}},
		{"name": "income", "outside": 0.0, "unknown": 1.0, "not_numbers": 0.0, "empty": 0.0, "constant": false, "described_by": "label", "histogram": []any{3, 0}},
	} {
		if histogram := want["histogram"].([]any); histogram[0] == nil { // both numbers are outside the bounds
			for i := range histogram {
				histogram[i] = 0
			}
		}
		if fmt.Sprint(columns[i]) != fmt.Sprint(want) {
			t.Errorf("%v; want %v", columns[i], want)
		}
	}
	if got["rows"] != 5.0 || got["bad_rows"] != 1.0 || got["blank_rows"] != 2.0 || !strings.Contains(fmt.Sprint(got["warnings"]), "publish it only if they are public") {
		t.Errorf("%v", got)
	}
	stdout, stderr, code := dptrain("schema check a.csv --schema s.yaml")
	if code != exitcode.Done || !strings.Contains(stderr, "publish it only if they are public") || !strings.Contains(stdout, "5 rows, 2 blank in training") || !strings.Contains(stdout, "line 5: 1 fields") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	if fields := strings.Join(strings.Fields(stdout), " "); !strings.Contains(fields, "age bounds 2 0 1 1 | | job vocabulary 0 2 0 0 |█| income label 0 1 0 0 |█ | 5 rows") {
		t.Errorf("the table is\n%s", stdout)
	}
	if stdout, _, _ := dptrain("schema check a.csv --schema s.yaml --quiet"); stdout != "8\n" {
		t.Errorf("--quiet prints %q", stdout)
	}
}

func TestSchema_Refusals(t *testing.T) {
	t.Chdir(t.TempDir())
	writeText(t, "s.yaml", "{label: income, classes: [low, high], bounds: {age: [0, 50]}}")
	writeText(t, "broken.yaml", "bounds: {age: [LOW, HIGH]}")
	writeText(t, "a.csv", "age,income\n1,low\n")
	writeText(t, "b.csv", "income\nlow\n")
	writeText(t, "c.csv", "39,State-gov\n50,Private\n")
	writeText(t, "a.jsonl", `{"age": 1, "income": "low"}`+"\n")
	for line, want := range map[string]string{
		"schema":                     "give one .csv or .jsonl file",
		"schema a.csv b.csv":         "give one .csv or .jsonl file",
		"schema none.csv":            "cannot read none.csv",
		"schema a.jsonl":             "--public",
		"schema s.yaml":              ".csv, .tsv or .jsonl",
		"schema c.csv":               "in column 1 it has a number",
		"schema a.csv --label incom": "did you mean the name of column 2?",
		"schema a.csv --label income --target age": "leave one out",
		"schema a.csv --pubic":                     "--public",
		"schema check":                             "give one .csv or .jsonl file",
		"schema check a.csv":                       "--schema FILE.yaml",
		"schema check a.csv --schema none.yaml":    "none.yaml",
		"schema check a.csv --schema broken.yaml":  "broken.yaml",
		"schema check none.csv --schema s.yaml":    "cannot read none.csv",
		"schema check b.csv --schema s.yaml":       `no column "age"`,
		"schema check s.yaml --schema s.yaml":      ".csv, .tsv or .jsonl",
	} {
		checkUsageError(t, line, want)
	}
}
