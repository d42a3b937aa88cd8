package main

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
)

func TestBudget_EchoesInputs(t *testing.T) {
	const rest = " --records 60000 --accountant rdp"
	for line, computed := range map[string]string{
		"budget epsilon --lot 600 --noise 4 --steps 1000":                    "epsilon",
		"budget noise --lot 600 --epsilon 2 --epochs 10":                     "noise_multiplier",
		"budget steps --lot 600 --noise 4 --epsilon 1":                       "steps",
		"budget rate --noise 4 --steps 1000 --epsilon 1":                     "rate",
		"budget delta --lot 600 --noise 4 --steps 1000 --epsilon 0.5":        "delta",
		"budget epsilon --lot 600 --groups 1:8,0.5:4 --steps 1000":           "epsilon",
		"budget noise --lot 600 --groups 1:8,0.5:4 --epochs 3.5 --epsilon 1": "noise_multiplier",
		"budget epsilon --lot 600 --noise 4 --epochs 3 --sampling fixed":     "epsilon",
		"budget epsilon --lot 600 --noise 4 --epochs 3 --sampling shuffle":   "epsilon",
		"budget epsilon --noise 40 --epochs 3 --sampling none":               "epsilon",
		"budget statement --lot 600 --noise 4 --steps 1000":                  "statement",
	} {
		v := runJSON(t, line+rest)
		for _, key := range []string{computed, "epsilon", "delta", "accountant", "adjacency", "order", "sampling", "rate", "records", "steps", "epochs", "noise_multiplier"} {
			if v[key] == nil {
				t.Errorf("%s: %s is missing in %v", line, key, v)
			}
		}
		if computed != "delta" && v["delta"] != 1e-6 {
			t.Errorf("%s: δ is %v by default, want 1e-6", line, v["delta"])
		}
	}
	if got := runJSON(t, "budget epsilon --lot 600 --epochs 60 --noise 2"+rest)["steps"]; got != 6000.0 {
		t.Errorf("60 epochs of 100 lots are %v steps", got)
	}
	if got := runJSON(t, "budget epsilon --lot 7000 --epochs 2.15 --noise 9"+rest)["steps"]; got != 18.0 {
		t.Errorf("18.4 lots are %v, but 18 for train", got)
	}
	if got := runJSON(t, "budget epsilon --delta 1e-5 --records 105 --lot 4 --epochs 2 --noise 9")["steps"]; got != 53.0 {
		t.Errorf("52.5 lots are %v, but 53 for train", got)
	}
	if got := runJSON(t, "budget epsilon --lot 7000 --epochs 2 --noise 9 --sampling shuffle"+rest)["steps"]; got != 18.0 {
		t.Errorf("2 passes of 9 lots, the last one short, are %v steps", got)
	}
	// Two equal groups of multiplier z are one group of multiplier z/√2.
	if got := runJSON(t, "budget epsilon --lot 600 --steps 10 --groups 3:12,1:4"+rest)["noise_multiplier"].(float64); got < 2.8284271 || got > 2.8284272 {
		t.Errorf("groups of noise multiplier 4 and 4 have the joint multiplier %v", got)
	}
}

// budget epsilon with a calibrated value, as JSON or as printed, never exceeds the target and is
// within 0.1% of it (for steps and whole lots: as near as possible).
func TestBudget_CalibrationsMeetTarget(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pld", "rdp"} {
		for _, test := range []struct{ unknown, given, key string }{
			{"noise", "--rate 0.04 --steps 2000", "noise_multiplier"},
			{"rate", "--noise 1.3 --steps 2000", "rate"},
			{"steps", "--noise 1.3 --rate 0.01", "steps"},
			{"noise", "--sampling fixed --records 5000 --lot 200 --steps 2000", "noise_multiplier"},
			{"steps", "--sampling fixed --records 5000 --lot 200 --noise 3", "steps"},
		} {
			for _, target := range []string{"0.7", "8"} {
				rest := fmt.Sprintf(" %s --delta 1e-5 --accountant %s", test.given, name)
				line := fmt.Sprintf("budget %s --epsilon %s", test.unknown, target) + rest
				quiet, _, code := dptrain(line + " --quiet")
				if code != exitcode.Done {
					t.Fatalf("%s: exit %d", line, code)
				}
				exact := strconv.FormatFloat(runJSON(t, line)[test.key].(float64), 'g', -1, 64)
				if test.unknown == "steps" {
					exact = strings.TrimSpace(quiet)
				}
				want, _ := strconv.ParseFloat(target, 64)
				for _, value := range []string{strings.TrimSpace(quiet), exact} {
					back := runJSON(t, fmt.Sprintf("budget epsilon --%s %s", test.unknown, value)+rest)["epsilon"].(float64)
					if back > want || test.unknown != "steps" && back < want*0.999 {
						t.Errorf("%s gives %s, which spends %v", line, value, back)
					}
				}
			}
		}
	}
}

// budget epsilon with a computed δ, as JSON or as printed, never exceeds the given ε.
func TestBudget_DeltaMeetsTarget(t *testing.T) {
	t.Parallel()
	const poisson = "--rate 0.01 --noise 1.1 --steps 3000"
	quiet, _, _ := dptrain("budget delta --quiet --epsilon 3 " + poisson)
	if exact := runJSON(t, "budget delta --epsilon 3 "+poisson)["delta"].(float64); strings.TrimSpace(quiet) != number.RoundUp(exact) {
		t.Errorf("δ is %v, and printed as %s", exact, quiet)
	}
	// This also holds for a δ that is too small for a float64.
	if far := runJSON(t, "budget delta --epsilon 100 --rate 0.1 --noise 1 --steps 10"); !(far["delta"].(float64) <= 1.001e-300) || !(far["epsilon_spent"].(float64) <= 100) {
		t.Errorf("δ at ε = 100 is %v, and spends %v", far["delta"], far["epsilon_spent"])
	}
	for _, name := range accountant.Names() {
		for _, given := range []string{poisson, "--sampling none --noise 9 --steps 20", "--sampling fixed --records 9999 --lot 100 --noise 2 --steps 999"} {
			for target, epsilon := range map[string]float64{"0.9": 0.9, "3": 3} {
				if name == "strong" && strings.Contains(given, "fixed") && target == "3" {
					continue // takes seconds
				}
				rest := fmt.Sprintf(" %s --accountant %s", given, name)
				line := "budget delta --epsilon " + target + rest
				delta := runJSON(t, line)["delta"].(float64)
				if delta == 1 {
					continue
				}
				for _, value := range []string{number.RoundUp(delta), strconv.FormatFloat(delta, 'g', -1, 64)} {
					back := runJSON(t, "budget epsilon --delta "+value+rest)["epsilon"].(float64)
					if back > epsilon || back < epsilon*0.999 {
						t.Errorf("%s gives %s, which spends %v", line, value, back)
					}
				}
			}
		}
	}
}

// For lots of a fixed size, the spent ε is shown both as published and as proven.
func TestBudget_ShowsPublishedAndProven(t *testing.T) {
	t.Parallel()
	const lots = " --sampling fixed --records 50000 --lot 1024 --noise 4"
	for _, line := range []string{"noise --steps 10000 --delta 1e-5 --epsilon 5" + strings.TrimSuffix(lots, " --noise 4"), "steps --delta 1e-5 --epsilon 5" + lots, "delta --steps 10000 --epsilon 5" + lots} {
		v := runJSON(t, "budget "+line)
		proven, published := v["epsilon_spent"].(float64), v["epsilon_published"].(float64)
		if v["epsilon"] != 5.0 || !(published < 4.5) || !(proven > 4.99 && proven <= 5) {
			t.Errorf("%s: target %v, published %v, proven %v", line, v["epsilon"], published, proven)
		}
		stdout, _, _ := dptrain("budget " + line)
		for _, want := range []string{"epsilon spent      " + number.RoundUp(proven) + "\n", "published epsilon  " + number.RoundUp(published) + " (holds only"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s does not print %q:\n%s", line, want, stdout)
			}
		}
		if note := "The epsilon " + number.RoundUp(proven) + " is proven for any data (Zhu"; !strings.HasPrefix(line, "delta") && !strings.Contains(v["note"].(string), note) {
			t.Errorf("%s does not note %q: %s", line, note, v["note"])
		}
	}
	v := runJSON(t, "budget epsilon --steps 10000 --delta 1e-5"+lots)
	if shown := runText(t, "budget epsilon --steps 10000 --delta 1e-5"+lots); !strings.Contains(shown, "published epsilon  4.8") {
		t.Errorf("the published ε is not shown:\n%s", shown)
	}
	if e := v["epsilon_published"].(float64); !(math.Abs(e-4.89011) <= 5e-3) || !(v["epsilon"].(float64) > 5.8) {
		t.Errorf("%v", v)
	}
}

// The curves are those of figure 2 of Abadi et al. 2016, whose text gives ε after 100 epochs (1.26
// by moments, 9.34 by strong composition) and after 400 epochs (2.55 and 24.22).
func TestBudgetCurve_Figure2(t *testing.T) {
	t.Chdir(t.TempDir())
	const line = "budget curve --rate 0.01 --noise 4 --epochs 400 --delta 1e-5 --accountants strong,moments --points 20 --out "
	v := runJSON(t, line+"figure2.csv")
	read := map[string]map[float64]float64{}
	for _, c := range v["curves"].([]any) {
		c := c.(map[string]any)
		of := map[float64]float64{}
		read[c["accountant"].(string)] = of
		for i, epsilon := range c["epsilon"].([]any) {
			of[v["at_epochs"].([]any)[i].(float64)] = epsilon.(float64)
		}
	}
	for _, c := range []struct {
		name                    string
		epochs, want, tolerance float64
	}{{"moments", 100, 1.26, 5e-3}, {"strong", 100, 9.34, 5e-3}, {"moments", 400, 2.55, 0.02}, {"strong", 400, 24.22, 5e-3}} {
		nearest, got := 0.0, 0.0
		for epochs, epsilon := range read[c.name] {
			if math.Abs(epochs-c.epochs) < math.Abs(nearest-c.epochs) {
				nearest, got = epochs, epsilon
			}
		}
		if !(math.Abs(nearest-c.epochs) <= 1) || !(math.Abs(got-c.want) <= c.tolerance*c.want) {
			t.Errorf("%s after %v epochs: %v, published %v after %v", c.name, nearest, got, c.want, c.epochs)
		}
	}
	if _, stderr, code := dptrain(line + "figure2.svg"); code != exitcode.Done {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	picture := readFile(t, "figure2.svg")
	for _, text := range []string{"epochs", "noise 4", "rate 0.01", report.AccountantName("moments"), report.AccountantName("strong")} {
		if !bytes.Contains(picture, []byte(text)) {
			t.Errorf("the picture lacks %q", text)
		}
	}
}

// The asymptotic bound is somewhat above the moments accountant's ε. Its note states that it is an
// approximation. Other accountants do not have it.
func TestBudgetEpsilon_Asymptotic(t *testing.T) {
	t.Parallel()
	const line = "budget epsilon --rate 0.01 --noise 4 --steps 10000 --delta 1e-5"
	exact := runJSON(t, line+" --accountant moments")["epsilon"].(float64)
	v := runJSON(t, line+" --accountant moments --asymptotic")
	if got := v["epsilon"].(float64); got < exact || got > 1.5*exact || v["accountant"] != "moments" || !strings.Contains(v["note"].(string), "may have spent more") {
		t.Errorf("the moments accountant gives %v, its asymptotic bound %v", exact, v)
	}
	for _, wrong := range []string{" --asymptotic", " --accountant moments --asymptotic --sampling none --rate 1"} {
		if _, stderr, code := dptrain(line + wrong); code != exitcode.Usage || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", wrong, code, stderr)
		}
	}
}

func TestBudgetCompare(t *testing.T) {
	t.Parallel()
	const run = " --rate 0.01 --noise 4 --steps 1000 --delta 1e-5"
	rows := runJSON(t, "budget compare"+run)["rows"].([]any)
	if len(rows) != len(accountant.Names()) {
		t.Fatalf("%d rows for %d accountants", len(rows), len(accountant.Names()))
	}
	for i, name := range accountant.Names() {
		row := rows[i].(map[string]any)
		if row["accountant"] != name {
			t.Errorf("row %d is %v, want %s", i, row["accountant"], name)
		}
		alone, err := accountant.Epsilon(accountant.Plan{
			Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01}, Steps: 1000, Noise: 4, Adjacency: ledger.AddRemove,
		}.History(), 1e-5, name)
		if err != nil || row["epsilon"] != alone.Epsilon {
			t.Errorf("row %v, the accountant alone gives %v, %v", row, alone, err)
		}
	}
	if stdout, _, code := dptrain("budget compare" + run); code != exitcode.Done || strings.Count(stdout, "\n") < len(rows)+1 {
		t.Errorf("exit %d\n%s", code, stdout)
	}
}

func TestBudgetCurve(t *testing.T) {
	t.Chdir(t.TempDir())
	const run = "budget curve --rate 0.01 --noise 4 --delta 1e-5 --accountants pld,rdp --points 20"
	for _, name := range []string{"c.svg", "c.png", "c.csv"} {
		if _, stderr, code := dptrain(run + " --epochs 5 --out " + name); code != exitcode.Done {
			t.Fatalf("%s: exit %d, %s", name, code, stderr)
		}
	}
	file, err := os.Open("c.png")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if picture, err := png.Decode(file); err != nil || picture.Bounds().Dx() < 1000 {
		t.Errorf("c.png: %v", err)
	}
	svg := readFile(t, "c.svg")
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("c.svg: %v", err)
		}
	}
	for _, text := range []string{"epochs", "Rényi", "δ = 1e-5"} {
		if !bytes.Contains(svg, []byte(text)) {
			t.Errorf("c.svg lacks %q", text)
		}
	}
	table := readFile(t, "c.csv")
	rows, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	if err != nil || strings.Join(rows[0], " ") != "steps epochs pld rdp" || len(rows) != 21 {
		t.Fatalf("%d rows, first %v, %v", len(rows), rows[0], err)
	}
	for i := 2; i < len(rows); i++ {
		for j := range rows[i] {
			before, _ := strconv.ParseFloat(rows[i-1][j], 64)
			now, err := strconv.ParseFloat(rows[i][j], 64)
			if err != nil || now <= before && j < 2 || now < before {
				t.Errorf("column %s falls from %s to %s", rows[0][j], rows[i-1][j], rows[i][j])
			}
		}
	}
	if last := rows[20]; last[0] != "500" || last[1] != "5" {
		t.Errorf("the last row is %v, want step 500, epoch 5", last)
	}

	// If the costs differ greatly, the axis is logarithmic and every curve is drawn.
	if _, stderr, code := dptrain("budget curve --rate 0.01 --noise 4 --delta 1e-5 --points 20 --steps 1000 --out all.svg"); code != exitcode.Done {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	all := readFile(t, "all.svg")
	for _, name := range accountant.Names() {
		if !bytes.Contains(all, []byte(report.AccountantName(name))) {
			t.Errorf("all.svg does not show %s", name)
		}
	}

	shown := runText(t, "budget curve --sampling shuffle --records 60 --lot 6 --noise 40 --steps 20 --out shuffled.svg")
	if !strings.HasPrefix(shown, "wrote shuffled.svg: ") || !strings.Contains(shown, "Shuffled lots are not amplified") || strings.Count(shown, "\n") != 1+len(accountant.Names()) || !bytes.Contains(readFile(t, "shuffled.svg"), []byte("shuffle, rate 0.1, noise 40")) {
		t.Errorf("the picture does not name the sampling, or the output is incomplete:\n%s", shown)
	}
	v := runJSON(t, run+" --steps 7 --out c.csv")
	if at := v["at"].([]any); len(at) != 7 || at[0] != 1.0 || at[6] != 7.0 {
		t.Errorf("7 steps are drawn at %v", at)
	}
}

// With Laplace noise every verb states what a run with --mechanism laplace costs: the noise that it
// calibrates reaches ε, and the ε of its noise is not below that of the run's ledger.
func TestBudget_Laplace(t *testing.T) {
	inWorkshop(t)
	const plan = " --records 4000 --lot 200 --delta 1e-5 --mechanism laplace"
	value := func(line, key string) float64 {
		t.Helper()
		v := runJSON(t, line)
		if v["mechanism"] != "laplace" {
			t.Errorf("%s: mechanism %v", line, v["mechanism"])
		}
		return v[key].(float64)
	}
	run := runJSON(t, brief+" --accountant pld --mechanism laplace --steps 3 --epsilon 4 --delta 1e-5 --out run")
	z := run["noise_multiplier"].(float64)
	if noise := value("budget noise --steps 3 --epsilon 4"+plan, "noise_multiplier"); math.Abs(noise/z-1) > 1e-3 {
		t.Errorf("noise %v, the run has %v", noise, z)
	}
	spent := runJSON(t, "ledger epsilon run --delta 1e-5")["epsilon"].(float64)
	if e := value(fmt.Sprintf("budget epsilon --steps 3 --noise %v", z)+plan, "epsilon"); e < spent*(1-1e-9) || e > spent*(1+1e-4) {
		t.Errorf("ε = %v, the run spent %v", e, spent)
	}
	steps := value("budget steps --noise 2 --epsilon 1"+plan, "steps")
	for more, within := range []bool{true, false} {
		if e := value(fmt.Sprintf("budget epsilon --noise 2 --steps %v", steps+float64(more))+plan, "epsilon"); (e <= 1) != within {
			t.Errorf("%v steps cost %v", steps+float64(more), e)
		}
	}
	rate := value("budget rate --noise 2 --steps 100 --epsilon 1 --delta 1e-5 --mechanism laplace", "rate")
	if e := value(fmt.Sprintf("budget epsilon --noise 2 --steps 100 --rate %v --delta 1e-5 --mechanism laplace", rate), "epsilon"); !(e <= 1 && e > 0.999) {
		t.Errorf("the rate %v costs %v", rate, e)
	}
	// Two releases of all records have the ε of basic composition, 2/noise, at every δ.
	if e := value("budget epsilon --sampling none --noise 4 --steps 2 --delta 1e-300 --mechanism laplace --accountant naive", "epsilon"); math.Abs(e-0.5) > 1e-5 {
		t.Errorf("two releases of all records cost %v, want 1/2", e)
	}
	if d := value("budget delta --sampling none --noise 4 --steps 2 --epsilon 0.51 --mechanism laplace", "delta"); d != 0 {
		t.Errorf("δ = %v above the pure ε", d)
	}
	if rows := runJSON(t, "budget compare --noise 2 --steps 100"+plan)["rows"].([]any); len(rows) != len(accountant.Names())-1 {
		t.Errorf("%d rows", len(rows))
	}
	runJSON(t, "budget curve --noise 2 --steps 20 --out curve.csv"+plan)
	text := runJSON(t, "budget statement --noise 2 --steps 100"+plan)["statement"].(string)
	if !strings.Contains(text, "discrete Laplace noise (noise multiplier 2)") || !strings.Contains(text, "holds for the released bits") {
		t.Errorf("the statement is %s", text)
	}
	for flags, want := range map[string]string{
		"epsilon --groups 1:4":                                "requires Gaussian noise",
		"epsilon --noise 2 --sampling truncated":              "requires Gaussian noise",
		"epsilon --noise 2 --accountant gdp":                  "Gaussian noise only",
		"epsilon --noise 2 --accountant moments --asymptotic": "Gaussian noise",
		"epsilon --noise 2 --mechanism cauchy":                "choose from gaussian, laplace",
	} {
		checkUsageError(t, "budget "+strings.Replace(flags, " ", plan+" --steps 3 ", 1), want)
	}
}

// --allocation divides the noise of all groups together, with the values of McMahan et al. 2019, section 4,
// computed by hand; ε is that of one group with this noise.
func TestBudget_Allocation(t *testing.T) {
	const rest = " --records 60000 --lot 600 --steps 100 --delta 1e-5 --accountant rdp"
	one := runJSON(t, "budget epsilon --noise 0.5"+rest)["epsilon"].(float64)
	for allocation, want := range map[string][2]float64{"proportional": {math.Sqrt2, 1.5 * math.Sqrt2}, "dimension": {2, math.Sqrt(3)}} {
		got := runJSON(t, "budget epsilon --noise 0.5 --groups 2/1,3/3 --allocation "+allocation+rest)
		for i, g := range got["groups"].([]any) {
			if noise := g.(map[string]any)["noise"].(float64); math.Abs(noise-want[i]) > 1e-12 {
				t.Errorf("%s: group %d has noise %v, want %v", allocation, i, noise, want[i])
			}
		}
		if e := got["epsilon"].(float64); math.Abs(e/one-1) > 1e-9 {
			t.Errorf("%s: ε = %v, of one group %v", allocation, e, one)
		}
		solved := runJSON(t, "budget noise --epsilon 2 --groups 2/1,3/3 --allocation "+allocation+rest)["noise_multiplier"].(float64)
		if want := runJSON(t, "budget noise --epsilon 2"+rest)["noise_multiplier"].(float64); math.Abs(solved/want-1) > 1e-3 {
			t.Errorf("%s: noise %v for ε = 2, of one group %v", allocation, solved, want)
		}
	}
	for line, want := range map[string]string{
		"budget epsilon --noise 1 --groups 2,3 --allocation dimension":     "number of weights",
		"budget epsilon --groups 2,3 --allocation proportional":            "--noise",
		"budget epsilon --noise 1 --allocation proportional":               "--groups",
		"budget epsilon --noise 1 --groups 2,3 --allocation equal":         "dimension",
		"budget epsilon --noise 1 --groups 2:1,3:1 --allocation dimension": "2:1",
		"budget epsilon --noise 1 --groups 2:1,3:1":                        "exclude each other",
	} {
		checkUsageError(t, line+rest, want)
	}
}
