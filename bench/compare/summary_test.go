package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The tables in the documentation and the chart match the result files.
func TestWriteTables_CurrentResults(t *testing.T) {
	c := comparison{out: filepath.Join("..", "results")}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "results.md")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.writeTables(path); err != nil {
		t.Fatal(err)
	}
	if made, err := os.ReadFile(path); err != nil || string(made) != string(text) {
		t.Errorf("docs/results.md does not match the result files (%v); run go run ./bench/compare -tables docs/results.md", err)
	}
	r, err := c.readResults("cpu.json")
	if err != nil {
		t.Fatal(err)
	}
	if drawn, err := os.ReadFile(filepath.Join(c.out, "cpu.svg")); err != nil || string(drawn) != r.chart() {
		t.Errorf("cpu.svg does not match cpu.json (%v)", err)
	}
}

// The results of a card become a table for each precision, with a row for each workload not run. A
// file without table markers is left unchanged.
func TestWriteTables_GPUResults(t *testing.T) {
	c := comparison{out: t.TempDir()}
	r := results{Machine: machine{GPU: "A Card"}, Date: "2026-01-02"}
	for _, m := range []measurement{
		{Program: "dptrain", Median: 1, Memory: 10, Precision: "fp32"}, {Program: "PyTorch", Median: 4, Memory: 200, Precision: "fp32"},
		{Program: "PyTorch compiled", Median: 2, Memory: 300, Precision: "fp32"}, {Program: "dptrain", Median: 0.5, Precision: "bf16"},
		{Program: "JAX", Error: "not done", Precision: "bf16"},
	} {
		m.Workload = "one"
		r.add(m)
	}
	if err := c.write(r); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(c.out, "gpu-a-card.md")); !strings.Contains(string(text), "\n- one in bf16, JAX, microbatch 0: not done\n") {
		t.Errorf("the failed measurement is not listed in\n%s", text)
	}
	path := filepath.Join(c.out, "README.md")
	store := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	store("nothing\n")
	if err := c.writeTables(path); err == nil || !strings.Contains(err.Error(), "<!-- cpu -->") {
		t.Errorf("a file without table markers: %v", err)
	}
	if err := os.WriteFile(filepath.Join(c.out, "cpu.json"), []byte(`{"measurements":[]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	store("a\n<!-- cpu -->\nold\n<!-- end -->\nb\n<!-- gpu -->\n<!-- end -->\nc\n")
	if err := c.writeTables(path); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	for _, want := range []string{"A Card, fp32, 2026-01-02:", "| one | **1.00** | – | 2.00 | – | – | 0.50 | 10 / 300 |", "| one | **0.50** | – | – | – | – | – | – |", "| wrn16-4-16 | not run | |", "c\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the tables do not contain %q", want)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Error("the old table was not replaced")
	}
}
