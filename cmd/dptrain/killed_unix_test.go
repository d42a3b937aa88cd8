//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// TestMain runs dptrain itself if a test starts this binary as a process.
func TestMain(m *testing.M) {
	timingDuration = 100 * time.Millisecond
	if line, asked := os.LookupEnv("DPTRAIN_LINE"); asked {
		os.Exit(run(strings.Fields(line), os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// output is what a process writes, and can be read while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) Len() int { return len(o.String()) }

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process starts a command line in its own process.
func process(t *testing.T, line string) (child *exec.Cmd, stderr *output) {
	t.Helper()
	child, stderr = exec.Command(os.Args[0]), &output{}
	child.Env = append(os.Environ(), "DPTRAIN_LINE="+line)
	child.Stdout, child.Stderr = &bytes.Buffer{}, stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill(); child.Wait() }) // if the test failed
	return child, stderr
}

// TestTrain_Killed kills dptrain train at random times, from before it makes its directory
// until after it writes its report, and resumes it each time. In the end all files are
// complete, and the ledger contains all lots that the other files show. DPTRAIN_KILLS is the
// number of kills.
func TestTrain_Killed(t *testing.T) {
	kills := 8
	if testing.Short() {
		kills = 2
	}
	if n, err := strconv.Atoi(os.Getenv("DPTRAIN_KILLS")); err == nil {
		kills = n
	}
	inWorkshop(t)
	began := time.Now()
	const line = "train --ignore owner --model logistic --lot 200 --steps 300 --noise 2 --delta 1e-5 --accountant rdp --quiet" + columns
	if child, stderr := process(t, line+" --out whole"); child.Wait() != nil {
		t.Fatal(stderr)
	}
	took := time.Since(began)
	random := rand.New(rand.NewPCG(5, uint64(kills)))
	runs, done := 0, 0
	for killed := 0; killed < kills; {
		dir := "run" + strconv.Itoa(runs)
		runs++
		for {
			next := line + " --out " + dir
			if _, err := os.Stat(filepath.Join(dir, rundir.ConfigFile)); err == nil {
				next = "train --quiet --resume " + dir
			}
			child, stderr := process(t, next)
			wait := time.Duration(random.Int64N(int64(took)))
			if killed >= kills {
				wait = time.Hour
			}
			timer := time.AfterFunc(wait, func() { child.Process.Kill() })
			err := child.Wait()
			timer.Stop()
			if least := visibleLots(t, dir); least > 0 {
				if h, err := ledger.Read(filepath.Join(dir, "ledger.jsonl")); err != nil || h.LotCount() < least {
					t.Fatalf("the ledger holds %d lots, and %d are visible (%v)", h.LotCount(), least, err)
				}
			}
			if err == nil {
				break
			}
			if killed++; stderr.Len() > 0 {
				t.Fatalf("killed, with output %s", stderr)
			}
		}
		done++
		report, err := ledger.Verify(filepath.Join(dir, "ledger.jsonl"))
		if err != nil || !report.Ended || report.Lots < 300 || visibleLots(t, dir) != 300 {
			t.Fatalf("%+v, %d lots visible, %v", report, visibleLots(t, dir), err)
		}
		if got, want := files(t, dir), files(t, "whole"); got != want {
			t.Errorf("left are %s, want %s", got, want)
		}
		var r struct {
			Steps      int
			LedgerHead string `json:"ledger_head"`
		}
		text, err := os.ReadFile(filepath.Join(dir, "run.json"))
		if err = errors.Join(err, json.Unmarshal(text, &r)); err != nil || r.Steps != 300 || r.LedgerHead != report.Head {
			t.Errorf("%+v, head %s, %v", r, report.Head, err)
		}
		runJSON(t, "report "+dir)
		runJSON(t, "eval "+dir+" --data test.csv")
	}
	t.Logf("%d runs, killed %d times", done, kills)
}

// A run that is interrupted and resumed ends at the lot at which --stop-when ends a whole run. Weights that
// do not change have the same accuracy after each lot, so this lot is known.
func TestStop_InterruptedRun(t *testing.T) {
	inWorkshop(t)
	const line = baseline + " --lr 1e-12 --seed 3 --steps 100000 --stop-when test-no-gain:1500 --json --out "
	whole := runJSON(t, strings.Replace(line, " --json", "", 1)+"whole")
	child, stderr := process(t, line+"run")
	for deadline := time.Now().Add(time.Minute); ; {
		text, err := os.ReadFile("run/metrics.jsonl")
		if n := bytes.Count(text, []byte("\n")); err == nil && n > 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the run does not begin: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	child.Process.Signal(syscall.SIGINT)
	var exit *exec.ExitError
	if err := child.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitcode.Interrupted {
		t.Fatalf("interrupted: %v, %s", err, stderr)
	}
	if v := runJSON(t, "train --resume run"); v["steps"] != whole["steps"] || v["stopped"] != true || whole["stopped"] != true {
		t.Errorf("the interrupted run ended after %v lots, a whole one after %v", v["steps"], whole["steps"])
	}
}

// An interrupt that arrives when the ledger has just been created, before the first lot, leaves a run that can
// be resumed.
func TestTrain_InterruptedBeforeFirstLot(t *testing.T) {
	inWorkshop(t)
	child, stderr := process(t, "train --ignore owner --model logistic --lot 20 --steps 20000 --noise 20 --delta 1e-5 --out run"+columns)
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat("run/ledger.jsonl"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no ledger was created")
		}
	}
	child.Process.Signal(syscall.SIGINT)
	var exit *exec.ExitError
	if err := child.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitcode.Interrupted {
		t.Fatalf("%v\n%s", err, stderr)
	}
	if v := runJSON(t, "train --resume run --steps 20000 --stop-at-epsilon 0.5"); v["steps"].(float64) < 1 {
		t.Errorf("resumed: %v lots", v["steps"])
	}
}

// An interrupted run finishes its lot, saves, and prints how to continue. Its cost is that of its
// plan, which cannot become smaller.
func TestTrain_Interrupted(t *testing.T) {
	inWorkshop(t)
	const line = "train --ignore owner --model logistic --lot 200 --steps 10000000 --noise 200 --delta 1e-5 --accountant rdp --json --out run" + columns
	child, stderr := process(t, line)
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	for i, signal := range signals {
		for deadline := time.Now().Add(5 * time.Minute); ; {
			if h, err := ledger.Read("run/ledger.jsonl"); err == nil && h.LotCount() > visibleLots(t, "run") && h.LotCount() > 5 {
				break
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) && time.Now().After(deadline) {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatal("no lot was run")
			}
			time.Sleep(2 * time.Millisecond)
		}
		if _, stderr, code := dptrain("train --resume run"); code != exitcode.Usage || !strings.Contains(stderr, "another dptrain process is writing there") {
			t.Fatalf("a second process goes on with the run: exit %d, %s", code, stderr)
		}
		child.Process.Signal(signal)
		if signal == syscall.SIGHUP {
			time.Sleep(time.Millisecond)
			child.Process.Signal(signal)
		}
		var exit *exec.ExitError
		if err := child.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitcode.Interrupted || !strings.Contains(stderr.String(), "dptrain train --resume run") {
			t.Fatalf("%v: %v\n%s", signal, err, stderr)
		}
		report, err := ledger.Verify("run/ledger.jsonl")
		if err != nil || !report.Ended || report.Lots != visibleLots(t, "run") {
			t.Fatalf("%+v, %d lots visible, %v", report, visibleLots(t, "run"), err)
		}
		var saved rundir.Summary
		object := child.Stdout.(*bytes.Buffer).Bytes()
		if err := json.Unmarshal(object, &saved); err != nil || !saved.Interrupted || saved.Steps != report.Lots || !(saved.SpentEpsilon > 0 && saved.Epsilon == saved.PlannedEpsilon && saved.PlannedEpsilon > saved.SpentEpsilon && saved.PlannedSteps == 10000000) || saved.Out != "run" || saved.LedgerHead != report.Head {
			t.Errorf("%v: it prints, of %+v,\n%s\n%v", signal, report, object, err)
		}
		if kept := readFile(t, "run/run.json"); !bytes.Equal(kept, object) {
			t.Errorf("%v: run.json holds\n%s", signal, kept)
		}
		if i+1 < len(signals) {
			child, stderr = process(t, "train --json --resume run")
		}
	}
	steps := strconv.Itoa(visibleLots(t, "run") + 3)
	if _, stderr, code := dptrain("train --resume run --steps " + steps); code != exitcode.Usage || !strings.Contains(stderr, "would understate its cost") {
		t.Errorf("resumed with a plan of %s lots: exit %d, %s", steps, code, stderr)
	}
}

// An interrupted search prints its results so far and has the exit code of an interruption.
func TestTune_Interrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	child, stderr := exec.Command(os.Args[0]), &bytes.Buffer{}
	child.Env = append(os.Environ(), "DPTRAIN_LINE=tune --model logistic --steps 2 --lot 100 --accountant rdp --trials 100000 --json")
	notes, err := child.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	child.Stdout = &stdout
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(notes); lines.Scan(); {
		stderr.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "trial 2/") {
			child.Process.Signal(syscall.SIGINT)
		}
	}
	child.Wait()
	var v publicTuning
	if err := json.Unmarshal(stdout.Bytes(), &v); err != nil || len(v.Rows) < 2 || child.ProcessState.ExitCode() != exitcode.Interrupted || !strings.Contains(stderr.String(), "interrupted after") {
		t.Errorf("exit %d, %d trials, %v\n%s", child.ProcessState.ExitCode(), len(v.Rows), err, stderr)
	}
}

// An interrupted selection on private data removes the files of its runs. After a kill, the
// next command that uses the directory removes them and reports it.
func TestTunePrivate_Interrupted(t *testing.T) {
	inWorkshop(t)
	line := strings.Replace(selecting, "--steps 15", "--steps 10000000", 1)
	for name, signal := range map[string]syscall.Signal{"interrupted": syscall.SIGINT, "terminated": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		child, stderr := process(t, line+" --out "+name)
		for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(name, rundir.TrialsDir, "ledger.jsonl")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("no run began: ", stderr)
			}
		}
		again := func(want string) {
			t.Helper()
			_, stderr, code := dptrain(selecting + " --out " + name)
			if code != exitcode.Usage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
				t.Errorf("%s, and again: exit %d, %s", name, code, stderr)
			}
		}
		again("another dptrain process is writing there")
		child.Process.Signal(signal)
		child.Wait()
		if signal == syscall.SIGKILL {
			again("that was killed")
		} else if !strings.Contains(stderr.String(), "nothing is selected or kept") || child.ProcessState.ExitCode() != exitcode.Interrupted {
			t.Errorf("%s: exit %d, %s", name, child.ProcessState.ExitCode(), stderr)
		}
		if got := files(t, name); got != rundir.SelectionFile {
			t.Errorf("%s: left are %s", name, got)
		}
		if times := modificationTimes(t, name); signal != syscall.SIGKILL && len(times) != 1 {
			t.Errorf("%s: the entries have different times: %v", name, times)
		}
		again("already contains a selection")
		runJSON(t, "ledger epsilon "+name)
	}
}

// interruptedBy is a writer that interrupts the process.
type interruptedBy struct {
	bytes.Buffer
	once sync.Once
}

func (w *interruptedBy) Write(p []byte) (int, error) {
	w.once.Do(func() { syscall.Kill(os.Getpid(), syscall.SIGINT) }) // a second signal would end the process
	time.Sleep(50 * time.Millisecond)                               // until the signal has arrived
	return w.Buffer.Write(p)
}

// An interrupted predict reports that its predictions are incomplete.
func TestPredict_Interrupted(t *testing.T) {
	inWorkshop(t)
	runJSON(t, baseline+" --steps 1 --out run")
	var stdout interruptedBy
	var stderr bytes.Buffer
	code := run(strings.Fields("predict run --data people.csv --scores"), nil, &stdout, &stderr)
	if code != exitcode.Interrupted || !strings.Contains(stderr.String(), "of 4000 examples") {
		t.Errorf("exit %d, %s", code, &stderr)
	}
}
