package settings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/perexample"
)

// LotSizeMetric is the metric whose mean is a share of the expected lot.
const LotSizeMetric = "lot-size"

// BatchStatisticsMetric is the metric that moves the running statistics of batch normalization. A
// network with it always releases this metric.
const BatchStatisticsMetric = "batch-statistics"

// SchemaMetric is the metric with the shares of the records whose cells do not fit the schema.
const SchemaMetric = "schema"

var metricNames = []string{"accuracy", "loss", "class-counts", "feature-means", LotSizeMetric, "clipped", SchemaMetric, BatchStatisticsMetric}

// metricShare is the share of the budget that a metric without a given noise costs alone.
const metricShare = 1.0 / 20

// metricFlag is one --metric.
type metricFlag struct {
	name  string
	noise float64 // σ over the sensitivity; 0: it follows from metricShare
	every int     // 0: a tenth of the lots
	clip  float64 // 0: see newStatistic
	group string  // whose noise it shares; "": it has noise of its own
	scale float64 // with group; 0: 1
}

func parseMetric(text string) (m metricFlag, err error) {
	fail := func(format string, values ...any) (metricFlag, error) {
		return m, exitcode.Usagef("--metric %q: %s", text, fmt.Sprintf(format, values...))
	}
	name, rest, hasSettings := strings.Cut(text, ":")
	if m.name = name; !slices.Contains(metricNames, name) {
		return fail("the metric is unknown: use %s", strings.Join(metricNames, ", "))
	}
	if !hasSettings {
		return m, nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(part, "=")
		if seen[key] {
			return fail("%s is given twice: give it once", key)
		}
		seen[key] = true
		switch {
		case key == "noise":
			m.noise, err = parsePositive(value)
		case key == "every":
			if m.every, err = strconv.Atoi(value); err != nil || m.every < 1 {
				return fail("every: %q is not a number of lots, 1 or more", value)
			}
		case key == "group" && value == "":
			return fail("group is empty: name a group of --group, or %s with --clipping flat or joint", gradientGroup)
		case key == "group":
			m.group = value
		case key == "scale":
			m.scale, err = parsePositive(value)
		case key == "clip" && (name == "loss" || name == "feature-means" || name == BatchStatisticsMetric):
			m.clip, err = parsePositive(value)
		case key == "clip":
			return fail("a record adds at most 1 to %s, so it has no clip", name)
		default:
			return fail("%q is not a setting of a metric: use noise, every, clip, group or scale, as in %s:noise=5,every=10", key, name)
		}
		if err != nil {
			return fail("%s: %v", key, err)
		}
	}
	switch {
	case m.scale != 0 && m.group == "":
		return fail("scale is for a metric that joins a group: add group=NAME, or drop scale")
	case m.name == "clipped" && m.group != "":
		return fail("clipped follows from the clip factor, so it cannot join a group: drop group")
	case m.noise != 0 && m.group != "":
		return fail("a metric that joins a group has the noise of the group times its scale: drop noise, or drop group")
	}
	return m, nil
}

// gradientGroup is the name of the group of all parameters without --group.
const gradientGroup = "gradient"

// resolveMetrics sets the statistics of --metric. Metrics without a given noise have noise at which
// each alone costs metricShare of a budget; 0 stands for the cost of the lots.
func (s *Spec) resolveMetrics(epsilon float64) error {
	c := &s.Config
	c.Statistics, s.Flags.resolvedMetrics = nil, nil
	var statistics []engine.Statistic
	texts, err := withBatchStatistics(s.Flags.Metrics, c.Network)
	if err != nil {
		return err
	}
	for _, text := range texts {
		m, err := parseMetric(text)
		if err != nil {
			return err
		}
		switch {
		case m.every > 0:
		case m.name == BatchStatisticsMetric, m.group != "":
			m.every = 1
		case m.name == SchemaMetric:
			m.every = c.Steps/2 + 1 // once
		default:
			m.every = max(1, c.Steps/10)
		}
		if m.every > c.Steps {
			return exitcode.Usagef("--metric %s: every=%d releases nothing in %d lots: give a smaller number", text, m.every, c.Steps)
		}
		statistic, err := s.newStatistic(&m)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(statistics, func(o engine.Statistic) bool { return o.Name == statistic.Name }) {
			return exitcode.Usagef("--metric %s: %s is given twice: drop one of them", text, m.name)
		}
		if statistic.Every = m.every; m.group != "" {
			statistic.Group, statistic.Scale = m.group, m.scale
			if !slices.ContainsFunc(c.Mechanism.Clipping, func(g clip.Group) bool { return g.Name == m.group }) {
				return exitcode.Usagef("--metric %s: there is no group %s: name a group of --group, or %s with --clipping flat or joint", text, m.group, gradientGroup)
			}
		} else if m.noise == 0 {
			noise := s.noiseOfMetric
			if m.name == SchemaMetric {
				noise = s.noiseOfSchema
			}
			if m.noise, err = noise(statistic, epsilon); err != nil {
				return err
			}
		}
		statistic.Noise = m.noise * statistic.Sensitivity
		statistics = append(statistics, statistic)
		s.Flags.resolvedMetrics = append(s.Flags.resolvedMetrics, m.settings())
	}
	c.Statistics = statistics
	return nil
}

// noiseOfMetric returns the noise multiplier at which a metric alone costs metricShare of the budget.
func (s *Spec) noiseOfMetric(statistic engine.Statistic, epsilon float64) (float64, error) {
	return s.noiseOfLots(s.Config.Steps/statistic.Every, metricShare, epsilon)
}

// The noise of SchemaMetric. A wrong schema usually concerns far more than a tenth of the records.
const (
	schemaDeviation    = 0.02 // of a share, where it costs at most schemaShare of the budget
	maxSchemaDeviation = 0.1
	schemaShare        = 1.0 / 4
)

// noiseOfSchema returns the noise multiplier of SchemaMetric: that of a deviation of schemaDeviation, or
// the one that alone costs schemaShare of the budget, whichever is larger.
func (s *Spec) noiseOfSchema(statistic engine.Statistic, epsilon float64) (float64, error) {
	noise, err := s.noiseOfLots(s.Config.Steps/statistic.Every, schemaShare, epsilon)
	if err != nil {
		return 0, err
	}
	perNoise := statistic.Sensitivity / expectedLot(&s.Config)
	deviation := noise * perNoise
	if deviation > maxSchemaDeviation {
		more := deviation / maxSchemaDeviation
		return 0, exitcode.Usagef("--metric schema: its noise would be ±%.0f%% of the records in each column, which shows nothing below ±%.0f%%, although it costs a quarter of the budget: it needs about %s records, or an ε of about %s, or fewer columns; compare public data instead (--test)",
			100*deviation, 100*maxSchemaDeviation,
			number.Thousands(int(math.Ceil(float64(s.Records)*more))), number.Short(epsilonOf(s, epsilon)*more))
	}
	return max(noise, schemaDeviation/perNoise), nil
}

// epsilonOf returns the budget or, where it is 0, what the lots cost; NaN if that cannot be computed.
func epsilonOf(s *Spec, epsilon float64) float64 {
	epsilon, err := s.costOfLots(epsilon)
	if err != nil {
		return math.NaN()
	}
	return epsilon
}

// withBatchStatistics returns the values of --metric, and the metric that the network's batch
// normalization requires.
func withBatchStatistics(texts []string, network perexample.Build) ([]string, error) {
	net, err := network.ForBatch(1)
	if err != nil || len(net.BatchNorms) == 0 {
		return texts, err
	}
	if slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, BatchStatisticsMetric) }) {
		return texts, nil
	}
	return append(slices.Clip(texts), BatchStatisticsMetric), nil
}

// baselineStatistics returns the statistics of a run without privacy: those of batch normalization,
// without noise and with a bound that clips nothing.
func baselineStatistics(network perexample.Build) ([]engine.Statistic, error) {
	net, err := network.ForBatch(1)
	if err != nil || len(net.BatchNorms) == 0 {
		return nil, err
	}
	s, err := engine.BatchStatistics(network, 1e100, 0)
	return []engine.Statistic{s}, err
}

// newStatistic returns the statistic of a metric without its noise, and sets the metric's clip,
// where it has one. The default is twice the loss of equal scores for every class, 1 for each target, and the norm of features that are
// all 1.
func (s *Spec) newStatistic(m *metricFlag) (statistic engine.Statistic, err error) {
	columns := s.Config.Train.Columns()
	label := slices.IndexFunc(columns, func(c data.Column) bool { return c.Kind == data.Label })
	target := slices.IndexFunc(columns, func(c data.Column) bool { return c.Kind == data.Target })
	if label < 0 && (m.name == "accuracy" || m.name == "class-counts") {
		return statistic, exitcode.Usagef("--metric %s requires labels, and the data have none: use loss, feature-means, clipped or lot-size", m.name)
	}
	switch m.name {
	case "accuracy":
		statistic = engine.Accuracy(label, 0)
	case "loss":
		switch {
		case m.clip > 0:
		case label >= 0:
			m.clip = 2 * math.Log(float64(columns[label].Classes)) * float64(columns[label].Size())
		case target >= 0:
			m.clip = float64(columns[target].Size())
		default:
			m.clip = 1
		}
		statistic = engine.MeanLoss(m.clip, 0)
	case "class-counts":
		statistic = engine.ClassCounts(label, columns[label], 0)
	case "feature-means":
		size := columns[0].Size()
		if columns[0].Kind != data.Feature {
			return statistic, exitcode.Usagef("--metric feature-means requires features that are numbers, and column %s holds words: drop the metric", columns[0].Name)
		}
		if m.clip == 0 {
			m.clip = math.Sqrt(float64(size))
		}
		statistic = engine.FeatureMeans(0, size, m.clip, 0)
	case LotSizeMetric:
		statistic = engine.LotSize(0)
	case "clipped":
		statistic = engine.ClippedShare(0)
	case SchemaMetric:
		checked := len(s.Task.Schema.CheckedColumns())
		if checked == 0 {
			return statistic, exitcode.Usagef("--metric schema requires a table with bounds, dates or a vocabulary, and %s has none: drop the metric", s.Task.Name)
		}
		statistic = engine.CellShares(checked, 0)
	case BatchStatisticsMetric:
		if statistic, err = engine.BatchStatistics(s.Config.Network, m.clip, 0); err != nil {
			return statistic, exitcode.Usagef("--metric %s: the network has no batch normalization: use a model with norm=batch, or drop the metric", m.name)
		}
		m.clip = statistic.Sensitivity
	}
	statistic.Name = m.name
	return statistic, nil
}

// settings returns the value of --metric that repeats a metric exactly.
func (m metricFlag) settings() string {
	text := fmt.Sprintf("%s:noise=%v,every=%d", m.name, m.noise, m.every)
	if m.group != "" {
		text = fmt.Sprintf("%s:group=%s,scale=%v,every=%d", m.name, m.group, cmp.Or(m.scale, 1), m.every)
	}
	if m.clip > 0 {
		text += fmt.Sprintf(",clip=%v", m.clip)
	}
	return text
}

// noiseOfLots returns the noise multiplier at which one more sum in a number of lots costs a share
// of the budget by itself.
func (s *Spec) noiseOfLots(lots int, share, epsilon float64) (float64, error) {
	epsilon, err := s.costOfLots(epsilon)
	if err != nil {
		return 0, err
	}
	c := &s.Config
	plan := accountant.Plan{Sampling: lotsOnly(s.Config).PlannedHistory().Lots[0].Lot.Sampling,
		Steps: lots, Adjacency: c.Sampling.Adjacency()}
	return accountant.CalibrateNoise(plan, share*epsilon, c.Budget.Delta, c.Budget.Accountant)
}

// costOfLots returns the budget or, where it is 0, what the lots cost without further releases.
func (s *Spec) costOfLots(epsilon float64) (float64, error) {
	if epsilon != 0 {
		return epsilon, nil
	}
	lots, err := accountant.Epsilon(lotsOnly(s.Config).PlannedHistory(), s.Config.Budget.Delta, s.Config.Budget.Accountant)
	return lots.Epsilon, err
}

// lotsOnly returns the configuration of the same run without releases other than gradients.
func lotsOnly(c engine.Config) engine.Config {
	c.Projection, c.Validation, c.Statistics = engine.Projection{}, engine.Validation{}, nil
	return c
}
