package engine

import "github.com/dptrain/dptrain/noise"

// Whatever is released at one step has a stream of noise of its own. By their Vector these
// are, one after the other: the parameters, which machines draw for; the counts behind
// adaptive bounds, one a group; the statistics; the validation; the projection.

func (r *Run) countStream(group int) noise.Stream {
	return r.stream(len(r.program.Vectors) + group)
}

func (r *Run) statisticStream(i int) noise.Stream {
	return r.stream(len(r.program.Vectors) + len(r.config.Clipping) + i)
}

func (r *Run) validationStream() noise.Stream { return r.statisticStream(len(r.config.Statistics)) }

func (r *Run) projectionStream() noise.Stream { return r.statisticStream(len(r.config.Statistics) + 1) }

func (r *Run) stream(vector int) noise.Stream {
	return noise.Stream{Purpose: noise.Release, Lot: uint64(r.step), Vector: uint32(vector)}
}

// normal is a standard normal, the first of a stream.
func (r *Run) normal(s noise.Stream) (float64, error) {
	var one [1]float64
	err := r.source.Normals64(one[:], s, 0)
	return one[0], err
}
