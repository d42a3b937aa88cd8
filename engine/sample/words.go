package sample

import (
	"math/bits"

	"github.com/dptrain/dptrain/noise"
)

// words reads a stream of 64-bit uniform words in order.
type words struct {
	source *noise.Source
	stream noise.Stream
	next   uint64 // the first word of the stream that is not in buffer yet
	unread int    // words at the end of buffer that were not read yet
	buffer [128]uint64
	err    error
}

// The streams of a lot (of a pass, for Shuffle), by noise.Stream's Vector.
const (
	poissonBytes = iota
	poissonTies
	fixedWords
	shuffleWords
)

func (w *words) open(lot uint64, vector uint32) {
	w.stream = noise.Stream{Purpose: noise.Sampling, Lot: lot, Vector: vector}
	w.next, w.unread, w.err = 0, 0, nil
}

// word is the next word; after an error it is 0, and err says so.
func (w *words) word() uint64 {
	if w.unread == 0 {
		if w.err == nil {
			w.err = w.source.Uint64s(w.buffer[:], w.stream, w.next)
		}
		if w.err != nil {
			return 0
		}
		w.next += uint64(len(w.buffer))
		w.unread = len(w.buffer)
	}
	x := w.buffer[len(w.buffer)-w.unread]
	w.unread--
	return x
}

// below is a uniform number in [0, n), exactly (Lemire 2019, "Fast Random Integer
// Generation in an Interval"): of the 2⁶⁴ words, so many are rejected that each
// number keeps equally many.
func (w *words) below(n uint64) uint64 {
	number, rest := bits.Mul64(w.word(), n)
	if rest < n {
		for reject := -n % n; rest < reject && w.err == nil; {
			number, rest = bits.Mul64(w.word(), n)
		}
	}
	return number
}
