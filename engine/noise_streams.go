package engine

import "github.com/dptrain/dptrain/noise"

// noiseStreams numbers the streams of noise for one step, so that every release has its own.
// Stream.Vector counts, one after the other: the parameters, whose noise executables draw;
// the counts behind adaptive bounds, one per group; the statistics; the validation; the
// projection.
type noiseStreams struct {
	source                         *noise.Source
	parameters, groups, statistics int
}

func (s noiseStreams) count(step, group int) noise.Stream {
	return s.release(step, s.parameters+group)
}

func (s noiseStreams) statistic(step, i int) noise.Stream {
	return s.release(step, s.parameters+s.groups+i)
}

func (s noiseStreams) validation(step int) noise.Stream { return s.statistic(step, s.statistics) }

func (s noiseStreams) projection(step int) noise.Stream { return s.statistic(step, s.statistics+1) }

func (s noiseStreams) release(step, vector int) noise.Stream {
	return noise.Stream{Purpose: noise.Release, Lot: uint64(step), Vector: uint32(vector)}
}
