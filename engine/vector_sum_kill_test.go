package engine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/state"
)

// This is the child process of TestKilledVectorSum_Resumes.
func TestKilledVectorSum_Child(t *testing.T) {
	folder := os.Getenv("DPTRAIN_MORTAL_SUM")
	if folder == "" {
		t.Skip("the child of TestKilledVectorSum_Resumes")
	}
	c := killedVectorSum(t, folder)
	s, err := NewVectorSum(c)
	for lot := 1; err == nil; lot++ {
		if _, err = s.StartLot(); err != nil {
			break
		}
		var means [][]float64
		if means, err = s.Release(); err == nil {
			fmt.Printf("lot %d %s %s\n", lot, bitsOf(means), s.State().LedgerHead)
		}
	}
	fmt.Println("error", err)
}

func killedVectorSum(t testing.TB, folder string) VectorSumConfig {
	c := vectorSumConfig(t)
	c.Seed, c.Lots, c.Ledger = nil, 1<<30, filepath.Join(folder, "ledger.jsonl")
	return c
}

// bitsOf returns the bits of nine numbers: of two lots with independent noise they are equal with a
// probability below 10⁻²⁰, because each number has hundreds of likely values.
func bitsOf(means [][]float64) (text string) {
	for _, x := range slices.Concat(means...) {
		text += fmt.Sprintf("%x", math.Float64bits(x))
	}
	return text
}

// After kill -9 the ledger has every lot that was released. A sum that resumes with it counts them
// and draws other noise.
func TestKilledVectorSum_Resumes(t *testing.T) {
	folder := t.TempDir()
	child := startChild(t, "TestKilledVectorSum_Child", "DPTRAIN_MORTAL_SUM="+folder)
	released, noises, head := 0, map[string]bool{}, ""
	child.readLines(t, func(word []string) {
		if word[0] != "lot" {
			return
		}
		released, head = released+1, word[3]
		noises[word[2]] = true
		if released == 3 {
			child.command.Process.Kill()
		}
	})
	c := killedVectorSum(t, folder)
	h, err := ledger.Read(c.Ledger)
	if err != nil || h.LotCount() < released || released < 3 {
		t.Fatalf("%d lots were released, and the ledger has %d, %v", released, h.LotCount(), err)
	}
	if _, err := ResumeVectorSum(c, VectorSumState{Lots: released, LedgerHead: strings.Repeat("0", 64), Bounds: []float64{0, 0}}); !errors.Is(err, state.ErrDamaged) {
		t.Errorf("a ledger without the head: %v", err)
	}
	other := c
	other.Records = 61
	if _, err := ResumeVectorSum(other, VectorSumState{Lots: released, LedgerHead: head, Bounds: []float64{0, 0}}); err == nil {
		t.Error("resumed with another number of records")
	}
	s, err := ResumeVectorSum(c, VectorSumState{Lots: released, LedgerHead: head, Bounds: []float64{0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range released {
		startLot(t, s)
		if bits := bitsOf(releaseVectors(t, s)); noises[bits] {
			t.Errorf("the noise %s occurs again", bits)
		}
	}
	before, err := accountant.Epsilon(h, 1e-4, "")
	if err != nil {
		t.Fatal(err)
	}
	if after, err := s.Epsilon(); err != nil || !(after > before.Epsilon) {
		t.Errorf("ε = %v after %v, %v", after, before.Epsilon, err)
	}
}
