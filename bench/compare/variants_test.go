package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/bench"
	"github.com/dptrain/dptrain/cuda"
)

// The variants have a table of their own, and the fastest is named unless it computes something else.
func TestVariants_RatiosAndFastest(t *testing.T) {
	r := results{Machine: machine{GPU: "a card"}}
	for _, m := range []measurement{
		{Program: "dptrain", Median: 2}, {Program: "PyTorch", Median: 1}, {Program: "dptrain, float", Median: 1}, {Program: "dptrain, own kernels", Error: "not done"},
		{Program: "dptrain, graph in sequence", Median: 2.5}, {Program: secondKernels, Median: 1.9},
	} {
		m.Workload, m.Precision = "one", "fp32"
		r.add(m)
	}
	r.add(measurement{Workload: "two", Precision: "fp32", Program: "dptrain", Median: 3})
	r.add(measurement{Workload: "one", Precision: "bf16", Program: "dptrain", Median: 3})
	var lines strings.Builder
	r.writeRatios(&lines, regexp.MustCompile(""))
	if want := "one fp32: ÷ dptrain, float 0.50, graph in sequence 1.25, second kernels 0.95; fastest: dptrain, second kernels\n"; lines.String() != want {
		t.Errorf("the ratios are %q, want %q", lines.String(), want)
	}
	text := r.markdown()
	if want := "| one | 2.00 | 1.00 (0.50) | – | 2.50 (1.25) | – | 1.90 (0.95) |\n"; strings.Count(text, want) != 1 || strings.Count(text, "### Variants") != 1 {
		t.Errorf("the tables do not contain one line %q:\n%s", want, text)
	}
	if row := "| one | 2.00 | – | 1.00 | – |"; !strings.Contains(text, row) {
		t.Errorf("the variants are in the table of programs:\n%s", text)
	}
}

// A variant runs dptrain's step with its variables; second kernels run only if they are there.
func TestVariants_Commands(t *testing.T) {
	gpu := results{Machine: machine{GPU: "a card"}}
	c := comparison{device: "cuda", precisions: []cuda.Precision{cuda.FP32}, time: time.Second}
	found := map[string]string{}
	for _, p := range gpu.measurementOrder("second.zip") {
		if p.script != "" {
			continue
		}
		cmd, err := c.command(t.Context(), bench.Workloads()[0], p, cuda.FP32, 0)
		if err != nil {
			t.Fatal(err)
		}
		found[p.name] = cmd.Args[2] + " " + strings.Join(cmd.Env[len(os.Environ()):], " ")
	}
	want := map[string]string{
		"dptrain": "logistic-256/private ", "dptrain plain": "logistic-256/plain ", "dptrain, float": "logistic-256/float ",
		"dptrain, own kernels":       "logistic-256/private DPTRAIN_CUBLASLT=none DPTRAIN_CUDNN=none",
		"dptrain, graph in sequence": "logistic-256/private DPTRAIN_GRAPH=chain",
		"dptrain, separate launches": "logistic-256/private DPTRAIN_GRAPH=separate",
		secondKernels:                "logistic-256/private DPTRAIN_KERNELS=second.zip",
	}
	if !maps.Equal(found, want) {
		t.Errorf("commands %q, want %q", found, want)
	}
	for _, r := range []results{gpu, {}} {
		if slices.ContainsFunc(r.measurementOrder(""), func(p program) bool { return p.name == secondKernels || r.Machine.GPU == "" && isVariant(p.name) }) {
			t.Errorf("a variant is timed that is not there: %q", r.Machine.GPU)
		}
	}
}
