// Package check tests the script that checks and times a GPU, on a host with only bash, coreutils
// and tar.
package check

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// bare is a folder with the few programs of such a host.
func bare(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"bash", "cat", "cp", "dirname", "env", "mkdir", "nproc", "rm", "sha256sum", "sleep", "tail", "tar", "timeout"} {
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

// testProgram is a script that behaves as a test program: it lists its tests, or runs those that
// -test.run or -test.bench selects. The name of a test determines how it behaves.
func testProgram(tests ...string) string {
	list := strings.Join(tests, " ")
	return `
if [ "$1" = -test.list ]; then
	for test in ` + list + `; do [[ ! $test =~ $2 ]] || echo $test; done
	exit
fi
for word in "$@"; do [[ $word != ^* && $word != Cu* ]] || selected=$word; done
echo "${0##*/} $selected ${DPTRAIN_CUDNN-}" >>../ran
[ ! -e ../lost ] || { echo 'the card is lost'; exit 1; }
status=0
for test in ` + list + `; do
	[[ $test =~ ${selected%%/*} ]] || continue
	case $test in
	Benchmark*) echo "$test/part-2   100   5 ns/op" && continue ;;
	esac
	[[ $selected == */* ]] || echo "=== RUN   $test"
	case $test$selected in
	TestParts*/*a_.3_5.*) echo '    x_test.go:1: no'; echo '    --- FAIL: TestParts/a_[3_5] (0.00s)'; echo '--- FAIL: TestParts (0.00s)'; exit 1 ;;
	TestParts*/*after*) echo '--- PASS: TestParts (0.00s)' ;;
	TestParts*) echo '=== RUN   TestParts/first'; echo '=== RUN   TestParts/a_[3_5]'; echo '    x_test.go:1: the device does not answer'
		echo '=== RUN   TestParts/after'; echo '--- FAIL: TestParts (0.10s)'; echo '    --- PASS: TestParts/first (0.00s)'
		echo '    --- FAIL: TestParts/a_[3_5] (0.00s)'; echo '    --- FAIL: TestParts/after (0.00s)'; status=1 ;;
	TestDies*) echo 'SIGSEGV: segmentation violation'; exit 2 ;;
	TestOnce*) [ -e ../once ] && echo "--- PASS: $test (0.00s)" || { >../once; echo "--- FAIL: $test (0.00s)"; status=1; } ;;
	TestBroken* | TestRoundedNoise_Broken*) echo "    x_test.go:7: broken"; echo "--- FAIL: $test (0.00s)"; status=1 ;;
	TestSkipped*) echo "--- SKIP: $test (0.00s)" ;;
	TestLosesCard*) >../lost; echo "--- FAIL: $test (0.00s)"; status=1 ;;
	TestAborts*) echo 'Could not load library'; kill -ABRT $$ ;;
	TestSlow*) sleep 3; echo "--- PASS: $test (3.00s)" ;;
	*) echo "--- PASS: $test (0.00s)" ;;
	esac
done
exit $status
`
}

// bundle is a folder with the script and with programs that print their arguments.
type bundle struct {
	folder, out string
}

func newBundle(t *testing.T) bundle {
	t.Helper()
	b := bundle{t.TempDir(), t.TempDir()}
	for _, name := range []string{"bin", "tools"} {
		if err := os.Mkdir(filepath.Join(b.folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("device-check")
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "device-check", string(script))
	b.program(t, "bin/dptrain", `case $1 in
train) echo "$*" >>../asked; echo '0.97 2' ;;
devices) [ ! -e ../lost ] || exit 1; echo 'cpu  2 threads'; echo 'cuda:0  a card' ;;
doctor) mkdir -p $XDG_CACHE_HOME/dptrain; echo '{}' >$XDG_CACHE_HOME/dptrain/choices-0.json; echo $LD_LIBRARY_PATH ${PATH##*:} ;;
esac`)
	b.program(t, "bin/compare", `echo "$*" >>../asked; for word in "$@"; do [ "$before" != -out ] || results=$word; before=$word; done; echo '{}' >$results/gpu-a-card.json; echo >$results/gpu-a-card.md`)
	b.program(t, "bin/driver.test", testProgram("TestGood", "TestCuDNN_Good", "BenchmarkLaunch"))
	b.program(t, "bin/compile.test", testProgram("TestGood", "TestSkipped", "TestRelease_Draws", "BenchmarkCopy"))
	b.program(t, "bin/perexample.test", testProgram("TestGood"))
	b.program(t, "bin/bench.test", testProgram("TestStep_OnGPU", "BenchmarkStep"))
	b.program(t, "bin/engine.test", testProgram("TestRun_OnEveryDevice", "TestOther"))
	return b
}

func (b bundle) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.folder, name), []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (b bundle) program(t *testing.T, name, content string) {
	t.Helper()
	b.write(t, name, "#!/usr/bin/env bash\n"+content+"\n")
}

func (b bundle) command(t *testing.T, mode string, environment ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command("bash", filepath.Join(b.folder, "device-check"), mode, b.out)
	c.Dir = b.folder
	c.Env = append([]string{"PATH=" + bare(t) + ":" + filepath.Join(b.folder, "tools"), "LD_LIBRARY_PATH=/before"}, environment...)
	return c
}

// run runs the script and returns its output and exit code.
func (b bundle) run(t *testing.T, mode string, environment ...string) (output string, code int) {
	t.Helper()
	c := b.command(t, mode, environment...)
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

func (b bundle) read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(b.folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// delivered checks that the results came back, in at most 8 files, and returns those of results.tar.
func (b bundle) delivered(t *testing.T) (archive string) {
	t.Helper()
	files, err := os.ReadDir(b.out)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > 8 {
		t.Errorf("%d files come back: %v", len(files), files)
	}
	listed, err := exec.Command("tar", "-tf", filepath.Join(b.out, "results.tar")).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, listed)
	}
	contains(t, string(listed), "results/results.tsv\n")
	if got, err := os.ReadFile(filepath.Join(b.out, "results.tsv")); err != nil || string(got) != b.read(t, "results/results.tsv") {
		t.Errorf("results.tsv that came back is %q (%v)", got, err)
	}
	return string(listed)
}

// ran returns the selections with which a test program ran, in order.
func (b bundle) ran(t *testing.T, program string) (selections []string) {
	t.Helper()
	for line := range strings.Lines(b.read(t, "ran")) {
		if rest, ok := strings.CutPrefix(line, program+" "); ok {
			selection, _, _ := strings.Cut(rest, " ")
			selections = append(selections, selection)
		}
	}
	return selections
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

const five = "^(mlp-1024|mnist-cnn-256|cifar-tanh-64|wrn16-4-16|transformer-32)$"

// The lines run in their order, each suite in one process, and the results come back.
func TestFirst_InOrder(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.program(t, "tools/ncu", `echo "$*" >>../asked; echo "of $*" >profile.csv`)
	output, code := b.run(t, "first")
	if code != 0 || strings.Contains(output, "not found") {
		t.Errorf("the script returns %d\n%s", code, output)
	}
	var names []string
	for line := range strings.Lines(b.read(t, "results/results.tsv")) {
		name, _, _ := strings.Cut(line, "\t")
		names = append(names, name)
	}
	want := []string{"build", "doctor", "libraries/CuBLASLt", "libraries/CuDNN", "driver/TestGood", "conformance/TestRelease_Draws", "steps/OnGPU", "speed/BenchmarkCopy", "speed/BenchmarkLaunch",
		"profile/mlp-1024", "profile/wrn16-4-16", "conformance/TestGood", "conformance/TestSkipped", "train/digits", "train/digits-bf16"}
	if !slices.Equal(names, want) {
		t.Errorf("the order is\n%q, want\n%q", names, want)
	}
	for program, want := range map[string][]string{"driver.test": {"CuBLASLt", "CuDNN", "^(TestGood)$", "^(BenchmarkLaunch)$"}, "compile.test": {"^(TestRelease_Draws)$", "^(BenchmarkCopy)$", "^(TestGood|TestSkipped)$"}} {
		if got := b.ran(t, program); !slices.Equal(got, want) {
			t.Errorf("%s ran %q, want %q", program, got, want)
		}
	}
	asked := b.read(t, "asked")
	at := 0
	for _, part := range []string{
		" -precision fp32 -only " + five + "/^(dptrain|dptrain plain|PyTorch)$\n", "-precision fp32 -only " + five + "/^dptrain, (float|own kernels|graph in sequence)$\n",
		"launch__waves_per_multiprocessor", "smsp__issue_active", "-precision tf32 -only " + five + "/^(dptrain|dptrain plain|PyTorch)$\n", "train --device cuda:0 --quiet --precision bf16\n",
		"-timeout 120s -precision fp32 -only " + five + "/^PyTorch compiled$\n", "-only " + five + "/^Opacus (hooks|ghost)$\n",
	} {
		next := strings.Index(asked[at:], part)
		if next < 0 {
			t.Fatalf("no %q after\n%s", part, asked[:at])
		}
		at += next
	}
	contains(t, asked, "-check conformance=passed 3 of 3 tests", "-check speed=passed 2 of 2 tests", "-check train=passed 2 of 2 tests", "-check libraries=passed 2 of 2 tests")
	contains(t, b.read(t, "results/checks.log"), "/before:/usr/local/nvidia/lib64 /usr/local/cuda/bin\n", "BenchmarkCopy/part-2")
	contains(t, b.read(t, "results/results.tsv"), "train/digits\tpassed in ", " s: accuracy and ε 0.97 2\n")
	contains(t, b.delivered(t), "results/cache/dptrain/choices-0.json\n", "results/gpu-a-card.json\n")
	if _, err := os.Stat(filepath.Join(b.out, "gpu-a-card.json")); err != nil {
		t.Error(err)
	}
}

// Of a suite with failures, the tests that ended have an outcome, those after the death of the process
// run in another one, and each that failed runs once more alone; at the end its parts do. The rest goes on.
func TestFirst_GoesOnAfterFailures(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.program(t, "bin/compile.test", testProgram("TestRelease", "TestGood", "TestParts", "TestOnce", "TestDies", "TestLast", "TestLater", "BenchmarkCopy"))
	output, code := b.run(t, "first", "ONLY=none")
	if code != 1 {
		t.Errorf("the script returns %d\n%s", code, output)
	}
	want := []string{"^(TestRelease)$", "^(BenchmarkCopy)$", "^(TestGood|TestParts|TestOnce|TestDies|TestLast|TestLater)$", "^(TestLast|TestLater)$", "^(TestParts)$", "^(TestOnce)$", "^(TestDies)$",
		"^" + "TestParts$/^a_.3_5.$", "^" + "TestParts$/^after$"} // apart, because ^Test marks real tests for package lint
	if got := b.ran(t, "compile.test"); !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
	contains(t, b.read(t, "results/results.tsv"), "conformance/TestGood\tpassed in 0.00s\n", "conformance/TestParts\tFAILED:     x_test.go:1: the device does not answer\n",
		"conformance/TestDies\tFAILED with status 2: SIGSEGV: ", "conformance/TestOnce\tpassed in ", "conformance/TestLater\tpassed in 0.00s\n", "conformance/TestParts/after\tpassed in ",
		"conformance/TestParts/a_[3_5]\tFAILED with status 1: ", "train/digits-bf16\tpassed")
	contains(t, b.read(t, "asked"), "-check conformance=passed 5 of 7 tests; TestParts: FAILED")
	contains(t, b.read(t, "results/checks.log"), "== conformance\n", "== conformance/TestDies: FAILED")
	b.delivered(t)
}

// A library that ends the process, or that computes wrong steps, is switched off.
func TestFirst_SwitchesLibrariesOff(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.program(t, "bin/driver.test", testProgram("TestGood", "TestAborts_CuDNN", "BenchmarkLaunch"))
	output, code := b.run(t, "first", "ONLY=none")
	if code != 1 {
		t.Errorf("the script returns %d\n%s", code, output)
	}
	contains(t, output, "libraries/CuDNN: FAILED with status 134", "CuDNN is switched off\n", "train/digits-bf16: passed")
	contains(t, b.read(t, "ran"), "driver.test ^(TestGood)$ none\n", "bench.test ^TestStep_OnGPU$/^(tiny|mlp-1024|wrn16-4-16|transformer-32)$ none\n", "compile.test ^(TestGood|TestSkipped)$ none\n")
	b.delivered(t)

	b = newBundle(t)
	b.program(t, "bin/bench.test", `[ "${DPTRAIN_CUBLASLT-}" = none ] || { echo "--- FAIL: TestStep_OnGPU"; exit 1; }; echo '--- PASS: TestStep_OnGPU'`)
	output, _ = b.run(t, "first", "ONLY=none")
	contains(t, output, "steps/OnGPU: FAILED", "steps/own-kernels: passed", "libraries are switched off\n", "train/digits-bf16: passed")
	contains(t, b.read(t, "ran"), "compile.test ^(TestGood|TestSkipped)$ none\n")
}

// Where the card is lost, the script ends, and the results come back.
func TestFirst_EndsWhenCardIsLost(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.program(t, "bin/compile.test", testProgram("TestRelease_Draws", "TestGood", "TestLosesCard", "TestLast", "BenchmarkCopy"))
	output, code := b.run(t, "first", "ONLY=none")
	if code != 1 || strings.Contains(output, "train/") {
		t.Errorf("the script returns %d\n%s", code, output)
	}
	contains(t, output, "conformance/TestGood: passed", "conformance/TestLosesCard: FAILED", "stop: no GPU can be used")
	b.delivered(t)
	if err := os.Remove(filepath.Join(b.folder, "lost")); err != nil {
		t.Fatal(err)
	}
	b.program(t, "bin/compile.test", testProgram("TestRelease_Draws", "TestGood", "TestLosesCardNot", "TestLast", "BenchmarkCopy")) // mended
	if output, code := b.run(t, "first", "ONLY=none"); code != 1 || strings.Contains(output, "TestGood") {
		t.Errorf("on a card that is there again the script returns %d\n%s", code, output)
	}
}

// Wrong noise, sums or clip factors end the script, also when it runs again. A failed test of
// the driver does not.
func TestFirst_StopsOnFault(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.program(t, "bin/driver.test", testProgram("TestBroken", "BenchmarkLaunch"))
	b.program(t, "bin/compile.test", testProgram("TestRoundedNoise_Broken", "TestGood", "BenchmarkCopy"))
	for range 2 {
		output, code := b.run(t, "first")
		if code != 1 || !strings.Contains(output, "stop: conformance/TestRoundedNoise_Broken: FAILED with status 1:     x_test.go:7: broken; ") {
			t.Errorf("the script returns %d\n%s", code, output)
		}
	}
	if results := b.read(t, "results/results.tsv"); strings.Contains(results, "steps") || strings.Count(results, "driver/TestBroken") != 2 {
		t.Errorf("after the fault it runs\n%s", results)
	}
	b.delivered(t)
	if _, code := b.run(t, "first", "CHECKS=^train", "ONLY=none"); code != 0 {
		t.Errorf("a selected check is not run: %d", code)
	}
}

// Another program of the bundle is tested again where the last one failed twice. What passed is not.
func TestFirst_TriesOtherBuildsAgain(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.program(t, "bin/compile.test", testProgram("TestRelease", "TestGood", "TestBroken"))
	for range 2 {
		b.run(t, "first", "CHECKS=^conformance", "ONLY=none")
	}
	if got := b.ran(t, "compile.test"); !slices.Equal(got, []string{"^(TestRelease)$", "^(TestGood|TestBroken)$", "^(TestBroken)$"}) {
		t.Errorf("ran %q", got)
	}
	b.program(t, "bin/compile.test", strings.ReplaceAll(testProgram("TestRelease", "TestGood", "TestBroken"), "TestBroken* | TestRoundedNoise_Broken*)", "TestOther)"))
	output, code := b.run(t, "first", "CHECKS=^conformance", "ONLY=none")
	if code != 0 || strings.Contains(output, "TestGood") {
		t.Errorf("the script returns %d\n%s", code, output)
	}
	contains(t, output, "conformance/TestBroken: passed")
}

// A part ends before its limit, with exit code 75, and the next part does what is left.
func TestFirst_InParts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	b := newBundle(t)
	b.program(t, "bin/driver.test", testProgram("TestGood", "TestSlow", "TestSlower", "TestSlowest", "TestLast", "BenchmarkLaunch"))
	output, code := b.run(t, "first", "CHECKS=^driver", "ONLY=none", "LIMIT=33")
	if code != 75 || !strings.Contains(output, "run the same command again") || strings.Contains(output, "TestSlowest") {
		t.Fatalf("the first part returns %d\n%s", code, output)
	}
	b.delivered(t)
	if output, code := b.run(t, "first", "CHECKS=^driver", "ONLY=none"); code != 0 || strings.Contains(output, "TestSlow:") {
		t.Errorf("the second part returns %d\n%s", code, output)
	}
	contains(t, b.read(t, "asked"), "-check driver=passed 3 of 3 tests", "-check driver=passed 5 of 5 tests")
}

// Results come back while the script runs, and when the host ends it.
func TestFirst_DeliversBeforeItEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	for signal, every := range map[os.Signal]string{os.Kill: "1", os.Interrupt: "60"} {
		b := newBundle(t)
		b.program(t, "bin/compile.test", testProgram("TestRelease_Draws", "TestSlow"))
		c := b.command(t, "first", "CHECKS=conformance", "ONLY=none", "EVERY="+every)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := c.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil {
			t.Errorf("after %v it ended without an error", signal)
		}
		contains(t, b.delivered(t), "results/")
		for end := time.Now().Add(10 * time.Second); b.isRunning(t); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("after %v, processes are left", signal)
			}
		}
		contains(t, b.read(t, "results/results.tsv"), "conformance/TestRelease_Draws\tpassed")
	}
}

// isRunning reports whether a process of the script exists.
func (b bundle) isRunning(t *testing.T) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		line, _ := os.ReadFile(file) // a process can end meanwhile
		return strings.Contains(string(line), b.folder)
	})
}

// rest does what first does, and more.
func TestRest_AllChecksAndTimes(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.program(t, "tools/compute-sanitizer", `echo '========= COMPUTE-SANITIZER'
[[ $* == *'--report-api-errors no'*-test.short* ]] || { echo '========= Program hit CUDA_ERROR_OUT_OF_MEMORY'; exit 9; }
echo '=== RUN   TestGood'
[[ $* != *racecheck* ]] || echo '========= Error: Race reported'
echo '--- PASS: TestGood (0.00s)'
[[ $* != *TestSkipped* ]] || { echo '=== RUN   TestSkipped'; echo '--- SKIP: TestSkipped (0.00s)'; }
[[ $* != *TestRelease* ]] || { echo '=== RUN   TestRelease_Draws'; echo '--- PASS: TestRelease_Draws (0.00s)'; }
echo '========= ERROR SUMMARY: 0 errors'
[[ $* != *racecheck* ]] || exit 9`)
	data := t.TempDir()
	for _, name := range []string{"mnist", "cifar10"} {
		if err := os.Mkdir(filepath.Join(data, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	output, code := b.run(t, "rest", "DATA="+data)
	if code != 1 {
		t.Errorf("the script returns %d\n%s", code, output)
	}
	asked := b.read(t, "asked")
	contains(t, asked, "-precision fp32,tf32,bf16 -only \n", "-precision bf16 -only "+five+"/^(dptrain|dptrain plain|PyTorch)$\n", "/^dptrain, \n",
		"--preset tramer-mnist --lot 4096 --data-dir "+data+"/mnist\n", "--preset tramer-cifar10 --data-dir "+data+"/cifar10\n", "-check train=passed 8 of 8 tests",
		"-check networks=passed 1 of 1 tests", "-check workloads=passed 1 of 1 tests", "-check devices-agree=passed 1 of 1 tests", "-check profile=not installed here",
		"-check sanitizer-memcheck=passed 3 of 3 tests", "-check sanitizer-racecheck=passed 2 of 3 tests; TestGood: FAILED with status 9: ========= Error: Race reported")
	b.delivered(t)
}

// Each profile is appended to one file, after a run without the profiler. A profiler that may
// not read the card's counters is a failure.
func TestRest_Profile(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.program(t, "tools/ncu", `[[ ${DPTRAIN_CUDNN-} != none || $* != *Step\$/^mlp* ]] || { echo '==ERROR== ERR_NVGPUCTRPERM' >profile.csv; exit 1; }; echo "of $*" >profile.csv`)
	if output, code := b.run(t, "rest", "CHECKS=^profile", "ONLY=none"); code != 1 {
		t.Errorf("with a failed profile the script returns %d\n%s", code, output)
	}
	profile := b.read(t, "results/profile.csv")
	contains(t, profile, "== wrn16-4-16, own kernels\nof --csv ", "== wrn16-4-16\nof ", "== mlp-1024\nof ", "-test.bench ^BenchmarkStep$/^mlp-1024$/^private$ -test.benchtime 1x")
	if n := strings.Count(profile, "== "); n != 5 {
		t.Errorf("%d profiles:\n%s", n, profile)
	}
	contains(t, b.read(t, "asked"), "-check profile=passed 5 of 6 tests; mlp-1024, own kernels: FAILED with status 1: ==ERROR== ERR_NVGPUCTRPERM")
}

// Without a card, tests or arguments, the script says so.
func TestFirst_Refuses(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.program(t, "bin/dptrain", `echo 'no GPU  no driver was found'`)
	output, code := b.run(t, "first")
	if code != 1 || !strings.Contains(output, "stop: no GPU can be used: no GPU  no driver was found\n") || strings.Contains(output, "passed") {
		t.Errorf("without a GPU the script returns %d\n%s", code, output)
	}
	b = newBundle(t)
	b.program(t, "bin/bench.test", testProgram("TestOther"))
	if _, code := b.run(t, "rest", "CHECKS=^workloads", "ONLY=none"); code != 1 {
		t.Errorf("without tests the script returns %d", code)
	}
	contains(t, b.read(t, "asked"), "-check workloads=passed 0 of 1 tests; start: FAILED: no test matches OnGPU")
	if output, code := b.run(t, "all"); code != 2 || !regexp.MustCompile(`^usage: .*device-check first\|rest \[folder\]\n$`).MatchString(output) {
		t.Errorf("with another argument the script returns %d\n%s", code, output)
	}
}
