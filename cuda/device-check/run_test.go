// Package check tests the script that checks and times a GPU, on a host with only bash and
// coreutils.
package check

import (
	"errors"
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
	for _, name := range []string{"bash", "mkdir", "dirname", "nproc", "timeout", "cat", "rm", "tail"} {
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

// testProgram is a script that behaves as a test program: it lists its tests, and runs the
// one that -test.run or -test.bench selects, in a function of its name.
func testProgram(tests ...string) string {
	return `
if [ "$1" = -test.list ]; then
	for test in ` + strings.Join(tests, " ") + `; do [[ ! $test =~ $2 ]] || echo $test; done
	exit
fi
for word in "$@"; do [[ $word != ^* ]] || selected=$word; done
echo "$0 $selected" >>../ran
`
}

// failing is a test with a part after which all later parts of its process fail.
const failing = `
case ${selected#^} in # without ^, which marks real tests for package lint
'TestLost$') echo '=== RUN   TestLost'; echo '=== RUN   TestLost/first'; echo '--- PASS: TestLost/first (0.00s)'
	echo '=== RUN   TestLost/a_[3_5]'; echo '    --- FAIL: TestLost/a_[3_5] (0.00s)'; echo 'the device is lost'
	echo '=== RUN   TestLost/after'; echo '    --- FAIL: TestLost/after (0.00s)'; exit 1 ;;
'TestLost$/^a_.3_5.$') echo '--- FAIL: TestLost/a_[3_5]'; exit 1 ;;
'TestLost$/^after$') echo '    --- PASS: TestLost/after (0.00s)' ;;
'TestGood$') echo '--- PASS: TestGood (0.00s)' ;;
'TestSkipped$') printf '=== RUN   TestSkipped\n--- SKIP: TestSkipped (0.00s)\nPASS\n' ;;
esac
`

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
		"bin/driver.test":     testProgram("TestGood", "TestLost", "TestSkipped") + failing,
		"bin/cuda.test":       testProgram("TestGood", "BenchmarkCopy") + "echo $LD_LIBRARY_PATH ${PATH##*:}",
		"bin/perexample.test": testProgram("TestGood") + failing,
		"bin/bench.test":      testProgram("TestSteps_OnGPU") + failing,
		"bin/engine.test":     testProgram("TestRun_OnEveryDevice", "TestOther") + failing,
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

// run runs the script and returns its output and exit code.
func run(t *testing.T, folder string, environment ...string) (output string, code int) {
	t.Helper()
	c := exec.Command("bash", filepath.Join(folder, "run"))
	c.Dir = folder
	c.Env = append([]string{"PATH=" + bare(t) + ":" + filepath.Join(folder, "tools"), "LD_LIBRARY_PATH=/before", "ONLY=none"}, environment...)
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

func TestRun_OnBareHost(t *testing.T) {
	folder := bundle(t, "cuda:0  a card")
	output, code := run(t, folder)
	if code != 1 || strings.Contains(output, "not found") {
		t.Errorf("a check fails, and the script returns %d\n%s", code, output)
	}
	contains(t, read(t, folder, "asked"), "-add -only none ",
		"-check doctor=passed in ", "-check driver=passed 2 of 3 tests; TestLost: FAILED with status 1: ", "-check conformance=passed 1 of 1 tests",
		"-check networks=passed 1 of 1 tests", "-check workloads=passed 1 of 1 tests", "-check devices-agree=passed 1 of 1 tests", "-check speed=passed 1 of 1 tests",
		"-check sanitizer-synccheck=not installed here")
	contains(t, read(t, folder, "results", "checks.log"), "== speed/BenchmarkCopy: passed in ", "\n/before:/usr/local/nvidia/lib64 /usr/local/cuda/bin\n", "the device is lost\n")
}

// A test fails in its own process only, and its parts run alone after it.
func TestRun_IsolatesFailures(t *testing.T) {
	folder := bundle(t, "cuda:0  a card")
	run(t, folder, "CHECKS=^driver")
	results := read(t, folder, "results", "results.tsv")
	contains(t, results, "driver/TestGood\tpassed in ", "driver/TestLost\tFAILED with status 1: ", "driver/TestSkipped\tskipped\n",
		"driver/TestLost/a_[3_5]\tFAILED with status 1: ", "driver/TestLost/after\tpassed in ")
	if strings.Contains(results, "TestLost/first") || strings.Contains(results, "conformance") || strings.Count(results, "\n") != 5 {
		t.Errorf("the results are\n%s", results)
	}
	if _, code := run(t, folder, "CHECKS=driver/TestGood"); code != 0 {
		t.Errorf("without failures the script returns %d", code)
	}
}

// A part ends before its time, with exit code 75, and the next part does what is left.
func TestRun_InParts(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	folder := bundle(t, "cuda:0  a card")
	slow := "#!/usr/bin/env bash\n" + testProgram("TestGood", "TestWait", "TestLast") + "[[ $selected != *Wait* ]] || read -rt 3 <> <(:) || true\n"
	if err := os.WriteFile(filepath.Join(folder, "bin", "driver.test"), []byte(slow), 0o755); err != nil {
		t.Fatal(err)
	}
	output, code := run(t, folder, "CHECKS=^driver", "PART=7")
	if code != 75 || !strings.Contains(output, "run the same command again") {
		t.Fatalf("the first part returns %d\n%s", code, output)
	}
	contains(t, read(t, folder, "asked"), "-check driver=passed 2 of 2 tests")
	if _, code := run(t, folder, "CHECKS=^driver", "PART=7"); code != 0 {
		t.Errorf("the second part returns %d", code)
	}
	ran := read(t, folder, "ran")
	for _, test := range []string{"TestGood$", "TestWait$", "TestLast$"} {
		if n := strings.Count(ran, " ^"+test); n != 1 {
			t.Errorf("%s ran %d times", test, n)
		}
	}
	contains(t, read(t, folder, "asked"), "-check driver=passed 3 of 3 tests")
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
	output, _ := run(t, folder, "CHECKS=sanitizer")
	contains(t, output, "sanitizer-memcheck/TestGood: passed in ", "sanitizer-racecheck/TestGood: FAILED with status 9: ========= Error: Race reported\n")
}

func TestRun_WithoutGPU(t *testing.T) {
	folder := bundle(t, "no GPU  no driver was found")
	output, code := run(t, folder)
	if code != 1 || !strings.Contains(output, "no driver was found") {
		t.Errorf("without a GPU the script returns %d\n%s", code, output)
	}
	if _, err := os.Stat(filepath.Join(folder, "asked")); err == nil {
		t.Error("it goes on without a card")
	}
}

// A check without a test is a failure.
func TestRun_WithoutTests(t *testing.T) {
	folder := bundle(t, "cuda:0  a card")
	if err := os.WriteFile(filepath.Join(folder, "bin", "bench.test"), []byte("#!/usr/bin/env bash\n"+testProgram("TestOther")), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, code := run(t, folder, "CHECKS=^workloads"); code != 1 {
		t.Errorf("the script returns %d", code)
	}
	contains(t, read(t, folder, "asked"), "-check workloads=no test matches OnGPU")
}
