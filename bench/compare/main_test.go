package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/dptrain/dptrain/cuda"
)

// A part that is measured later takes the place of its like and of nothing else.
func TestKeep(t *testing.T) {
	c := comparison{out: t.TempDir(), only: regexp.MustCompile("^mlp"), precisions: []cuda.Precision{cuda.FP32}}
	var r results
	if err := c.keep(&r, "gpu-x"); err != nil || len(r.Measurements) != 0 {
		t.Fatalf("from nothing: %v, %v", r.Measurements, err)
	}
	text, err := json.Marshal(results{Checks: map[string]string{"suite": "passed"}, Measurements: []measurement{
		{Workload: "mlp-256", Precision: "fp32"}, {Workload: "mlp-256", Precision: "bf16"}, {Workload: "lstm-64", Precision: "fp32"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.out, "gpu-x.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.keep(&r, "gpu-x"); err != nil {
		t.Fatal(err)
	}
	if len(r.Measurements) != 2 || r.Measurements[0].Precision != "bf16" || r.Measurements[1].Workload != "lstm-64" || r.Checks["suite"] != "passed" {
		t.Errorf("kept %v, %v", r.Measurements, r.Checks)
	}
	if err := os.WriteFile(filepath.Join(c.out, "gpu-x.json"), text[1:], 0o644); err != nil {
		t.Fatal(err)
	}
	if c.keep(&r, "gpu-x") == nil {
		t.Error("a damaged file was taken")
	}
}
