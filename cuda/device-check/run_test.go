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
		"bin/dptrain":         "if [ \"$1\" = train ]; then echo \"$*\" >>../asked; echo '0.97 2'; exit; fi; echo 'cpu  2 threads'; echo '" + devices + "'",
		"bin/compare":         `echo "$*" >>asked`,
		"bin/driver.test":     testProgram("TestGood") + failing,
		"bin/cuda.test":       testProgram("TestGood", "TestLost", "TestSkipped", "TestRelease_Draws", "BenchmarkCopy") + failing + "echo $LD_LIBRARY_PATH ${PATH##*:}",
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
	asked := read(t, folder, "asked")
	contains(t, asked, "-add -only none ",
		"-check doctor=passed in ", "-check driver=passed 1 of 1 tests", "-check conformance=passed 3 of 4 tests; TestLost: FAILED with status 1: ",
		"-check steps=passed 1 of 1 tests", "-check networks=passed 1 of 1 tests", "-check workloads=passed 1 of 1 tests", "-check devices-agree=passed 1 of 1 tests",
		"-check speed=passed 1 of 1 tests", "-check profile=not installed here", "-check sanitizer-synccheck=not installed here",
		"-check train=passed 3 of 3 tests", "train --device cuda:0 --quiet --lot 4096\n")
	if strings.Contains(asked, "mnist") {
		t.Errorf("without DATA it trains on\n%s", asked)
	}
	contains(t, read(t, folder, "results", "results.tsv"), "train/digits\tpassed in ", " s: accuracy and ε 0.97 2\n")
	contains(t, read(t, folder, "results", "checks.log"), "== speed/BenchmarkCopy: passed in ", "\n/before:/usr/local/nvidia/lib64 /usr/local/cuda/bin\n", "the device is lost\n")
}

// A test fails in its own process only, and its parts run alone after it.
func TestRun_IsolatesFailures(t *testing.T) {
	folder := bundle(t, "cuda:0  a card")
	run(t, folder, "CHECKS=^conformance")
	results := read(t, folder, "results", "results.tsv")
	contains(t, results, "conformance/TestGood\tpassed in ", "conformance/TestLost\tFAILED with status 1: ", "conformance/TestSkipped\tskipped\n",
		"conformance/TestLost/a_[3_5]\tFAILED with status 1: ", "conformance/TestLost/after\tpassed in ")
	if strings.Contains(results, "TestLost/first") || strings.Contains(results, "driver") || strings.Count(results, "\n") != 6 {
		t.Errorf("the results are\n%s", results)
	}
	if _, code := run(t, folder, "CHECKS=conformance/TestGood"); code != 0 {
		t.Errorf("without failures the script returns %d", code)
	}
}

// A fault of the driver or of the noise ends the script, also when it runs again.
func TestRun_StopsOnFault(t *testing.T) {
	for program, test := range map[string]string{"driver": "TestBroken", "cuda": "TestRoundedNoise_Broken"} {
		folder := bundle(t, "cuda:0  a card")
		broken := "#!/usr/bin/env bash\n" + testProgram(test, "TestGood") + "[[ $selected != *Broken* ]] || { echo '--- FAIL: broken'; exit 1; }\n"
		if err := os.WriteFile(filepath.Join(folder, "bin", program+".test"), []byte(broken), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, step := range []string{"STEP=abcdef", "STEP=b"} {
			output, code := run(t, folder, step)
			if code != 1 || !strings.Contains(output, "\nstop: ") || !strings.Contains(output, test+": FAILED with status 1: --- FAIL: broken; ") {
				t.Errorf("%s: the script returns %d\n%s", step, code, output)
			}
		}
		if results := read(t, folder, "results", "results.tsv"); strings.Contains(results, "steps") || strings.Contains(results, "speed") {
			t.Errorf("after the fault it runs\n%s", results)
		}
		if _, code := run(t, folder, "CHECKS=workloads", "STEP=d"); code != 0 {
			t.Errorf("a selected check is not run: %d", code)
		}
	}
}

// A step runs its own checks and times its own programs.
func TestRun_Steps(t *testing.T) {
	const five = "^(mlp-1024|mnist-cnn-256|cifar-tanh-64|wrn16-4-16|transformer-32)$"
	for step, want := range map[string]struct {
		checks string
		timed  []string
	}{
		"a": {"doctor driver conformance steps", nil},
		"b": {"speed", []string{"-precision fp32,tf32,bf16 -only " + five + "/^(dptrain|dptrain plain|PyTorch)$\n", "-precision fp32 -only " + five + "/^dptrain, \n"}},
		"c": {"profile", nil},
		"d": {"networks workloads devices-agree train", nil},
		"e": {"", []string{"-precision tf32,fp32 -only " + five + "/^(PyTorch compiled|Opacus .*)$\n", "-timeout 120s -precision fp32,tf32,bf16 -only \n"}},
		"f": {"sanitizer-memcheck sanitizer-racecheck sanitizer-initcheck sanitizer-synccheck", nil},
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			folder := bundle(t, "cuda:0  a card")
			run(t, folder, "STEP="+step, "ONLY=")
			if want.checks != "" {
				checks := map[string]bool{}
				for line := range strings.Lines(read(t, folder, "results", "results.tsv")) {
					check, _, _ := strings.Cut(line, "\t")
					check, _, _ = strings.Cut(check, "/")
					checks[check] = true
				}
				for _, check := range strings.Fields(want.checks) {
					if !checks[check] {
						t.Errorf("%s does not run", check)
					}
					delete(checks, check)
				}
				if len(checks) > 0 {
					t.Errorf("it runs %v too", checks)
				}
			}
			timed := 0
			if asked, err := os.ReadFile(filepath.Join(folder, "asked")); err == nil {
				timed = strings.Count(string(asked), "-resume")
				contains(t, string(asked), want.timed...)
			}
			if timed != len(want.timed) {
				t.Errorf("it times %d times", timed)
			}
		})
	}
}

// Each profile is appended to one file, after a run without the profiler. A profiler that may
// not read the card's counters is a failure.
func TestRun_Profile(t *testing.T) {
	folder := bundle(t, "cuda:0  a card")
	if err := os.Mkdir(filepath.Join(folder, "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"tools/ncu":      `[[ $DPTRAIN_CUDNN != none || $* != *Step\$/^mlp* ]] || { echo '==ERROR== ERR_NVGPUCTRPERM' >profile.csv; exit 1; }; echo "of $*" >profile.csv`,
		"bin/bench.test": `echo "$*" >>../ran`,
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/usr/bin/env bash\n"+content+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if output, code := run(t, folder, "STEP=c"); code != 1 {
		t.Errorf("with a failed profile the script returns %d\n%s", code, output)
	}
	profile := read(t, folder, "results", "profile.csv")
	contains(t, profile, "== wrn16-4-16, own kernels\nof --csv ", "== wrn16-4-16\nof ", "== mlp-1024\nof ", "-test.bench ^BenchmarkStep$/^mlp-1024$/^private$ -test.benchtime 1x")
	if n, m := strings.Count(profile, "== "), strings.Count(read(t, folder, "ran"), "\n"); n != 5 || m != 6 {
		t.Errorf("%d profiles of %d runs:\n%s", n, m, profile)
	}
	contains(t, read(t, folder, "asked"), "-check profile=passed 5 of 6 tests; mlp-1024, own kernels: FAILED with status 1: ==ERROR== ERR_NVGPUCTRPERM")
}

// With data, presets are trained.
func TestRun_PresetsWithData(t *testing.T) {
	folder := bundle(t, "cuda:0  a card")
	data := t.TempDir()
	for _, name := range []string{"mnist", "cifar10"} {
		if err := os.Mkdir(filepath.Join(data, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run(t, folder, "CHECKS=^train", "DATA="+data)
	contains(t, read(t, folder, "asked"), "-check train=passed 8 of 8 tests",
		"--preset tramer-mnist --lot 4096 --data-dir "+data+"/mnist\n", "--preset tramer-cifar10 --data-dir "+data+"/cifar10\n")
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
