// Package check tests the script that checks and times a GPU, on a host with only bash and
// coreutils.
package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bare is a folder with the few programs of such a host.
func bare(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"bash", "mkdir", "dirname", "nproc", "timeout", "cat", "rm"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(folder, name))
		}
		if err != nil {
			t.Skip(err)
		}
	}
	return folder
}

// bundle is a folder with the script and with programs that print their arguments; one of
// them fails.
func bundle(t *testing.T, devices string) string {
	t.Helper()
	folder := t.TempDir()
	script, err := os.ReadFile("run")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"run":                 string(script),
		"bin/dptrain":         "echo 'cpu  2 threads'; echo '" + devices + "'",
		"bin/compare":         `echo "$*" >>asked`,
		"bin/driver.test":     "echo '=== RUN   TestErrors'; echo '--- PASS: TestErrors'; echo '--- FAIL: TestCapture_Replays'; exit 1",
		"bin/cuda.test":       "echo $LD_LIBRARY_PATH ${PATH##*:} $1",
		"bin/perexample.test": "echo ok",
		"bin/bench.test":      "echo ok",
		"bin/engine.test":     "echo $1",
	}
	if err := os.Mkdir(filepath.Join(folder, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if name != "run" {
			content = "#!/usr/bin/env bash\n" + content + "\n"
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func run(t *testing.T, folder string) (output string, err error) {
	t.Helper()
	c := exec.Command("bash", filepath.Join(folder, "run"))
	c.Dir, c.Env = folder, []string{"PATH=" + bare(t) + ":" + filepath.Join(folder, "tools"), "LD_LIBRARY_PATH=/before", "ONLY=none"}
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestRun_OnBareHost(t *testing.T) {
	folder := bundle(t, "cuda:0  a card")
	output, err := run(t, folder)
	if err == nil || strings.Contains(output, "not found") {
		t.Errorf("a check fails, and the script returns %v\n%s", err, output)
	}
	asked, err := os.ReadFile(filepath.Join(folder, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"-check doctor=passed in ", "-check driver=FAILED with status 1: --- FAIL: TestCapture_Replays\n", "-check conformance=passed in ",
		"-check networks=passed in ", "-check workloads=passed in ", "-check devices-agree=passed in ", "-check speed=passed in ", "-check sanitizer-synccheck=not installed here\n",
	} {
		if !strings.Contains(string(asked), part) {
			t.Errorf("no %q in\n%s", part, asked)
		}
	}
	log, err := os.ReadFile(filepath.Join(folder, "results", "checks.log"))
	if want := "/before:/usr/local/nvidia/lib64 /usr/local/cuda/bin -test.v\n== networks: passed in "; err != nil || !strings.Contains(string(log), want) {
		t.Errorf("the log holds %q (%v), want %q", log, err, want)
	}
}

// What compute-sanitizer finds is output, and calls that are to fail are nothing found.
func TestRun_ReportsSanitizerFindings(t *testing.T) {
	folder := bundle(t, "cuda:0  a card")
	if err := os.Mkdir(filepath.Join(folder, "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	tool := `#!/usr/bin/env bash
echo '========= COMPUTE-SANITIZER'
[[ $* == *'--report-api-errors no'* ]] || { echo '========= Program hit CUDA_ERROR_OUT_OF_MEMORY'; exit 9; }
[[ $* == *racecheck* ]] || exit 0
echo '--- PASS: TestErrors'
echo '========= Error: Race reported'
exit 9
`
	if err := os.WriteFile(filepath.Join(folder, "tools", "compute-sanitizer"), []byte(tool), 0o755); err != nil {
		t.Fatal(err)
	}
	output, _ := run(t, folder)
	for _, part := range []string{"sanitizer-memcheck: passed in ", "sanitizer-racecheck: FAILED with status 9: ========= Error: Race reported\n"} {
		if !strings.Contains(output, part) {
			t.Errorf("no %q in\n%s", part, output)
		}
	}
}

func TestRun_WithoutGPU(t *testing.T) {
	folder := bundle(t, "no GPU  no driver was found")
	output, err := run(t, folder)
	if err == nil || !strings.Contains(output, "no driver was found") {
		t.Errorf("without a GPU the script returns %v\n%s", err, output)
	}
	if _, err := os.Stat(filepath.Join(folder, "asked")); err == nil {
		t.Error("it goes on without a card")
	}
}
