package sample

import (
	"math/bits"

	"github.com/dptrain/dptrain/noise"
)

// wordReader reads a stream of uniform 64-bit words in order.
type wordReader struct {
	source *noise.Source
	stream noise.Stream
	next   uint64 // the first word of the stream that is not yet in buffer
	unread int    // number of words at the end of buffer that are not yet read
	buffer [128]uint64
	err    error
}

// The numbers of the streams of a lot (for Shuffle, of a pass).
const (
	poissonBytes = iota
	poissonTies
	fixedWords
	shuffleWords
	truncatedWords
)

func (w *wordReader) open(lot uint64, vector uint32) {
	w.stream = noise.Stream{Purpose: noise.Sampling, Lot: lot, Vector: vector}
	w.next, w.unread, w.err = 0, 0, nil
}

// word returns the next word. After an error it returns 0, and err is set.
func (w *wordReader) word() uint64 {
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

// below returns an exactly uniform number in [0, n) (Lemire 2019, "Fast Random Integer
// Generation in an Interval"): it rejects some of the 2⁶⁴ words, so that the same number of
// words remains for each result.
func (w *wordReader) below(n uint64) uint64 {
	number, rest := bits.Mul64(w.word(), n)
	if rest < n {
		for reject := -n % n; rest < reject && w.err == nil; {
			number, rest = bits.Mul64(w.word(), n)
		}
	}
	return number
}
