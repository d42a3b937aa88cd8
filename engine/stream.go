package engine

import "github.com/dptrain/dptrain/noise"

// Whatever is released at one step has a stream of noise of its own. By their Vector these
// are, one after the other: the parameters, which machines draw for; the counts behind
// adaptive bounds, one a group; the statistics; the validation; the projection.

func (r *Run) countStream(group int) noise.Stream {
	return r.stream(len(r.program.Parameters) + group)
}

func (r *Run) statisticStream(i int) noise.Stream {
	return r.stream(len(r.program.Parameters) + len(r.config.Mechanism.Clipping) + i)
}

func (r *Run) validationStream() noise.Stream { return r.statisticStream(len(r.config.Statistics)) }

func (r *Run) projectionStream() noise.Stream { return r.statisticStream(len(r.config.Statistics) + 1) }

func (r *Run) stream(vector int) noise.Stream {
	return noise.Stream{Purpose: noise.Release, Lot: uint64(r.step), Vector: uint32(vector)}
}

// What varies of a view of an example.
const (
	varyMasks = iota
	varyChange
)

// vary fills words for the slots of the microbatch that comes next in the lot, so many for
// each. They are independent of each other and of the data, and nobody knows them: what
// befalls an example is as likely whoever else is in the lot, or in the data.
func (r *Run) vary(words []uint64, each int, what uint32) error {
	first := r.private.Records * r.slots() * each
	return r.source.Uint64s(words, noise.Stream{Purpose: noise.ExampleRandomness, Lot: uint64(r.step), Vector: what}, uint64(first))
}

// normal is a standard normal, the first of a stream.
func (r *Run) normal(s noise.Stream) (float64, error) {
	var one [1]float64
	err := r.source.Normals64(one[:], s, 0)
	return one[0], err
}
