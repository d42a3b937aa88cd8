package settings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine/data"
)

// StopCondition is the condition of --stop-when. A run that it ends costs its whole plan: its
// values, and the weights on which a test is evaluated, are releases ([engine.Run.PlannedEpsilon]).
type StopCondition struct {
	Text   string // as on the command line
	Metric string // accuracy or loss
	// OnTest reports whether the metric is that of the public test data. Otherwise it is the metric
	// of --metric, which is released with noise.
	OnTest bool

	patience int // values without a gain; 0: limit decides
	limit    float64

	best    float64
	without int  // values since the best one
	begun   bool // best is set
}

// stopSyntax lists the conditions.
const stopSyntax = "accuracy>=X, loss<=X, no-gain:N, test-accuracy>=X, test-loss<=X or test-no-gain:N"

// parseCondition parses a condition. The metric of a condition without a name is "".
func parseCondition(text string) (*StopCondition, error) {
	c := &StopCondition{Text: text}
	rest, onTest := strings.CutPrefix(text, "test-")
	c.OnTest = onTest
	if count, ok := strings.CutPrefix(rest, "no-gain:"); ok {
		var err error
		if c.patience, err = strconv.Atoi(count); err != nil || c.patience < 1 {
			return nil, fmt.Errorf("%q is not a number of values, 1 or more", count)
		}
		return c, nil
	}
	for metric, sign := range map[string]string{"accuracy": ">=", "loss": "<="} {
		value, ok := strings.CutPrefix(rest, metric+sign)
		if !ok {
			continue
		}
		limit, err := strconv.ParseFloat(value, 64)
		if err != nil || !(limit >= 0) || metric == "accuracy" && limit > 1 || limit > 1e300 {
			return nil, fmt.Errorf("%q is not a possible %s; write an accuracy as a share, such as 0.9", value, metric)
		}
		c.Metric, c.limit = metric, limit
		return c, nil
	}
	return nil, fmt.Errorf("the condition is unknown: use %s", stopSyntax)
}

// newStop returns the condition of --stop-when; nil without the flag. It checks that its metric
// exists.
func newStop(f *Flags, task *data.Task) (*StopCondition, error) {
	if f.StopWhen == "" {
		return nil, nil
	}
	c, err := parseCondition(f.StopWhen)
	if err != nil {
		return nil, exitcode.Usagef("--stop-when %q: %w", f.StopWhen, err)
	}
	isClassification := slices.ContainsFunc(task.Train.Columns(), func(c data.Column) bool { return c.Kind == data.Label })
	if c.OnTest {
		switch {
		case task.Test == nil:
			return nil, exitcode.Usagef("--stop-when %s requires public test data: give --test, or a metric of --metric", c.Text)
		case c.Metric == "accuracy" && !isClassification:
			return nil, exitcode.Usagef("--stop-when %s requires labels, and the data have none: use test-loss<=X or test-no-gain:N", c.Text)
		case c.Metric == "" && isClassification:
			c.Metric = "accuracy"
		case c.Metric == "":
			c.Metric = "loss"
		}
		return c, nil
	}
	if err := c.findReleased(f); err != nil {
		return nil, exitcode.Usagef("--stop-when %w, or stop on public test data, as in test-%s", err, c.Metric)
	}
	return c, nil
}

// findReleased sets the metric of a condition without a name, and checks that the run releases the metric.
func (c *StopCondition) findReleased(f *Flags) error {
	released := func(name string) bool {
		return slices.ContainsFunc(f.Metrics, func(text string) bool {
			metric, _, _ := strings.Cut(text, ":")
			return metric == name
		})
	}
	if c.Metric == "" {
		if c.Metric = "accuracy"; !released("accuracy") && released("loss") {
			c.Metric = "loss"
		}
	}
	if !released(c.Metric) {
		return fmt.Errorf("%s requires --metric %s, which releases the metric with noise: give it", c.Text, c.Metric)
	}
	return nil
}

// Observe reads the next value of the metric and reports whether the run ends. Its state is a function
// of the values.
func (c *StopCondition) Observe(value float64) bool {
	isAccuracy := c.Metric == "accuracy"
	if c.patience == 0 {
		return isAccuracy && value >= c.limit || !isAccuracy && value <= c.limit
	}
	if !c.begun || math.IsNaN(c.best) || isAccuracy && value > c.best || !isAccuracy && value < c.best {
		c.best, c.begun, c.without = value, true, 0
		return false
	}
	c.without++
	return c.without >= c.patience
}
