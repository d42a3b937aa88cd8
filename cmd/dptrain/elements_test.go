package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// array writes numbers as numpy.save does: bytes or, with kind "<f4", float32.
func array(t *testing.T, name, kind, shape string, numbers ...float64) {
	t.Helper()
	header := fmt.Sprintf("%-117s\n", fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape))
	file := []byte("\x93NUMPY\x01\x00\x76\x00" + header)
	for _, v := range numbers {
		if kind == "|u1" {
			file = append(file, byte(v))
			continue
		}
		bits := math.Float32bits(float32(v))
		file = append(file, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, file, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// shades writes arrays of two grey pixels; the first one is dark or light.
func shades(t *testing.T, dir, kind string, scale float64) {
	t.Helper()
	for part, n := range map[string]int{"train": 40, "test": 10} {
		var x, y []float64
		for i := range n {
			x, y = append(x, scale*float64(i%2*200+i), scale*float64(i)), append(y, float64(i%2))
		}
		array(t, dir+"/x_"+part+".npy", kind, fmt.Sprintf("(%d, 2)", n), x...)
		array(t, dir+"/y_"+part+".npy", "|u1", fmt.Sprintf("(%d,)", n), y...)
	}
}

// Bytes are scaled and numbers are not. A model that was trained on one of them refuses the
// other in eval, predict, --init and --resume: the scale would silently be wrong.
func TestElements_MustMatchTheModel(t *testing.T) {
	t.Chdir(t.TempDir())
	shades(t, "bytes", "|u1", 1)
	shades(t, "numbers", "<f4", 1)
	shades(t, "unit", "<f4", 1./255)
	const train = "train --classes 2 --model logistic --delta 1e-3 --noise 1 --steps 2 --lot 20 --lr 0.1 --data "
	losses := map[string]any{}
	for _, is := range []string{"bytes", "numbers", "unit"} {
		losses[is] = runJSON(t, train+is+" --out of-"+is)["test_loss"]
		if again := runJSON(t, "eval of-"+is); again["loss"] != losses[is] {
			t.Errorf("%s: eval has %v, train %v", is, again["loss"], losses[is])
		}
		runText(t, "predict of-"+is+" --data "+is)
	}
	for line, want := range map[string]string{
		"eval of-bytes --data numbers":                                 "numbers: the examples are numbers, which are not scaled, and the model was trained on bytes, which are scaled to [0, 1]; save x as uint8",
		"eval of-bytes --data unit":                                    "save x as uint8",
		"eval of-numbers --data bytes":                                 "bytes: the examples are bytes, which are scaled to [0, 1], and the model was trained on numbers, which are not scaled; save x as float32",
		"predict of-bytes --data numbers/x_test.npy":                   "numbers/x_test.npy: the examples are numbers",
		"predict of-numbers --data bytes":                              "bytes: the examples are bytes",
		train + "numbers --init of-bytes/model.safetensors --out more": "of-bytes/model.safetensors: the examples are numbers",
		"train --resume of-bytes --steps 4 --data numbers":             "data: elements is numbers (it was bytes)",
		"train --resume of-numbers --steps 4 --data bytes":             "data: elements is bytes (it was numbers)",
	} {
		checkUsageError(t, line, want)
	}
	if more := runJSON(t, "train --resume of-bytes --steps 3"); more["steps"] != 3.0 {
		t.Errorf("resumed: %v lots", more["steps"])
	}
	runJSON(t, "export of-bytes --out alone.safetensors")
	runJSON(t, train+"unit --init alone.safetensors --out started")

	// A manifest of an older release does not contain the elements, and accepts both.
	text := strings.Replace(string(readFile(t, "of-numbers/model.json")), `"elements": "numbers",`, "", 1)
	if err := os.WriteFile("of-numbers/model.json", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	runJSON(t, "eval of-numbers --data bytes")

	runJSON(t, "train --classes 2 --model logistic --non-private --steps 2 --lot 20 --lr 100 --data unit --out steep")
	array(t, "beyond.npy", "<f4", "(1, 2)", math.MaxFloat32, math.MaxFloat32)
	if _, stderr, code := dptrain("predict steep --data beyond.npy --out a.csv"); code != exitcode.Usage || !strings.HasPrefix(stderr, "dptrain: predict: example 0, ") || !strings.Contains(stderr, "not finite") {
		t.Errorf("numbers far too large: exit %d, %s", code, stderr)
	}
	if _, err := os.Stat("a.csv"); err == nil {
		t.Error("answers were written that are none")
	}
}
