package main

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

func TestBudgetLocal_StatesEveryAdversary(t *testing.T) {
	v := runJSON(t, "budget local --instances 20 --epsilon 1 --updates 1000 --clients 6000")
	later, _ := v["later"].(map[string]any)
	if v["channel"] != 1.0 || math.Abs(v["insider"].(float64)-0.95) > 1e-12 || later == nil {
		t.Fatalf("channel %v, insider %v, later %v", v["channel"], v["insider"], later)
	}
	if gone := later["gone"].(float64); !(gone > 0.94 && gone < 0.95) {
		t.Errorf("gone after 1,000 updates with probability %v", gone)
	}
	for _, key := range []string{"epsilon", "delta", "advantage", "all", "iterated"} {
		if later[key] == nil {
			t.Errorf("later.%s is missing", key)
		}
	}
	kinds := map[string]int{}
	for _, b := range v["bounds"].([]any) {
		b := b.(map[string]any)
		kinds[b["kind"].(string)]++
		for _, key := range []string{"adversary", "quantity", "assumption", "source"} {
			if b[key] == "" {
				t.Errorf("%v has no %s", b, key)
			}
		}
		if strings.Contains(b["source"].(string), "lemma 4.1") && (b["kind"] != "expectation" || !strings.Contains(b["assumption"].(string), "not a guarantee")) {
			t.Errorf("lemma 4.1 is printed as %v", b)
		}
	}
	if kinds["worst case"] < 8 || kinds["expectation"] != 2 || kinds["probability"] != 1 {
		t.Errorf("kinds of bounds: %v", kinds)
	}
	if without := runJSON(t, "budget local --instances 20 --epsilon 1"); without["later"] != nil || without["updates"] != nil {
		t.Errorf("without --updates: later %v, updates %v", without["later"], without["updates"])
	}
	if out, _, _ := dptrain("budget local --instances 20 --epsilon 1 --updates 0 --quiet"); out != "1 0.95 0\n" {
		t.Errorf("--quiet printed %q", out)
	}
}

func TestBudgetLocal_RefusesBadInput(t *testing.T) {
	for _, line := range []string{
		"", "--instances 20", "--epsilon 1", "--instances 0 --epsilon 1", "--instances -3 --epsilon 1", "--instances 2000000 --epsilon 1",
		"--instances 20 --epsilon 0", "--instances 20 --epsilon -1", "--instances 20 --epsilon NaN", "--instances 20 --epsilon Inf", "--instances 20 --epsilon 101",
		"--instances 20 --epsilon 1 --updates -1", "--instances 20 --epsilon 1 --updates 2000000000000", "--instances 20 --epsilon 1 --delta 0",
		"--instances 20 --epsilon 1 --delta 1", "--instances 20 --epsilon 1 --delta NaN", "--instances 20 --epsilon 1 --clients 0", "--instances 20 --epsilon 1 --clients 200000000",
		"--instances 20 --epsilon 1 --weights 0", "--instances 20 --epsilon 1 --mechanism gaussian --weights 10",
		"--instances 20 --epsilon 1 --privacy feature", "--instances 20 --epsilon 1 --privacy row", "--instances 20 --epsilon 1 --privacy feature --mechanism gaussian --weights 10",
		"--instances 20 --epsilon 1 --mechanism cauchy", "--instances 20 --epsilon 1 --mechanism gaussian --clients 10", "--instances 20 --epsilon 1 extra",
	} {
		out, message, code := dptrain("budget local " + line)
		if code != exitcode.Usage || out != "" || strings.Count(message, "\n") != 1 || !strings.HasPrefix(message, "dptrain: ") {
			t.Errorf("budget local %s: exit %d, output %q, message %q", line, code, out, message)
		}
	}
}

// With many weights, the Rényi divergence of the noise proves much less than ε.
func TestBudgetLocal_WeightsLowerEpsilonAtDelta(t *testing.T) {
	at := func(line string) (epsilon float64) {
		for _, b := range runJSON(t, "budget local --instances 20 --epsilon 8 --updates 10 "+line)["bounds"].([]any) {
			if b := b.(map[string]any); b["adversary"] == "I channel" && strings.HasPrefix(b["quantity"].(string), "ε") {
				epsilon = b["value"].(float64)
			}
		}
		return epsilon
	}
	if plain, one, many := at(""), at("--weights 1"), at("--weights 7850"); plain != 8 || one > 8 || one < 7.9 || many > 0.5 || many < 0.3 {
		t.Errorf("ε at δ: %v, %v with one weight, %v with 7,850", plain, one, many)
	}
}

// Extreme settings give finite, ordered answers, quickly.
func TestBudgetLocal_Extremes(t *testing.T) {
	for _, line := range []string{
		"--instances 1 --epsilon 100 --updates 1000000000000", "--instances 1000000 --epsilon 0.001 --updates 1000000000000", "--instances 2 --epsilon 1e-9 --updates 1",
		"--instances 1 --epsilon 100 --clients 1", "--instances 20 --epsilon 100 --weights 1000000000 --updates 5", "--instances 20 --epsilon 0.0001 --clients 100000000", "--instances 20 --epsilon 30 --clients 100000000",
		"--instances 20 --epsilon 100 --mechanism gaussian --delta 1e-12 --updates 100000", "--instances 20 --epsilon 1e-6 --mechanism gaussian --updates 100000",
	} {
		v := runJSON(t, "budget local "+line)
		epsilon := v["epsilon"].(float64)
		for _, b := range v["bounds"].([]any) {
			b := b.(map[string]any)
			value, finite := b["value"].(float64)
			if !finite || value < 0 || strings.HasPrefix(b["quantity"].(string), "ε") && value > epsilon*(1+1e-9) {
				t.Errorf("budget local %s: %v", line, b)
			}
		}
	}
}

// At the level of a feature, the bounds are those of one weight, and the ε of all weights is stated: n·m·ε, and
// less at δ. One weight and one contribution are the same at both levels.
func TestBudgetLocal_WholeModelAtFeatureLevel(t *testing.T) {
	v := runJSON(t, "budget local --instances 20 --epsilon 0.01 --privacy feature --weights 7850 --contributions 20 --updates 1000")
	whole := v["whole_model"].(map[string]any)
	if pure, e := whole["pure_epsilon"].(float64), whole["epsilon"].(float64); math.Abs(pure-0.01*7850*20) > 1e-6 || !(e < 30 && e > 5) || v["channel"] != 0.01 || v["privacy"] != "feature" {
		t.Errorf("whole model %v, channel %v", whole, v["channel"])
	}
	for _, b := range v["bounds"].([]any) {
		b := b.(map[string]any)
		if name := b["adversary"]; name != "the whole model" && !strings.HasPrefix(b["quantity"].(string), "one weight: ") || strings.Contains(b["assumption"].(string), "non-expansive") {
			t.Errorf("%v", b)
		}
	}
	one := runJSON(t, "budget local --instances 20 --epsilon 2 --privacy feature --weights 1")
	if e := one["whole_model"].(map[string]any)["pure_epsilon"]; e != 2.0 {
		t.Errorf("one weight: ε of the whole model %v", e)
	}
	// 100 contributions to one weight are composed like one contribution of 100 weights.
	a := runJSON(t, "budget local --instances 20 --epsilon 0.1 --privacy feature --weights 1 --contributions 100")["whole_model"]
	b := runJSON(t, "budget local --instances 20 --epsilon 0.1 --privacy feature --weights 100")["whole_model"]
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%v and %v", a, b)
	}
	if out, _, code := dptrain("budget local --instances 20 --epsilon 1 --privacy feature --weights 50"); code != exitcode.Done || !strings.Contains(out, "all 50 weights: ε") {
		t.Errorf("exit %d, %s", code, out)
	}
}
