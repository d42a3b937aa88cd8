package engine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// killedProjectionConfig is the run that TestKilledProjection_Resumes kills. Its moments and its
// lots are slow.
func killedProjectionConfig(t testing.TB, folder string) Config {
	c := projectionConfig(t)
	c.Seed, c.Steps, c.Files.CheckpointInterval = nil, 60, time.Millisecond
	c.Train = mlpExamples(40000, 3)
	c.Files.Ledger, c.Files.CheckpointFolder = filepath.Join(folder, "ledger.jsonl"), filepath.Join(folder, "checkpoint")
	return c
}

// This is the child process of TestKilledProjection_Resumes. After each lot it prints the
// directions with which the lot was computed.
func TestKilledProjection_Child(t *testing.T) {
	folder := os.Getenv("DPTRAIN_DOOMED")
	if folder == "" {
		t.Skip("the child process of TestKilledProjection_Resumes")
	}
	r, err := Resume(killedProjectionConfig(t, folder))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("ready")
	err = r.Train(context.Background(), func(p *Progress) error {
		fmt.Printf("lot %x\n", sha256.Sum256([]byte(fmt.Sprint(r.Directions()))))
		return nil
	})
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		fmt.Println("error", err)
	}
	fmt.Println("end")
}

// The test kills a process at random moments around the release of its directions, and resumes
// it. The ledger must contain a release before a lot with directions is visible, and the
// directions must then stay.
func TestKilledProjection_Resumes(t *testing.T) {
	kills := 16
	if testing.Short() {
		kills = 4
	}
	random := rand.New(rand.NewPCG(4, 4))
	seen, lost, paid := map[string]bool{}, 0, 0
	for range kills {
		folder := t.TempDir()
		c := killedProjectionConfig(t, folder)
		last := ""
		for ended := false; !ended; {
			wait := time.Duration(random.IntN(40)) * time.Millisecond
			if random.IntN(4) == 0 {
				wait = time.Minute
			}
			made, done := runAndKillProjection(t, folder, wait)
			ended = done
			for _, directions := range made {
				if last != "" && directions != last {
					t.Fatal("directions that a lot was made behind were replaced")
				}
				if last == "" && seen[directions] {
					t.Fatal("directions came out as those of another run")
				}
				last, seen[directions] = directions, true
			}
			if len(made) > 0 {
				if moments, lots := countProjections(readLedger(t, c.Files.Ledger)); moments < 1 || lots < len(made) {
					t.Fatalf("the ledger contains %d releases of moments and %d lots after %d lots", moments, lots, len(made))
				}
			}
		}
		moments, _ := countProjections(readLedger(t, c.Files.Ledger))
		if moments < 1 {
			t.Fatal("no release of moments in the ledger")
		}
		paid += moments
		lost += moments - 1
	}
	if len(seen) != kills {
		t.Errorf("%d directions seen in %d runs", len(seen), kills)
	}
	t.Logf("%d runs, %d releases of moments, %d of them lost", kills, paid, lost)
}

// runAndKillProjection runs one process, kills it a while after it is ready, and returns its
// output.
func runAndKillProjection(t *testing.T, folder string, wait time.Duration) (made []string, ended bool) {
	t.Helper()
	p := startChild(t, "TestKilledProjection_Child", "DPTRAIN_DOOMED="+folder)
	p.readLines(t, func(word []string) {
		switch word[0] {
		case "ready":
			p.killAfter(wait)
		case "lot":
			made = append(made, word[1])
		case "end":
			ended = true
		}
	})
	return made, ended
}
