package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// --quiet hides no warning about safety, --json and run.json list it, and a run without a reason for
// one has an empty list.
func TestWarnings_AreNeverHidden(t *testing.T) {
	inWorkshop(t)
	withoutTest := strings.Replace(brief, " --test test.csv", "", 1)
	if withoutTest == brief {
		t.Fatal("the command has no test data to omit")
	}
	for i, test := range []struct{ line, want string }{
		{brief + " --noise 2", ""},
		{brief + " --noise 2 --seed 1", "INSECURE: noise and lots come from --seed"},
		{brief + " --noise 2 --delta 0.001 --allow-large-delta", "δ = 0.001 is not below 1/4000"},
		{withoutTest + " --noise 2", "there are no test data"},
		{withoutTest + " --noise 2 --validation-split 0.1 --validation-noise 60", ""},
		{strings.Replace(brief, " --accountant rdp", "", 1) + " --non-private", "NOT PRIVATE"},
	} {
		out := fmt.Sprintf(" --steps 2 --out run%d", i)
		check := func(what string, warnings any) {
			t.Helper()
			list, ok := warnings.([]any)
			if !ok && warnings != nil || (test.want == "") != (len(list) == 0) || test.want != "" && !strings.Contains(fmt.Sprint(list), test.want) {
				t.Errorf("%s: %s has the warnings %v, want %q", test.line, what, warnings, test.want)
			}
		}
		_, stderr, code := dptrain(test.line + out + " --quiet")
		if code != exitcode.Done || (stderr == "") != (test.want == "") || !strings.Contains(stderr, test.want) {
			t.Errorf("%s --quiet: exit %d, %q", test.line, code, stderr)
		}
		var file map[string]any
		if err := json.Unmarshal(readFile(t, fmt.Sprintf("run%d/run.json", i)), &file); err != nil {
			t.Fatal(err)
		}
		if file["warnings"] == nil {
			t.Errorf("%s: run.json has no list of warnings", test.line)
		}
		check("run.json", file["warnings"])
		check("--json", runJSON(t, test.line+out+"-json")["warnings"])
		check("--dry-run --json", runJSON(t, test.line+" --steps 2 --dry-run")["warnings"])
	}
	const epsilon = "ledger epsilon run1 --delta 1e-5"
	if _, stderr, _ := dptrain(epsilon + " --quiet"); !strings.Contains(stderr, "this ledger is insecure") {
		t.Errorf("%s --quiet: %q", epsilon, stderr)
	}
	if v := runJSON(t, epsilon); !strings.Contains(fmt.Sprint(v["warnings"]), "this ledger is insecure") {
		t.Errorf("%s --json: %v", epsilon, v["warnings"])
	}
}

// Times in files have two significant digits, or are whole seconds: they depend on the realised sizes
// of the lots.
func TestTrain_RoundsPublishedTimes(t *testing.T) {
	inWorkshop(t)
	check := func(what string, value any) {
		t.Helper()
		if x, ok := value.(float64); !ok || !(x > 0) || number.TwoDigits(x) != x {
			t.Errorf("%s is %v, want a number with two digits", what, value)
		}
	}
	v := runJSON(t, brief+" --steps 20 --noise 2 --out run")
	check("examples_per_second", v["examples_per_second"])
	check("seconds of --json", v["seconds"])
	for line := range bytes.Lines(readFile(t, "run/metrics.jsonl")) {
		var point map[string]any
		if err := json.Unmarshal(line, &point); err != nil {
			t.Fatal(err)
		}
		check("seconds of a point", point["seconds"])
	}
	events, err := filepath.Glob("run/tensorboard/*")
	if err != nil || len(events) != 1 {
		t.Fatal(events, err)
	}
	count := 0
	for file := readFile(t, events[0]); len(file) > 0; count++ {
		n := binary.LittleEndian.Uint64(file)
		if at := math.Float64frombits(binary.LittleEndian.Uint64(file[13:])); count > 0 && at != math.Trunc(at) {
			t.Errorf("an event has the time %v", at)
		}
		file = file[12+n+4:]
	}
	if count < 10 {
		t.Errorf("%d events", count)
	}
}
