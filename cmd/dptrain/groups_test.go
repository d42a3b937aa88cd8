package main

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// briefGroups is a small run on two layers, fc1 and fc2.
const briefGroups = brief + " --model mlp:4 --delta 1e-5 --steps 4"

// A run whose groups have noise of their own costs what budget computes for the same S and σ.
func TestGroup_EpsilonMatchesBudget(t *testing.T) {
	inWorkshop(t)
	for _, arithmetic := range []string{"exact", "float"} {
		v := runJSON(t, briefGroups+" --device cpu --group hidden=fc1,clip=0.5,noise=4 --group out=fc2.*,clip=2,noise=1.5 --arithmetic "+arithmetic+" --out "+arithmetic)
		b := runJSON(t, "budget epsilon --groups 0.5:2,2:3 --records 4000 --lot 200 --steps 4 --delta 1e-5 --accountant rdp")
		if got, want := v["epsilon"].(float64), b["epsilon"].(float64); v["expected_lot"] != 200.0 || math.Abs(got/want-1) > 1e-6 {
			t.Errorf("%s: ε = %v of lots of %v, budget gives %v", arithmetic, got, v["expected_lot"], want)
		}
		want := []map[string]any{{"group": "hidden", "sensitivity": 0.5, "noise": 2.0}, {"group": "out", "sensitivity": 2.0, "noise": 3.0}}
		for i, group := range v["groups"].([]any) {
			for key, value := range want[i] {
				if group.(map[string]any)[key] != value {
					t.Errorf("%s: group %v, want %v", arithmetic, group, want[i])
				}
			}
		}
		if z := v["noise_multiplier"].(float64); math.Abs(z-1/math.Sqrt(1/16.0+1/2.25)) > 1e-12 || v["clipping"] != "groups" || v["clip"] != nil {
			t.Errorf("noise multiplier %v, clipping %v with bound %v", z, v["clipping"], v["clip"])
		}
	}
	if v := runJSON(t, "train --resume exact --steps 6"); v["steps"] != 6.0 || len(v["groups"].([]any)) != 2 {
		t.Errorf("resumed: %v", v)
	}
	_, stderr, code := dptrain("train --resume exact --steps 7 --group hidden=fc1,clip=0.5,noise=5 --group out=fc2.*,clip=2,noise=1.5")
	if code != exitcode.Usage || !strings.Contains(stderr, "groups is hidden=fc1,clip=0.5,noise=5") {
		t.Errorf("resumed with other noise: exit %d, %s", code, stderr)
	}
}

// --epsilon calibrates the noise of the groups without noise of their own; the preview states each
// group's share of the budget.
func TestGroup_DryRunStatesShares(t *testing.T) {
	inWorkshop(t)
	line := briefGroups + " --epsilon 3 --dry-run --group hidden=fc1,clip=dimension,noise=step:4,8@2 --group out=fc2,scale=0.5,rule=normalized"
	v := runJSON(t, line)
	if e := v["epsilon"].(float64); e > 3 || e < 2.99 {
		t.Errorf("ε = %v, want 3", e)
	}
	groups := v["groups"].([]any)
	hidden, out := groups[0].(map[string]any), groups[1].(map[string]any)
	// Of five inputs, fc1 has 5·4+4 weights and fc2 4·2+2.
	if s := hidden["sensitivity"].(float64); math.Abs(s-math.Sqrt(24.0/34)) > 1e-9 || hidden["sensitivity_max"] != s {
		t.Errorf("hidden: %v, want the bound √(24/34)", hidden)
	}
	if z := hidden["noise"].(float64) / hidden["sensitivity"].(float64); math.Abs(z-4) > 1e-9 || math.Abs(hidden["noise_max"].(float64)/hidden["noise"].(float64)-2) > 1e-9 {
		t.Errorf("hidden: %v, want the multipliers 4 and 8", hidden)
	}
	if z := hidden["noise_multiplier"].(float64); math.Abs(1/(z*z)-(1/16.0+1/64.0)/2) > 1e-12 {
		t.Errorf("hidden: %v", hidden)
	}
	if s := out["sensitivity"].(float64); math.Abs(s-math.Sqrt(0.5)) > 1e-9 || math.Abs(out["share"].(float64)+hidden["share"].(float64)-1) > 1e-9 {
		t.Errorf("out: %v, want the bound 1/√2 and the rest of the budget", out)
	}
	// A scale of 0.5 halves the noise of the layer.
	for _, layer := range v["layers"].([]any) {
		if l := layer.(map[string]any); l["group"] == "out" && math.Abs(l["noise"].(float64)/out["noise"].(float64)-0.5) > 1e-6 {
			t.Errorf("layer %v, want half the noise of %v", l, out)
		}
	}
	stdout, _, _ := dptrain(line)
	if !strings.Contains(stdout, "share of the budget") {
		t.Errorf("%s", stdout)
	}
}

// The groups section of a file means the same as --group.
func TestGroup_ConfigFile(t *testing.T) {
	inWorkshop(t)
	file := `groups:
  hidden: {parameters: fc1, clip: "linear:1->0.5@100", noise: 4}
  out:
    parameters: [fc2.weight, fc2.bias]
    scale: [1, 0.1]
    rule: adaptive
`
	if err := os.WriteFile("run.yaml", []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	flags := []any{"hidden=fc1,clip=linear:1->0.5@100,noise=4", "out=fc2.weight,rule=adaptive,scale=1", "out=fc2.bias,scale=0.1"}
	if got := runJSON(t, briefGroups+" --config run.yaml --print-config")["group"]; !slices.Equal(got.([]any), flags) {
		t.Errorf("groups %v, want %v", got, flags)
	}
	if v := runJSON(t, briefGroups+" --config run.yaml --epsilon 3 --dry-run"); len(v["groups"].([]any)) != 3 { // and the adaptive count
		t.Errorf("groups %v", v["groups"])
	}
	for text, want := range map[string]string{
		"groups: [a]":            "groups: give a mapping",
		"groups: {a: fc1}":       "a: give a mapping",
		"groups: {a: {clip: 1}}": "parameters is missing",
		"groups: {a: {parameters: fc1, scale: [1,2]}}": "2 numbers for 1 entries",
		"groups: {a: {parameters: fc1, clip: [1,2]}}":  "clip: give one value",
		"groups: {a: {parameters: fc1}}\ngroup: a=fc1": "the same setting",
		"groups: {a: {parameters: '*', bound: 1}}":     "not a key of a group",
	} {
		if err := os.WriteFile("run.yaml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, stderr, code := dptrain(briefGroups + " --config run.yaml --out refused")
		if code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s, want %q", text, code, stderr, want)
		}
	}
}

func TestGroup_Refused(t *testing.T) {
	inWorkshop(t)
	for flags, want := range map[string]string{
		"--group a":                                                   "give NAME=PATTERN",
		"--group =fc1":                                                "give NAME=PATTERN",
		"--group a=":                                                  "the pattern is empty",
		"--group a=fc1":                                               `parameter "fc2.weight" is in no group`,
		"--group a=* --group b=fc1":                                   `is in group "a" and also matches`,
		"--group a=fc1 --group a=fc1":                                 "twice",
		"--group a=fc1 --group b=fc3":                                 "no such layer or parameter to train; the nearest is fc",
		"--group a=*,clip=0":                                          "not a finite number above 0",
		"--group a=*,clip=1,clip=2":                                   "clip is given twice",
		"--group a=fc1,noise=1 --group a=fc2,noise=1":                 "noise is given twice",
		"--group a=*,noise=inf":                                       "not a finite number above 0",
		"--group a=*,noise=linear:4->1":                               "needs the number of a lot",
		"--group a=*,noise=linear:4@9":                                "not linear:FROM->TO@STEPS",
		"--group a=*,noise=cosine:4":                                  "linear:FROM->TO@STEPS or step",
		"--group a=*,clip=step:4":                                     "one number",
		"--group a=*,clip=step:4,2@9,1@9":                             "lot 9 is not after lot 9",
		"--group a=*,clip=linear:2->1@9,rule=adaptive":                "exclude each other",
		"--group a=*,rule=soft":                                       "use threshold, normalized, adaptive",
		"--group a=*,scale=-1":                                        "not a finite number above 0",
		"--group a=*,epsilon=1":                                       "not a key of a group",
		"--group a=fc1,fc2":                                           "needs a key",
		"--group a=*,noise=4 --epsilon 1":                             "--epsilon has no effect",
		"--group a=*,noise=4 --noise 1":                               "--noise has no effect",
		"--group a=* --clipping joint":                                "exclude each other",
		"--group a=* --non-private":                                   "--group and --non-private exclude each other",
		"--group a=fc1,noise=0.01 --group b=fc2 --epsilon 1":          "the releases whose noise is given cost more",
		"--group a=*,noise=linear:4->0.01@2 --stop-at-epsilon 0.0001": "budget",
	} {
		_, stderr, code := dptrain(briefGroups + " --out refused " + flags)
		wanted := exitcode.Usage
		if strings.Contains(want, "cost more") || want == "budget" {
			wanted = exitcode.OverBudget
		}
		if code != wanted || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s, want %q", flags, code, stderr, want)
		}
	}
}

// Shares divide the noise: (S/σ)² is proportional to them. A resumed run keeps them.
func TestGroup_SharesDivideNoise(t *testing.T) {
	inWorkshop(t)
	for _, line := range []string{briefGroups + " --noise 2 --group hidden=fc1,clip=0.5,share=3 --group out=fc2,clip=2,share=1 --out run", "train --resume run --steps 6"} {
		v := runJSON(t, line)
		var ratio [2]float64
		for i, g := range v["groups"].([]any) {
			group := g.(map[string]any)
			ratio[i] = math.Pow(group["sensitivity"].(float64)/group["noise"].(float64), 2)
		}
		if math.Abs(ratio[0]/ratio[1]-3) > 1e-6 || math.Abs((ratio[0]+ratio[1])*4-1) > 1e-6 {
			t.Errorf("%s: (S/σ)² of the groups is %v, want 3/16 and 1/16", line, ratio)
		}
	}
}
