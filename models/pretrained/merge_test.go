package pretrained

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// A network with merged adapters has no adapters, and computes what peft computes.
func TestMergeAdapters_SameAsPeft(t *testing.T) {
	for _, folder := range []string{"lora", "vit-lora"} {
		path := filepath.Join("testdata", folder)
		m, err := Parse(path + ",lora=3,alpha=6")
		if err != nil {
			t.Fatal(err)
		}
		whole, err := Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		expected := expectedOf(t, folder)
		input := expected["ids"]
		if m.picture != nil {
			input = expected["pixels"]
		}
		steps := input.Shape[1]
		merged, err := m.MergeAdapters(withAdapters(buildOf(m, steps), expected), buildOf(whole, steps))
		if err != nil {
			t.Fatal(err)
		}
		net, err := merged(input.Shape[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range net.Params {
			if isAdapter(p.Name()) {
				t.Errorf("%s: the parameter %s is left", folder, p.Name())
			}
		}
		program, err := plan.LowerEvaluation(net)
		if err != nil {
			t.Fatal(err)
		}
		run, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		copy(run.Input(0), input.Values)
		if err := run.Forward(); err != nil {
			t.Fatal(err)
		}
		for i, want := range expected["logits"].Values {
			if got := run.Output()[i]; !(math.Abs(float64(got-want)) <= 1e-4) {
				t.Errorf("%s: logit %d is %v, want %v", folder, i, got, want)
			}
		}
	}
}

// Adapters of another rank, or other parameters, are not merged.
func TestMergeAdapters_RefusesOtherNetworks(t *testing.T) {
	of := func(options string) *Model {
		m, err := Parse("testdata/bert" + options)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	two, three := of(",lora=2"), of(",lora=3")
	if _, err := two.MergeAdapters(buildOf(three, 6), buildOf(of(""), 6)); err == nil || !strings.Contains(err.Error(), "does not fit its layer") {
		t.Errorf("adapters of another rank: error %v", err)
	}
	merged, err := two.MergeAdapters(buildOf(two, 6), buildOf(three, 6))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := merged(1); err == nil || !strings.Contains(err.Error(), "has no parameter") {
		t.Errorf("a network with adapters: error %v", err)
	}
}
