package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

const shortRun = " --data rows.csv --test test.csv --schema columns.yaml --steps 2 --lot 2 --noise 2 --delta 1e-2 "

// writeSweepData writes public tables for shortRun to the current folder.
func writeSweepData(t *testing.T) {
	t.Helper()
	for name, text := range map[string]string{"rows.csv": servedRows, "test.csv": servedRows, "columns.yaml": servedSchema} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A sweep trains every combination, each several times, and writes the rows in all forms. Started again,
// it keeps the runs that ended and trains the others.
func TestSweep_TrainsCombinations(t *testing.T) {
	t.Chdir(t.TempDir())
	writeSweepData(t)
	line := "sweep --over clip=0.5,1 --over lr=0.1,0.2,1 --repeats 2 --public --model logistic --out swept" + shortRun
	got := runJSON(t, line)
	rows := got["rows"].([]any)
	if len(rows) != 6 {
		t.Fatalf("%d rows: %v", len(rows), rows)
	}
	epsilon := runJSON(t, "train --dry-run --model logistic"+shortRun)["epsilon"].(float64)
	for i, r := range rows {
		row := r.(map[string]any)
		settings := row["settings"].(map[string]any)
		low, mean, high := row["test_accuracy_low"].(float64), row["test_accuracy"].(float64), row["test_accuracy_high"].(float64)
		if settings["clip"] != []string{"0.5", "1"}[i/3] || settings["lr"] != []string{"0.1", "0.2", "1"}[i%3] || row["runs"] != 2.0 || !(low >= 0 && low <= mean && mean <= high && high <= 1) || row["epsilon"] != epsilon {
			t.Errorf("row %d: %v", i, row)
		}
		dirs := row["out"].([]any)
		var config string
		for _, dir := range dirs {
			text, err := os.ReadFile(filepath.Join(dir.(string), "config.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			config += string(text)
		}
		if strings.Count(config, "\nclip: "+settings["clip"].(string)+"\n") != 2 || strings.Count(config, "\nlr: "+settings["lr"].(string)+"\n") != 2 {
			t.Errorf("the runs of %v have the settings\n%s", settings, config)
		}
	}
	table, err := os.Open(filepath.Join("swept", tableFile))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	cells, err := csv.NewReader(table).ReadAll()
	if err != nil || len(cells) != 7 || strings.Join(cells[0][:3], ",") != "clip,lr,test_accuracy" {
		t.Errorf("%v: %v", err, cells)
	}
	page, err := os.ReadFile(filepath.Join("swept", "report.html"))
	if err != nil || strings.Count(string(page), "<h3>") != 2 || strings.Contains(string(page), "NaN") || strings.Contains(string(page), "<script") {
		t.Errorf("report: %v", err)
	}
	lost := rows[4].(map[string]any)["out"].([]any)[1].(string)
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}
	again := runJSON(t, line)["rows"].([]any)
	for i := range rows {
		before, _ := json.Marshal(rows[i])
		after, _ := json.Marshal(again[i])
		if i != 4 && string(before) != string(after) {
			t.Errorf("row %d was %s and is %s", i, before, after)
		}
	}
	if _, err := os.Stat(filepath.Join(lost, "run.json")); err != nil {
		t.Error(err)
	}
}

// One setting at a time; the seed makes runs repeatable, and its warning is printed.
func TestSweep_OneAtATime(t *testing.T) {
	t.Chdir(t.TempDir())
	writeSweepData(t)
	line := "sweep --over clip=0.5,2 --over model=logistic|mlp:4,act=tanh --one-at-a-time --repeats 2 --seed 5 --clip 1 --public" + shortRun + "--out "
	stdout, stderr, code := dptrain(line + "a --json")
	if code != exitcode.Done || strings.Count(stderr, "INSECURE") != 1 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	var first struct {
		Rows []struct {
			Settings map[string]string
			Low      float64 `json:"test_accuracy_low"`
			High     float64 `json:"test_accuracy_high"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &first); err != nil || len(first.Rows) != 4 || len(first.Rows[0].Settings) != 1 || first.Rows[3].Settings["model"] != "mlp:4,act=tanh" {
		t.Fatalf("%v: %s", err, stdout)
	}
	for i, r := range runJSON(t, line+"b")["rows"].([]any) {
		if row := r.(map[string]any); row["test_accuracy_low"] != first.Rows[i].Low || row["test_accuracy_high"] != first.Rows[i].High {
			t.Errorf("row %d: %v, and before %+v", i, row, first.Rows[i])
		}
	}
}

func TestSweep_Refuses(t *testing.T) {
	t.Chdir(t.TempDir())
	writeSweepData(t)
	table := " --data rows.csv --schema columns.yaml --lot 2 --noise 1 --delta 0.01 --steps 1"
	for line, want := range map[string]string{
		"sweep":                                        "--over is missing",
		"sweep --over clip":                            "NAME=A,B",
		"sweep --over clp=1,2":                         "no flag --clp",
		"sweep --over seed=1,2":                        "no flag --seed",
		"sweep --over clip=1,,2":                       "value 2 is empty",
		"sweep --over clip=1,1":                        "twice",
		"sweep --over clip=1 --over clip=2":            "twice",
		"sweep --over clip=1,2 --clip 3":               "--one-at-a-time",
		"sweep --over clip=1,2 --sweep figure-3":       "exclude each other",
		"sweep --sweep figure-2":                       "figure-3",
		"sweep --over clip=1,2 --repeats 0":            "--repeats",
		"sweep --over clip=1,2 --resume runs/a":        "--resume has no meaning",
		"sweep --over clip=1,much":                     "much",
		"sweep --over clip=1,2 --out a" + table:        "declare with --public",
		"sweep --over clip=1,2 --public" + table:       "--test",
		"sweep --over noise=1,2 --epsilon 2 --lot 64":  "exclude each other",
		"sweep --sweep figure-3 --data-dir . --public": "mnist",
	} {
		if _, stderr, code := dptrain(line); code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
	}
	if entries, _ := filepath.Glob("*"); len(entries) != 3 {
		t.Errorf("a refused sweep left %v", entries)
	}
}
