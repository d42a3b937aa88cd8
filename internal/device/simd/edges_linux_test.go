package simd

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dptrain/dptrain/internal/half"
)

// edges allocates slices that end before an unmapped page or start after one, so that an
// access outside a slice crashes the test.
type edges struct {
	t     *testing.T
	rng   *rand.Rand
	areas [][]byte
	used  int
}

const edgeArea = 1 << 19

func (e *edges) floats(n int) []float32 {
	if e.used == len(e.areas) {
		page := syscall.Getpagesize()
		m, err := syscall.Mmap(-1, 0, edgeArea+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			e.t.Fatal(err)
		}
		e.t.Cleanup(func() { syscall.Munmap(m) })
		for _, end := range [][]byte{m[:page], m[page+edgeArea:]} {
			if err := syscall.Mprotect(end, syscall.PROT_NONE); err != nil {
				e.t.Fatal(err)
			}
		}
		e.areas = append(e.areas, m[page:page+edgeArea])
	}
	area := e.areas[e.used]
	e.used++
	from := 0
	if e.rng.IntN(4) > 0 {
		from = len(area) - 4*n
	}
	s := unsafe.Slice((*float32)(unsafe.Pointer(&area[0])), len(area)/4)[from/4:][:n:n]
	for i := range s {
		s[i] = float32(e.rng.NormFloat64())
	}
	return s
}

func TestKernels_StayInsideSlices(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		e := &edges{t: t, rng: rand.New(rand.NewPCG(41, 42))}
		ws := NewWorkspace()
		runWith(k, func() {
			for range 150 {
				e.used = 0
				g := randomGemm(e.rng)
				nc, na, nb := g.areas()
				if max(nc, na, nb) <= edgeArea/4 {
					if g.ColBias != nil {
						g.ColBias = e.floats(g.N)
					}
					if g.RowBias != nil {
						g.RowBias = e.floats(g.M)
					}
					if g.TransA && !g.TransB {
						g.Factors = e.floats(g.K)
					}
					g.Run(e.floats(nc), e.floats(na), e.floats(nb), ws, 0, 1)
				}

				e.used = 0
				n := 1 + e.rng.IntN(70)
				bits := unsafe.Slice((*uint16)(unsafe.Pointer(&e.floats(n)[0])), 2*n)
				Widen(e.floats(n), half.Numbers{Format: halfFormats[n%2], Bits: bits[n:]})
				Widen(e.floats(n), half.Numbers{Format: halfFormats[n%2], Bits: bits[:n]})

				e.used = 0
				d, x, y := e.floats(n), e.floats(n), e.floats(n)
				for _, f := range []func(dst, x, y []float32){Add, Mul, ReLUGrad, TanhGrad, SigmoidGrad, GELUGrad} {
					f(d, x, y)
				}
				for _, f := range []func(dst, x []float32){ReLU, Exp, Tanh, Sigmoid, GELU} {
					f(d, x)
				}
				Scale(d, x, 2)
				Axpy(d, x, 2)
				Dot(x, y)
				Sum(x)
				SumSquares(x)
				Max(x)
				SumSquaredDeviations(x, 0.5)
				Normalize(d, x, 0.5, 2)
				NormalizeGrad(d, x, y, 0.5, 1, 2, 3)
				SoftmaxGrad(d, x, y, 2)

				e.used = 0
				rows, ld := 1+e.rng.IntN(40), n+e.rng.IntN(3)
				x = e.floats(area(rows, n, ld))
				ColSums(e.floats(n), x, ld, rows, n, e.floats(rows), false)
				Transpose(e.floats(area(n, rows, rows)), rows, x, ld, rows, n)

				e.used = 0
				LSTMStep(e.floats(5*n), e.floats(n), e.floats(n), e.floats(4*n), e.floats(4*n), e.floats(n))
				LSTMSignals(e.floats(4*n), e.floats(n), e.floats(5*n), e.floats(n), e.floats(n), e.floats(n), e.floats(n))

				e.used = 0
				table, ids := e.floats(rows*n), make([]int32, 1+e.rng.IntN(9))
				for i := range ids {
					ids[i] = int32(e.rng.IntN(rows))
				}
				SumRows(e.floats(n), table, ids)
				AddToRows(table, ids, e.floats(n))

				if v := winograds[e.rng.IntN(2)]; v.HasKernels() {
					e.used = 0
					tiles := 1 + e.rng.IntN(20)
					_, n := tileVectors(tiles)
					planes, line := e.floats(v.Planes()*n), 2*n+v.Taps-1
					v.Image(planes, n, e.floats(v.Points()*line), line, tiles)
					v.Signal(planes, n, e.floats(4*n), 2*n, tiles)
					v.Result(e.floats(2*n), e.floats(2*n), planes, n, tiles, 0.5, true)
					filters := e.floats(v.Taps * v.Taps * (n - e.rng.IntN(n-WinogradLanes+1)))
					v.Filters(planes, n, filters)
					v.Gradients(filters, planes, n)
				}

				e.used = 0
				w := randomWindow(e.rng)
				oh, ow := w.OutputSize()
				positions, taps := oh*ow, w.C*w.KH*w.KW
				img, patches := e.floats(w.C*w.H*w.W), e.floats(taps*positions)
				w.Im2col(patches, positions, img)
				w.Col2im(img, patches, positions)
				w.MaxPool(e.floats(w.C*positions), make([]int32, w.C*positions), img)
				u := w.Unfolding()
				dst, scratch := u.BufferSizes()
				u.Columns(e.floats(dst), img, e.floats(scratch))
				if e.rng.IntN(2) == 0 {
					w.C = 8 + 4*e.rng.IntN(3)
				}
				if p := w.ChannelPool(); p != nil && w.C*positions <= edgeArea/4 {
					e.used = 0
					img, dst := e.floats(w.C*w.H*w.W), e.floats(w.C*positions)
					arg := unsafe.Slice((*uint8)(unsafe.Pointer(&e.floats(w.C * positions / 4)[0])), w.C*positions)
					p.Max(dst, arg, img)
					p.Grad(img, dst, arg)
				}
				w.DilH, w.DilW = 1, 1
				if p := w.Patches(e.rng.IntN(2) == 0); p != nil {
					if dst, scratch := p.BufferSizes(); max(dst, scratch) <= edgeArea/4 {
						e.used = 0
						img, rows, padded := e.floats(w.C*w.H*w.W), e.floats(dst), e.floats(scratch)
						p.Rows(rows, img, padded)
						p.Fold(img, rows, padded)
					}
				}
			}
		})
	})
}
