package release

import "github.com/dptrain/dptrain/noise"

// Streams numbers the streams of noise for one step, so that every release has its own.
// Stream.Vector counts, one after the other: the parameters, whose noise executables draw;
// the counts behind adaptive bounds, one per group; the statistics; the validation; the
// projection.
type Streams struct {
	Source                         *noise.Source
	parameters, groups, statistics int
}

// NewStreams returns the streams of a run with these numbers of parameters, of groups and of statistics.
func NewStreams(source *noise.Source, parameters, groups, statistics int) Streams {
	return Streams{Source: source, parameters: parameters, groups: groups, statistics: statistics}
}

// vectors is the stream of a group of vectors that the host adds, in place of those of the
// parameters: there are at most as many groups.
func (s Streams) vectors(step, group int) noise.Stream { return s.release(step, group) }

func (s Streams) Count(step, group int) noise.Stream {
	return s.release(step, s.parameters+group)
}

func (s Streams) Statistic(step, i int) noise.Stream {
	return s.release(step, s.parameters+s.groups+i)
}

func (s Streams) Validation(step int) noise.Stream { return s.Statistic(step, s.statistics) }

func (s Streams) Projection(step int) noise.Stream { return s.Statistic(step, s.statistics+1) }

func (s Streams) release(step, vector int) noise.Stream {
	return noise.Stream{Purpose: noise.Release, Lot: uint64(step), Vector: uint32(vector)}
}
