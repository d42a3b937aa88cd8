package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/sample"
)

// killedRunConfig is the run that TestKilledRun_Resumes kills.
func killedRunConfig(t testing.TB, folder string, policy sample.Policy, steps int) Config {
	c := checkpointedConfig(t)
	c.Seed = nil
	c.Sampling.Policy, c.Steps, c.Files.CheckpointInterval = policy, steps, 2*time.Millisecond
	c.Files.Ledger, c.Files.CheckpointFolder = filepath.Join(folder, "ledger.jsonl"), filepath.Join(folder, "checkpoint")
	return c
}

// This is the child process of TestKilledRun_Resumes. It prints its state at the start and after
// each lot.
func TestKilledRun_Child(t *testing.T) {
	folder := os.Getenv("DPTRAIN_MORTAL")
	if folder == "" {
		t.Skip("the child of TestKilledRun_Resumes")
	}
	steps, err := strconv.Atoi(os.Getenv("DPTRAIN_STEPS"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Resume(killedRunConfig(t, folder, sample.Policy(os.Getenv("DPTRAIN_SAMPLING")), steps))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	say := func(what string, step int) {
		fmt.Printf("%s %d %x\n", what, step, sha256.Sum256([]byte(runState(r))))
	}
	say("from", r.StepsDone())
	if err := r.Train(context.Background(), func(p *Progress) error { say("lot", p.Lot); return nil }); err != nil {
		fmt.Println("error", err)
	}
	if err := r.Close(); err != nil {
		fmt.Println("error", err)
	}
	say("end", r.StepsDone())
}

// The test kills a training process at random moments and resumes it, sometimes after truncating
// the ledger's last line or the newest checkpoint. Each time the ledger must contain all lots
// ever released, the process must have the state of an earlier process after the same lot, and a
// repeated lot must differ. DPTRAIN_KILLS is the number of kills.
func TestKilledRun_Resumes(t *testing.T) {
	kills := 12
	if testing.Short() {
		kills = 3
	}
	if n, err := strconv.Atoi(os.Getenv("DPTRAIN_KILLS")); err == nil {
		kills = n
	}
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyShuffle} {
		t.Run(string(policy), func(t *testing.T) {
			h := &killObserver{folder: t.TempDir(), policy: policy, steps: 100 * kills, after: map[int][]string{}, ever: map[string]bool{}}
			c := killedRunConfig(t, h.folder, policy, h.steps)
			random := rand.New(rand.NewPCG(1, uint64(kills))) // other random moments for each number of kills
			for round := 0; ; round++ {
				wait := time.Duration(random.IntN(120)) * time.Millisecond
				if round >= kills {
					wait = time.Minute
				}
				if h.runAndKill(t, wait) {
					break
				}
				if round > 40*kills {
					t.Fatal("the run never ended")
				}
				h.check(t, c)
				if round < kills {
					truncateFile(t, c, random)
				}
			}
			h.check(t, c)
			if h.last != c.Steps {
				t.Errorf("it ended after %d lots, want %d", h.last, c.Steps)
			}
			report, err := ledger.Verify(c.Files.Ledger)
			if err != nil || !report.Ended {
				t.Errorf("ledger %+v, %v", report, err)
			}
			t.Logf("%d lots released for %d, %d in the ledger, %d runs", h.released, c.Steps, report.Lots, report.Runs)
		})
	}
}

// killObserver collects the output of the killed processes.
type killObserver struct {
	folder   string
	policy   sample.Policy
	steps    int
	after    map[int][]string // the state after each lot, of every process that ran it
	ever     map[string]bool
	released int
	last     int
	at       int // the lot of the last process
}

// runAndKill runs one process, kills it after a while, and reports whether it ended before.
func (h *killObserver) runAndKill(t *testing.T, wait time.Duration) bool {
	t.Helper()
	p := startChild(t, "TestKilledRun_Child", "DPTRAIN_MORTAL="+h.folder, "DPTRAIN_SAMPLING="+string(h.policy), fmt.Sprint("DPTRAIN_STEPS=", h.steps))
	p.killAfter(wait)
	ended := false
	p.readLines(t, func(word []string) {
		if len(word) != 3 {
			return
		}
		step, _ := strconv.Atoi(word[1])
		switch word[0] {
		case "from":
			if step > 0 && !slices.Contains(h.after[step], word[2]) {
				// The previous process may have saved one lot more than it printed.
				if step != h.at+1 {
					t.Errorf("it continues from lot %d, a state that no process had; the last process was at lot %d", step, h.at)
				}
				if h.ever[word[2]] {
					t.Errorf("lot %d came out as an earlier one", step)
				}
				h.ever[word[2]] = true
				h.after[step] = append(h.after[step], word[2])
			}
			h.at = step
		case "lot":
			h.released++
			h.last, h.at = step, step
			if h.ever[word[2]] {
				t.Errorf("lot %d came out as an earlier one", step)
			}
			h.ever[word[2]] = true
			h.after[step] = append(h.after[step], word[2])
		case "end":
			ended = true
			if step > 0 && !slices.Contains(h.after[step], word[2]) {
				t.Errorf("it ended at lot %d, a state that no process had", step)
			}
		}
	})
	return ended
}

// check compares the ledger with the released lots.
func (h *killObserver) check(t *testing.T, c Config) {
	t.Helper()
	if _, err := os.Stat(c.Files.Ledger); errors.Is(err, os.ErrNotExist) && h.released == 0 {
		return
	}
	history, err := ledger.Read(c.Files.Ledger)
	if err != nil && h.released == 0 {
		return // killed before the header was written
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := history.LotCount(); n < h.released {
		t.Errorf("the ledger contains %d lots, %d were released", n, h.released)
	}
}

// truncateFile does what a power failure may do: it truncates the last line of the ledger, or
// the newest checkpoint.
func truncateFile(t *testing.T, c Config, random *rand.Rand) {
	t.Helper()
	names, err := state.List(c.Files.CheckpointFolder)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 2 && random.IntN(3) == 0 {
		info, err := os.Stat(names[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(names[0], random.Int64N(max(1, info.Size()))); err != nil {
			t.Fatal(err)
		}
	}
	if len(names) > 0 && random.IntN(3) == 0 {
		file, err := os.OpenFile(c.Files.Ledger, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		line := `{"spend":1,"lot":{"sampling":{"policy":"`
		if _, err := file.WriteString(line[:1+random.IntN(len(line)-1)]); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
