//go:build gpu

package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// library is the cuBLASLt of a device, or why there is none, and which of its
// products were found to keep rows apart.
type library struct {
	blas  *driver.Blas
	err   error
	apart map[driver.Product]bool
}

// libraryTiles say what part of the peak of float32 cuBLASLt is taken to reach with
// large products, as productTiles do. Not measured.
var libraryTiles = map[Precision]tile{
	FP32: {"cuBLASLt", 128, 128, 256, 0.9},
	TF32: {"cuBLASLt", 128, 128, 256, 4.5},
	BF16: {"cuBLASLt", 128, 128, 256, 5},
}

// worth is how many seconds it must save to have a product computed by the library.
var worth = 2e-6

// Library describes the cuBLASLt that computes large products on a GPU, or says why own
// kernels compute all of them, which is [ErrNoLibrary] where none is found. It opens
// the GPU.
func Library(ordinal int) (string, error) {
	d, err := open(ordinal)
	if err != nil {
		return "", err
	}
	l := libraryOf(ordinal, d)
	if l.err != nil {
		return "", l.err
	}
	return l.blas.String(), nil
}

// libraryOf opens a device's library the first time that it is asked for.
func libraryOf(ordinal int, d *driver.Device) *library {
	opened.Lock()
	defer opened.Unlock()
	if l := opened.libraries[ordinal]; l != nil {
		return l
	}
	l := &library{apart: map[driver.Product]bool{}}
	l.blas, l.err = driver.OpenBlas(d)
	if errors.Is(l.err, driver.ErrNoBlas) {
		l.err = fmt.Errorf("%w: %v", ErrNoLibrary, l.err)
	}
	if opened.libraries == nil {
		opened.libraries = map[int]*library{}
	}
	opened.libraries[ordinal] = l
	return l
}

// byLibrary has cuBLASLt compute a product where that saves time against own kernels,
// which take so many seconds. Sums over records never go there. The same product has
// the same bits wherever in a program it stands, which is what a gradient built once for
// its norm and once for the sum relies on: how the library computes it hangs on shape
// and precision alone.
func (c *compiler) byLibrary(p product, own float64) bool {
	l := libraryOf(c.options.Ordinal, c.device)
	if l.blas == nil || p.transA || (p.a|p.b|p.out)%16 != 0 {
		return false
	}
	t := libraryTiles[c.options.Precision]
	time := worth + t.time(t.count(p.rows, p.columns), c.device.Multiprocessors())*float64(p.depth)
	ended := p.bias == 0 && p.act == op.Identity
	if !ended {
		time += launching + 8*float64(p.rows*p.columns)/bandwidth
	}
	if time >= own {
		return false
	}
	prepared := c.prepare(l, p)
	if prepared == nil {
		return false
	}
	workspace := c.scratch(prepared.Workspace())
	c.queue(c.name+" ("+t.name+")", func() error { return prepared.Run(workspace) })
	if !ended {
		c.addSlices(p.out, p.out, p.bias, p.rows*p.columns, p.columns, 1, p.act, false)
	}
	return true
}

// prepare has the library choose how to compute a product, once in a machine's life;
// nil where it has no way that may be used.
func (c *compiler) prepare(l *library, p product) *driver.Prepared {
	if m, ok := c.prepared[p]; ok {
		return m
	}
	m, err := l.blas.Prepare(c.described(p), p.a, p.b, p.out)
	if err == nil {
		c.library = append(c.library, m)
		apart, err := c.keepsApart(l, p)
		if !apart {
			m = nil
		}
		if c.err == nil { // no memory to try it must not choose between two results
			c.err = err
		}
	}
	c.prepared[p] = m
	return m
}

// described is a product in the library's words.
func (c *compiler) described(p product) driver.Product {
	d := driver.Product{
		TransB: p.transB, M: p.rows, N: p.columns, K: p.depth, LdA: p.depth, LdB: p.columns, LdC: p.columns,
		Batch: 1, Precision: driver.Precision(c.options.Precision),
	}
	if p.transB {
		d.LdB = p.depth
	}
	return d
}

// keepsApart tells whether the library's way to compute a product is fit for rows of
// different records: a row's bits depend neither on where it stands nor on what stands
// beside it, and a NaN stays one and stays in its row. It is tried, with equal rows
// among rows of NaN, because the library promises nothing of the kind.
func (c *compiler) keepsApart(l *library, p product) (bool, error) {
	opened.Lock()
	defer opened.Unlock()
	d := c.described(p)
	if apart, ok := l.apart[d]; ok {
		return apart, nil
	}
	apart, err := c.try(l, d)
	if err == nil {
		l.apart[d] = apart
	}
	return apart, err
}

// try runs a product twice, the rows of NaN being the odd ones, then the even ones.
func (c *compiler) try(l *library, d driver.Product) (apart bool, err error) {
	var taken []driver.Pointer
	defer func() {
		for _, t := range taken {
			err = first(err, c.device.Free(t))
		}
	}()
	alloc := func(bytes int) (at driver.Pointer) {
		if err == nil {
			if at, err = c.device.Alloc(max(bytes, 1)); err == nil {
				taken = append(taken, at)
			}
		}
		return at
	}
	a, b, out := alloc(4*d.M*d.K), alloc(4*d.K*d.N), alloc(4*d.M*d.N)
	if err != nil {
		return false, err
	}
	m, err := l.blas.Prepare(d, a, b, out)
	if err != nil {
		return false, err
	}
	defer m.Close()
	workspace := alloc(m.Workspace())
	r := rand.New(rand.NewPCG(1, 2))
	row, weights := make([]float32, d.K), make([]float32, d.K*d.N)
	for _, list := range [][]float32{row, weights} {
		for i := range list {
			list[i] = r.Float32() - 0.5
		}
	}
	rows, result := make([]float32, d.M*d.K), make([]float32, d.M*d.N)
	var whole []byte // the result of the row
	if err = first(err, c.upload(b, bytesOf(weights))); err != nil {
		return false, err
	}
	for parity := range 2 {
		for i := range d.M {
			to := rows[i*d.K : (i+1)*d.K]
			copy(to, row)
			if i%2 != parity {
				for j := range to {
					to[j] = float32(math.NaN())
				}
			}
		}
		err := first(c.upload(a, bytesOf(rows)), m.Run(workspace))
		err = first(err, c.device.CopyOut(bytesOf(result), out))
		if err = first(err, c.device.Wait()); err != nil {
			return false, err
		}
		for i := range d.M {
			got := result[i*d.N : (i+1)*d.N]
			if i%2 != parity {
				for _, v := range got {
					if v == v {
						return false, nil
					}
				}
				continue
			}
			if whole == nil {
				whole = bytes.Clone(bytesOf(got))
			}
			if !bytes.Equal(bytesOf(got), whole) {
				return false, nil
			}
		}
	}
	return true, nil
}
