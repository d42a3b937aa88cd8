package main

import (
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/exitcode"
)

// A run goes on with data that are read as they were: by other words of the same flags they
// would be other numbers, and the model would go on as if they were the same.
func TestResumeReadsAlike(t *testing.T) {
	inWorkshop(t)
	answer(t, brief+" --steps 2 --noise 2 --delta 1e-5 --out run")
	for flag, says := range map[string]string{
		"--classes yes,no":  `data: classes is ["yes","no"] (it was ["no","yes"])`,
		"--bounds age=0:50": `data: bounds is {"age":[0,50]} (it was {"age":[0,100]})`,
		"--vocabulary colour=red|blue|" + strings.Repeat("x", 200): "data: vocabulary is of digest ",
		"--vocabulary colour=blue|red":                             `data: vocabulary is {"colour":["blue","red"]} (it was {"colour":["red","blue"]})`,
	} {
		if _, stderr, code := dptrain("train --resume run --steps 4 " + flag); code != exitcode.Usage || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d, %s", flag, code, stderr)
		}
	}
	if more := answer(t, "train --resume run --steps 4"+columns); more["steps"] != 4.0 {
		t.Errorf("with the same flags: %v lots", more["steps"])
	}

	t.Chdir(t.TempDir())
	answer(t, drawn+" --steps 1 --noise 2 --delta 1e-5 --augment flip,shift:1 --out run")
	if _, stderr, code := dptrain("train --resume run --steps 2 --augment shift:1"); code != exitcode.Usage || !strings.Contains(stderr, "augment is shift:1 (it was flip,shift:1)") {
		t.Errorf("changed otherwise: exit %d, %s", code, stderr)
	}
}
