package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// The ledger states a metric in the lots that release it, run.json lists it with the groups, and
// metrics.jsonl, the notes, TensorBoard and the report show it with the deviation of its noise.
func TestMetric_IsReleasedAndAccounted(t *testing.T) {
	inWorkshop(t)
	line := brief + " --steps 20 --noise 2 --clip 1 --delta 1e-5 --metric accuracy:noise=3,every=4 --metric loss:noise=5,every=10,clip=2 --metric lot-size:noise=8,every=5 --metric class-counts --out run"
	_, stderr, code := dptrain(line)
	if code != exitcode.Done || !strings.Contains(stderr, "lot accuracy ") || !strings.Contains(stderr, "± 1.50% (noise)") {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	h, err := ledger.Read("run/ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lots := map[string]int{}
	for _, spent := range h.Lots {
		for _, q := range spent.Lot.Queries {
			lots[q.Group] += spent.Count
		}
	}
	var v struct {
		Epsilon float64
		Groups  []ledger.Query
	}
	if err := json.Unmarshal(readFile(t, "run/run.json"), &v); err != nil {
		t.Fatal(err)
	}
	noise := map[string]float64{}
	for _, q := range v.Groups {
		noise[q.Group] = q.Noise
	}
	for group, want := range map[string][2]float64{"gradient": {20, 2}, "accuracy": {5, 3}, "loss": {2, 10}, "lot-size": {4, 8}, "class-counts": {10, noise["class-counts"]}} {
		if float64(lots[group]) != want[0] || noise[group] != want[1] || len(noise) != 5 {
			t.Errorf("%s: %d lots, noise %v, want %v; groups %v", group, lots[group], noise[group], want, noise)
		}
	}
	bare := runJSON(t, "budget epsilon --rate 0.05 --noise 2 --steps 20 --delta 1e-5 --accountant rdp")["epsilon"].(float64)
	if !(v.Epsilon > bare) {
		t.Errorf("ε = %v with metrics, %v without", v.Epsilon, bare)
	}
	released := map[string]int{}
	for text := range bytes.Lines(readFile(t, "run/metrics.jsonl")) {
		var entry struct {
			Lot      int
			Released []struct {
				Metric    string
				Value     []float64
				Deviation float64
			}
		}
		if err := json.Unmarshal(text, &entry); err != nil {
			t.Fatal(err)
		}
		for _, m := range entry.Released {
			released[m.Metric]++
			want := noise[m.Metric] / 200
			if m.Metric == "lot-size" {
				want = 8
				if math.Abs(m.Value[0]-200) > 8*math.Sqrt(200+64) { // fails for one correct run in 10^13
					t.Errorf("a lot of %v records, expected 200", m.Value)
				}
			}
			if math.Abs(m.Deviation/want-1) > 1e-12 {
				t.Errorf("%s: a deviation of %v, want %v", m.Metric, m.Deviation, want)
			}
		}
	}
	for name, n := range map[string]int{"accuracy": 5, "loss": 2, "lot-size": 4, "class-counts": 10} {
		if released[name] != n {
			t.Errorf("metrics.jsonl has %s %d times, want %d", name, released[name], n)
		}
	}
	if page := string(readFile(t, "run/report.html")); !strings.Contains(page, "metric-accuracy") || !strings.Contains(page, "<dt>loss, lot 20</dt>") {
		t.Error("the report does not show the metrics")
	}

	// The settings on disk have the calibrated noise, so that a resumed run has the same.
	if v := runJSON(t, "train --resume run --steps 30"); v["steps"] != 30.0 || len(v["groups"].([]any)) != 5 {
		t.Errorf("resumed: %v", v)
	}
	if _, stderr, code := dptrain("train --resume run --steps 40 --metric accuracy:noise=9,every=4"); code != exitcode.Usage || !strings.Contains(stderr, "statistic accuracy") {
		t.Errorf("resumed with other noise: exit %d, %s", code, stderr)
	}
}

// A run with metrics costs its budget and no more, with the metrics' noise by default and each of
// them alone within a twentieth.
func TestMetric_WithinBudget(t *testing.T) {
	inWorkshop(t)
	v := runJSON(t, brief+" --steps 20 --epsilon 3 --delta 1e-5 --metric accuracy --metric loss --out run")
	if e := v["epsilon"].(float64); e > 3 || e < 2.97 {
		t.Errorf("ε = %v of 3", e)
	}
	for _, group := range v["groups"].([]any)[1:] {
		g := group.(map[string]any)
		z := g["noise"].(float64) / g["sensitivity"].(float64)
		alone := runJSON(t, "budget noise --rate 0.05 --steps 10 --epsilon 0.15 --delta 1e-5 --accountant rdp")["noise_multiplier"].(float64)
		if math.Abs(z/alone-1) > 1e-3 {
			t.Errorf("%v has the multiplier %v, a twentieth of the budget needs %v", g["group"], z, alone)
		}
	}
}

func TestMetric_Refused(t *testing.T) {
	inWorkshop(t)
	for flags, want := range map[string]string{
		"--metric precision":                       "the metric is unknown: use accuracy",
		"--metric accuracy:noise=0":                "not a finite number above 0",
		"--metric accuracy:every=0":                "1 or more",
		"--metric accuracy:every=99":               "releases nothing in 4 lots",
		"--metric accuracy:clip=2":                 "so it has no clip",
		"--metric accuracy:share=2":                "not a setting of a metric",
		"--metric accuracy:every=1,every=2":        "every is given twice",
		"--metric accuracy --metric accuracy":      "accuracy is given twice",
		"--metric accuracy --non-private":          "--metric and --non-private exclude each other",
		"--group loss=* --metric loss":             "two released sums",
		"--metric accuracy:noise=0.01 --epsilon 1": "the releases whose noise is given cost more",
	} {
		wanted := exitcode.Usage
		if strings.Contains(want, "cost more") {
			wanted = exitcode.OverBudget
		}
		_, stderr, code := dptrain(brief + " --steps 4 --out refused " + flags)
		if code != wanted || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s, want %q", flags, code, stderr, want)
		}
	}
	if _, stderr, code := dptrain(strings.Replace(brief, "--label label --classes no,yes --bounds age=0:100", "--target age --vocabulary label=no|yes --bounds age=0:100", 1) + " --steps 4 --out refused --metric accuracy"); code != exitcode.Usage || !strings.Contains(stderr, "requires labels") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// A metric that joins a group is in no query of the ledger, ε is that of the run without it, and its noise is
// that of the group times its scale. A resumed run continues it.
func TestMetric_JoinsGroup(t *testing.T) {
	inWorkshop(t)
	line := brief + " --steps 4 --noise 2 --clip 1 --delta 1e-5 --metric loss:group=gradient,scale=0.5,clip=2 --metric accuracy:group=gradient,every=2 --out "
	v, without := runJSON(t, line+"joint"), runJSON(t, brief+" --steps 4 --noise 2 --clip 1 --delta 1e-5 --out without")
	if v["epsilon"] != without["epsilon"] || len(v["groups"].([]any)) != 1 {
		t.Errorf("ε = %v and groups %v; without metrics ε = %v", v["epsilon"], v["groups"], without["epsilon"])
	}
	runJSON(t, "train --resume joint --steps 6")
	lots := map[string]int{}
	for text := range bytes.Lines(readFile(t, "joint/metrics.jsonl")) {
		var entry struct {
			Released []struct {
				Metric    string
				Deviation float64
			}
		}
		if err := json.Unmarshal(text, &entry); err != nil {
			t.Fatal(err)
		}
		for _, m := range entry.Released {
			lots[m.Metric]++
			if want := map[string]float64{"loss": 0.5, "accuracy": 1}[m.Metric] * 2 / 200; math.Abs(m.Deviation/want-1) > 1e-9 {
				t.Errorf("%s: a deviation of %v, want %v", m.Metric, m.Deviation, want)
			}
		}
	}
	if lots["loss"] != 6 || lots["accuracy"] != 3 {
		t.Errorf("releases in 6 lots: %v", lots)
	}
	for flags, want := range map[string]string{
		" --metric loss:group=absent":                                        "there is no group absent",
		" --metric loss:group=":                                              "group is empty",
		" --metric loss:scale=2":                                             "add group=NAME",
		" --metric loss:group=gradient,noise=3":                              "has the noise of the group",
		" --metric loss:group=gradient,scale=-1":                             "scale: ",
		" --metric clipped:group=gradient":                                   "clip factor",
		" --metric loss:group=gradient --mechanism laplace --accountant pld": "gaussian",
	} {
		_, stderr, code := dptrain(brief + " --steps 2 --noise 2 --out refused" + flags)
		if code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s, want %q", flags, code, stderr, want)
		}
	}
}
