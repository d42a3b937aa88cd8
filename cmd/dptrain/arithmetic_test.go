package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// The default of a CPU is exact: all releases in the ledger are rounded Gaussians. The summary, the
// report, the model card and the printed result state what that means. A float run has a warning.
func TestTrain_Arithmetic(t *testing.T) {
	inWorkshop(t)
	const extras = " --steps 2 --noise 2 --delta 1e-5 --clipping adaptive --lot 40 --validation-split 0.2 --validation-noise 4 --project 2 --project-noise 9 --device cpu"
	for _, run := range []struct {
		flags, arithmetic, meaning string
		mechanism                  ledger.Mechanism
	}{
		{"", "exact", "holds for the released bits", ledger.RoundedGaussian},
		{" --arithmetic exact", "exact", "holds for the released bits", ledger.RoundedGaussian},
		{" --arithmetic float", "float", "is proved over the reals", ledger.Gaussian},
	} {
		out := "run" + strings.ReplaceAll(run.flags, " ", "_")
		v := runJSON(t, brief+extras+run.flags+" --out "+out)
		if v["arithmetic"] != run.arithmetic {
			t.Errorf("%q: arithmetic %v", run.flags, v["arithmetic"])
		}
		if warned := strings.Contains(fmt.Sprint(v["warnings"]), "arithmetic is float"); warned != (run.arithmetic == "float") {
			t.Errorf("%q: warnings %v", run.flags, v["warnings"])
		}
		h, err := ledger.Read(filepath.Join(out, "ledger.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		groups := map[string]bool{}
		for _, lot := range h.Lots {
			for _, q := range lot.Lot.Queries {
				groups[q.Group] = true
				if q.Mechanism != run.mechanism {
					t.Errorf("%q: query %+v", run.flags, q)
				}
			}
		}
		if len(groups) != 4 { // gradient, its count, second moments, validation
			t.Errorf("%q: releases of %v", run.flags, groups)
		}
		for _, file := range []string{"report.html", "MODEL_CARD.md"} {
			if text := string(readFile(t, filepath.Join(out, file))); !strings.Contains(text, run.meaning) {
				t.Errorf("%q: %s does not state that the guarantee %s", run.flags, file, run.meaning)
			}
		}
		stdout, _, code := dptrain("ledger show " + out)
		if code != exitcode.Done || !strings.Contains(stdout, string(run.mechanism)) {
			t.Errorf("%q: exit %d, %s", run.flags, code, stdout)
		}
		if code := mustExit(t, "ledger verify "+out); code != exitcode.Done {
			t.Errorf("%q: ledger verify exits with %d", run.flags, code)
		}
	}
	stdout, _, _ := dptrain("train --resume run --steps 3" + columns)
	if !strings.Contains(stdout, "arithmetic exact: the guarantee holds for the released bits") {
		t.Errorf("resumed: %s", stdout)
	}
}

func mustExit(t *testing.T, line string) int {
	t.Helper()
	_, _, code := dptrain(line)
	return code
}

// A run is resumed with its arithmetic, and not with another. The configuration file has the key.
func TestResume_KeepsArithmetic(t *testing.T) {
	inWorkshop(t)
	settings := brief + " --steps 2 --noise 2 --delta 1e-5 --device cpu"
	if err := os.WriteFile("float.yaml", []byte("arithmetic: float\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for arithmetic, flags := range map[string]string{"exact": "", "float": " --config float.yaml"} {
		if v := runJSON(t, settings+flags+" --out "+arithmetic); v["arithmetic"] != arithmetic {
			t.Errorf("%q: arithmetic %v", flags, v["arithmetic"])
		}
		if v := runJSON(t, "train --resume "+arithmetic+" --steps 3"+columns); v["arithmetic"] != arithmetic || v["steps"] != 3.0 {
			t.Errorf("resumed %s: arithmetic %v, %v lots", arithmetic, v["arithmetic"], v["steps"])
		}
	}
	for run, other := range map[string]string{"exact": "float", "float": "exact"} {
		if _, stderr, code := dptrain("train --resume " + run + " --steps 4 --arithmetic " + other + columns); code != exitcode.Usage || !strings.Contains(stderr, "arithmetic is ") {
			t.Errorf("resumed %s with %s: exit %d, %s", run, other, code, stderr)
		}
	}
}

func TestTrain_RefusesArithmetic(t *testing.T) {
	inWorkshop(t)
	for flags, want := range map[string]string{
		" --arithmetic real --noise 2":                                             "--arithmetic",
		" --arithmetic exact --non-private":                                        "--arithmetic and --non-private exclude each other",
		" --noise 1e-13 --device cpu --arithmetic exact":                           "float",
		" --noise 1e6 --validation-split 0.2 --validation-noise 1e30 --device cpu": "float",
	} {
		checkUsageError(t, brief+" --steps 2 --delta 1e-5 --out refused"+flags, want)
	}
	if v := runJSON(t, brief+" --steps 2 --noise 2 --delta 1e-5 --device gorgonia --out oracle"); v["arithmetic"] != "exact" {
		t.Errorf("the default of the device gorgonia: %v", v["arithmetic"])
	}
}

func TestBudgetStatement_NamesArithmetic(t *testing.T) {
	const plan = "budget statement --records 60000 --lot 600 --steps 1000 --noise 4"
	for flags, want := range map[string]string{"": "proved over the reals", " --arithmetic float": "proved over the reals", " --arithmetic exact": "holds for the released bits"} {
		if text := runText(t, plan+flags); strings.Count(text, "released bits")+strings.Count(text, "over the reals") != 1 || !strings.Contains(text, want) {
			t.Errorf("%q: %s", flags, text)
		}
	}
	if _, stderr, code := dptrain(plan + " --arithmetic real"); code != exitcode.Usage || !strings.Contains(stderr, "--arithmetic") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}
