package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine"
)

// What a run that stopped has spent is in a ledger only where one is left.
func TestWhereSpent(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger.jsonl")
	j := &job{config: engine.Config{Files: engine.Files{Ledger: ledger}}}
	if said := j.whereSpent(); !strings.HasSuffix(said, ", which said what was spent, is gone") {
		t.Error(said)
	}
	if err := os.WriteFile(ledger, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if said := j.whereSpent(); !strings.HasSuffix(said, " says what was spent") {
		t.Error(said)
	}
	j.config = engine.Config{Mechanism: engine.Mechanism{NonPrivate: true}}
	if said := j.whereSpent(); said != "" {
		t.Error(said)
	}
}
