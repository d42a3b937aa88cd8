package main

import (
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// A resumed run must read its data as before: with other values of the same flags, the data would
// become other numbers.
func TestResume_RequiresSameDataFlags(t *testing.T) {
	inWorkshop(t)
	runJSON(t, brief+" --steps 2 --noise 2 --delta 1e-5 --out run")
	for flag, want := range map[string]string{
		"--classes yes,no":  `data: classes is ["yes","no"] (it was ["no","yes"])`,
		"--bounds age=0:50": `data: bounds is {"age":[0,50]} (it was {"age":[0,100]})`,
		"--vocabulary colour=red|blue|" + strings.Repeat("x", 200): "data: vocabulary is of digest ",
		"--vocabulary colour=blue|red":                             `data: vocabulary is {"colour":["blue","red"]} (it was {"colour":["red","blue"]})`,
	} {
		if _, stderr, code := dptrain("train --resume run --steps 4 " + flag); code != exitcode.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", flag, code, stderr)
		}
	}
	if more := runJSON(t, "train --resume run --steps 4"+columns); more["steps"] != 4.0 {
		t.Errorf("with the same flags: %v lots", more["steps"])
	}

	if _, stderr, code := dptrain("train --resume run --steps 6 --on-bad-row fail"); code != exitcode.Usage || !strings.Contains(stderr, "data: on-bad-row is fail (it was blank)") {
		t.Errorf("another policy for bad rows: exit %d, %s", code, stderr)
	}

	t.Chdir(t.TempDir())
	runJSON(t, drawn+" --steps 1 --noise 2 --delta 1e-5 --augment flip,shift:1 --out run")
	if _, stderr, code := dptrain("train --resume run --steps 2 --augment shift:1"); code != exitcode.Usage || !strings.Contains(stderr, "augment is shift:1 (it was flip,shift:1)") {
		t.Errorf("another augmentation: exit %d, %s", code, stderr)
	}
}
