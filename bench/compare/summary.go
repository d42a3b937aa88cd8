package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/bench"
)

// writeTables replaces the tables of a Markdown file by those of the result files. A table is the
// text between a line <!-- cpu --> or <!-- gpu --> and a line <!-- end -->.
func (c *comparison) writeTables(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	whole := string(text)
	for _, table := range []struct {
		name string
		make func() (string, error)
	}{{"cpu", c.cpuTable}, {"gpu", c.gpuTables}} {
		before, rest, found := strings.Cut(whole, "<!-- "+table.name+" -->\n")
		_, after, ended := strings.Cut(rest, "<!-- end -->\n")
		if !found || !ended {
			return fmt.Errorf("%s: the file needs a line <!-- %s --> followed by a line <!-- end -->", path, table.name)
		}
		made, err := table.make()
		if err != nil {
			return err
		}
		whole = before + "<!-- " + table.name + " -->\n\n" + made + "\n<!-- end -->\n" + after
	}
	return os.WriteFile(path, []byte(whole), 0o644)
}

func (c *comparison) readResults(name string) (r results, err error) {
	text, err := os.ReadFile(filepath.Join(c.out, name))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func (c *comparison) cpuTable() (string, error) {
	r, err := c.readResults("cpu.json")
	return r.summaryTable(), err
}

// gpuTables returns a table for each card and precision, or a note if there are no results.
func (c *comparison) gpuTables() (string, error) {
	files, err := filepath.Glob(filepath.Join(c.out, "gpu-*.json"))
	if err != nil {
		return "", err
	}
	var s strings.Builder
	for _, file := range files {
		r, err := c.readResults(filepath.Base(file))
		if err != nil {
			return "", err
		}
		for _, precision := range r.distinct(func(m measurement) string { return m.Precision }) {
			fmt.Fprintf(&s, "%s, %s, %s:\n\n%s\n", r.Machine.GPU, precision, r.Date, r.withPrecision(precision).summaryTable())
		}
	}
	if s.Len() == 0 {
		return "No GPU results exist yet: `bench/results/` contains none.\n", nil
	}
	return s.String(), nil
}

// summaryTable returns the summary of the results. On a GPU, a workload that was not measured has a
// row "not run".
func (r results) summaryTable() string {
	var s strings.Builder
	fmt.Fprintln(&s, "| workload | private | not private | PyTorch, not private | JAX, not private | fastest private peer | ours ÷ PyTorch | MB, ours / PyTorch |")
	fmt.Fprintln(&s, "|---|---:|---:|---:|---:|---:|---:|---:|")
	measured := r.distinct(func(m measurement) string { return m.Workload })
	for _, workload := range measured {
		cell := func(m measurement, ok bool) string {
			if !ok {
				return "–"
			}
			return threeDigits(m.Median)
		}
		peer, ratio, megabytes := "–", "–", "–"
		if m, ok := r.bestPeer(workload); ok {
			peer = threeDigits(m.Median) + " (" + m.Program + ")"
		}
		ours, there := r.best(workload, "dptrain")
		ordinary, ok := r.baseline(workload)
		if there && ok {
			ratio = fmt.Sprintf("%.2f", ours.Median/ordinary.Median)
			megabytes = fmt.Sprintf("%.0f / %.0f", ours.Memory, ordinary.Memory)
		}
		fmt.Fprintf(&s, "| %s | **%s** | %s | %s | %s | %s | %s | %s |\n", workload, cell(ours, there), cell(r.best(workload, "dptrain plain")),
			cell(ordinary, ok), cell(r.best(workload, "JAX")), peer, ratio, megabytes)
	}
	for _, w := range bench.Workloads() {
		if r.Machine.GPU != "" && !slices.Contains(measured, w.Name) {
			fmt.Fprintf(&s, "| %s | not run | | | | | | |\n", w.Name)
		}
	}
	return s.String()
}
