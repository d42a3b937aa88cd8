package main

import (
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// A setting whose ε is above 10 has a warning wherever ε is shown, also with --quiet and in
// JSON. One with a smaller ε has none.
func TestWarning_WeakGuarantee(t *testing.T) {
	inWorkshop(t)
	const text = "weak to none"
	for _, noise := range []string{"0.01", "2"} {
		weak := noise == "0.01"
		_, stderr, code := dptrain(brief + " --quiet --steps 2 --delta 1e-5 --out run" + noise + " --noise " + noise)
		if code != exitcode.Done || strings.Contains(stderr, text) != weak {
			t.Errorf("train --noise %s: exit %d, %s", noise, code, stderr)
		}
		for _, file := range []string{"report.html", "MODEL_CARD.md"} {
			if strings.Contains(string(readFile(t, "run"+noise+"/"+file)), text) != weak {
				t.Errorf("noise %s: %s does not warn, or needlessly", noise, file)
			}
		}
		for _, line := range []string{"budget epsilon --records 4000 --lot 200 --steps 2 --delta 1e-5 --noise " + noise, brief + " --dry-run --steps 2 --delta 1e-5 --noise " + noise} {
			stdout, stderr, code := dptrain(line)
			if code != exitcode.Done || strings.Contains(stdout+stderr, text) != weak {
				t.Errorf("%s: exit %d, %s%s", line, code, stdout, stderr)
			}
		}
	}
}
