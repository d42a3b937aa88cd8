//go:build gpu

package cuda

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/dptrain/dptrain/cuda/driver"
)

// mathLibraries are NVIDIA's libraries on a device, each opened at its first use. isolates
// records, for each shape, whether the library keeps records independent.
type mathLibraries struct {
	blas     func() (*driver.CuBLASLt, error)
	dnn      func() (*driver.CuDNN, error)
	isolates map[libraryShape]bool
}

// libraryShape is an operation that a library may compute instead of dptrain's own
// kernels: on records stored one after the other and on weights, with results stored one
// after the other. It is comparable.
type libraryShape interface {
	// records returns the number of records, and the number of elements of a record's
	// input, of the weights, and of a record's result.
	records() (count, in, weights, out int)
	prepare(l *mathLibraries, o operands) (*driver.PreparedCall, error)
}

// operands are the addresses of a shape's operands.
type operands struct{ in, weights, out driver.Pointer }

// libraryTask is a shape with its operands.
type libraryTask struct {
	libraryShape
	operands
}

// libraryMemory stands for memory that libraries may own: only one library call runs at a
// time, as on a stream.
var libraryMemory = span{1, 2}

// minLibrarySaving is the time in seconds that a library must save to be used.
var minLibrarySaving = 2e-6

// ProductLibrary describes the cuBLASLt that computes large products on a GPU, or reports
// why dptrain's own kernels compute all of them: [ErrNoLibrary] if no cuBLASLt is
// installed. It opens the GPU.
func ProductLibrary(ordinal int) (string, error) {
	d, err := open(ordinal)
	if err != nil {
		return "", err
	}
	return describeLibrary(openLibraries(ordinal, d).blas())
}

// ConvolutionLibrary describes the cuDNN that computes large convolutions, as
// [ProductLibrary] does for products.
func ConvolutionLibrary(ordinal int) (string, error) {
	d, err := open(ordinal)
	if err != nil {
		return "", err
	}
	return describeLibrary(openLibraries(ordinal, d).dnn())
}

func describeLibrary(l fmt.Stringer, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return l.String(), nil
}

func openLibraries(ordinal int, d *driver.Device) *mathLibraries {
	opened.Lock()
	defer opened.Unlock()
	if l := opened.libraries[ordinal]; l != nil {
		return l
	}
	l := &mathLibraries{
		blas: sync.OnceValues(func() (*driver.CuBLASLt, error) {
			b, err := driver.OpenCuBLASLt(d)
			return b, wrapNotFound("products", err)
		}),
		dnn: sync.OnceValues(func() (*driver.CuDNN, error) {
			n, err := driver.OpenCuDNN(d)
			return n, wrapNotFound("convolutions", err)
		}),
		isolates: map[libraryShape]bool{},
	}
	if opened.libraries == nil {
		opened.libraries = map[int]*mathLibraries{}
	}
	opened.libraries[ordinal] = l
	return l
}

func wrapNotFound(work string, err error) error {
	if errors.Is(err, driver.ErrNotFound) {
		return fmt.Errorf("%w %s: %v", ErrNoLibrary, work, err)
	}
	return err
}

// useLibrary queues a library call that is predicted to take time seconds if that is
// faster than dptrain's own kernels, which take own seconds. Libraries never compute sums
// over records. The same shape has the same bits everywhere in a program, because a
// library's algorithm depends only on shape and precision; a gradient built once for its
// norm and once for the sum relies on it.
func useLibrary(c *compiler, name string, t libraryTask, time, own float64) bool {
	if minLibrarySaving+time >= own || (t.in|t.weights|t.out)%16 != 0 {
		return false
	}
	prepared := prepareLibraryCall(c, t)
	if prepared == nil {
		return false
	}
	workspace := c.allocScratch(prepared.Workspace())
	c.access.writes = append(c.access.writes, libraryMemory)
	c.queue(c.name+" ("+name+")", func() error { return prepared.Run(workspace) })
	return true
}

// passSeconds is the predicted time of a kernel that reads and writes this many numbers.
func passSeconds(numbers int) float64 { return launchSeconds + 8*float64(numbers)/bandwidth }

// prepareLibraryCall makes the library choose an algorithm for a task, once per
// executable; nil if no algorithm may be used.
func prepareLibraryCall(c *compiler, t libraryTask) *driver.PreparedCall {
	if m, ok := c.prepared[t]; ok {
		return m
	}
	l := openLibraries(c.options.Ordinal, c.device)
	m, err := t.prepare(l, t.operands)
	if err == nil {
		c.calls = append(c.calls, m)
		apart, err := isolatesRecords(c, l, t.libraryShape)
		if !apart {
			m = nil
		}
		c.fail(err) // too little memory for the test must not decide between two results
	}
	c.prepared[t] = m
	return m
}

// isolatesRecords reports whether a library's algorithm for a shape keeps records
// independent: a record's bits depend neither on its position nor on its neighbours, and a
// NaN stays NaN and stays in its record. It is tested, with equal records between records
// of NaN, because the libraries do not promise it.
func isolatesRecords(c *compiler, l *mathLibraries, s libraryShape) (bool, error) {
	opened.Lock()
	defer opened.Unlock()
	if apart, ok := l.isolates[s]; ok {
		return apart, nil
	}
	apart, err := testIsolation(c, l, s)
	if err == nil {
		l.isolates[s] = apart
	}
	return apart, err
}

// testIsolation computes a shape twice: first directly, with NaN in the odd records, which
// makes the library load its modules; then captured and launched twice, as in a program,
// with NaN in the even records. A library that refuses to compute a shape does not isolate
// its records.
func testIsolation(c *compiler, l *mathLibraries, s libraryShape) (apart bool, err error) {
	var taken []driver.Pointer
	defer func() {
		for _, t := range taken {
			err = cmp.Or(err, c.device.Free(t))
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
	count, in, weights, out := s.records()
	at := operands{alloc(4 * count * in), alloc(4 * weights), alloc(4 * count * out)}
	if err != nil {
		return false, err
	}
	m, err := s.prepare(l, at)
	if err != nil {
		return false, err
	}
	defer m.Close()
	workspace := alloc(m.Workspace())
	directly := func() error { return m.Run(workspace) }
	captured := func() error {
		g, err := c.device.Capture(directly)
		if err != nil {
			return err
		}
		return cmp.Or(c.device.LaunchGraph(g), c.device.LaunchGraph(g), g.Close())
	}
	r := rand.New(rand.NewPCG(1, 2))
	record, constant := make([]float32, in), make([]float32, weights)
	for _, list := range [][]float32{record, constant} {
		for i := range list {
			list[i] = r.Float32() - 0.5
		}
	}
	if err = cmp.Or(err, c.memory.upload(at.weights, bytesOf(constant))); err != nil {
		return false, err
	}
	records, results := make([]float32, count*in), make([]float32, count*out)
	var whole []float32 // the result of the record
	for parity, run := range []func() error{directly, captured} {
		fillRecords(records, record, parity)
		if err := c.memory.upload(at.in, bytesOf(records)); err != nil {
			return false, err
		}
		if run() != nil {
			return false, c.device.Synchronize()
		}
		if err := cmp.Or(c.device.CopyOut(bytesOf(results), at.out), c.device.Synchronize()); err != nil {
			return false, err
		}
		if whole == nil {
			whole = append(whole, results[:out]...)
		}
		if !recordsIsolated(results, whole, parity) {
			return false, nil
		}
	}
	return true, nil
}

// fillRecords fills the positions of one parity with the record, and the others with NaN.
func fillRecords(records, record []float32, parity int) {
	n := len(record)
	for i := range len(records) / n {
		to := records[i*n : (i+1)*n]
		if copy(to, record); i%2 != parity {
			for j := range to {
				to[j] = float32(math.NaN())
			}
		}
	}
}

// recordsIsolated reports whether the results of such records are the record's result and
// NaN.
func recordsIsolated(results, whole []float32, parity int) bool {
	n := len(whole)
	for i := range len(results) / n {
		got := results[i*n : (i+1)*n]
		if i%2 == parity && !bytes.Equal(bytesOf(got), bytesOf(whole)) || i%2 != parity && !isNaNWhereUsed(got, whole) {
			return false
		}
	}
	return true
}

// isNaNWhereUsed reports whether every element of a result that depends on the input is
// NaN. An element that no window reaches is zero.
func isNaNWhereUsed(got, whole []float32) bool {
	for j, v := range got {
		if v == v && whole[j] != 0 {
			return false
		}
	}
	return true
}
