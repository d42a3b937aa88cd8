package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// stopping is a run of 40 lots whose first released accuracy ends it.
const stopping = brief + " --steps 40 --noise 2 --delta 1e-5 --metric accuracy:noise=1,every=4 --stop-when accuracy>=0 --out "

// A run that a released metric ends has the ε of its plan, in every output. The ε of the lots that
// ran and the odometer have keys of their own.
func TestStop_ReleasedMetric(t *testing.T) {
	inWorkshop(t)
	whole := runJSON(t, brief+" --steps 40 --noise 2 --delta 1e-5 --metric accuracy:noise=1,every=4 --out whole")
	v := runJSON(t, stopping+"run")
	if v["steps"] != 4.0 || v["stopped"] != true || v["stop_when"] != "accuracy>=0" || v["steps_planned"] != 40.0 || v["interrupted"] != nil {
		t.Fatalf("%v", v)
	}
	epsilon := func(key string) float64 {
		e, _ := v[key].(float64)
		return e
	}
	if epsilon("epsilon") != whole["epsilon"] || epsilon("epsilon_planned") != whole["epsilon"] {
		t.Errorf("ε = %v, the plan costs %v", v["epsilon"], whole["epsilon"])
	}
	spent := runJSON(t, "ledger epsilon run --delta 1e-5 --accountant rdp")["epsilon"].(float64)
	if epsilon("epsilon_spent") != spent || !(spent < epsilon("epsilon")) {
		t.Errorf("spent %v, the ledger states %v", v["epsilon_spent"], spent)
	}
	h, err := ledger.Read("run/ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	o, err := accountant.OdometerOf(h, 1e-5)
	if err != nil || epsilon("epsilon_odometer") != o.Epsilon() || !(o.Epsilon() > spent) {
		t.Errorf("the odometer is %v, want %v above %v; %v", v["epsilon_odometer"], o.Epsilon(), spent, err)
	}
	page := string(readFile(t, "run/report.html"))
	if !strings.Contains(page, "fulfilled the condition accuracy") || !strings.Contains(page, "privacy odometer") || strings.Contains(page, "Chosen on test data") {
		t.Error("the report does not explain the stop")
	}
	_, stderr, code := dptrain(stopping + "again")
	if code != exitcode.Done || !strings.Contains(stderr, "--stop-when accuracy>=0 ended the run after 4 of 40 lots") || !strings.Contains(stderr, "the cost of the whole plan of 40 lots") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	// A smaller plan would understate the cost; the same plan continues to the next release.
	if _, stderr, code := dptrain("train --resume run --steps 4"); code != exitcode.Usage || !strings.Contains(stderr, "at least 40") {
		t.Errorf("a smaller plan: exit %d, %s", code, stderr)
	}
	if v := runJSON(t, "train --resume run"); v["steps"] != 8.0 || v["epsilon"] != whole["epsilon"] {
		t.Errorf("resumed: %v lots, ε = %v", v["steps"], v["epsilon"])
	}
	// no-gain ends the run after N values that are not better than the best one.
	v = runJSON(t, brief+" --steps 60 --noise 2 --delta 1e-5 --metric loss:noise=1,every=1 --lr 1e-9 --stop-when no-gain:2 --out flat")
	var losses []float64
	for line := range strings.Lines(string(readFile(t, "flat/metrics.jsonl"))) {
		var entry struct {
			Released []struct{ Value []float64 }
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, entry.Released[0].Value[0])
	}
	best, at := math.Inf(1), 0
	for i, loss := range losses {
		if loss < best {
			best, at = loss, i
		}
	}
	if v["steps"] != float64(at+3) || len(losses) != at+3 {
		t.Errorf("%v lots, the best of %v is number %d", v["steps"], losses, at+1)
	}
}

// stopOf returns the lot at which no-gain:patience ends a series of losses of lots first, first+1, ….
func stopOf(losses []float64, first, patience int) int {
	best, at := math.Inf(1), 0
	for i, loss := range losses {
		if loss < best {
			best, at = loss, i
		}
		if i-at == patience {
			return first + i
		}
	}
	return 0
}

// A resumed run counts the values before its interruption: with released metrics, with test data and
// where a crash lost lots.
func TestStop_ResumedRunCounts(t *testing.T) {
	inWorkshop(t)
	const line = brief + " --noise 2 --delta 1e-5 --lr 1e-9 --seed 3"
	released := func() (losses []float64) {
		for text := range strings.Lines(string(readFile(t, "run/metrics.jsonl"))) {
			var entry struct {
				Lot      int
				Released []struct{ Value []float64 }
			}
			if err := json.Unmarshal([]byte(text), &entry); err != nil {
				t.Fatal(err)
			}
			losses = append(losses[:entry.Lot-1], entry.Released[0].Value[0]) // a line replaces lots that were lost
		}
		return losses
	}
	runJSON(t, line+" --metric loss:noise=1,every=1 --stop-when no-gain:6 --steps 6 --out run")
	// A crash may leave lines of lots that no checkpoint has.
	const lost = `{"lot":7,"released":[{"metric":"loss","value":[-1e9],"deviation":1}],"learning_rate":1,"seconds":1}` + "\n"
	if err := os.WriteFile("run/metrics.jsonl", append(readFile(t, "run/metrics.jsonl"), lost...), 0o644); err != nil {
		t.Fatal(err)
	}
	v := runJSON(t, "train --resume run --steps 60")
	losses := released()
	want := stopOf(losses, 1, 6)
	if v["stopped"] != true || v["steps"] != float64(want) || len(losses) != want {
		t.Errorf("%v lots, want %d", v["steps"], want)
	}
	if afresh := stopOf(losses[6:], 7, 6); afresh == want {
		t.Errorf("counting from the interruption ends at lot %d as well: the test has no power", afresh)
	}
	// With test data and without a gain, both runs end at the same lot.
	const tested = baseline + " --lr 1e-12 --seed 3 --stop-when test-no-gain:3"
	whole := runJSON(t, tested+" --steps 60 --out whole")
	if n := whole["steps"].(float64); whole["stopped"] != true || n < 4 {
		t.Fatalf("%v lots", n)
	}
	runJSON(t, tested+fmt.Sprintf(" --steps %v --out part", whole["steps"].(float64)-2))
	if v := runJSON(t, "train --resume part --steps 60"); v["steps"] != whole["steps"] || v["stopped"] != true {
		t.Errorf("resumed: %v lots, without an interruption %v", v["steps"], whole["steps"])
	}
	if err := os.WriteFile("run/metrics.jsonl", []byte("no JSON\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := dptrain("train --resume run --steps 61"); code == exitcode.Done || !strings.Contains(stderr, "move it away") {
		t.Errorf("with another file: exit %d, %s", code, stderr)
	}
}

// A condition on the test data has a warning in every output, and the plan's ε as well.
func TestStop_TestData(t *testing.T) {
	inWorkshop(t)
	whole := runJSON(t, brief+" --steps 40 --noise 2 --delta 1e-5 --out whole")
	v := runJSON(t, brief+" --steps 40 --noise 2 --delta 1e-5 --stop-when test-accuracy>=0.01 --out run")
	if v["stopped"] != true || !(v["steps"].(float64) < 40) || v["epsilon"] != whole["epsilon"] {
		t.Fatalf("%v", v)
	}
	if w := v["warnings"].([]any); !strings.Contains(w[len(w)-1].(string), "costs no budget because they are public") {
		t.Errorf("warnings %v", w)
	}
	if page := string(readFile(t, "run/report.html")); !strings.Contains(page, "Chosen on test data") {
		t.Error("the report has no warning")
	}
	if v := runJSON(t, brief+" --steps 4 --noise 2 --delta 1e-5 --stop-when test-accuracy>=1 --out full"); v["stopped"] != nil || v["epsilon_planned"] != nil || v["steps"] != 4.0 {
		t.Errorf("a condition that was not fulfilled: %v", v)
	}
	if v := runJSON(t, baseline+" --steps 40 --stop-when test-loss<=99 --out plain"); v["stopped"] != true || v["epsilon"] != "Infinity" {
		t.Errorf("without privacy: %v", v)
	}
}

func TestStop_Refused(t *testing.T) {
	inWorkshop(t)
	for flags, want := range map[string]string{
		"--stop-when accuracy>=0.5":                   "requires --metric accuracy",
		"--stop-when no-gain:3":                       "requires --metric accuracy",
		"--stop-when no-gain:3 --metric lot-size":     "requires --metric accuracy",
		"--stop-when loss<=1 --metric accuracy":       "requires --metric loss",
		"--stop-when accuracy>=90 --metric accuracy":  "as a share",
		"--stop-when accuracy<=0.5 --metric accuracy": "the condition is unknown: use accuracy>=X",
		"--stop-when no-gain:0 --metric accuracy":     "1 or more",
		"--stop-when test-no-gain:x":                  "1 or more",
		"--stop-when accuracy>=0.5 --non-private":     "requires --metric accuracy",
		"--stop-when=": "--stop-when is empty",
	} {
		line := brief
		if strings.Contains(flags, "non-private") {
			line = baseline
		}
		checkUsageError(t, line+" --steps 4 --out refused "+flags, want)
	}
	untested := strings.Replace(brief, " --test test.csv", "", 1)
	if _, stderr, code := dptrain(untested + " --steps 4 --out refused --stop-when test-no-gain:2"); untested == brief || code != exitcode.Usage || !strings.Contains(stderr, "requires public test data") {
		t.Errorf("without test data: exit %d, %s", code, stderr)
	}
}

func TestBudgetOdometer_ReadsLedger(t *testing.T) {
	inWorkshop(t)
	runJSON(t, brief+" --steps 20 --noise 2 --delta 1e-5 --out run")
	v := runJSON(t, "budget odometer run --delta 1e-5 --epsilon 3")
	e, fixed := v["epsilon"].(float64), v["epsilon_fixed"].(float64)
	if pld := runJSON(t, "ledger epsilon run --delta 1e-5 --accountant pld")["epsilon"]; fixed != pld || !(e > fixed) || v["lots"] != 20.0 || math.Abs(v["epsilon_left"].(float64)-(3-e)) > 1e-12 {
		t.Errorf("%v, pld %v", v, pld)
	}
	n := int(v["lots_left"].(float64))
	h, err := ledger.Read("run/ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{n, n + 1} {
		h.Lots[0].Count = 20 + more
		o, err := accountant.OdometerOf(h, 1e-5)
		if err != nil || (o.Epsilon() <= 3) != (more == n) {
			t.Errorf("%d lots more: %v, %v", more, o.Epsilon(), err)
		}
	}
	for flags, want := range map[string]string{"run": "delta", "nowhere --delta 1e-5": "nowhere does not exist", "run --delta 1e-5 --epsilon 0": "above 0"} {
		checkUsageError(t, "budget odometer "+flags, want)
	}
}
