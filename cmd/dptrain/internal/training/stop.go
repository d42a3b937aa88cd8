package training

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/engine"
)

// isTestDue reports whether the run has probably trained on as many examples since the last
// evaluation as the test data have.
func (p *Progress) isTestDue(lot *engine.Progress) bool {
	return p.examplesPerLot*float64(lot.Lot-p.evaluatedLot) >= float64(p.spec.Task.Test.Len())
}

// stopsAt reports whether the metric that a lot released ends the run.
func (p *Progress) stopsAt(lot *engine.Progress) bool {
	c := p.spec.Stop
	if c == nil || c.OnTest {
		return false
	}
	for _, m := range lot.Released {
		if m.Name == c.Metric && m.Lot == lot.Lot {
			return c.Observe(m.Mean[0])
		}
	}
	return false
}

// stopsOnTest reports whether the last evaluation of the test data ends the run.
func (p *Progress) stopsOnTest() bool {
	c := p.spec.Stop
	switch {
	case c == nil || !c.OnTest:
		return false
	case c.Metric == "accuracy":
		return c.Observe(p.evaluation.Accuracy)
	}
	return c.Observe(p.evaluation.Loss)
}

// restoreConditions gives the conditions of a resumed run the values of the lots before, so that the run ends
// and changes its noise as a run without an interruption does. The values are in metrics.jsonl, which has
// each lot before a checkpoint contains the lot. Lots that a crash lost are not in the checkpoint: the
// resumed run releases others.
func (p *Progress) restoreConditions() error {
	rules := p.spec.NoiseRules
	if p.spec.Stop == nil && rules == nil || p.firstLot == 0 {
		return nil
	}
	path := filepath.Join(p.spec.Flags.Out, rundir.MetricsFile)
	lots, damaged, err := p.earlierLots()
	if err != nil {
		return err
	}
	if damaged != nil {
		return fmt.Errorf("%s, from which --stop-when and --noise-schedule continue, cannot be read: %w; move it away to count from here", path, damaged)
	}
	for _, lot := range lots {
		for _, m := range lot.Released {
			if rules != nil && len(m.Value) == 1 {
				rules.Observe(m.Name, m.Value[0])
			}
		}
		if err := p.observeAgain(lot); err != nil {
			return fmt.Errorf("%s, lot %d: %w; move the file away to count from here", path, lot.Lot, err)
		}
	}
	if rules != nil {
		rules.ContinueAfter(p.firstLot)
	}
	return nil
}

// observeAgain gives the condition the value of an earlier lot, if it read one.
func (p *Progress) observeAgain(lot observedLot) error {
	c := p.spec.Stop
	if c == nil {
		return nil
	}
	if !c.OnTest {
		for _, m := range lot.Released {
			if m.Name == c.Metric && len(m.Value) == 1 {
				c.Observe(m.Value[0])
			}
		}
		return nil
	}
	if lot.TestLoss == nil {
		return nil
	}
	p.evaluatedLot = lot.Lot
	if c.Metric == "accuracy" {
		if lot.TestAccuracy != nil {
			c.Observe(*lot.TestAccuracy)
		}
		return nil
	}
	var loss number.Float
	if err := json.Unmarshal(lot.TestLoss, &loss); err != nil {
		return err
	}
	c.Observe(float64(loss))
	return nil
}
