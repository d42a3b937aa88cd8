package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// --show-private prints private values on marked lines and nowhere else: the files are the
// same as without the flag.
func TestTrain_ShowPrivate(t *testing.T) {
	inWorkshop(t)
	var notes [2][]string
	var points [2]string
	for i, flag := range []string{"", " --show-private"} {
		dir := "run" + strconv.Itoa(i)
		_, stderr, code := dptrain(brief + " --steps 10 --noise 1 --delta 1e-5 --seed 1 --threads 1 --out " + dir + flag)
		if code != exitcode.Done {
			t.Fatal(stderr)
		}
		marked := 0
		for line := range strings.Lines(stderr) {
			if strings.HasPrefix(line, "PRIVATE, do not publish: ") {
				marked++
				continue
			}
			for _, word := range []string{"loss", "unscaled", "held", "refused"} {
				if strings.Contains(line, word) {
					t.Errorf("%q stands in a line that is not marked: %s", word, line)
				}
			}
			notes[i] = append(notes[i], line)
		}
		if marked != 10*i {
			t.Errorf("%d lines are marked private with%q", marked, flag)
		}
		text := readFile(t, dir+"/metrics.jsonl")
		points[i] = regexp.MustCompile(`"(seconds|epsilon)":[^,}]+`).ReplaceAllString(string(text), "#")
	}
	if len(notes[0]) != len(notes[1]) || points[0] != points[1] || files(t, "run0") != files(t, "run1") {
		t.Errorf("%d and %d lines, points\n%s\n%s", len(notes[0]), len(notes[1]), points[0], points[1])
	}
	// A resumed run prints private values only if its own command asks for them.
	for _, flags := range []string{"--steps 11", "--steps 12 --show-private"} {
		_, stderr, code := dptrain("train --resume run1 " + flags)
		if code != exitcode.Done || strings.Contains(stderr, "PRIVATE, do not publish: ") != strings.Contains(flags, "private") {
			t.Errorf("resumed with %s: exit %d\n%s", flags, code, stderr)
		}
	}
}

func TestTrain_NonPrivate(t *testing.T) {
	inWorkshop(t)
	stdout, stderr, code := dptrain(baseline + " --steps 4 --project 2 --validation-split 0.1 --out run")
	if code != exitcode.Done || !strings.Contains(stderr, "NOT PRIVATE") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	shown := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{"% on 400 records held out projection onto 2 principal directions privacy NONE: ", " files run report run/report.html next dptrain train (the same, with privacy)"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	for _, want := range []string{`"groups": []`, `"accountant": "none"`, `"adjacency": "none"`, `"clipping": "none"`, `"secure": false`} {
		if summary := string(readFile(t, "run/run.json")); !strings.Contains(summary, want) {
			t.Errorf("%s is not in\n%s", want, summary)
		}
	}
	if _, err := os.Stat("run/ledger.jsonl"); err == nil {
		t.Error("a run without privacy has a ledger")
	}
}
