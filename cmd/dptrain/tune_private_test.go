package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/selection"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/spf13/pflag"
)

// selecting is a short selection on private data.
const selecting = "tune --ignore owner --model logistic --steps 15 --trials 3 --epsilon 4" + columns

// files lists a directory.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// Every reader of selection.json computes the same cost, which is within the budget. Nothing
// reveals the number of runs or the results of the other runs.
func TestTunePrivate(t *testing.T) {
	inWorkshop(t)
	for name, flags := range map[string]string{
		"geometric":   " --validation-split 0.2",
		"logarithmic": " --runs logarithmic",
		"half":        " --runs 0.5 --validation-split 0.2 --validation-noise 30",
		"poisson":     " --runs poisson --trials 8 --sampling shuffle",
		"projected":   " --project 2",
	} {
		stdout, stderr, code := dptrain(selecting + flags + " --json --out " + name)
		if code != exitcode.Done || strings.Count(stderr, "\n") != 1 {
			t.Fatalf("%s: exit %d, %s", name, code, stderr)
		}
		for _, word := range []string{"trial", "run 1", "seconds"} {
			if strings.Contains(stdout+stderr, word) {
				t.Errorf("%s: %q is in\n%s%s", name, word, stdout, stderr)
			}
		}
		if got := files(t, name); got != "model.json model.safetensors selection.json" {
			t.Errorf("%s: left are %s", name, got)
		}
		cost := runJSON(t, "ledger epsilon "+name)
		if e := cost["epsilon"].(float64); e > 4 || e < 3.9 || !strings.Contains(stdout, `"epsilon": `+jsonNumber(e)) {
			t.Errorf("%s: the ledger has ε = %v of 4, the output\n%s", name, e, stdout)
		}
		p, err := selection.ReadLedger(filepath.Join(name, rundir.SelectionFile))
		if err != nil {
			t.Fatal(err)
		}
		if words := p.Runs.String(); !strings.Contains(words, map[string]string{"half": "truncated negative binomial with shape 0.5 ", "poisson": "Poisson ", "logarithmic": "logarithmic "}[name]) {
			t.Errorf("%s: %s", name, words)
		}
		// All candidates cost the same, and less than the selection.
		least, most := math.Inf(1), 0.0
		for _, h := range p.Histories() {
			a, err := accountant.Epsilon(h, p.Delta, "rdp")
			if err != nil {
				t.Fatal(err)
			}
			least, most = min(least, a.Epsilon), max(most, a.Epsilon)
			if name == "geometric" { // the validation is the last release
				h.Lots = h.Lots[len(h.Lots)-1:]
				if score, err := accountant.Epsilon(h, p.Delta, "rdp"); err != nil || !(math.Abs(score.Epsilon/a.Epsilon-selection.ValidationShare) <= 0.01) {
					t.Errorf("of a run's ε = %v its score costs %v alone, %v", a.Epsilon, score.Epsilon, err)
				}
			}
		}
		if least < 0.99*most || most > 4 || least < 0.1 {
			t.Errorf("%s: one run costs between %v and %v", name, least, most)
		}
		var got privateTuning
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(readFile(t, filepath.Join(name, rundir.SelectionFile))); got.LedgerHead != hex.EncodeToString(sum[:]) || got.Out != name || cost["unit"] != "example" || cost["settings"] != float64(len(p.Candidates)) ||
			got.Data != "people.csv" || got.Model != "logistic" || got.Unit != "example" || got.Records != p.Records || p.Records != map[bool]int{true: 3200, false: 4000}[strings.Contains(flags, "split")] || got.Flags == "" || got.Runs != p.Runs {
			t.Errorf("%s: head %s, folder %s, accounted as %v", name, got.LedgerHead, got.Out, cost)
		}
		v := runJSON(t, "eval "+name+" --data test.csv")
		if onTest := !strings.Contains(flags, "split"); onTest && v["accuracy"] != *got.Best.Accuracy || onTest == (got.Best.Deviation > 0) {
			t.Errorf("%s: chosen for %+v, the model scores %v", name, got.Best, v["accuracy"])
		}
	}
	stdout, stderr, _ := dptrain("ledger epsilon geometric --accountant zcdp")
	if !strings.Contains(stdout, "geometric with mean 3, with 3 settings\nunit of privacy  example\n") || !strings.Contains(stderr, "the rdp accountant is used") {
		t.Errorf("asked for zcdp: %s%s", stdout, stderr)
	}
	if _, stderr, code := dptrain(selecting + " --out poisson"); code != exitcode.Usage || !strings.Contains(stderr, "already contains") {
		t.Errorf("into a folder that is used: exit %d, %s", code, stderr)
	}
	for line, want := range map[string]string{
		"ledger show poisson":                  "use dptrain ledger epsilon to account for it",
		"ledger verify poisson/selection.json": "use dptrain ledger epsilon to account for it",
		selecting + " --seed 1":                "--seed",
		selecting + " --accountant pld":        "rdp",
		selecting + " --runs geometrik":        "geometric",
		selecting + " --runs -1":               "shape -1",
		selecting + " --trials 1":              "1 runs on average",
		strings.Replace(selecting, "--steps 15 --trials 3 --epsilon 4", "--steps 1 --trials 2 --epsilon 1e-4 --lot 4000 --delta 1e-4", 1): "raise the budget or δ",
		selecting + " --validation-split 0.2 --validation-noise 0.5":                                                                      "raise --validation-noise",
		"tune --data people.csv --label label --classes no,yes --bounds age=0:100 --ignore owner,colour":                                  "--validation-split",
	} {
		_, stderr, code := dptrain(line + map[bool]string{true: " --out refused"}[strings.HasPrefix(line, "tune")])
		if code != exitcode.Usage && code != exitcode.OverBudget || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
		if _, err := os.Stat("refused"); err == nil {
			t.Fatalf("%s: left a folder behind", line)
		}
	}
	for text, want := range map[string]string{
		`{"run": "00", "runs": {"distribution": "dice", "mean": 4}}`: "dice",
		`{"runns": 1}`: "unknown field",
		`{"run": "00", "runs": {"distribution": "poisson", "mean": 4}, "delta": 1e-5, "candidates": []}`: "no candidates",
	} {
		if err := os.WriteFile("poisson/selection.json", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := dptrain("ledger epsilon poisson"); code == exitcode.Done || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", text, code, stderr)
		}
	}
}

// An adversary divides the time between the first and the last change in a directory by the time
// of one run, and gets the secret number of runs. The times must not depend on the runs.
func TestTunePrivate_FileTimesHideNumberOfRuns(t *testing.T) {
	inWorkshop(t)
	for name, flags := range map[string]string{"test": " --trials 6", "held-out": " --validation-split 0.2 --trials 6"} {
		before := time.Now()
		stdout, stderr, code := dptrain(selecting + flags + " --json --out " + name)
		if code != exitcode.Done {
			t.Fatalf("%s: exit %d, %s%s", flags, code, stdout, stderr)
		}
		took := time.Since(before)
		times := modificationTimes(t, name)
		if len(times) != 1 {
			t.Errorf("%s: the entries have different times: %v", flags, times)
		}
		for at, names := range times {
			// The command reads the data and calibrates before the first run, which can be the only one.
			// After the last run it only writes files.
			if share := float64(at.Sub(before)) / float64(took); share > 0.9 || len(names) != 4 {
				t.Errorf("%s: %v have a time after %.0f%% of the command", flags, names, 100*share)
			}
		}
	}
}

// modificationTimes returns the entries of a directory, itself included, by their time.
func modificationTimes(t *testing.T, dir string) map[time.Time][]string {
	t.Helper()
	times := map[time.Time][]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			times[info.ModTime()] = append(times[info.ModTime()], path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// The cost of a selection and that of ledgers about the same people add up. Copies count once.
func TestLedgerEpsilon_SelectionWithLedgers(t *testing.T) {
	inWorkshop(t)
	runJSON(t, selecting+" --trials 2 --out selection")
	runJSON(t, selecting+" --trials 2 --out other")
	runJSON(t, brief+" --noise 2 --steps 20 --delta 1e-5 --out run")
	runJSON(t, strings.NewReplacer(" --ignore owner", "", " --lot 200", " --lot 4").Replace(brief)+" --noise 2 --steps 2 --delta 1e-5 --record user:owner --out users")
	if err := os.CopyFS("copy", os.DirFS("selection")); err != nil {
		t.Fatal(err)
	}
	joint := func(names string) map[string]any {
		t.Helper()
		return runJSON(t, "ledger epsilon "+names+" --delta 1e-5")
	}
	epsilon := func(names string) float64 { return joint(names)["epsilon"].(float64) }
	one, run := epsilon("selection"), runJSON(t, "ledger epsilon run --delta 1e-5 --accountant rdp")["epsilon"].(float64)
	both := joint("run selection")
	if e := both["epsilon"].(float64); e <= max(one, run) || e >= one+run || both["accountant"] != "rdp" || both["steps"] != 20.0 || len(both["files"].([]any)) != 2 {
		t.Errorf("the run costs %v, the selection %v, and both %v", run, one, both)
	}
	if v := joint("selection copy"); v["epsilon"] != one || len(v["copies"].([]any)) != 1 {
		t.Errorf("a selection costs %v, with its copy %v", one, v)
	}
	if two := epsilon("selection other/selection.json"); two <= one || two >= 2*one {
		t.Errorf("a selection costs %v, two selections %v", one, two)
	}
	if text := runText(t, "ledger epsilon run selection --delta 1e-5"); !strings.Contains(text, "selection        selection/selection.json, with 2 settings\n") {
		t.Errorf("the list of ledgers lacks the selection:\n%s", text)
	}
	if _, stderr, code := dptrain("ledger epsilon selection users"); code != exitcode.Usage || !strings.Contains(stderr, "protects the unit example and users/ledger.jsonl the unit user") {
		t.Errorf("two units: exit %d, %s", code, stderr)
	}
	if v := joint("selection selection/selection.json"); v["epsilon"] != one {
		t.Errorf("a selection costs %v, named twice %v", one, v["epsilon"])
	}
	unidentified := regexp.MustCompile(`"run": "[0-9a-f]{32}",`).ReplaceAll(readFile(t, "copy/selection.json"), nil)
	if err := os.WriteFile("copy/selection.json", unidentified, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := dptrain("ledger epsilon copy"); code != exitcode.Damaged || !strings.Contains(stderr, "the key run is missing") {
		t.Errorf("a selection without an identifier: exit %d, %s", code, stderr)
	}
}

// The score of the best run is not an unbiased estimate of the model's score: selection
// favours runs with lucky noise.
func TestPrivateTuning_WarnsOfSelectionBias(t *testing.T) {
	half := 0.5
	for what, best := range map[string]bestTrial{
		"accuracy": {Accuracy: &half}, "RMSE": {RegressionMetrics: &rundir.RegressionMetrics{RMSE: 3}},
		"accuracy held out": {Accuracy: &half, Deviation: 0.1}, "MAE held out": {MAE: &half, Deviation: 0.1},
	} {
		var b bytes.Buffer
		privateTuning{Best: best}.print(&b)
		if !strings.Contains(b.String(), "; too optimistic, as the best of several\n") {
			t.Errorf("%s: the warning is missing in\n%s", what, b.String())
		}
	}
}

func jsonNumber(x float64) string {
	b, _ := number.Float(x).MarshalJSON()
	return string(b)
}

// specOf returns the specification of train with some flags.
func specOf(t *testing.T, line string) *settings.Spec {
	t.Helper()
	flags, set := &settings.Flags{}, pflag.NewFlagSet("train", pflag.ContinueOnError)
	flags.Define(set)
	if err := set.Parse(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
	if err := flags.Resolve(); err != nil {
		t.Fatal(err)
	}
	spec, err := newSpec(&terminal.Terminal{Quiet: true}, flags)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}
