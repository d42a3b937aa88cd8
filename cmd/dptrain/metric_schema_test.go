package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// misfitTable writes 4,000 rows: a fifth of the ages is above 100, a tenth has no value, half of the
// cities are misspelt, and a quarter of the labels is unknown.
func misfitTable(t *testing.T) {
	t.Helper()
	var b strings.Builder
	b.WriteString("age,city,label\n")
	for i := range 4000 {
		age, city, label := fmt.Sprint(i%100), "Ulm", "no"
		switch {
		case i%10 < 2:
			age = "150"
		case i%10 == 2:
			age = ""
		}
		if i%2 == 0 {
			city = "Ulm " + "am Rhein"
		}
		if i/10%4 == 0 {
			label = "perhaps"
		}
		fmt.Fprintf(&b, "%s,%s,%s\n", age, city, label)
	}
	if err := os.WriteFile("misfit.csv", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

const misfit = "train --data misfit.csv --label label --classes no,yes --bounds age=0:100 --vocabulary city=Ulm|Rom --model logistic --steps 5 --lot 4000 --sampling fixed --accountant rdp --threads 1 --device cpu"

// The released shares are the true ones within their noise, are part of ε, and a column that certainly
// does not fit is a warning.
func TestMetricSchema_ReleasesShares(t *testing.T) {
	t.Chdir(t.TempDir())
	misfitTable(t)
	plain := runJSON(t, misfit+" --noise 20 --out plain")
	stdout, stderr, code := dptrain(misfit + " --noise 20 --metric schema:noise=30 --out run")
	if code != exitcode.Done {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	var v map[string]any
	if err := json.Unmarshal(readFile(t, "run/run.json"), &v); err != nil {
		t.Fatal(err)
	}
	if e := v["epsilon"].(float64); !(e > plain["epsilon"].(float64)) {
		t.Errorf("ε = %v with the metric, %v without", e, plain["epsilon"])
	}
	shares := v["schema_private"].(map[string]any)
	columns := shares["columns"].([]any)
	deviation := 30 * math.Sqrt(3) / 4000
	present := 0.75
	check := func(what string, got any, want, deviation float64) {
		if !(math.Abs(got.(float64)-want) <= 6*deviation) { // fails for one correct run in 10^8
			t.Errorf("%s: %v, want %v ± %v", what, got, want, deviation)
		}
	}
	age, city := columns[0].(map[string]any), columns[1].(map[string]any)
	check("age outside", age["outside"], 0.2, 1.2*deviation/present)
	check("age empty", age["empty"], 0.1, 1.2*deviation/present)
	check("city unknown", city["unknown"], 0.5, 1.2*deviation/present)
	check("city empty", city["empty"], 0, 1.2*deviation/present)
	check("blank", shares["blank"], 1-present, deviation)
	if g := v["groups"].([]any)[1].(map[string]any); g["group"] != "schema" || math.Abs(g["noise"].(float64)-30*math.Sqrt(3)) > 1e-9 {
		t.Errorf("groups %v", v["groups"])
	}
	for _, want := range []string{"not in its vocabulary, by the released shares", "of the records cannot be read and are blank, by the released shares"} {
		if !strings.Contains(stderr, want) || !strings.Contains(fmt.Sprint(v["warnings"]), want) {
			t.Errorf("no warning %q: %s", want, stderr)
		}
	}
	if !strings.Contains(stdout, "not in its vocabulary") || strings.Contains(stderr, "Nothing was compared") {
		t.Errorf("printed %s%s", stdout, stderr)
	}
	if page := string(readFile(t, "run/report.html")); !strings.Contains(page, "age has no value: ") {
		t.Error("the report does not show the shares")
	}
	again := runJSON(t, "train --resume run")
	if fmt.Sprint(again["schema_private"]) != fmt.Sprint(shares) {
		t.Errorf("resumed: %v, before %v", again["schema_private"], shares)
	}
}

// The default noise is ±2% where that is cheap, and is refused with what would be needed where a
// quarter of the budget pays for less than ±10%.
func TestMetricSchema_DefaultNoise(t *testing.T) {
	t.Chdir(t.TempDir())
	misfitTable(t)
	v := runJSON(t, misfit+" --epsilon 4 --delta 1e-5 --metric schema --dry-run")
	for _, g := range v["groups"].([]any) {
		if g := g.(map[string]any); g["group"] == "schema" && math.Abs(g["noise"].(float64)-80) > 1e-9 {
			t.Errorf("noise %v, want 2%% of 4000", g["noise"])
		}
	}
	for flags, want := range map[string]string{
		" --epsilon 0.05 --metric schema":                      "which shows nothing below ±10%",
		" --epsilon 1 --metric schema:clip=2":                  "so it has no clip",
		" --epsilon 1 --metric schema:every=6":                 "releases nothing in 5 lots",
		" --epsilon 1 --metric schema --non-private":           "exclude each other",
		" --epsilon 1 --metric schema --data digits --lot 600": "no named columns",
	} {
		_, stderr, code := dptrain(misfit + " --out refused" + flags)
		if code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Count(strings.TrimSpace(stderr), "\n") > 1 {
			t.Errorf("%s: exit %d, %s", flags, code, stderr)
		}
	}
	_, stderr, _ := dptrain("train --data digits --model logistic --steps 2 --metric schema --out refused")
	if !strings.Contains(stderr, "requires a table") {
		t.Error(stderr)
	}
}
