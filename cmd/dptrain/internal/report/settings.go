package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// settingRows lists how the model was trained.
func (r *Run) settingRows() []row {
	s := &r.summary
	rows := []row{{"network", s.Model + s.byRule("model")}, {"weights", number.Thousands(s.Parameters)}, {"data", s.dataName()},
		{"records", number.Thousands(s.Lots.Records)}}
	if s.Target != "" {
		rows = slices.Insert(rows, 3, row{"predicted", s.Target})
	}
	add := func(show bool, name, value string) {
		if show {
			rows = append(rows, row{name, value})
		}
	}
	if v := s.Validation; v != nil {
		metric, value := s.validationResult()
		add(true, "validation records", plural(v.Records, "record"))
		add(true, "validation "+metric, value)
	}
	if p := s.Projection; p != nil {
		add(true, "first layer", plural(p.Directions, "principal direction")+projectionNoise(p))
	}
	if a := s.Augmentation; a != nil {
		add(true, "views of a picture", fmt.Sprintf("%d, %s", a.Views, a.Describe()))
	}
	add(s.Preset != "", "preset", s.Preset)
	add(s.StartingWeights != "", "starting weights", s.StartingWeights)
	add(s.FrozenLayers != "", "frozen layers", s.FrozenLayers)
	add(true, "sampling", s.Sampling)
	add(true, "expected lot", number.Short(s.ExpectedLot)+s.byRule("lot"))
	add(s.MaxLot > 0, "largest lot", number.Thousands(s.MaxLot))
	add(s.ConstantWork, "constant work", "each lot is padded to the largest lot")
	add(s.Rate > 0, "sampling rate", number.Short(s.Rate))
	add(s.LocalSteps > 0, "local training", fmt.Sprintf("each user contributes the change of the weights in %s of SGD on up to %s, with learning rate %s", plural(s.LocalSteps, "step"), plural(s.LocalBatch, "example"), number.Short(s.LocalRate)))
	add(s.Weight != "", "weights of records", fmt.Sprintf("column %s, at most %s", s.Weight, number.Short(s.WeightCap)))
	add(s.WeightMean > 0, "denominator", fmt.Sprintf("the expected lot times a mean weight of %s", number.Short(s.WeightMean)))
	add(s.WeightMinMean > 0, "denominator", fmt.Sprintf("the sum of the lot's weights, at least the expected lot times %s", number.Short(s.WeightMinMean)))
	add(true, "lots", number.Thousands(s.Steps)+s.byRule("steps"))
	add(s.StopWhen != "", "stops when", s.StopWhen)
	add(s.NoiseSchedule != "", "noise schedule", s.NoiseSchedule)
	add(s.epochs() > 0, "epochs", number.Short(s.epochs()))
	add(s.Private, "clipping", s.Clipping)
	bound := "clip bound"
	if s.Clipping == "adaptive" {
		bound = "first clip bound"
	}
	add(s.Private && s.Clip > 0, bound, number.Short(s.Clip)+s.byRule("clip"))
	add(s.Private && s.Mechanism == "laplace", "mechanism", "discrete Laplace noise; the bound is on the ℓ₁ norm")
	add(s.Private && s.Allocation != "" && len(r.accounting.groups) > 1, "noise allocation", s.Allocation)
	add(s.Optimizer != "", "optimizer", s.Optimizer+s.byRule("optimizer"))
	add(s.WeightDecayOf != "", "layers with weight decay", s.WeightDecayOf)
	add(s.LearningRate > 0, "learning rate", number.Short(s.LearningRate)+s.byRule("lr"))
	add(s.LearningRateOf != "", "learning-rate factors", s.LearningRateOf)
	add(s.Schedule != "", "schedule", s.Schedule)
	add(s.EMA > 0, "moving average", "decay "+strconv.FormatFloat(s.EMA, 'g', -1, 64)+s.byRule("ema"))
	return rows
}

// byRule marks the value of a flag that a rule chose, with the reason.
func (s *summary) byRule(flag string) string {
	why := s.RuleReasons[flag]
	switch {
	case !slices.Contains(s.ByRule, flag):
		return ""
	case why == "": // a run of an earlier version
		return " (by rule)"
	}
	return " (by rule: " + why + ")"
}

// projectionNoise describes the noise on the projection, if the projection was private.
func projectionNoise(p *rundir.Projection) string {
	if p.Noise == 0 {
		return ""
	}
	return fmt.Sprintf(", released with noise of %s times one record's contribution; ε includes their cost", number.Short(p.Noise))
}

// validationResult is the metric that was released for the validation records, and its
// value with the standard deviation of the noise.
func (s *summary) validationResult() (metric, value string) {
	v := s.Validation
	noise := func(deviation string) string {
		if v.Deviation == 0 {
			return ""
		}
		return " ± " + deviation + " of noise (ε includes its cost)"
	}
	if v.MAE == nil {
		return "accuracy", percent(*v.Accuracy) + noise(fmt.Sprintf("%.2f%%", 100*v.Deviation))
	}
	return "mean absolute error", number.Short(*v.MAE) + noise(fmt.Sprintf("%.2g", v.Deviation)) + ", in the units of " + s.Target + ", with predictions clipped to its bounds"
}

// validationSummary describes the validation result; "" if there were no validation records.
func (s *summary) validationSummary() string {
	if s.Validation == nil {
		return ""
	}
	metric, value := s.validationResult()
	return fmt.Sprintf("%s on %s held out for validation: %s", metric, plural(s.Validation.Records, "record"), value)
}

// machineRows lists the hardware and the time.
func (r *Run) machineRows() []row {
	s := &r.summary
	device := s.Device
	if s.Threads > 0 {
		device += ", " + plural(s.Threads, "thread")
	}
	if s.Ranks > 1 {
		device += fmt.Sprintf(", on each of %d ranks, which MPI connected", s.Ranks)
	}
	rows := []row{{"device", device}}
	if s.Platform != "" {
		rows = append(rows, row{"platform", s.Platform})
	}
	elapsed := duration(s.Seconds)
	if s.ResumedAt > 0 {
		elapsed += " after lot " + number.Thousands(s.ResumedAt) + ", where the run was resumed"
	}
	rows = append(rows, row{"time", elapsed})
	if s.ExamplesPerSec > 0 {
		rows = append(rows, row{"speed", speed(s.ExamplesPerSec)})
	}
	if len(s.RankSeconds) > 1 {
		var each []string
		for _, seconds := range s.RankSeconds {
			each = append(each, duration(seconds))
		}
		rows = append(rows, row{"time of the ranks", strings.Join(each, ", ") + ", without waiting"})
	}
	return append(rows,
		row{"microbatch", number.Thousands(s.Microbatch)},
		row{"dptrain", s.Version})
}
