package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/export"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/engine"
)

// predicted describes the files of amongHours, and regression is a short run on them.
const (
	predicted  = " --data hours.csv --test more.csv --target hours --bounds age=0:100,hours=0:90 --vocabulary colour=red|blue"
	regression = "train --model logistic --lot 200 --accountant rdp --delta 1e-5" + predicted
)

// deviation is the standard deviation of the random part of hours.
const deviation = 3.0

// hours writes rows whose hours are a function of the other columns plus uniform noise. They
// lie within the limits.
func hours(t *testing.T, name string, rows int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(rows), 3))
	var b strings.Builder
	b.WriteString("age,colour,hours\n")
	for range rows {
		age, colour := 100*r.Float64(), r.IntN(2)
		chance := deviation * math.Sqrt(12) * (r.Float64() - 0.5)
		fmt.Fprintf(&b, "%.3f,%s,%.4f\n", age, []string{"red", "blue"}[colour], 20+0.4*age+10*float64(colour)+chance)
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func amongHours(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	hours(t, "hours.csv", 4000)
	hours(t, "more.csv", 500)
}

// Without privacy the error of a linear regression is that of the random part; with privacy
// it is slightly larger. All results are in units of the target.
func TestRegression_Train(t *testing.T) {
	amongHours(t)
	open := runJSON(t, "train --model logistic --lot 200 --epochs 10 --non-private --seed 1 --out open"+predicted)
	if e := open["test_rmse"].(float64); e < 0.9*deviation || e > 1.1*deviation {
		t.Errorf("without privacy the error is %v, where chance has %v", e, deviation)
	}
	if r := open["test_r2"].(float64); r < 0.9 || r > 1 {
		t.Errorf("R² is %v", r)
	}
	got := runJSON(t, regression+" --noise 2 --epochs 5 --seed 1 --out run")
	e, mae := got["test_rmse"].(float64), got["test_mae"].(float64)
	if e < 0.9*deviation || e > 1.3*deviation || mae > e || mae < e/2 || got["epsilon"].(float64) > 2 {
		t.Errorf("with ε = %v the errors are %v and %v", got["epsilon"], e, mae)
	}
	if got["target"] != "hours" || got["task"] != "tabular-regression" || got["test_accuracy"] != nil || got["learning_rate"] != 0.12 || got["confusion"] != nil {
		t.Errorf("run.json has %v", got)
	}
	events, _ := filepath.Glob("run/tensorboard/*tfevents*")
	for _, tag := range []string{"test/rmse", "test/mae", "test/r2", "test/loss"} {
		if len(events) != 1 || !bytes.Contains(readFile(t, events[0]), []byte(tag)) {
			t.Errorf("no curve of %s is in %v", tag, events)
		}
	}
	if again := runJSON(t, "eval run"); again["rmse"] != e || again["mae"] != mae || again["r2"] != got["test_r2"] || again["accuracy"] != nil {
		t.Errorf("eval has %v, train %v", again, got)
	}
	// With other limits the predictions would have another scale.
	for _, flags := range []string{" --bounds hours=0:50", " --target age"} {
		if _, stderr, code := dptrain("eval run" + flags); code != exitcode.Usage || !strings.Contains(stderr, "predict hours between 0 and 90") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("eval%s: exit %d, %s", flags, code, stderr)
		}
	}
	if shown := strings.Join(strings.Fields(runText(t, "eval run")), " "); !strings.HasPrefix(shown, "RMSE "+number.Short(e)+" (hours) MAE "+number.Short(mae)+" R² ") || !strings.HasSuffix(shown, " examples 500") {
		t.Errorf("eval shows %s", shown)
	}
	if stdout, _, _ := dptrain("eval run --quiet"); stdout != fmt.Sprintf("%.4g\n", e) {
		t.Errorf("eval --quiet prints %q of %v", stdout, e)
	}
	stdout, stderr, code := dptrain(regression + " --steps 10 --noise 2 --out short")
	if code != exitcode.Done || !strings.Contains(stdout, "RMSE ") || !strings.Contains(stdout, "(hours) on 500 public test examples") || !strings.Contains(stdout, "R² ") || strings.Contains(stdout, "accuracy") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	if !strings.Contains(stderr, ", test RMSE ") || strings.Contains(stderr, "accuracy") {
		t.Errorf("while it trains: %s", stderr)
	}
	more, stderr, code := dptrain("train --resume short --steps 20 --quiet")
	if word, _, _ := strings.Cut(more, " "); code != exitcode.Done || word == "NaN" || word == "" {
		t.Errorf("resumed: exit %d, %s%s", code, more, stderr)
	}
	lines := bytes.Split(bytes.TrimSpace(readFile(t, "run/metrics.jsonl")), []byte("\n"))
	var last struct {
		RMSE     float64  `json:"test_rmse"`
		Accuracy *float64 `json:"test_accuracy"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last.RMSE != e || last.Accuracy != nil {
		t.Errorf("the last point: %+v, %v", last, err)
	}
	files := readReports(t, "run")
	for _, words := range []string{"test RMSE", "root mean squared error", "units of hours. Values are clipped to its bounds, 0 and 90.", "Test RMSE over ε"} {
		if !bytes.Contains(files[0], []byte(words)) {
			t.Errorf("the page does not say %q", words)
		}
	}
	for _, words := range []string{"pipeline_tag: tabular-regression", "type: rmse", "root mean squared error"} {
		if !bytes.Contains(files[1], []byte(words)) {
			t.Errorf("the card does not say %q", words)
		}
	}
	for _, text := range files {
		if bytes.Contains(text, []byte(">Accuracy")) || bytes.Contains(text, []byte("test accuracy")) || bytes.Contains(text, []byte("| accuracy |")) {
			t.Error("page or card speak of an accuracy")
		}
	}
	if stdout, _, _ := dptrain("train --model logistic --non-private --steps 2 --out untested --quiet" + strings.Replace(predicted, " --test more.csv", "", 1)); !strings.HasPrefix(stdout, "- ") {
		t.Errorf("without test data --quiet prints %q", stdout)
	}
	if text := readReports(t, "untested"); !bytes.Contains(text[0], []byte("The error on the private data is itself private")) || bytes.Contains(text[1], []byte("labels")) {
		t.Error("without test data the page does not say what is missing")
	}
}

// If the weights are finite and the loss is not, the report states that. The predictions stay within
// the bounds of the target all the same.
func TestRegression_NonFiniteLoss(t *testing.T) {
	amongHours(t)
	got := runJSON(t, "train --model logistic --lot 100 --non-private --optimizer momentum --lr 4 --steps 30 --seed 1 --out run"+predicted)
	if got["test_loss"] != nil || got["test_rmse"].(float64) > 90 {
		t.Errorf("the loss is %v, the error %v", got["test_loss"], got["test_rmse"])
	}
	if page := readReports(t, "run")[0]; !bytes.Contains(page, []byte("not a finite number")) {
		t.Error("the page does not say what became of the loss")
	}
}

// A model of a target is exported, and the weights can start another run with the same number of
// targets.
func TestRegression_Export(t *testing.T) {
	amongHours(t)
	const open = "train --model logistic --non-private --lot 200" + predicted
	runJSON(t, open+" --steps 20 --out run")
	for _, format := range export.Formats {
		if got := runJSON(t, "export run --format "+format+" --out model."+format); got["bytes"].(float64) < 100 {
			t.Errorf("%s: %v", format, got)
		}
	}
	if _, stderr, code := dptrain(open + " --steps 1 --out next --init model.safetensors"); code != exitcode.Done || !strings.Contains(stderr, "match") {
		t.Errorf("--init: exit %d, %s", code, stderr)
	}
}

// Where the optimizer is given, a target, from any source, has a smaller default learning rate than a
// class. A given rate is kept.
func TestRegression_DefaultLearningRate(t *testing.T) {
	amongHours(t)
	if err := os.WriteFile("hours.yaml", []byte("target: hours\nbounds: {age: [0, 100], hours: [0, 90]}\nvocabulary: {colour: [red, blue]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]float64{
		predicted:                               0.05,
		predicted + " --lr 0.5":                 0.5,
		" --data hours.csv --schema hours.yaml": 0.05,
		" --data hours.csv --label colour --classes red,blue --bounds age=0:100,hours=0:90": 0.5,
	} {
		if got := runJSON(t, "train --dry-run --optimizer momentum --steps 3 --noise 2 --delta 1e-5"+flags); got["learning_rate"] != want {
			t.Errorf("%s: learning rate %v, want %v", flags, got["learning_rate"], want)
		}
	}
}

// A network on text can predict a number too.
func TestRegression_Text(t *testing.T) {
	t.Chdir(t.TempDir())
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, `{"note":%q,"mood":%d}`+"\n", []string{"good", "bad"}[i%2], 10*(i%2))
	}
	if err := os.WriteFile("notes.jsonl", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	got := runJSON(t, "train --data notes.jsonl --target mood --bounds mood=0:10 --text note --tokens bytes --length 4 --non-private --lot 50 --steps 150 --seed 1 --out run")
	if got["model"] != "embbag" || got["task"] != "other" {
		t.Errorf("%v, %v", got["model"], got["task"])
	}
	if e := runJSON(t, "eval run --data notes.jsonl")["rmse"].(float64); e > 2 {
		t.Errorf("the error is %v of 10", e)
	}
}

// tune compares settings by their errors, smallest first. On private data it shows only the
// best.
func TestTune_Regression(t *testing.T) {
	amongHours(t)
	flags := strings.TrimPrefix(regression, "train") + " --steps 10 --trials 3 --lot 100 --epsilon 4"
	flags = strings.Replace(flags, " --lot 200", "", 1)
	last := 0.0
	for _, r := range runJSON(t, "tune --public"+flags)["rows"].([]any) {
		row := r.(map[string]any)
		e, ok := row["test_rmse"].(float64)
		if _, both := row["test_accuracy"]; !ok || both || e < last || row["learning_rate"].(float64) > 6*0.38 {
			t.Errorf("after %v: %v", last, row)
		}
		last = e
	}
	got := runJSON(t, "tune --out choice"+flags)
	best := got["best"].(map[string]any)
	if _, both := best["accuracy"]; both || got["score"] != "RMSE on public test data" {
		t.Errorf("chosen: %v", got)
	}
	if again := runJSON(t, "eval choice"); again["rmse"] != best["test_rmse"] {
		t.Errorf("eval has %v, the selection %v", again, best)
	}
	got = runJSON(t, "tune --out held --validation-split 0.25 --validation-noise 3"+strings.Replace(flags, " --test more.csv", "", 1))
	best = got["best"].(map[string]any)
	if _, both := best["accuracy"]; both || best["test_rmse"] != nil || got["score"] != "mean absolute error on private records held out, released with noise" {
		t.Errorf("chosen: %v", got)
	}
	// 1000 records are held out, and noise of 3 on them is 0.27 hours. Without clipping to the
	// limits, the error on other data is equal or larger: the means of two parts of the table
	// differ by less than 8.
	if mae := best["validation_mae"].(float64); mae < 0 || mae > runJSON(t, "eval held --data more.csv")["mae"].(float64)+6*0.27+8 || best["deviation"] != 0.27 {
		t.Errorf("chosen for %v", best)
	}
	if cost := runJSON(t, "ledger epsilon held")["epsilon"].(float64); cost > 4 || cost < 3.9 {
		t.Errorf("ε = %v of 4", cost)
	}
	for e, want := range map[*engine.Evaluation]float64{
		{Labels: 1, Accuracy: 0.5}:      0.5,
		{Targets: 1, RMSE: 2}:           -2,
		{Targets: 1, RMSE: math.NaN()}:  -math.MaxFloat64,
		{Targets: 1, RMSE: math.Inf(1)}: -math.MaxFloat64,
	} {
		if got := settings.Score(e); got != want {
			t.Errorf("%+v is worth %v, want %v", *e, got, want)
		}
	}
}

// The error on private records held out is released with noise, is part of ε, and is in
// units of the target in every output.
func TestRegression_Validation(t *testing.T) {
	amongHours(t)
	const line = regression + " --epochs 5 --epsilon 2 --validation-split 0.1 --validation-noise 20 --out run"
	if stdout, _, _ := dptrain(line + " --dry-run"); !strings.Contains(stdout, "400 more records are held out; noise with standard deviation 20 is added to their sum of errors in widths of the target's bounds") {
		t.Errorf("foreseen: %s", stdout)
	}
	got := runJSON(t, line)
	if e := got["epsilon"].(float64); e > 2 || e < 1.99 || got["validation_noise"] != 20.0 || got["validation_records"] != 400.0 {
		t.Errorf("a budget of 2: %v", got)
	}
	if _, both := got["validation_accuracy"]; both || got["validation_deviation"] != 20./400*90 {
		t.Errorf("run.json has %v", got)
	}
	// Both errors estimate the same value: they differ by the noise and by the difference of
	// two parts of the table.
	mae := got["validation_mae"].(float64)
	if off := mae - got["test_mae"].(float64); math.Abs(off) > 6*4.5+0.5 || mae < 0 || mae > 90 {
		t.Errorf("MAE %v held out, %v on test data", mae, got["test_mae"])
	}
	files := readReports(t, "run")
	for i, words := range []string{"validation mean absolute error", "± 4.5 of noise (ε includes its cost), in the units of hours, with predictions clipped to its bounds"} {
		for _, text := range files {
			if !bytes.Contains(text, []byte(words)) {
				t.Errorf("%d: page or card do not say %q", i, words)
			}
		}
	}
	if !bytes.Contains(files[1], []byte("1 release of validation error over 400 records, with noise of 20 times its sensitivity")) {
		t.Error("the card does not say what was released")
	}

	// A finished run keeps its validation. A run whose validation is not in run.json cannot
	// pay for another one.
	stdout, _, code := dptrain("train --resume run")
	if want := fmt.Sprintf("validation  MAE %s ± 4.5 (noise) of hours, with predictions clipped to its bounds, on 400 private records held out; ε includes its cost", number.Short(mae)); code != exitcode.Done || !strings.Contains(stdout, want) {
		t.Errorf("resumed with nothing to do: exit %d, no %q in\n%s", code, want, stdout)
	}
	for what, summary := range map[string]string{"lost": "", "of another kind": strings.Replace(string(readFile(t, "run/run.json")), "validation_mae", "validation_accuracy", 1)} {
		if err := os.WriteFile("run/run.json", []byte(summary), 0o644); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := dptrain("train --resume run")
		if code != exitcode.Done || !strings.Contains(stderr, "No validation error: budget: the validation error would bring") || strings.Contains(stdout, "validation") {
			t.Errorf("with the answer %s: exit %d\n%s%s", what, code, stdout, stderr)
		}
	}

	// Users, without test data and without privacy: the exact error.
	got = runJSON(t, "train --model logistic --lot 1 --steps 2 --non-private --validation-split 0.5 --record user:colour --out open"+" --data hours.csv --target hours --bounds age=0:100,hours=0:90")
	if mae := got["validation_mae"].(float64); got["validation_deviation"] != 0.0 || got["validation_records"] != 1.0 || mae < 1 || mae > 90 {
		t.Errorf("without privacy: %v", got)
	}
	for _, text := range readReports(t, "open") {
		if !bytes.Contains(text, []byte("There were no public test data. Released instead: mean absolute error on 1 record held out for validation: ")) || bytes.Contains(text, []byte("not evaluated")) {
			t.Error("the page or the card lacks the validation error")
		}
	}
}

func TestRegression_RefusesInvalidFlags(t *testing.T) {
	amongHours(t)
	table(t, "people.csv", 40)
	for line, want := range map[string]string{
		regression + " --label colour":                                "a number or a class; leave one out",
		regression + " --classes 2":                                   "a number or a class; leave one out",
		regression + " --next":                                        "with next the network predicts",
		regression + " --validation-split 0.1 --validation-noise 0":   "sum of errors in widths of the target's bounds",
		regression + " --model mlp:0":                                 `"0"`,
		strings.Replace(regression, ",hours=0:90", "", 1):             "write --bounds hours=LOW:HIGH",
		strings.Replace(regression, "hours ", "hour ", 1):             `no target "hour"`,
		strings.Replace(regression, "--target hours", "--target=", 1): "--target is empty",
		"train --target y":                                            "digits has no named columns",
		"tune --trials 2 --accountant rdp" + strings.Replace(predicted, " --test more.csv", "", 1): "--validation-split 0.1; their error",
	} {
		checkUsageError(t, line, want)
	}
	if left, _ := os.ReadDir("runs"); len(left) > 0 {
		t.Errorf("%d runs were begun", len(left))
	}
}
