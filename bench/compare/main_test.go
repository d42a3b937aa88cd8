package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/bench"
	"github.com/dptrain/dptrain/cuda"
)

// A new measurement replaces only measurements of the same workload, program and precision.
func TestResults_ReplaceExisting(t *testing.T) {
	c := comparison{out: t.TempDir()}
	var r results
	if err := c.readExisting(&r, "gpu-x"); err != nil || len(r.Measurements) != 0 {
		t.Fatalf("from nothing: %v, %v", r.Measurements, err)
	}
	text, err := json.Marshal(results{Checks: map[string]string{"suite": "passed"}, Measurements: []measurement{
		{Workload: "mlp-256", Program: "torch.func", Precision: "fp32"}, {Workload: "mlp-256", Program: "torch.func", Records: 16, Precision: "fp32"},
		{Workload: "mlp-256", Program: "PyTorch", Precision: "fp32"},
		{Workload: "mlp-256", Program: "torch.func", Precision: "bf16"}, {Workload: "lstm-64", Program: "torch.func", Precision: "fp32"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.out, "gpu-x.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.readExisting(&r, "gpu-x"); err != nil {
		t.Fatal(err)
	}
	r.replace([]measurement{{Workload: "mlp-256", Program: "torch.func", Precision: "fp32", Median: 7}})
	if len(r.Measurements) != 4 || r.Measurements[3].Median != 7 || r.Checks["suite"] != "passed" {
		t.Errorf("kept %v, %v", r.Measurements, r.Checks)
	}
	for _, m := range r.Measurements[:3] {
		if m.Median != 0 || m.Workload == "mlp-256" && m.Program == "torch.func" && m.Precision == "fp32" {
			t.Errorf("kept %v", m)
		}
	}
	if err := os.WriteFile(filepath.Join(c.out, "gpu-x.json"), text[1:], 0o644); err != nil {
		t.Fatal(err)
	}
	if c.readExisting(&r, "gpu-x") == nil {
		t.Error("a damaged file was taken")
	}
}

// -only selects workloads and programs; an expression without a match is an error.
func TestRun_OnlySelectedPrograms(t *testing.T) {
	c := comparison{
		python: "/nonexistent/python", out: t.TempDir(), device: "cpu", threads: 1, timeout: time.Minute, precisions: []cuda.Precision{cuda.FP32},
		workloads: regexp.MustCompile("^mlp-256$"), programs: regexp.MustCompile("^JAX$"),
	}
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
	r, err := c.readResults("cpu.json")
	if err != nil || len(r.Measurements) != 1 || r.Measurements[0].Program != "JAX" || !strings.HasSuffix(r.Measurements[0].Error, "/nonexistent/python: no such file or directory") {
		t.Errorf("%v, %v", r.Measurements, err)
	}
	c.workloads = regexp.MustCompile("^none$")
	if err := c.run(); err == nil || !strings.Contains(err.Error(), "mlp-256") {
		t.Error(err)
	}
	c.checks = map[string]string{"suite": "passed"} // they alone are written then
	if err := c.run(); err != nil {
		t.Error(err)
	}
}

// A comparison that its time limit ended is continued: what was measured is not measured again. A
// failure is tried once more.
func TestRun_ContinuesAfterLimit(t *testing.T) {
	t.Chdir(t.TempDir())
	script := "#!/bin/sh\necho \"$2\" >>asked\nsleep 0.02\n[ \"$2\" = jax ] || echo '{\"median_ms\": 7}'\n"
	if err := os.WriteFile("python", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c := comparison{
		python: "./python", out: ".", device: "cpu", threads: 1, timeout: time.Minute, precisions: []cuda.Precision{cuda.FP32}, resume: true, limit: time.Nanosecond,
		workloads: regexp.MustCompile("^mlp-256$"), programs: regexp.MustCompile("^(JAX|torch.func|Opacus ghost)$"),
	}
	if err := c.run(); !errors.Is(err, errLimit) {
		t.Fatal(err)
	}
	c.limit = 10 * time.Millisecond // one measurement a run
	runs := 0
	for err := errLimit; errors.Is(err, errLimit); runs++ {
		if err = c.run(); err != nil && !errors.Is(err, errLimit) || runs > 9 {
			t.Fatal(runs, err)
		}
	}
	asked, err := os.ReadFile("asked")
	if list := slices.Sorted(strings.Lines(string(asked))); err != nil || !slices.Equal(list, []string{"jax\n", "jax\n", "opacus-ghost\n", "torch-func\n", "torch-func\n"}) {
		t.Errorf("measured were %q (%v)", list, err)
	}
	r, err := c.readResults("cpu.json")
	if err != nil || len(r.Measurements) != 4 || runs < 3 {
		t.Errorf("after %d runs: %v, %v", runs, r.Measurements, err)
	}
	for _, m := range r.Measurements {
		if failed := m.Program == "JAX"; failed != (m.Error != "") || failed != (m.Tries == 2) {
			t.Errorf("%s after %d tries: %q", m.Program, m.Tries, m.Error)
		}
	}
}

// What failed twice is tried again by another build; what succeeded is not.
func TestMeasurement_IsFinal(t *testing.T) {
	failed := measurement{Error: "no"}
	failed.identify("a", nil)
	again := measurement{Error: "no"}
	again.identify("a", &failed)
	other := measurement{Error: "no"}
	other.identify("b", &again)
	for _, c := range []struct {
		of    *measurement
		build string
		final bool
	}{{nil, "a", false}, {&measurement{}, "a", true}, {&measurement{Build: "b"}, "a", true}, {&failed, "a", false}, {&again, "a", true}, {&again, "b", false}, {&other, "b", false}} {
		if c.of.isFinal(c.build) != c.final {
			t.Errorf("%+v with build %s: final %v", c.of, c.build, !c.final)
		}
	}
}

// The child processes of a peer do not delay the comparison, whether the peer ends or times out.
// Earlier measurements are on disk by then.
func TestMeasure_IgnoresChildProcesses(t *testing.T) {
	defer func(before time.Duration) { outputTimeout = before }(outputTimeout)
	outputTimeout = 50 * time.Millisecond
	t.Chdir(t.TempDir())
	script := `#!/bin/sh
case "$2" in
pytorch) echo '{"median_ms": 7}'; sleep 3 & ;;
jax) cp cpu.json before.json ;;
*) sleep 3; true ;;
esac
`
	if err := os.WriteFile("python", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c := comparison{
		python: "./python", out: ".", device: "cpu", threads: 1, timeout: time.Minute, precisions: []cuda.Precision{cuda.FP32},
		workloads: regexp.MustCompile("^mlp-256$"), programs: regexp.MustCompile("^(PyTorch|JAX)$"),
	}
	start := time.Now()
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"before.json", "cpu.json"} {
		r, err := c.readResults(file)
		if err != nil || len(r.Measurements) == 0 || r.Measurements[0].Median != 7 || r.Measurements[0].Error != "" {
			t.Errorf("%s: %v, %v", file, r.Measurements, err)
		}
	}
	c.timeout = 100 * time.Millisecond
	m := c.measure(bench.Workloads()[0], program{script: "slow"}, cuda.FP32, 0)
	if took := time.Since(start); m.Error != "not complete after 100ms" || took > 2500*time.Millisecond {
		t.Errorf("%q after %v", m.Error, took)
	}
}

func TestLastError_PythonTracebacks(t *testing.T) {
	for complaint, want := range map[string]string{
		"Traceback:\n  here\nValueError: no\n----\nFor simplicity, frames are left out.\n": "ValueError: no",
		"  raise\nAssertionError\n----\nFor simplicity\n":                                  "AssertionError",
		"a warning\nopacus is not installed here\n":                                        "opacus is not installed here",
		"": "",
	} {
		if got := lastError(complaint); got != want {
			t.Errorf("%q: %q", complaint, got)
		}
	}
}
