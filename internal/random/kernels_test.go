//go:build !noasm && (amd64 || arm64)

package random

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func FuzzKernels_MatchPureGo(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint32(seed))
	}
	f.Add(uint64(99), uint32(math.MaxUint32-30)) // the counter wraps within the groups
	edges := []uint32{0, 1, 0xff, 0x100, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xb504f333, 0xb504f334,
		0x5a827999, 0xffffff00, 0xfffffffe, 0xffffffff, 1 << 29, 1<<29 - 1, 3 << 30}
	f.Fuzz(func(t *testing.T, seed uint64, counter uint32) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var in chachaState
		for i := range in {
			in[i] = rng.Uint32()
		}
		in[counterWord] = counter
		n := 1 + rng.IntN(5)
		want := make([]uint32, n*groupWords)
		groupsGeneric(want, &in)

		var words [batchWords]uint32
		for i := range words {
			words[i] = rng.Uint32() >> (rng.UintN(4) * rng.UintN(11))
			if rng.IntN(3) == 0 {
				words[i] = edges[rng.IntN(len(edges))]
			}
		}
		var normals [NormalBatch]float32
		boxMullersGeneric(&normals, &words)

		eachSet(t, func(t testing.TB, set string) {
			before := in
			got := make([]uint32, n*groupWords+1)
			groups(got[:n*groupWords], &in)
			if in != before || got[n*groupWords] != 0 || !slices.Equal(got[:n*groupWords], want) {
				t.Errorf("%s: the blocks differ", set)
			}
			out := make([]float32, NormalBatch+2)
			boxMullers((*[NormalBatch]float32)(out[1:]), &words)
			if out[0] != 0 || out[NormalBatch+1] != 0 {
				t.Errorf("%s: wrote outside", set)
			}
			for i, v := range out[1 : NormalBatch+1] {
				if math.Float32bits(v) != math.Float32bits(normals[i]) {
					p := i/32*16 + i%16
					t.Fatalf("%s: normal %d of %#x, %#x, %#x is %v, in pure Go %v", set, i,
						words[p], words[groupWords+p], words[2*groupWords+p], v, normals[i])
				}
			}
		})
	})
}

func BenchmarkKernels(b *testing.B) {
	var words [batchWords]uint32
	var normals [NormalBatch]float32
	in := newState(Key{1}, [3]uint32{})
	rate := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(NormalBatch*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mnormals/s")
		})
	}
	rate("ChaCha/Go", func() { groupsGeneric(words[:], &in) })
	rate("BoxMuller/Go", func() { boxMullersGeneric(&normals, &words) })
	var sums [NormalBatch]int64
	var undecided [NormalBatch / 64]uint64
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range words {
		words[i] = rng.Uint32()
	}
	fast := newFastRounding(14, 300)
	round := func(rounds func(sums *[NormalBatch]int64, words *[roundedWords]uint32, undecided *[NormalBatch / 64]uint64, scale, slope, base float32, bits uint64)) func() {
		return func() {
			rounds(&sums, (*[roundedWords]uint32)(words[:]), &undecided, fast.scale, fast.slope, fast.base, fast.bits)
		}
	}
	rate("Round/Go", round(roundsGeneric))
	source := NewSeeded(1)
	first := uint64(0) // different values each time: branches are as predictable as in use
	rounded := func() {
		RoundedGaussian{5e6}.Add(source, sums[:], testStream, first)
		first += NormalBatch
	}
	float := func() { source.Normals(normals[:], testStream, 0) }
	eachSet(b, func(_ testing.TB, set string) {
		rate("ChaCha/"+set, func() { groups(words[:], &in) })
		rate("BoxMuller/"+set, func() { boxMullers(&normals, &words) })
		rate("Round/"+set, round(rounds))
		rate("RoundedGaussian/"+set, rounded)
		rate("Normals/"+set, float)
	})
}
