package optim

import (
	"math"
	"reflect"
	"testing"
)

// pytorchRates contains the rates of 12 steps, one step in each epoch, from 0.1, computed by
// PyTorch 1.13.1's torch.optim.lr_scheduler: LinearLR, CosineAnnealingLR, MultiStepLR, and
// for the warm-up a LinearLR before them in a SequentialLR.
var pytorchRates = map[string][]float64{
	"linear:0.052@10": {0.1, 0.0952, 0.0904, 0.0856, 0.0808, 0.076, 0.0712, 0.0664, 0.0616, 0.0568, 0.052, 0.052},
	"cosine":          {0.1, 0.09829629131, 0.09330127019, 0.08535533906, 0.075, 0.06294095226, 0.05, 0.03705904774, 0.025, 0.01464466094, 0.006698729811, 0.001703708686},
	"step:0.1@3,7":    {0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001, 0.001, 0.001},
	"warmup:4":        {0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1},
	"warmup:4+cosine": {0.025, 0.05, 0.075, 0.1, 0.1, 0.09619397663, 0.08535533906, 0.06913417162, 0.05, 0.03086582838, 0.01464466094, 0.003806023374},
}

func TestSchedule_MatchesPyTorch(t *testing.T) {
	for spec, want := range pytorchRates {
		s, err := ParseSchedule(spec, 0.1)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if got := s.Rate(i+1, 1, len(want)); !(math.Abs(got-w) <= 1e-10) {
				t.Errorf("%s: rate of step %d is %v, want %v", spec, i+1, got, w)
			}
		}
	}
}

// A resumed run compares the text of String with that of its schedule, so different
// schedules need different texts.
func TestScheduleString_DistinguishesSchedules(t *testing.T) {
	seen := map[string]string{}
	for _, spec := range []string{"constant", "cosine", "linear:0.052@10", "linear:0.05@10", "linear:0.052@9",
		"step:0.1@3", "step:0.1@3,7", "step:0.2@3", "warmup:4", "warmup:5", "warmup:4+cosine"} {
		for _, base := range []float64{0.1, 0.2} {
			s, err := ParseSchedule(spec, base)
			if err != nil {
				t.Fatal(err)
			}
			if other, known := seen[s.String()]; known {
				t.Errorf("%s from %v and %s are %q", spec, base, other, s)
			}
			seen[s.String()] = spec
		}
	}
	if _, known := seen["constant 0.1"]; !known {
		t.Errorf("no schedule has the text \"constant 0.1\": %q", seen)
	}
}

func TestScheduleRate_WithinEpochs(t *testing.T) {
	const perEpoch = 234.375 // 60,000 records in lots of 256
	for _, c := range []struct {
		spec  string
		step  int
		total int
		want  float64
	}{
		{"constant", 1, 0, 0.1},
		{"constant", 1e9, 0, 0.1},
		{"linear:0.052@10", 1, 0, 0.1},
		{"linear:0.052@10", 235, 0, 0.1 - 0.048*234/2343.75},
		{"linear:0.052@10", 2345, 0, 0.052},
		{"step:0.1@1,2", 235, 0, 0.1},
		{"step:0.1@1,2", 236, 0, 0.01},
		{"step:0.1@1,2", 470, 0, 0.001},
		{"step:2@0.5", 119, 0, 0.2},
		{"cosine", 1, 100, 0.1},
		{"cosine", 51, 100, 0.05},
		{"cosine", 101, 100, 0},
		{"cosine", 500, 100, 0},
		{"cosine", 1, 0, 0},
		{"warmup:10+cosine", 10, 10, 0.1},
		{"warmup:10+cosine", 11, 10, 0},
		{"warmup:10+linear:0@1", 5, 0, 0.5 * 0.1 * (1 - 4/perEpoch)},
		{"warmup:4", 1, 0, 0.025},
		{"warmup:4", 4, 0, 0.1},
		{"warmup:4", 5, 0, 0.1},
	} {
		s, err := ParseSchedule(c.spec, 0.1)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Rate(c.step, perEpoch, c.total); !(math.Abs(got-c.want) <= 1e-15) {
			t.Errorf("%s: rate of step %d of %d is %v, want %v", c.spec, c.step, c.total, got, c.want)
		}
	}
}

func TestParseSchedule_Syntax(t *testing.T) {
	s, err := ParseSchedule("warmup:500+step:0.1@30,60", 0.25)
	if want := (Schedule{Base: 0.25, Shape: ShapeStep, Factor: 0.1, Milestones: []float64{30, 60}, WarmupSteps: 500}); err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("parsed %+v (%v), want %+v", s, err, want)
	}
	if s, err := ParseSchedule("warmup:1", 0.25); err != nil || s.WarmupSteps != 1 {
		t.Errorf("parsed %+v (%v)", s, err)
	}
	for spec, want := range map[string]string{
		"":                       `unknown schedule ""`,
		"cosin":                  "did you mean cosine",
		"lineer:0.1@10":          "did you mean linear",
		"constant:1":             "takes no arguments",
		"cosine:0":               "takes no arguments",
		"constant:":              "takes no arguments",
		"linear":                 "such as linear:0.052@10",
		"linear:0.1":             "such as linear:0.052@10",
		"linear:x@10":            `"x" is not a number`,
		"linear:0.1@":            `"" is not a number`,
		"linear:-1@10":           "linear to -1",
		"linear:NaN@10":          "linear to NaN",
		"linear:0.1@0":           "over 0 epochs",
		"linear:Inf@10":          "linear to +Inf",
		"linear:0.1@Inf":         "over +Inf epochs",
		"step:0.1@3,Inf":         "step at epoch +Inf",
		"step:0.1":               "such as step:0.1@30,60",
		"step:0@30":              "factor of 0",
		"step:0.1@":              "is not a number",
		"step:0.1@60,30":         "step at epoch 30",
		"step:0.1@0":             "step at epoch 0",
		"step:x@3":               `"x" is not a number`,
		"warmup":                 "such as warmup:500",
		"warmup:0":               "such as warmup:500",
		"warmup:1.5":             "such as warmup:500",
		"warmup:5+":              `unknown schedule ""`,
		"warmup:5+warmup:5":      "first and only once",
		"cosine+warmup:5":        "unknown schedule",
		"warmup:5+cosine+linear": "unknown schedule",
	} {
		_, err := ParseSchedule(spec, 0.1)
		checkError(t, spec, err, want)
	}
	for _, base := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := ParseSchedule("warmup:5", base)
		checkError(t, "warmup:5", err, "learning rate above 0")
	}
	for _, s := range []Schedule{
		{Base: 1, Shape: ShapeConstant, FinalRate: 0.1}, {Base: 1, Shape: ShapeCosine, FinalEpoch: 3}, {Base: 1, Shape: ShapeStep, Factor: 0.1, Milestones: []float64{1}, FinalEpoch: 3},
		{Base: 1, Shape: ShapeConstant, Factor: 0.1}, {Base: 1, Shape: ShapeLinear, FinalEpoch: 3, Milestones: []float64{1}},
	} {
		checkError(t, "a schedule", s.Check(), "does not use all numbers")
	}
	for _, s := range []Schedule{{Base: 1}, {Base: 1, Shape: ShapeStep, Factor: 1}, {Base: 1, Shape: ShapeConstant, WarmupSteps: -1}} {
		checkError(t, "a schedule", s.Check(), "optim")
	}
}
