package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cuda"
)

// A run, eval and predict on a GPU give the results of the CPU.
func TestEval_OnGPU(t *testing.T) {
	gpus, err := cuda.Devices()
	if err != nil && cuda.Built {
		t.Fatal(err)
	}
	if len(gpus) == 0 {
		t.Skip("no GPU here: make test-emu PKG=./cmd/dptrain RUN=GPU runs this on the emulated device")
	}
	amongHours(t)
	for metric, line := range map[string]string{"accuracy": "train --data digits --model logistic", "rmse": "train --model mlp:16" + predicted} {
		got := runJSON(t, line+" --steps 3 --lot 64 --noise 1 --delta 1e-5 --device cuda:0 --quiet --out "+metric)
		for _, where := range []string{" --device cuda:0", " --device cpu"} {
			again := runJSON(t, "eval "+metric+where)
			if !(math.Abs(again["loss"].(float64)-got["test_loss"].(float64)) <= 1e-5) || !(math.Abs(again[metric].(float64)-got["test_"+metric].(float64)) <= 1e-3) {
				t.Errorf("eval%s gives %v, train %v, %v", where, again, got["test_"+metric], got["test_loss"])
			}
		}
	}
	there, here := cellsOf(t, runText(t, "predict accuracy --data digits --device cuda:0")), cellsOf(t, runText(t, "predict accuracy --data digits --device cpu"))
	for i, p := range there["probability"] {
		a, _ := strconv.ParseFloat(p, 64)
		b, _ := strconv.ParseFloat(here["probability"][i], 64)
		if len(there["class"]) != len(here["class"]) || !(math.Abs(a-b) <= 1e-4) {
			t.Fatalf("example %d: probability %v on the GPU, %v on the CPU", i, a, b)
		}
	}
	if _, stderr, code := dptrain("eval rmse --device cpu --precision bf16"); code != exitcode.Usage {
		t.Errorf("a precision for the CPU: exit %d, %s", code, stderr)
	}
}

// Overrides of the CUDA device are listed and mark the version; an unknown one is refused.
func TestOverrides_OnGPU(t *testing.T) {
	if gpus, _ := cuda.Devices(); len(gpus) == 0 {
		t.Skip("no GPU here: make test-emu PKG=./cmd/dptrain RUN=GPU runs this on the emulated device")
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("mended.ptx", []byte(".version 8.0\n.target sm_75\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DPTRAIN_KERNELS", "mended.ptx")
	t.Setenv("DPTRAIN_GRAPH", "chain")
	if version := runJSON(t, "version")["version"].(string); !strings.Contains(version, "-kernels-") {
		t.Errorf("the version is %s", version)
	}
	for _, command := range []string{"devices", "doctor"} {
		if shown := runText(t, command); !strings.Contains(shown, "mended.ptx") || !strings.Contains(shown, "DPTRAIN_GRAPH=chain") {
			t.Errorf("%s prints %s", command, shown)
		}
	}
	if list := runJSON(t, "devices")["overrides"].([]any); len(list) != 2 {
		t.Errorf("devices lists the overrides %v", list)
	}
	train := "train --data digits --model logistic --steps 1 --lot 64 --noise 1 --delta 1e-5 --device cuda:0 --quiet --out refused"
	for variable, value := range map[string]string{"DPTRAIN_GRAPH": "line", "DPTRAIN_KERNELS": "absent"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			_, stderr, code := dptrain(train)
			if code != exitcode.Usage || !strings.HasPrefix(stderr, "dptrain: ") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, variable) {
				t.Errorf("exit %d, %s", code, stderr)
			}
			if _, err := os.Stat("refused"); err == nil {
				t.Error("the run's folder exists")
			}
		})
	}
}

// eval does not evaluate private training records unasked: it uses the test file of train, and
// without one it requires a file.
func TestEval_RequiresTestData(t *testing.T) {
	inWorkshop(t)
	got := runJSON(t, brief+" --steps 2 --noise 2 --delta 1e-5 --out tested")
	if again := runJSON(t, "eval tested"); again["accuracy"] != got["test_accuracy"] || again["examples"] != 400.0 || again["model"] != "logistic" || again["data"] != "people.csv" {
		t.Errorf("eval gives %v, train %v", again, got["test_accuracy"])
	}
	if shown := strings.Join(strings.Fields(runText(t, "eval tested")), " "); !strings.HasPrefix(shown, fmt.Sprintf("accuracy %.2f%% loss %.4f examples 400 class predicted no predicted yes no ", 100*got["test_accuracy"].(float64), got["test_loss"])) {
		t.Errorf("eval shows %q, train gave %v and %v", shown, got["test_accuracy"], got["test_loss"])
	}
	alone := strings.Replace(brief, "--test test.csv", "", 1) + " --steps 2 --noise 2 --delta 1e-5 --out untested"
	stdout, stderr, code := dptrain(alone)
	if code != exitcode.Done || !strings.Contains(stdout, "dptrain eval untested --data TEST.FILE") {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := dptrain("eval untested"); code != exitcode.Usage || stdout != "" || !strings.Contains(stderr, "private") {
		t.Errorf("no test data: exit %d, %s%s", code, stdout, stderr)
	}
	if _, stderr, code := dptrain("eval untested --data test.csv"); code != exitcode.Done || strings.Contains(stderr, "PRIVATE") {
		t.Errorf("named test data: exit %d, %s", code, stderr)
	}
	if _, stderr, code := dptrain("eval untested --data ./people.csv"); code != exitcode.Done || !strings.Contains(stderr, "PRIVATE, do not publish") {
		t.Errorf("the records that it was trained on: exit %d, %s", code, stderr)
	}
	if _, stderr, code := dptrain("eval elsewhere/tested"); code != exitcode.Usage || !strings.Contains(stderr, "elsewhere/tested contains no model") {
		t.Errorf("no run: exit %d, %s", code, stderr)
	}
	if err := os.Rename("people.csv", "moved.csv"); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := dptrain("eval tested"); code != exitcode.Usage || !strings.Contains(stderr, "name other data with --data") {
		t.Errorf("its data are gone: exit %d, %s", code, stderr)
	}
	if _, stderr, code := dptrain("eval tested --data people.csv"); code != exitcode.Usage || strings.Contains(stderr, "name other data with --data") {
		t.Errorf("data that were named are gone: exit %d, %s", code, stderr)
	}
	os.Rename("moved.csv", "people.csv")
	// run.json has no accuracy either.
	var saved map[string]any
	file, err := os.ReadFile("untested/run.json")
	if err != nil || json.Unmarshal(file, &saved) != nil {
		t.Fatal(err)
	}
	if accuracy, there := saved["test_accuracy"]; !there || accuracy != nil {
		t.Errorf("without test data the accuracy is %v", accuracy)
	}
	if stdout, _, _ := dptrain(strings.Replace(alone, "untested", "quiet", 1) + " --quiet"); !strings.HasPrefix(stdout, "- ") {
		t.Errorf("--quiet prints %q", stdout)
	}
}

// eval standardizes pixels as train did, with or without the flag.
func TestEval_StandardizesLikeTrain(t *testing.T) {
	t.Chdir(t.TempDir())
	for part, n := range map[string]int{"train": 40, "t10k": 6} {
		pixels, labels := []byte{0, 0, 8, 3, 0, 0, 0, byte(n), 0, 0, 0, 1, 0, 0, 0, 2}, []byte{0, 0, 8, 1, 0, 0, 0, byte(n)}
		for i := range n {
			pixels, labels = append(pixels, byte(20*i), byte(255-i)), append(labels, byte(i%10))
		}
		if err := errors.Join(os.WriteFile(part+"-images-idx3-ubyte", pixels, 0o644), os.WriteFile(part+"-labels-idx1-ubyte", labels, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	got := runJSON(t, "train --data mnist --data-dir . --standardize --model logistic --non-private --steps 3 --lot 20 --out run")
	for _, flag := range []string{"", " --standardize"} {
		if again := runJSON(t, "eval run --data-dir ."+flag); again["loss"] != got["test_loss"] {
			t.Errorf("eval%s: loss %v, train %v", flag, again["loss"], got["test_loss"])
		}
	}

	scores, loss := cellsOf(t, runText(t, "predict run --data mnist --data-dir . --scores")), 0.0
	for i := range scores["class"] {
		p, _ := strconv.ParseFloat(scores["probability:"+strconv.Itoa(i%10)][i], 64)
		loss -= math.Log(p) / float64(len(scores["class"]))
	}
	if want := got["test_loss"].(float64); len(scores["class"]) != 6 || !(math.Abs(loss-want) <= 1e-5) {
		t.Errorf("predict gives %d pictures a loss of %v, train %v", len(scores["class"]), loss, want)
	}
	if _, stderr, code := dptrain("train --resume run --steps 4 --standardize=false"); code != exitcode.Usage || !strings.Contains(stderr, "standardize") {
		t.Errorf("resumed with pixels as they are: exit %d, %s", code, stderr)
	}

	// The command that train prints finds the files.
	if stdout, _, _ := dptrain("train --data mnist --data-dir . --model logistic --noise 2 --steps 1 --lot 20 --out private"); !strings.Contains(stdout, "dptrain eval private --data-dir .\n") {
		t.Errorf("train shows\n%s", stdout)
	}

	// Pictures with the same number of pixels in another shape are refused.
	for _, part := range []string{"train", "t10k"} {
		pixels := readFile(t, part+"-images-idx3-ubyte")
		pixels[11], pixels[15] = pixels[15], pixels[11]
		if err := os.WriteFile(part+"-images-idx3-ubyte", pixels, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, stderr, code := dptrain("eval run --data-dir ."); code != exitcode.Usage || !strings.Contains(stderr, "examples have shape [1 2 1], but the model was trained on examples of shape [1 1 2]") {
		t.Errorf("turned pictures: exit %d, %s", code, stderr)
	}
}

// eval finds columns by name: a table with another column order, or of JSON objects, gives the
// same score.
func TestEval_FindsColumnsByName(t *testing.T) {
	t.Chdir(t.TempDir())
	table(t, "people.csv", 400)
	table(t, "test.csv", 40)
	runJSON(t, "train --ignore owner --model mlp:8 --steps 20 --lot 100 --noise 0.5 --seed 1 --out run"+columns)
	rows := readFile(t, "test.csv")
	var turned, objects strings.Builder
	for i, line := range strings.Fields(string(rows)) {
		c := strings.Split(line, ",")
		turned.WriteString(strings.Join([]string{c[3], c[1], c[2], c[0]}, ",") + "\n")
		if i > 0 {
			objects.WriteString(`{"label":"` + c[3] + `","colour":"` + c[1] + `","owner":"` + c[2] + `","age":` + c[0] + "}\n")
		}
	}
	for name, text := range map[string]string{"turned.csv": turned.String(), "objects.jsonl": objects.String()} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := runJSON(t, "eval run --data test.csv")
	for _, name := range []string{"turned.csv", "objects.jsonl"} {
		if got := runJSON(t, "eval run --data "+name); got["loss"] != want["loss"] {
			t.Errorf("%s: loss %v, want %v", name, got["loss"], want["loss"])
		}
	}
}
