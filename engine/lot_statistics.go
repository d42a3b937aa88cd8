package engine

import (
	"github.com/dptrain/dptrain/accountant/ledger"
)

// PrivateStats describes the last lot. It is a function of the records that no noise
// protects: who publishes it gives up the guarantee.
type PrivateStats struct {
	Records   int     // in the lot as drawn, without blank records
	NonFinite int     // records without a contribution, because their gradient was NaN or infinite
	Unclipped int     // records whose gradient was not scaled down
	Reduced   int     // parts of contributions that were rounded again, with a smaller factor, to stay within the bound
	Omitted   int     // parts of contributions that exceeded the bound again and were left out
	Loss      float64 // mean over the lot's records; 0 where the network keeps no losses
}

// PrivateStats describes the last lot. No noise protects it and no guarantee covers it.
func (r *Run) PrivateStats() PrivateStats {
	p := r.statistics.private
	if p.Records > 0 {
		p.Loss /= float64(p.Records)
	}
	return p
}

// lotStatistics accumulates a lot's statistics and its PrivateStats.
type lotStatistics struct {
	accumulators []*statisticAccumulator
	lot          int          // the current one, from 0
	private      PrivateStats // Loss is the sum over the records
}

// newLotStatistics checks the user's functions on an example of zeros; output is the size of
// an example's output.
func newLotStatistics(c *Config, records, output int) (*lotStatistics, error) {
	s := &lotStatistics{}
	for _, statistic := range c.Statistics {
		a := newStatisticAccumulator(statistic, c.statisticQuery(statistic, records))
		if err := a.tryOnConstants(c.Train.Columns(), output); err != nil {
			return nil, err
		}
		s.accumulators = append(s.accumulators, a)
	}
	return s, nil
}

// queries returns the statistics' queries, as the ledger states them for the lots that release
// them.
func (s *lotStatistics) queries() (queries []ledger.Query) {
	for _, a := range s.accumulators {
		queries = append(queries, a.query)
	}
	return queries
}

func (s *lotStatistics) startLot(lot int) { s.lot, s.private = lot, PrivateStats{} }

// released describes the accumulators' releases before the first; release updates it.
func (s *lotStatistics) released(expectedLot float64) []ReleasedStatistic {
	all := make([]ReleasedStatistic, len(s.accumulators))
	for i, a := range s.accumulators {
		all[i] = ReleasedStatistic{Name: a.Name, Mean: a.mean, Deviation: a.Noise / expectedLot}
	}
	return all
}

// addMicrobatch adds the first n records of a microbatch, which have these clip factors.
func (s *lotStatistics) addMicrobatch(l *microbatchLoader, n int, factors [][]float32) error {
	s.private.Records += n
	for i := range n {
		unclipped := true
		for _, f := range factors {
			unclipped = unclipped && f[i] >= 1
		}
		if unclipped {
			s.private.Unclipped++
		}
	}
	if len(s.accumulators) == 0 && l.losses == nil {
		return nil
	}
	for i := range n {
		record := l.examplesOf(i)
		if l.losses != nil {
			for _, e := range record {
				s.private.Loss += float64(e.Loss) / float64(len(record))
			}
		}
		for _, a := range s.accumulators {
			if !a.isDue(s.lot) {
				continue
			}
			if err := a.addRecord(record); err != nil {
				return err
			}
		}
	}
	return nil
}

// release noises the statistics that a step's lot releases.
func (s *lotStatistics) release(streams noiseStreams, step int, expectedLot float64) error {
	for i, a := range s.accumulators {
		if !a.isDue(step) {
			continue
		}
		if err := a.releaseMean(streams.source, streams.statistic(step, i), expectedLot); err != nil {
			return err
		}
	}
	return nil
}
