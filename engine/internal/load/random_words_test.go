package load

import (
	"slices"
	"testing"

	"github.com/dptrain/dptrain/noise"
)

// A lot has as many random words as its records need: their numbers continue after the last one of a
// generator's stream, without an error and without a word of another number or stream.
func TestDrawWords_AfterLastWordOfStream(t *testing.T) {
	l := &Loader{source: noise.NewSeeded(3), step: 2}
	draw := func(n int, first uint64, stream uint32) []uint64 {
		t.Helper()
		words := make([]uint64, n)
		if err := l.drawWords(words, first, stream); err != nil {
			t.Fatal(err)
		}
		return words
	}
	const first = 3*noise.MaxValues - 20
	all := draw(50, first, roundingStream)
	if again := slices.Concat(draw(7, first, roundingStream), draw(30, first+7, roundingStream), draw(13, first+37, roundingStream)); !slices.Equal(all, again) {
		t.Error("the words depend on how they are drawn")
	}
	for stream := range uint32(randomStreams) {
		for _, at := range []uint64{0, first - noise.MaxValues, noise.MaxValues, 2 * noise.MaxValues, 3 * noise.MaxValues, 1 << 62} {
			if at != 3*noise.MaxValues || stream != roundingStream {
				all = append(all, draw(20, at, stream)...)
			}
		}
	}
	slices.Sort(all)
	if drawn := len(all); len(slices.Compact(all)) != drawn { // 64-bit words are equal with probability 2^-46
		t.Error("words of different numbers or streams are equal")
	}
}
