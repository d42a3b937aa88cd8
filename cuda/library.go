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

// mathLibraries are NVIDIA's on a device, each opened when it is first asked for, and which
// of what they compute was found to keep records apart.
type mathLibraries struct {
	blas     func() (*driver.CuBLASLt, error)
	dnn      func() (*driver.CuDNN, error)
	isolates map[libraryShape]bool
}

// libraryShape is what a library may compute in place of own kernels: of records that lie one
// after the other, with weights, records one after the other. It can be compared.
type libraryShape interface {
	// records is how many there are, and how many numbers one has where it is read, the
	// weights have, and one has where it is written.
	records() (count, in, weights, out int)
	prepare(l *mathLibraries, o operands) (*driver.PreparedCall, error)
}

// operands are where a shape is computed.
type operands struct{ in, weights, out driver.Pointer }

// libraryTask is a shape with its operands.
type libraryTask struct {
	libraryShape
	operands
}

// libraryMemory stands for the memory that libraries may have of their own: one of their
// tasks runs at a time, as they have it on a stream.
var libraryMemory = span{1, 2}

// minLibrarySaving is how many seconds it must save to have something computed by a library.
var minLibrarySaving = 2e-6

// ProductLibrary describes the cuBLASLt that computes large products on a GPU, or says why own
// kernels compute all of them, which is [ErrNoLibrary] where none is found. It opens
// the GPU.
func ProductLibrary(ordinal int) (string, error) {
	d, err := open(ordinal)
	if err != nil {
		return "", err
	}
	return describeLibrary(openLibraries(ordinal, d).blas())
}

// ConvolutionLibrary describes the cuDNN that computes large convolutions, as
// [ProductLibrary] does.
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

// useLibrary has a library compute what takes it so many seconds, and own kernels so
// many, where that saves time. Sums over records never go there. The same shape has
// the same bits wherever in a program it stands, which is what a gradient built once for
// its norm and once for the sum relies on: how a library computes it hangs on shape and
// precision alone.
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

// passSeconds is how long a kernel takes that reads and writes so many numbers.
func passSeconds(numbers int) float64 { return launchSeconds + 8*float64(numbers)/bandwidth }

// prepareLibraryCall has the library choose how to compute a task, once in a machine's life; nil
// where it has no way that may be used.
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

// isolatesRecords tells whether a library's way to compute a shape is fit for different
// records: a record's bits depend neither on where it stands nor on what stands beside
// it, and a NaN stays one and stays in its record. It is tried, with equal records among
// records of NaN, because the libraries promise nothing of the kind.
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

// testIsolation computes a shape twice: at once with the odd records of NaN, which has the library
// load what it needs, then recorded and run again, as a program has it, with the even
// ones. What a library refuses to compute does not keep records apart.
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
	atOnce := func() error { return m.Run(workspace) }
	recorded := func() error {
		g, err := c.device.Capture(atOnce)
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
	for parity, run := range []func() error{atOnce, recorded} {
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

// fillRecords fills the places of a parity with the record, and the others with NaN.
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

// recordsIsolated tells whether the results of such records are the record's and NaN.
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

// isNaNWhereUsed tells whether NaN is in every number of a result that comes of anything: a number
// to which a window brings nothing is zero.
func isNaNWhereUsed(got, whole []float32) bool {
	for j, v := range got {
		if v == v && whole[j] != 0 {
			return false
		}
	}
	return true
}
