//go:build gpu

package cuda

import "github.com/dptrain/dptrain/internal/op"

// lowerDropout has a thread for every counter of the generator: four elements.
func (c *compiler) lowerDropout(s op.Dropout, k call) {
	examples := k.shape[0]
	n := k.results() / examples
	counters := ceil(n, 4)
	k0, k1 := s.Key()
	c.launch("dropout", blocks(examples*counters), threads, k.out, k.in[0], k.in[1],
		int32(examples*counters), newDivider(counters), int32(n), k0, k1, s.Threshold(), float32(s.Scale()))
}
