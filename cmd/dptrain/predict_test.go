package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
)

// cellsOf returns the cells of a CSV text by column, without the header.
func cellsOf(t *testing.T, text string) map[string][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%d rows, %v:\n%s", len(rows), err, text)
	}
	columns := map[string][]string{}
	for _, row := range rows[1:] {
		for k, cell := range row {
			columns[rows[0][k]] = append(columns[rows[0][k]], cell)
		}
	}
	return columns
}

// runText runs a command that prints text and returns the text.
func runText(t *testing.T, line string) string {
	t.Helper()
	stdout, stderr, code := dptrain(line)
	if code != exitcode.Done {
		t.Fatalf("%s: exit %d, %s", line, code, stderr)
	}
	return stdout
}

// The predictions are those that eval counts, in the order of the file. They do not depend on
// other columns or on the file format.
func TestPredict_Tables(t *testing.T) {
	inWorkshop(t)
	runJSON(t, baseline+" --steps 20 --seed 1 --out run")
	want := runText(t, "predict run --data test.csv")
	labels := cellsOf(t, string(readFile(t, "test.csv")))["label"]
	got, right := cellsOf(t, want), 0
	for i, class := range got["class"] {
		if class == labels[i] {
			right++
		}
	}
	measured := runJSON(t, "eval run")
	if len(got["class"]) != 400 || right == 0 || float64(right)/400 != measured["accuracy"] {
		t.Fatalf("%d of %d are right; eval reports %v", right, len(got["class"]), measured)
	}

	var bare, more, objects strings.Builder
	bare.WriteString("colour,age\n")
	more.WriteString("id,colour,,id,age\n")
	for i, line := range strings.Fields(string(readFile(t, "test.csv")))[1:] {
		c := strings.Split(line, ",")
		fmt.Fprintf(&bare, "%s,%s\n", c[1], c[0])
		fmt.Fprintf(&more, "%d,%s,,x,%s\n", i, c[1], c[0])
		fmt.Fprintf(&objects, `{"id": {"n": %d}, "id": 1, "age": %s, "colour": %q}`+"\n", i, c[0], c[1])
	}
	for name, text := range map[string]string{"bare.csv": bare.String(), "more.csv": more.String(), "objects.jsonl": objects.String()} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if again := runText(t, "predict run --threads 1 --quiet --data "+name); again != want {
			t.Errorf("%s gives other predictions:\n%s", name, again)
		}
	}

	object := runJSON(t, "predict run --data bare.csv --scores --out answers.csv")
	if object["examples"] != 400.0 || object["out"] != "answers.csv" || object["format"] != "csv" {
		t.Errorf("--json prints %v", object)
	}
	scores := cellsOf(t, string(readFile(t, "answers.csv")))
	if stdout := runText(t, "predict run --data bare.csv --scores --out answers.jsonl --quiet"); stdout != "answers.jsonl\n" {
		t.Errorf("--quiet prints %q", stdout)
	}
	lines := strings.Split(strings.TrimSpace(string(readFile(t, "answers.jsonl"))), "\n")
	for i := range 400 {
		no, _ := strconv.ParseFloat(scores["probability:no"][i], 64)
		yes, _ := strconv.ParseFloat(scores["probability:yes"][i], 64)
		p, _ := strconv.ParseFloat(scores["probability"][i], 64)
		if class := []string{"no", "yes"}[map[bool]int{yes > no: 1}[true]]; !(math.Abs(no+yes-1) < 1e-6) || p != max(no, yes) || scores["class"][i] != class || class != got["class"][i] {
			t.Fatalf("example %d: %v, %v: %s with %v", i, no, yes, scores["class"][i], p)
		}
		var o map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &o); err != nil || len(o) != 4 || o["class"] != got["class"][i] || o["probability:yes"] != yes {
			t.Fatalf("example %d: %s, %v", i, lines[i], err)
		}
	}
	if len(lines) != 400 {
		t.Errorf("%d objects", len(lines))
	}

	for name, text := range map[string]string{"short.csv": "age\n1\n", "nameless.csv": "1,secret\n2,secret\n", "nearly.csv": "age,color\n1,red\n", "word.csv": "age,colour\nsecret,red\n",
		"none.csv": "age,colour\n", "key.jsonl": `{"age": 1}`, "list.jsonl": `{"age": 1, "colour": {"secret": 1}}`, "text.txt": "secret\n", "a.xyz": "",
		"taken": ""} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"":                                    "--data is missing",
		"--data test.csv --json":              "--out is missing",
		"--data short.csv":                    `no column "colour"`,
		"--data nameless.csv":                 "no column",
		"--data nearly.csv":                   "the name of column 2?",
		"--data word.csv":                     `line 2, column "age": the value is not a number`,
		"--data none.csv":                     "no rows",
		"--data key.jsonl":                    `line 1 has no key "colour"`,
		"--data list.jsonl":                   `line 1, key "colour"`,
		"--data text.txt":                     "plain text",
		"--data a.xyz":                        "files with the extension",
		"--data run":                          "neither a .png nor a .jpg file",
		"--data nowhere.csv":                  "nor an existing path",
		"--data mnist":                        "--data-dir",
		"--data test.csv --format xml":        "csv, jsonl",
		"--data test.csv --out run/run.json":  "a file of the run itself",
		"--data test.csv --out test.csv":      "is also the input",
		"--data test.csv --out run":           "not a regular file",
		"--data test.csv --out none/a.csv":    "--out none/a.csv",
		"--data test.csv --device cuda:99":    "cuda:99",
		"--data test.csv --device cpu --next": "no flag --next",
	} {
		stdout, stderr, code := dptrain("predict run " + line)
		if code != exitcode.Usage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "secret") {
			t.Errorf("%s: exit %d, %q lacks %q or is not one line", line, code, stderr, want)
		}
	}
	if _, stderr, code := dptrain("predict run --data test.csv --out taken/a.csv"); code != exitcode.Failed || strings.Count(stderr, "\n") != 1 {
		t.Errorf("a folder that is a file: exit %d, %s", code, stderr)
	}
	if _, stderr, code := dptrain("predict elsewhere --data test.csv"); code != exitcode.Usage || !strings.Contains(stderr, "elsewhere contains no model") {
		t.Errorf("no run: exit %d, %s", code, stderr)
	}
}

// Without a terminal, a long prediction prints its progress as notes.
func TestPredict_PrintsProgress(t *testing.T) {
	inWorkshop(t)
	runJSON(t, baseline+" --steps 1 --out run")
	defer func(was time.Duration) { terminal.NoteDelay = was }(terminal.NoteDelay)
	terminal.NoteDelay = 0
	for flags, want := range map[string]string{"": "example 2400/4000, ", " --quiet": ""} {
		if _, stderr, code := dptrain("predict run --data people.csv --out a.csv" + flags); code != exitcode.Done || !strings.Contains(stderr, want) || (want == "") != (stderr == "") {
			t.Errorf("%s: exit %d, %s", flags, code, stderr)
		}
	}
}

func TestPredict_Texts(t *testing.T) {
	t.Chdir(t.TempDir())
	letters(t, "letters.jsonl", 400)
	letters(t, "more.jsonl", 40)
	runJSON(t, "train --accountant rdp --model embbag:8 --ignore who --noise 0.3 --steps 20 --lot 100 --lr 1 --seed 3 --out run"+written)
	want := runText(t, "predict run --data more.jsonl")
	var plain strings.Builder
	for line := range strings.Lines(string(readFile(t, "more.jsonl"))) {
		var o struct{ Text string }
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		plain.WriteString(o.Text + "\n\n")
	}
	if err := os.WriteFile("plain.txt", []byte(plain.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if again := runText(t, "predict run --data plain.txt"); again != want || len(cellsOf(t, want)["class"]) != 40 {
		t.Errorf("plain text gives other predictions:\n%s\n%s", again, want)
	}
	runJSON(t, "train --accountant rdp --delta 1e-5 --model gru:2 --data plain.txt --tokens bytes --length 4 --noise 1 --steps 1 --lot 8 --out language")
	if _, stderr, code := dptrain("predict language --data plain.txt"); code != exitcode.Usage || !strings.Contains(stderr, "every step") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("a language model: exit %d, %s", code, stderr)
	}
}

// Pictures need no class folders, and their names are in the output. Pictures of another size
// are converted.
func TestPredict_Pictures(t *testing.T) {
	t.Chdir(t.TempDir())
	draw := func(name string, side int, shade uint8) {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		p := image.NewGray(image.Rect(0, 0, side, side))
		for i := range p.Pix {
			p.Pix[i] = shade
		}
		if err := png.Encode(f, p); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		draw(fmt.Sprintf("train/dark/%d.png", i), 3, uint8(i))
		draw(fmt.Sprintf("train/light/%d.png", i), 3, uint8(255-i))
	}
	draw("new/b.png", 3, 250)
	draw("new/c/a.png", 3, 5)
	draw("other/a.png", 4, 5)
	runJSON(t, "train --data train --image 1x3x3 --model logistic --non-private --steps 60 --lot 40 --lr 1 --seed 1 --out run")
	got := cellsOf(t, runText(t, "predict run --data new"))
	if fmt.Sprint(got["file"], got["class"]) != "[b.png c/a.png] [light dark]" {
		t.Errorf("answers %v", got)
	}
	if one := cellsOf(t, runText(t, "predict run --data new/b.png")); one["probability"][0] != got["probability"][0] {
		t.Errorf("alone: %v", one)
	}
	if other := cellsOf(t, runText(t, "predict run --data other")); other["probability"][0] != got["probability"][1] {
		t.Errorf("another size: %v, want the prediction for the same shade, %v", other, got)
	}
	if score := runJSON(t, "eval run --data train"); score["examples"] != 80. {
		t.Errorf("eval does not take the shape from the model: %v", score)
	}
	if _, stderr, code := dptrain("train --data train --out more"); code != exitcode.Usage || !strings.Contains(stderr, "write --image CxHxW") {
		t.Errorf("no shape: exit %d, %s", code, stderr)
	}
}

// A predicted number has the units of the target, which the input need not contain. The RMSE of
// the predictions is that of eval.
func TestPredict_Numbers(t *testing.T) {
	amongHours(t)
	runJSON(t, "train --model logistic --lot 200 --epochs 1 --non-private --out run"+predicted)
	rows := cellsOf(t, string(readFile(t, "more.csv")))
	var bare strings.Builder
	bare.WriteString("colour,age\n")
	for i, age := range rows["age"] {
		bare.WriteString(rows["colour"][i] + "," + age + "\n")
	}
	if err := os.WriteFile("bare.csv", []byte(bare.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	squares := 0.0
	for i, text := range cellsOf(t, runText(t, "predict run --data bare.csv"))["hours"] {
		got, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := strconv.ParseFloat(rows["hours"][i], 64)
		squares += (got - want) * (got - want)
	}
	if rmse, measured := math.Sqrt(squares/500), runJSON(t, "eval run")["rmse"].(float64); !(math.Abs(rmse-measured) <= 1e-4*measured) {
		t.Errorf("the RMSE of the predictions is %v, that of eval %v", rmse, measured)
	}
	if _, stderr, code := dptrain("predict run --data bare.csv --scores"); code != exitcode.Usage || !strings.Contains(stderr, "leave out --scores") {
		t.Errorf("probabilities of a number: exit %d, %s", code, stderr)
	}
}
