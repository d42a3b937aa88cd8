package simd

import (
	"math/rand/v2"
	"testing"
)

// Rows of a table are read and updated in the stated order. Every implementation gives the
// bits of pure Go and writes nothing else.
func TestSumRows_AddToRows_FollowOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for _, k := range supported {
		for dim := 1; dim < 80; dim += 1 + dim/16 {
			const entries = 9
			table, src := random(rng, entries*dim), random(rng, dim)
			rows := make([]int32, 1+rng.IntN(20))
			for i := range rows {
				rows[i] = int32(rng.IntN(entries))
			}
			want, start := make([]float32, dim), random(rng, dim)
			got, check := fill(t, start)
			for j := range want {
				want[j] = start[j]
				for _, r := range rows {
					want[j] += table[int(r)*dim+j]
				}
			}
			k.sumRows(&got[0], &table[0], &rows[0], len(rows), dim)
			check()
			compareBits(t, k.name+" sum", got, want)

			to, check := fill(t, table)
			for _, r := range rows {
				for j := range src {
					table[int(r)*dim+j] += src[j]
				}
			}
			k.addToRows(&to[0], &rows[0], len(rows), &src[0], dim)
			check()
			compareBits(t, k.name+" add", to, table)
		}
	}
}
