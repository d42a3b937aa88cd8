package engine

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// A run with a ledger on a writer needs no file, and states what a run with a file states.
func TestLedgerWriter_StatesRun(t *testing.T) {
	var b bytes.Buffer
	c := testConfig(t)
	c.Files = Files{LedgerWriter: &b}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Train(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	spent, err := r.Spent(c.Budget.Accountant)
	if err != nil {
		t.Fatal(err)
	}
	history, summary, err := ledger.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	stated, err := accountant.Epsilon(history, spent.Delta, c.Budget.Accountant)
	if err != nil {
		t.Fatal(err)
	}
	if history.LotCount() != c.Steps || stated.Epsilon != spent.Epsilon || !summary.Complete {
		t.Errorf("the ledger states %d lots with ε = %v, complete: %t; %d lots ran with ε = %v", history.LotCount(), stated.Epsilon, summary.Complete, c.Steps, spent.Epsilon)
	}
	planned, err := accountant.Epsilon(c.PlannedHistory(), spent.Delta, c.Budget.Accountant)
	if err != nil || planned.Epsilon != spent.Epsilon {
		t.Errorf("the plan costs ε = %v, %v, and the run %v", planned.Epsilon, err, spent.Epsilon)
	}
}

func TestLedgerWriter_Refused(t *testing.T) {
	for name, f := range map[string]Files{
		"two ledgers": {Ledger: t.TempDir() + "/ledger.jsonl", LedgerWriter: &bytes.Buffer{}},
		"checkpoints": {LedgerWriter: &bytes.Buffer{}, CheckpointFolder: t.TempDir()},
	} {
		c := testConfig(t)
		c.Files = f
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "Ledger") {
			t.Errorf("%s: %v; an error that names the setting is wanted", name, err)
		}
	}
}
