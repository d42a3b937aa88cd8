package lattice

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"
)

// edges allocates slices that end before an unmapped page or start after one, so that an access
// outside a slice crashes the test.
type edges struct {
	t     *testing.T
	rng   *rand.Rand
	areas [][]byte
	used  int
}

const edgeArea = 1 << 20

// bytes returns memory for n elements of the given size at one end of an area.
func (e *edges) bytes(n, size int) unsafe.Pointer {
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
	if n*size > len(area) {
		e.t.Fatalf("%d elements do not fit an area", n)
	}
	if n == 0 || e.rng.IntN(4) == 0 {
		return unsafe.Pointer(&area[0])
	}
	return unsafe.Pointer(&area[len(area)-n*size])
}

func atEdge[T any](e *edges, n int) []T {
	var element T
	return unsafe.Slice((*T)(e.bytes(n, int(unsafe.Sizeof(element)))), n)
}

func TestKernels_StayInsideSlices(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		e := &edges{t: t, rng: rand.New(rand.NewPCG(41, 42))}
		ws := NewWorkspace()
		for range 300 {
			e.used = 0
			n := e.rng.IntN(140)
			x := atEdge[float32](e, n)
			k.quantizeInt16(atEdge[int16](e, n), x, 1, 1)
			k.roundInts(atEdge[int32](e, n), x, 1, 1)
			k.scale(atEdge[float32](e, n), atEdge[int64](e, n), 1)
			sum := &Sum{low: atEdge[int32](e, n), high: atEdge[int16](e, n), settled: 1}
			sum.settle(k, 0, n)
			sum.read(k, atEdge[int64](e, n), 0)

			e.used = 0
			n++
			k.addAll(atEdge[int32](e, n), atEdge[int32](e, 3*n))
			k.addInts(&atEdge[int32](e, n)[0], &atEdge[int32](e, n)[0], n)
			k.innerProduct(&atEdge[int32](e, n)[0], &atEdge[int32](e, n)[0], n)
			k.sumSquares(&atEdge[int16](e, n)[0], n)

			e.used = 0
			p := randomProduct(e.rng)
			a, d := atEdge[int16](e, p.K*p.M), atEdge[int16](e, p.K*p.N)
			shares := 1 + e.rng.IntN(3)
			for s := range shares {
				p.run(k, atEdge[int32](e, p.area()), a, d, ws, s, shares)
			}

			e.used = 0
			T := 1 + e.rng.IntN(80)
			k.gram(atEdge[int32](e, T*T), atEdge[int16](e, T*n), T, n, ws)

			e.used = 0
			w := randomWindow(e.rng)
			u := NewUnfolding(w, 1, e.rng.IntN(2) == 0)
			if rows, length := u.Size(); rows*length <= edgeArea/2 {
				k.unfold(u, atEdge[int16](e, rows*length), atEdge[int16](e, w.C*w.H*w.W), atEdge[int16](e, u.Scratch()), 0)
			}
		}
	})
}
