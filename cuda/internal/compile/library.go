//go:build gpu

package compile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/dptrain/dptrain/cuda/internal/driver"
)

// mathLibraries are NVIDIA's libraries on a device, each opened at its first use. isolates
// records, for each choice, whether the library keeps records independent.
type mathLibraries struct {
	blas     func() (*driver.CuBLASLt, error)
	dnn      func() (*driver.CuDNN, error)
	isolates map[libraryChoice]bool
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

// ProductLibrary describes the cuBLASLt that computes large products on a GPU, or reports
// why dptrain's own kernels compute all of them: [ErrNoLibrary] if no cuBLASLt is
// installed. It opens the GPU.
func ProductLibrary(ordinal int) (string, error) {
	d, err := Open(ordinal)
	if err != nil {
		return "", err
	}
	return describeLibrary(openLibraries(ordinal, d).blas())
}

// ConvolutionLibrary describes the cuDNN that computes large convolutions, as
// [ProductLibrary] does for products.
func ConvolutionLibrary(ordinal int) (string, error) {
	d, err := Open(ordinal)
	if err != nil {
		return "", err
	}
	return describeLibrary(openLibraries(ordinal, d).dnn())
}

// CommunicationLibrary describes the NCCL that connects a GPU with others, or reports why there is none. It
// opens the GPU.
func CommunicationLibrary(ordinal int) (string, error) {
	d, err := Open(ordinal)
	if err != nil {
		return "", err
	}
	n, err := driver.OpenNCCL(d)
	if err != nil {
		return "", err
	}
	defer n.Close()
	return n.String(), nil
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
		isolates: map[libraryChoice]bool{},
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

// useLibrary queues the faster of a library call with the steps that finish its result, and
// of dptrain's own kernels. Without measurements these compute everything. Libraries never
// compute sums over records. The same shape has the same bits everywhere in a program: a
// library's algorithm depends only on shape and precision, and so does the choice between
// the library and the own kernels, whose tiles all give the same bits. A gradient built once
// for its norm and once for the sum relies on it.
func useLibrary(c *compiler, name string, t libraryTask, own, finish func()) {
	var prepared *driver.PreparedCall
	if (t.in|t.weights|t.out)%16 == 0 {
		prepared = prepareLibraryCall(c, t)
	}
	if prepared == nil {
		own()
		return
	}
	call := func() {
		workspace := c.allocScratch(prepared.Workspace())
		c.access.writes = append(c.access.writes, libraryMemory)
		c.queue(c.name+" ("+name+")", func() error { return prepared.Run(workspace) })
		finish()
	}
	c.choose(fmt.Sprintf("%v: %+v", prepared, t.libraryShape), []option{{ownKernels, own}, {name, call}}, 0)
}

// ownKernels is the name of the option that uses no library.
const ownKernels = "own kernels"

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
		apart, err := isolatesRecords(c, l, t, m)
		if !apart {
			m = nil
		}
		c.fail(err)
	}
	c.prepared[t] = m
	return m
}

// libraryChoice is an algorithm for a shape.
type libraryChoice struct {
	libraryShape
	algorithm string
}

// isolatesRecords reports whether a library's algorithm for a shape keeps records
// independent: a record's bits depend neither on its position nor on its neighbours, and a
// NaN stays NaN and stays in its record. It is tested, because the libraries do not promise
// it, and remembered for the process.
func isolatesRecords(c *compiler, l *mathLibraries, t libraryTask, m *driver.PreparedCall) (bool, error) {
	opened.Lock()
	defer opened.Unlock()
	choice := libraryChoice{t.libraryShape, m.Algorithm}
	if apart, ok := l.isolates[choice]; ok {
		return apart, nil
	}
	apart, err := testIsolation(c, t, m)
	if err == nil {
		l.isolates[choice] = apart
	}
	return apart, err
}

// testIsolation runs the call that the program will run, on the program's own buffers: the
// test needs no other memory than the call's workspace. All records are tested, not a few:
// how a library divides a product among blocks can depend on the number of rows (stream-K,
// swizzled tiles, tail kernels), so a test of fewer rows would prove nothing about this
// number, even with the same algorithm.
//
// The call runs with equal records between records of NaN: first directly, with NaN in the
// odd records, which makes the library load its modules; then captured and launched twice,
// as in a program, with NaN in the even records. A library that refuses to compute a shape
// does not isolate its records.
//
// If there is no memory for the workspace, dptrain's own kernels compute the shape in every
// program of the process: they need no workspace, and a microbatch is not made smaller for
// a test.
func testIsolation(c *compiler, t libraryTask, m *driver.PreparedCall) (apart bool, err error) {
	workspace, err := c.device.Alloc(max(m.Workspace(), 1))
	if errors.Is(err, driver.ErrOutOfMemory) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = cmp.Or(err, c.device.Free(workspace)) }()
	c.overwritten = true
	directly := func() error { return m.Run(workspace) }
	captured := func() error {
		g, err := c.device.Capture(directly)
		if err != nil {
			return err
		}
		return cmp.Or(c.device.LaunchGraph(g), c.device.LaunchGraph(g), g.Close())
	}
	count, in, weights, out := t.records()
	r := rand.New(rand.NewPCG(1, 2))
	record, constant := make([]float32, in), make([]float32, min(weights, 1<<20))
	for _, list := range [][]float32{record, constant} {
		for i := range list {
			list[i] = r.Float32() - 0.5
		}
	}
	if err := repeatOnDevice(c.memory, t.weights, constant, weights); err != nil {
		return false, err
	}
	var whole []float32 // the result of the record
	for parity, run := range []func() error{directly, captured} {
		pair := make([]float32, min(count, 2)*in)
		fillRecords(pair, record, parity)
		if err := repeatOnDevice(c.memory, t.in, pair, count*in); err != nil {
			return false, err
		}
		if run() != nil {
			return false, c.device.Synchronize()
		}
		if whole == nil {
			whole = make([]float32, out)
			if err := readFloats(c.device, whole, t.out); err != nil {
				return false, err
			}
		}
		if apart, err := resultsIsolated(c.device, t.out, count, whole, parity); !apart {
			return false, err
		}
	}
	return true, nil
}

// repeatOnDevice fills n numbers of the device's memory with copies of x. It doubles what
// is filled, so few copies suffice, and none but the first leaves the device.
func repeatOnDevice(m *deviceMemory, to driver.Pointer, x []float32, n int) error {
	if err := m.upload(to, bytesOf(x[:min(len(x), n)])); err != nil {
		return err
	}
	for filled := len(x); filled < n; filled *= 2 {
		if err := m.device.Copy(to+driver.Pointer(4*filled), to, 4*min(filled, n-filled)); err != nil {
			return err
		}
	}
	return nil
}

func readFloats(d *driver.Device, to []float32, from driver.Pointer) error {
	return cmp.Or(d.CopyOut(bytesOf(to), from), d.Synchronize())
}

// readAtOnce is the number of results that a test copies to the host at a time.
const readAtOnce = 4 << 20

// resultsIsolated reports whether the results of count records are isolated. The host has
// a part of them at a time.
func resultsIsolated(d *driver.Device, results driver.Pointer, count int, whole []float32, parity int) (bool, error) {
	n := len(whole)
	pairs := max(1, readAtOnce/(2*n))
	part := make([]float32, min(2*pairs, count)*n)
	for at := 0; at < count; at += 2 * pairs {
		part = part[:min(2*pairs, count-at)*n]
		if err := readFloats(d, part, results+driver.Pointer(4*at*n)); err != nil {
			return false, err
		}
		if !recordsIsolated(part, whole, parity) {
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
