package perexample_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// A record whose gradient cancels adds no more to the sum than its factor allows: its
// norm includes the rounding errors of rows that are summed in float32. The gradients are
// written in the records.
func TestClippedSum_BoundedUnderCancellation(t *testing.T) {
	const width, records = 9, 3
	const rows, long = 200, 512 // for a weight whose norms come from Gram matrices
	for _, c := range []struct {
		name    string
		devices []device
		make    func(m *maker) *G.Node
		fill    func(r *rand.Rand, size float64, inputs [][]float32) // one record
	}{
		{"a matrix and its transpose", devices, func(m *maker) *G.Node {
			w, x, u := m.param("W", width, width), m.input("x", width), m.input("u", width)
			there := must(G.HadamardProd(must(G.Mul(x, w)), m.input("y", width)))
			back := must(G.HadamardProd(must(G.Mul(u, must(G.Transpose(w, 1, 0)))), m.input("v", width)))
			return must(G.Sum(must(G.Add(there, back))))
		}, func(r *rand.Rand, size float64, in [][]float32) {
			for i := range width {
				in[0][i], in[2][i] = float32(size*r.NormFloat64()), float32(r.NormFloat64())
				in[1][i], in[3][i] = in[2][i], -in[0][i]
			}
		}},
		{"one entry of a table, three times", devices, func(m *maker) *G.Node {
			rows := apply(op.Embed{}, m.param("E", 5, width), m.input("tokens", 3))
			return must(G.Sum(must(G.HadamardProd(rows, m.input("y", 3, width)))))
		}, func(r *rand.Rand, size float64, in [][]float32) {
			for i := range width {
				x, y := float32(math.Trunc(1e6*r.Float64())), float32(math.Trunc(1e6*r.Float64()))
				in[1][i], in[1][width+i], in[1][2*width+i] = float32(size)*x, float32(size)*y, -float32(size)*(x+y)
			}
		}},
		// Each row has the same sign, so that roundings have it too. The last two cancel
		// the others.
		{"rows that a sum takes one by one", []device{onCPU}, func(m *maker) *G.Node {
			x := m.reshape(m.input("x", rows, long), m.batch*rows, long)
			y := m.reshape(m.input("y", rows, long), m.batch*rows, long)
			return must(G.Sum(must(G.HadamardProd(must(G.Mul(x, m.param("W", long, long))), y))))
		}, func(r *rand.Rand, size float64, in [][]float32) {
			way := float32(size * (1 + r.Float64()))
			back := -(rows - 2) * float64(way)
			for i := range in[0] {
				in[0][i], in[1][i] = 1, way
				switch i / long {
				case rows - 2:
					in[1][i] = float32(back)
				case rows - 1:
					in[1][i] = float32(back - float64(float32(back)))
				}
			}
		}},
	} {
		for _, dev := range c.devices {
			t.Run(c.name+"/"+dev.name, func(t *testing.T) {
				p, err := perexample.Compile(design{make: c.make}.build(1), records, 1)
				if err != nil {
					t.Fatal(err)
				}
				m, err := dev.open(p)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				r, most := rand.New(rand.NewPCG(3, 9)), 0.0
				for power := range 12 {
					for record := range records {
						one := make([][]float32, len(p.Inputs))
						for k := range one {
							n := len(m.Input(k)) / records
							one[k] = m.Input(k)[record*n : (record+1)*n]
						}
						c.fill(r, math.Pow(2, float64(4*power)), one)
					}
					if err := m.Forward(); err != nil {
						t.Fatal(err)
					}
					sq := float64(m.SquaredNorms(0)[1])
					square := adds(t, m, 1, float32(0.7/math.Sqrt(sq)))
					if math.Sqrt(square) > 0.7*(1+1e-6) { // the factor is rounded as well
						t.Errorf("a record of squared norm %g, clipped to 0.7, adds %g", sq, math.Sqrt(square))
					}
					most = max(most, square)
				}
				if most == 0 {
					t.Error("nothing is left of any sum: the test shows nothing")
				}
			})
		}
	}
}
