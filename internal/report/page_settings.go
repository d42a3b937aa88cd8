package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

func (r *Run) settings() []row {
	s := &r.summary
	rows := []row{{"network", s.Model}, {"weights", Thousands(s.Parameters)}, {"data", s.data()}, {"records", Thousands(s.Records)}}
	if s.Target != "" {
		rows = slices.Insert(rows, 3, row{"predicted", s.Target})
	}
	add := func(show bool, name, value string) {
		if show {
			rows = append(rows, row{name, value})
		}
	}
	add(s.ValidationRecords > 0, "held out", plural(s.ValidationRecords, "record"))
	if s.ValidationRecords > 0 {
		measure, value := s.validation()
		add(true, measure+" on them", value)
	}
	add(s.Projection > 0, "first layer", plural(s.Projection, "principal direction")+s.found())
	add(s.Views > 0, "views of a picture", fmt.Sprintf("%d, changed by %s", s.Views, s.Augment))
	add(s.Preset != "", "preset", s.Preset)
	add(s.Start != "", "starting weights", s.Start)
	add(s.Frozen != "", "layers that keep them", s.Frozen)
	add(true, "sampling", s.Sampling)
	add(true, "expected lot", Short(s.ExpectedLot))
	add(s.Rate > 0, "sampling rate", Short(s.Rate))
	add(true, "lots", Thousands(s.Steps))
	add(s.epochs() > 0, "epochs", Short(s.epochs()))
	add(s.Private, "clipping", s.Clipping)
	bound := "clip bound"
	if s.Clipping == "adaptive" {
		bound = "first clip bound"
	}
	add(s.Private && s.Clip > 0, bound, Short(s.Clip))
	add(s.Private && s.Allocation != "" && len(r.account.groups) > 1, "noise among groups", s.Allocation)
	add(s.Optimizer != "", "optimizer", s.Optimizer)
	add(s.DecayOf != "", "weight decay of", s.DecayOf)
	add(s.LearningRate > 0, "learning rate", Short(s.LearningRate))
	add(s.RateOf != "", "learning rate of layers", s.RateOf+" (times that)")
	add(s.Schedule != "", "schedule", s.Schedule)
	add(s.Average > 0, "moving average", "decay "+strconv.FormatFloat(s.Average, 'g', -1, 64))
	return rows
}

// found says how the directions of a projection were.
func (s *summary) found() string {
	if s.ProjectionNoise == 0 {
		return ""
	}
	return fmt.Sprintf(", released with noise of %s times a record's share, paid for", Short(s.ProjectionNoise))
}

// validation is what was released of the records held out, with the deviation of its noise.
func (s *summary) validation() (measure, value string) {
	noise := func(deviation string) string {
		if s.ValidationDeviation == 0 {
			return ""
		}
		return " ± " + deviation + " of noise, paid for"
	}
	if s.ValidationMAE == nil {
		return "accuracy", percent(s.ValidationAccuracy) + noise(fmt.Sprintf("%.2f%%", 100*s.ValidationDeviation))
	}
	return "mean absolute error", Short(*s.ValidationMAE) + noise(fmt.Sprintf("%.2g", s.ValidationDeviation)) + "; in the units of " + s.Target + ", answers beyond its limits counting as these"
}

// known is all that is known of how well the network does where there are no public test
// data; "" where that is nothing.
func (s *summary) known() string {
	if s.ValidationRecords == 0 {
		return ""
	}
	measure, value := s.validation()
	return fmt.Sprintf("the %s on %s held out: %s", measure, plural(s.ValidationRecords, "record"), value)
}

func (r *Run) machine() []row {
	s := &r.summary
	device := s.Device
	if s.Threads > 0 {
		device += ", " + plural(s.Threads, "thread")
	}
	rows := []row{{"device", device}}
	if s.Platform != "" {
		rows = append(rows, row{"platform", s.Platform})
	}
	took := duration(s.Seconds)
	if s.Resumed > 0 {
		took += " for what followed lot " + Thousands(s.Resumed) + ", where the run was resumed"
	}
	rows = append(rows, row{"time", took})
	if s.Speed > 0 {
		rows = append(rows, row{"speed", speed(s.Speed)})
	}
	return append(rows,
		row{"microbatch", Thousands(s.Microbatch)},
		row{"dptrain", s.Version})
}

// speed is a rate as the run itself says it.
func speed(examples float64) string {
	if examples < 9.95 {
		return strconv.FormatFloat(examples, 'g', 2, 64) + " examples/s"
	}
	return Thousands(int(math.RoundToEven(examples))) + " examples/s"
}

// duration keeps two units at most.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}
