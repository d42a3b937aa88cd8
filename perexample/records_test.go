package perexample_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
)

// A record of several examples has the weighted sum of their gradients. An example of
// weight zero does not contribute.
func TestCompile_RecordsOfSeveralExamples(t *testing.T) {
	const perRecord, count = 3, 5
	for _, d := range designs {
		if d.loop {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			const seed = 5
			e := draw(t, d, seed, count*perRecord)
			r := rand.New(rand.NewPCG(seed, 5))
			weights := make([]float32, e.count)
			for i := range weights {
				if weights[i] = float32(r.Float64()); i%5 == 2 {
					weights[i] = 0
				}
			}
			factors := factorsFor(seed, count)
			want := oracle{d.build(seed)}.reference(e, perRecord, weights, factors)
			for _, records := range []int{1, 2, count} {
				p, err := perexample.Compile(d.build(seed), records, perRecord)
				if err != nil {
					t.Fatal(err)
				}
				for _, dev := range devices {
					m, err := dev.open(p)
					if err != nil {
						t.Fatal(err)
					}
					t.Run(dev.name, func(t *testing.T) {
						compare(t, p, step(t, m, p, e, perRecord, weights, factors, 1), want, factors, tolerance)
					})
					m.Close()
				}
			}
		})
	}
}

// A record's squared norms have the same bits in any microbatch and at any position. A
// record full of NaNs with factor zero does not change a sum.
func TestCompile_RecordsAreIndependent(t *testing.T) {
	const records, seed = 5, 11
	for _, d := range designs {
		if d.loop {
			continue
		}
		for _, dev := range devices {
			t.Run(d.name+"/"+dev.name, func(t *testing.T) {
				p, err := perexample.Compile(d.build(seed), records, 1)
				if err != nil {
					t.Fatal(err)
				}
				m, err := dev.open(p)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				e := draw(t, d, seed, records)
				factors := make([]float32, records)
				factors[0] = 0.7
				norm := func(company func(example, column, i int) float32, at int) ([]uint32, [][]float32) {
					for k := range p.Inputs {
						for r := range records {
							row := e.row(k, r)
							for i := range row {
								row[i] = company(r, k, i)
							}
							copy(m.Input(k)[r*len(row):], row)
						}
						if p.MaskSeed != nil {
							for r := range records {
								copy(m.MaskSeed()[r*op.MaskSeedWidth:], maskSeed(r))
							}
							copy(m.MaskSeed()[at*op.MaskSeedWidth:], maskSeed(99))
						}
						mine := own(d, k, e.sizes[k])
						copy(m.Input(k)[at*len(mine):], mine)
					}
					if err := m.Forward(); err != nil {
						t.Fatal(err)
					}
					var bits []uint32
					for v := range p.Parameters {
						bits = append(bits, math.Float32bits(m.SquaredNorms(v)[at]))
						clear(m.ClipFactors(v))
						m.ClipFactors(v)[at] = factors[0]
					}
					if err := m.AddClippedSums(); err != nil {
						t.Fatal(err)
					}
					var sums [][]float32
					for v := range p.Parameters {
						sums = append(sums, append([]float32(nil), m.Sum(v)...))
					}
					empty(t, m, len(p.Parameters))
					return bits, sums
				}
				first, sums := norm(func(_, k, i int) float32 { return own(d, k, e.sizes[k])[i] }, 0)
				for at := range records {
					for _, company := range []float32{0, 1, float32(math.NaN())} {
						bits, again := norm(func(int, int, int) float32 { return company }, at)
						for v := range bits {
							if bits[v] != first[v] {
								t.Errorf("%s at position %d next to %g: squared norm %x, elsewhere %x", p.Parameters[v].Node.Name(), at, company, bits[v], first[v])
							}
							for i, x := range again[v] {
								if !(math.Abs(float64(x-sums[v][i])) <= 1e-6*math.Sqrt(float64(math.Float32frombits(first[v])))) {
									t.Fatalf("%s at position %d next to %g: the sum is %g, elsewhere %g", p.Parameters[v].Node.Name(), at, company, x, sums[v][i])
								}
							}
						}
					}
				}
			})
		}
	}
}

// own is the example under test, in column k.
func own(d design, k, size int) []float32 {
	r := rand.New(rand.NewPCG(uint64(k), 6))
	x := make([]float32, size)
	for i := range x {
		if n := d.whole[k]; n > 0 {
			x[i] = float32(r.IntN(n))
		} else {
			x[i] = float32(r.NormFloat64())
		}
	}
	return x
}
