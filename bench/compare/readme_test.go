package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme: the README's tables, and the picture beside them, are those of the results.
func TestReadme(t *testing.T) {
	c := comparison{out: filepath.Join("..", "results")}
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.readme(path); err != nil {
		t.Fatal(err)
	}
	if made, err := os.ReadFile(path); err != nil || string(made) != string(text) {
		t.Errorf("the README's tables are of other results (%v): go run ./bench/compare -readme README.md", err)
	}
	r, err := c.load("cpu.json")
	if err != nil {
		t.Fatal(err)
	}
	if drawn, err := os.ReadFile(filepath.Join(c.out, "cpu.svg")); err != nil || string(drawn) != r.picture() {
		t.Errorf("cpu.svg is of other results (%v)", err)
	}
}

// TestReadmeOfACard: a card's results become a table for each precision, which says what
// was not run, and a README
// without a place for tables is left alone.
func TestReadmeOfACard(t *testing.T) {
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
	if text, _ := os.ReadFile(filepath.Join(c.out, "gpu-a-card.md")); !strings.Contains(string(text), "\n- one in bf16, JAX, records at a time 0: not done\n") {
		t.Errorf("what was not measured is not in\n%s", text)
	}
	path := filepath.Join(c.out, "README.md")
	keep := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	keep("nothing\n")
	if err := c.readme(path); err == nil || !strings.Contains(err.Error(), "<!-- cpu -->") {
		t.Errorf("a README without a place for tables: %v", err)
	}
	if err := os.WriteFile(filepath.Join(c.out, "cpu.json"), []byte(`{"measurements":[]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	keep("a\n<!-- cpu -->\nold\n<!-- end -->\nb\n<!-- gpu -->\n<!-- end -->\nc\n")
	if err := c.readme(path); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	for _, want := range []string{"A Card, fp32, 2026-01-02:", "| one | **1.00** | – | 2.00 | – | – | 0.50 | 10 / 300 |", "| one | **0.50** | – | – | – | – | – | – |", "| wrn16-4-16 | not run | |", "c\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the README lacks %q", want)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Error("the old table still stands")
	}
}
