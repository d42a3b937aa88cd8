package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/lot"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/internal/score"
	"github.com/dptrain/dptrain/internal/setting"
)

// Statistic is a sum over the records of a lot other than the gradient: correct predictions,
// losses, class counts, feature means. It is a vector group of its own (McMahan et al. 2019,
// section 3): each record's vector is clipped to Sensitivity, however long it is, a vector with a
// number that is not finite adds nothing, the sum is noised and released with the lot, and the
// ledger contains it next to the gradient. The entries of lots that do not release it do not
// contain it: nothing is computed from their records but the gradients. Every is public, so which
// lots release it does not depend on the data.
type Statistic struct {
	Name        string
	Size        int
	Sensitivity float64 // S: each record's vector is scaled down to this norm
	Noise       float64 // σ, the standard deviation of the noise added to the sum
	Every       int     // lots Every, 2·Every, … release it, counted from 1; 0: every lot
	// Of writes the vector of one record. It gets the record's examples one after the other,
	// each as all its views where there is an [Augmentation]. It is called from one goroutine
	// and may depend on nothing else.
	Of func(dst []float64, record []Example)
	// Group names a group of Mechanism.Clipping that the statistic joins (McMahan et al. 2019, section 3.3):
	// a record's vector, shortened to Sensitivity and divided by Scale, is clipped together with the
	// record's gradients of the group, and the sum is multiplied by Scale again. The noise is that of the
	// group times Scale, and Noise must be 0. The query of the group in the ledger covers the statistic, so it
	// costs nothing more; the gradients are clipped more often. A vector with a number that is not finite
	// then excludes the record. "": the statistic is a group of its own.
	Group string
	Scale float64 // with Group; 0: 1

	// Output and Loss declare that Of reads these fields of an load.Example; a network that does
	// not keep them is then refused.
	Output, Loss bool

	readsClipped bool // Of reads Clipped, which follows from what a joint group clips

	running bool // it moves the network's running statistics: see BatchStatistics
}

// Example is what a statistic may read of one example: its Columns, and the Output, the Loss, the Cells and
// Clipped, where the network and the data set have them.
type Example = load.Example

// ReleasedStatistic is a noised statistic of a lot, divided by the expected number of records: an
// estimate of the mean, and public.
type ReleasedStatistic struct {
	Name      string
	Lot       int       // of the last release, from 1; 0: there was none in this process
	Mean      []float64 // the last release
	Deviation float64   // standard deviation of the noise in each number of Mean
}

func (c *Config) checkStatistics() error {
	for _, s := range c.Statistics {
		if c.Mechanism.NonPrivate && s.running && s.Noise == 0 {
			s.Noise = 1 // for the check: without privacy no noise is added
		}
		if err := s.check(); err != nil {
			return err
		}
		if err := c.checkJoint(&s); err != nil {
			return err
		}
		if s.Every > c.Steps {
			return fmt.Errorf("statistic %s is released in every %dth lot, and the run has %d: give a smaller number, or more lots", s.Name, s.Every, c.Steps)
		}
	}
	return nil
}

// checkJoint checks a statistic that joins a group.
func (c *Config) checkJoint(s *Statistic) error {
	if !c.joins(s) {
		return nil
	}
	m := &c.Mechanism
	i := c.groupOf(s)
	exactOnGPU := func() bool {
		if m.Arithmetic == FloatArithmetic {
			return false
		}
		c.Device.resolver().PreferCPU()
		return c.Device.resolver().OnGPU()
	}
	switch {
	case i < 0:
		return fmt.Errorf("statistic %s joins group %q, and no group of Mechanism.Clipping has this name", s.Name, s.Group)
	case s.readsClipped:
		return fmt.Errorf("statistic %s depends on the clip factor of its record, so it cannot be clipped with a group: leave out its group", s.Name)
	case c.LocalTraining.Steps > 0:
		return fmt.Errorf("statistic %s joins group %s, which local steps do not support: leave out its group, or the local steps", s.Name, s.Group)
	case m.addsLaplace():
		return setting.Errorf("Mechanism.Distribution", "statistic %s joins group %s, which needs Gaussian noise: leave out its group, or use %v",
			s.Name, s.Group, setting.With("Mechanism.Distribution", GaussianNoise))
	case c.Weights.MinMean != 0:
		return setting.Errorf("Weights.MinMean", "statistic %s joins group %s, whose sum would be divided by the weight of the lot: leave out its group, or use a mean weight (%v)", s.Name, s.Group, setting.Named("Weights.Mean"))
	case exactOnGPU():
		return setting.Errorf("Device.Name", "statistic %s joins group %s, which device %s supports with float arithmetic only: use %v, or %v",
			s.Name, s.Group, c.Device.Name, setting.With("Device.Name", "cpu"), setting.With("Mechanism.Arithmetic", "float"))
	}
	return nil
}

// joins reports whether a statistic joins a group. Without privacy nothing is clipped.
func (c *Config) joins(s *Statistic) bool { return s.Group != "" && !c.Mechanism.NonPrivate }

// groupOf returns the number of the group that a statistic joins; -1 if there is none.
func (c *Config) groupOf(s *Statistic) int {
	return slices.IndexFunc(c.Mechanism.Clipping, func(g clip.Group) bool { return g.Name == s.Group })
}

// maxStatisticSize bounds the size of a statistic.
const maxStatisticSize = 1 << 26

// maxSensitivity keeps the sum over a lot finite: noise does not protect an infinite sum. It is
// also below the norm of every vector whose squares overflow.
const maxSensitivity = 1e100

// minSensitivity keeps the squares of a clipped vector far from underflow: a vector whose squares
// underflow has norm 0 and would not be clipped.
const minSensitivity = 1e-100

func (s Statistic) check() error {
	switch {
	case s.Name == "" || s.Size < 1 || s.Of == nil:
		return fmt.Errorf("statistic %q needs a name, a size and a function", s.Name)
	case s.Every < 0:
		return fmt.Errorf("statistic %s is released in every %dth lot: give at least 1, or 0 for every lot", s.Name, s.Every)
	case s.Size > maxStatisticSize:
		return fmt.Errorf("statistic %s: a size of %d is too large; give at most %d", s.Name, s.Size, maxStatisticSize)
	case !(s.Sensitivity > 0) || math.IsInf(s.Sensitivity, 0):
		return fmt.Errorf("statistic %s: the sensitivity is %v; give a positive number", s.Name, s.Sensitivity)
	case s.Sensitivity < minSensitivity:
		return fmt.Errorf("statistic %s: a sensitivity of %v is too small; give at least %v, and count in a smaller unit", s.Name, s.Sensitivity, minSensitivity)
	case s.Sensitivity > maxSensitivity:
		return fmt.Errorf("statistic %s: a sensitivity of %v is too large; give at most %v, and count in a larger unit", s.Name, s.Sensitivity, maxSensitivity)
	case s.Group == "" && s.Scale != 0:
		return fmt.Errorf("statistic %s has the scale %v and no group: name the group that it joins, or leave out the scale", s.Name, s.Scale)
	case s.Group != "" && !(s.Scale == 0 || s.Scale >= minSensitivity && s.Scale <= maxSensitivity):
		return fmt.Errorf("statistic %s: the scale is %v; give a number from %v to %v", s.Name, s.Scale, minSensitivity, maxSensitivity)
	case s.Group != "" && s.Noise != 0:
		return fmt.Errorf("statistic %s has the noise %v and joins group %s, whose noise it gets: leave out one of them", s.Name, s.Noise, s.Group)
	case s.Group != "":
		return nil
	case !(s.Noise > 0) || math.IsInf(s.Noise, 0):
		return fmt.Errorf("statistic %s: the noise is %v; give a positive number, because without noise the statistic would be private data", s.Name, s.Noise)
	}
	return nil
}

// Accuracy is the share of correct predictions of the label column. A record counts as the mean of
// its labels, and data.Pad as a wrong prediction.
func Accuracy(label int, sigma float64) Statistic {
	return Statistic{Name: "accuracy", Size: 1, Sensitivity: 1, Noise: sigma, Output: true, Of: func(dst []float64, record []Example) {
		for _, e := range record {
			labels := e.Columns[label]
			if len(e.Output) < 2*len(labels) {
				panic("no scores for a label")
			}
			dst[0] += float64(score.CountCorrect(labels, e.Output)) / float64(len(labels)*len(record))
		}
	}}
}

// MeanLoss is the mean loss, each record's loss clipped to bound.
func MeanLoss(bound, sigma float64) Statistic {
	return Statistic{Name: "loss", Size: 1, Sensitivity: bound, Noise: sigma, Loss: true, Of: func(dst []float64, record []Example) {
		for _, e := range record {
			dst[0] += float64(e.Loss) / float64(len(record))
		}
	}}
}

// ClassCounts is the frequency of each class of the label column, as shares of the expected lot;
// data.Pad is not a class.
func ClassCounts(label int, column data.Column, sigma float64) Statistic {
	return Statistic{Name: "classes", Size: column.Classes, Sensitivity: 1, Noise: sigma, Of: func(dst []float64, record []Example) {
		for _, e := range record {
			labels := e.Columns[label]
			for _, l := range labels {
				if l != data.Pad {
					dst[int(l)] += 1 / float64(len(labels)*len(record))
				}
			}
		}
	}}
}

// FeatureMeans is the mean of a column, each record's vector clipped to norm bound. It can center
// features.
func FeatureMeans(column int, size int, bound, sigma float64) Statistic {
	return Statistic{Name: "feature means", Size: size, Sensitivity: bound, Noise: sigma, Of: func(dst []float64, record []Example) {
		for _, e := range record {
			if len(e.Columns[column]) != size {
				panic("a column of another size")
			}
			for i, v := range e.Columns[column] {
				dst[i] += float64(v) / float64(len(record))
			}
		}
	}}
}

// CellShares are shares of the lot's records by the state of each of their cells: for cell j, number 2j
// is the share of the records whose cell is outside the bounds or the vocabulary, and 2j+1 that of
// the records whose cell has no value. The last number is the share of the records that are not
// blank. A cell has one state, and the examples of a record are averaged, so the vector of a record
// has at most the norm √(cells+1). The data set must know the states: see data.CellStateSet.
func CellShares(cells int, sigma float64) Statistic {
	sensitivity := math.Sqrt(float64(cells + 1))
	return Statistic{Name: "schema", Size: 2*cells + 1, Sensitivity: sensitivity, Noise: sigma, Of: func(dst []float64, record []Example) {
		for _, e := range record {
			if len(e.Cells) != cells {
				panic("an example with another number of cells")
			}
			for j, state := range e.Cells {
				switch state {
				case data.CellOutside:
					dst[2*j] += 1 / float64(len(record))
				case data.CellEmpty:
					dst[2*j+1] += 1 / float64(len(record))
				}
			}
		}
		dst[2*cells] = 1
	}}
}

// LotSize is the number of records in the lot, as a share of the expected number. A blank record
// does not count.
func LotSize(sigma float64) Statistic {
	return Statistic{Name: "lot size", Size: 1, Sensitivity: 1, Noise: sigma, Of: func(dst []float64, _ []Example) { dst[0] = 1 }}
}

// ClippedShare is the share of records whose contribution is scaled down by clipping, in some group of
// parameters: a measure for the choice of the bounds (McMahan et al. 2019, section 4). A record whose
// gradient is not finite counts as clipped.
func ClippedShare(sigma float64) Statistic {
	return Statistic{Name: "clipped", Size: 1, Sensitivity: 1, Noise: sigma, readsClipped: true, Of: func(dst []float64, record []Example) {
		if len(record) > 0 && record[0].Clipped {
			dst[0] = 1
		}
	}}
}

// PrivateStats describes a lot: the number of its Records; those that were NonFinite, and those that were
// Unclipped; the parts of contributions that were Reduced to stay within the bound, or Omitted; the mean
// Loss. It is a function of the records that no noise protects: who publishes it gives up the guarantee.
type PrivateStats = lot.Private

// PrivateStats describes the last lot. No noise protects it and no guarantee covers it.
func (r *Run) PrivateStats() PrivateStats { return r.lot.Private }

// newStatistics returns the statistics of c, after it has tried the user's functions.
func (c *Config) newStatistics(sums *release.Sums, l *load.Loader, batch int) (*lot.Statistics, error) {
	_, cells, err := data.ValidatedCellStates(c.Train)
	if err != nil {
		return nil, err
	}
	all := make([]lot.Statistic, len(c.Statistics))
	for i, s := range c.Statistics {
		all[i] = lot.Statistic{Name: s.Name, Entry: c.entryOf(i), Bound: s.Sensitivity, Of: s.Of}
	}
	statistics := lot.NewStatistics(sums, all)
	return statistics, statistics.TryOnConstants(c.Train.Columns(), len(l.Output)/batch, cells, l.ObservedOfFirst())
}

// entryOf returns the number of a statistic in the list of releases.
func (c *Config) entryOf(statistic int) int { return len(c.Mechanism.Clipping) + statistic }

// releasedStatistics describes the statistics before their first release, which updates it.
func (r *Run) releasedStatistics() []ReleasedStatistic {
	all := make([]ReleasedStatistic, len(r.config.Statistics))
	for i, s := range r.config.Statistics {
		entry := r.config.entryOf(i)
		all[i] = ReleasedStatistic{Name: s.Name, Mean: r.lot.Sums.Result(entry), Deviation: r.deviationOf(entry)}
	}
	return all
}

// deviationOf returns the deviation of the noise in each number of a released mean, in the present lot.
func (r *Run) deviationOf(entry int) float64 {
	return r.lot.Sums.List[entry].Query.Noise / r.Event().ExpectedLot()
}
