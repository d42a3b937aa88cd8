package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// The documents of report --format are written where the flags say, and nothing of the run is replaced.
func TestReport_Formats(t *testing.T) {
	inWorkshop(t)
	runJSON(t, brief+" --steps 4 --noise 2 --delta 1e-5 --out run")
	before := readReports(t, "run")
	for format, file := range map[string]string{"model-card": "run/README.md", "registry": "run/registry.json", "aisvs": "run/AISVS-12.3.md"} {
		v := runJSON(t, "report run --format "+format)
		if files := v["files"].([]any); len(files) != 1 || files[0] != filepath.FromSlash(file) || len(readFile(t, file)) == 0 {
			t.Errorf("%s writes %v", format, files)
		}
		runJSON(t, "report run --format "+format+" --out other")
		if string(readFile(t, "other")) != string(readFile(t, file)) {
			t.Errorf("%s: --out has another content", format)
		}
	}
	if card := string(readFile(t, "run/README.md")); card != string(before[1]) {
		t.Error("README.md is not the model card")
	}
	for line, want := range map[string]string{
		"report run --format mlflw":                           "mlflow",
		"report run --out x":                                  "--format",
		"report run --format registry --out run/ledger.jsonl": "file of the run",
	} {
		checkUsageError(t, line, want)
	}
	runJSON(t, strings.Replace(brief, " --accountant rdp", "", 1)+" --steps 4 --non-private --out free")
	if _, stderr, code := dptrain("report free --format registry"); code != exitcode.Usage || !strings.Contains(stderr, "--non-private") {
		t.Errorf("a run without privacy: exit %d, %s", code, stderr)
	}
}

// MLflow and the library of the Hugging Face Hub read what report writes for them. DPTRAIN_PYTHON names a
// Python with both.
func TestReport_ReadByOtherPrograms(t *testing.T) {
	check, err := filepath.Abs("testdata/documents.py")
	if err != nil {
		t.Fatal(err)
	}
	python := os.Getenv("DPTRAIN_PYTHON")
	if python == "" {
		python = "python3"
	}
	if exec.Command(python, "-c", "import mlflow, huggingface_hub, wandb").Run() != nil {
		t.Skipf("%s has no mlflow, huggingface_hub and wandb: set DPTRAIN_PYTHON to one that does", python)
	}
	guide, err := filepath.Abs("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	inWorkshop(t)
	runJSON(t, brief+" --steps 8 --noise 2 --delta 1e-5 --out run")
	runJSON(t, "report run --format model-card")
	runJSON(t, "report run --format mlflow --out mlruns")
	if out, err := exec.Command(python, check, "run", "mlruns", guide).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
