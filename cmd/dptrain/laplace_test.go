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

// A run with Laplace noise names it in its ledger, summary, report, model card and preview, reaches
// its budget and no more, and is resumed with it.
func TestTrain_LaplaceMechanism(t *testing.T) {
	inWorkshop(t)
	settings := brief + " --mechanism laplace --steps 3 --epsilon 4 --delta 1e-5"
	v := runJSON(t, settings+" --out run")
	if v["mechanism"] != "laplace" || v["arithmetic"] != "exact" || fmt.Sprint(v["warnings"]) != "[]" && strings.Contains(fmt.Sprint(v["warnings"]), "arithmetic") {
		t.Errorf("the summary has mechanism %v, arithmetic %v, warnings %v", v["mechanism"], v["arithmetic"], v["warnings"])
	}
	if e := v["epsilon"].(float64); !(e <= 4 && e > 3.9) || v["steps"].(float64) != 3 {
		t.Errorf("ε = %v after %v lots", e, v["steps"])
	}
	h, err := ledger.Read(filepath.Join("run", "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if q := h.Lots[0].Lot.Queries; len(q) != 1 || q[0].Mechanism != ledger.DiscreteLaplace || q[0].Sensitivity != 1 {
		t.Errorf("the ledger has %+v", q)
	}
	for _, file := range []string{"report.html", "MODEL_CARD.md"} {
		if text := string(readFile(t, filepath.Join("run", file))); !strings.Contains(text, "discrete Laplace noise") || !strings.Contains(text, "holds for the released bits") {
			t.Errorf("%s does not name the mechanism", file)
		}
	}
	if stdout, stderr, code := dptrain(settings + " --dry-run"); code != exitcode.Done || !strings.Contains(stdout, "discrete Laplace noise: its scale over the bound") {
		t.Errorf("the preview is %s%s", stdout, stderr)
	}
	if stdout, stderr, code := dptrain("train --resume run --steps 4" + columns); code != exitcode.Done {
		t.Errorf("resumed: exit %d, %s%s", code, stdout, stderr)
	}
	if _, stderr, code := dptrain("train --resume run --steps 5 --mechanism gaussian" + columns); code != exitcode.Usage || !strings.Contains(stderr, "distribution is gaussian (it was laplace)") {
		t.Errorf("resumed with another mechanism: exit %d, %s", code, stderr)
	}
	if err := os.WriteFile("settings.yaml", []byte("mechanism: laplace\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if v := runJSON(t, brief+" --steps 1 --noise 2 --config settings.yaml --out other"); v["mechanism"] != "laplace" {
		t.Errorf("with a configuration file: mechanism %v", v["mechanism"])
	}
}

func TestTrain_RefusesWithLaplace(t *testing.T) {
	inWorkshop(t)
	for _, flags := range []string{"--clipping joint", "--clipping per-layer", "--arithmetic float", "--sampling truncated", "--device gorgonia", "--mechanism cauchy"} {
		line := brief + " --mechanism laplace --steps 2 --noise 2 " + flags
		_, stderr, code := dptrain(line)
		if want := strings.Fields(flags)[0]; code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Count(strings.TrimSpace(stderr), "\n") > 0 {
			t.Errorf("%s: exit %d, %q", flags, code, stderr)
		}
	}
	for flags, want := range map[string]string{"--clipping adaptive": "a constant bound", "--group a=*weight --group b=*bias": "as one group", "--group a=*,noise=1": "without noise of its own", "--group a=*,scale=2": "without scales"} {
		checkUsageError(t, brief+" --mechanism laplace --steps 2 "+flags, want)
	}
}
