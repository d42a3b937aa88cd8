//go:build gpu

package ranks

// #cgo CFLAGS: -Wall
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "mpi.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Built reports whether this binary can open MPI.
const Built = true

// library is an open MPI library.
type library struct {
	path    string
	abi     *abi
	version string // the first line of the library's own description
	c       *C.ranks_mpi
}

func (l *library) String() string { return fmt.Sprintf("%s (%s, %s)", l.version, l.abi.name, l.path) }

// Find describes the MPI library that Open would open. It does not start MPI.
func Find(path string) (string, error) {
	l, err := open(path)
	if err != nil {
		return "", err
	}
	return l.String(), nil
}

// open opens a library: the file path or, if it is empty, the first one that exists.
func open(path string) (*library, error) {
	paths := []string{path}
	if path == "" {
		paths = libraries()
	}
	var first error
	for _, p := range paths {
		handle, err := load(p)
		if err == nil {
			return newLibrary(p, handle)
		}
		if first == nil {
			first = err
		}
	}
	if path == "" {
		return nil, fmt.Errorf("no MPI library was found (%w); install one, or name its file, such as libmpi_abi.so, libmpi.so.12 of MPICH or libmpi.so.40 of Open MPI", first)
	}
	return nil, fmt.Errorf("the MPI library %s cannot be opened: %w", path, first)
}

func load(path string) (unsafe.Pointer, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var failure [512]C.char
	handle := C.ranks_open(name, &failure[0], C.size_t(len(failure)))
	if handle == nil {
		return nil, errors.New(C.GoString(&failure[0]))
	}
	return handle, nil
}

// newLibrary loads the functions and constants of an open library. Open MPI has its handles as symbols. A
// library with the standard ABI states its version, and one that also exists with it, such as
// MPICH 5, states -1.
func newLibrary(path string, file unsafe.Pointer) (*library, error) {
	l := &library{path: path, abi: &mpichABI, c: (*C.ranks_mpi)(C.calloc(1, C.sizeof_ranks_mpi))}
	if missing := C.ranks_load_functions(file, l.c); missing != nil {
		return nil, fmt.Errorf("%s is not an MPI library: it lacks %s", path, C.GoString(missing))
	}
	switch {
	case address(file, openMPIABI.world.symbol) != 0:
		l.abi = &openMPIABI
	case C.ranks_abi_major(file) >= 1:
		l.abi = &standardABI
	}
	if err := l.setConstants(file); err != nil {
		return nil, err
	}
	text := make([]C.char, maxVersionString+1)
	var length C.int
	if C.ranks_library_version(l.c, &text[0], &length) != 0 {
		return nil, fmt.Errorf("%s does not state its version", path)
	}
	l.version, _, _ = strings.Cut(strings.TrimSpace(C.GoString(&text[0])), "\n")
	l.version, _, _ = strings.Cut(l.version, ",")
	l.version = strings.Join(strings.Fields(strings.Replace(l.version, "MPICH Version:", "MPICH", 1)), " ")
	if l.abi == &mpichABI && !hasMPICHABI(l.version) {
		return nil, fmt.Errorf("%s is %s, whose binary interface is unknown: use MPICH, Intel MPI, MVAPICH, Cray MPICH, Open MPI or a library with the standard ABI", path, l.version)
	}
	return l, nil
}

// hasMPICHABI reports whether a library's description is that of MPICH or of one of its kin.
func hasMPICHABI(version string) bool {
	for _, name := range []string{"MPICH", "Intel(R) MPI", "MVAPICH"} {
		if strings.Contains(version, name) {
			return true
		}
	}
	return false
}

func (l *library) setConstants(file unsafe.Pointer) error {
	a := l.abi
	l.c.in_place, l.c.funneled = C.uintptr_t(a.inPlace), C.int(a.funneled)
	for _, h := range []struct {
		handle
		to *C.uintptr_t
	}{{a.world, &l.c.world}, {a.int64s, &l.c.int64s}, {a.int32s, &l.c.int32s}, {a.bytes, &l.c.bytes}, {a.sum, &l.c.sum},
		{a.errorsReturn, &l.c.errors_return}} {
		*h.to = C.uintptr_t(h.number)
		if h.symbol == "" {
			continue
		}
		if *h.to = address(file, h.symbol); *h.to == 0 {
			return fmt.Errorf("%s is not an MPI library: it lacks %s", l.path, h.symbol)
		}
	}
	return nil
}

// address returns the address of a symbol; 0 if a library lacks it.
func address(file unsafe.Pointer, symbol string) C.uintptr_t {
	name := C.CString(symbol)
	defer C.free(unsafe.Pointer(name))
	return C.ranks_symbol(file, name)
}

// check converts a status of a call.
func (l *library) check(call string, status C.int) error {
	if status == 0 {
		return nil
	}
	text := make([]C.char, maxErrorString+1)
	var length C.int
	if C.ranks_error_string(l.c, status, &text[0], &length) != 0 {
		return fmt.Errorf("MPI: %s: error %d", call, int(status))
	}
	return fmt.Errorf("MPI: %s: %s", call, strings.ReplaceAll(C.GoString(&text[0]), "\n", "; "))
}

// world is the communicator of all processes that a launcher started. One thread makes all calls.
type world struct {
	*library
	rank, size int
	hosts      []string // [rank]
	calls      chan func()
	left       sync.Once
	timeout    time.Duration
	failure    *Unresponsive // of all later calls
}

// opened is the world of this process: MPI can be started once.
var opened struct {
	sync.Mutex
	*world
}

// Open joins the processes that a launcher started, with the MPI library in a file; "": the first that is
// found. A world of another size than the launcher's is refused: the library and the launcher are
// then of different implementations, and every process would be alone.
func Open(path string) (Communicator, error) {
	launch, err := Launched()
	if err != nil {
		return nil, err
	}
	opened.Lock()
	defer opened.Unlock()
	if opened.world != nil {
		return nil, errors.New("MPI was already started in this process")
	}
	l, err := open(path)
	if err != nil {
		return nil, err
	}
	w := &world{library: l, calls: make(chan func())}
	opened.world = w
	go w.serve()
	if err := w.do(w.start); err != nil {
		return nil, err
	}
	if launch.Launcher != "" && w.size != launch.Size {
		w.Close()
		return nil, fmt.Errorf("%v connects %d of the processes, and %s started %d: library and launcher are of different MPI implementations; use the mpirun of this library, or name the library of the launcher",
			l, w.size, launch.Launcher, launch.Size)
	}
	if w.hosts, err = Hosts(w); err != nil {
		return nil, err
	}
	return w, nil
}

// serve makes the calls of a world on a thread of its own.
func (w *world) serve() {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	for call := range w.calls {
		call()
	}
}

func (w *world) do(call func() error) error {
	result := make(chan error, 1)
	w.calls <- func() { result <- call() }
	return <-result
}

func (w *world) start() error {
	var provided, rank, size C.int
	if err := w.check("MPI_Init_thread", C.ranks_init(w.c, &provided)); err != nil {
		return err
	}
	if int(provided) < w.abi.funneled {
		return fmt.Errorf("%v supports no program with several threads: use a library built with thread support", w.library)
	}
	if err := w.check("MPI_Comm_set_errhandler", C.ranks_return_errors(w.c)); err != nil {
		return err
	}
	if err := w.check("MPI_Comm_rank", C.ranks_rank(w.c, &rank)); err != nil {
		return err
	}
	if err := w.check("MPI_Comm_size", C.ranks_size(w.c, &size)); err != nil {
		return err
	}
	w.rank, w.size = int(rank), int(size)
	return nil
}

func (w *world) Transport() string { return "mpi" }

func (w *world) Rank() int { return w.rank }

func (w *world) Size() int { return w.size }

// maxCount is the largest number of values of one call; MPI counts in ints.
const maxCount = 1 << 27

func (w *world) SetTimeout(limit time.Duration) { w.timeout = limit }

func (w *world) Sum(values []int64) error {
	start := func(part unsafe.Pointer, n C.int, request *C.uintptr_t) C.int {
		return C.ranks_start_sum(w.c, (*C.int64_t)(part), n, request)
	}
	return w.transfer("MPI_Iallreduce", unsafe.Pointer(unsafe.SliceData(values)), 8, len(values), start)
}

func (w *world) Sum32(values []int32) error {
	start := func(part unsafe.Pointer, n C.int, request *C.uintptr_t) C.int {
		return C.ranks_start_sum32(w.c, (*C.int32_t)(part), n, request)
	}
	return w.transfer("MPI_Iallreduce", unsafe.Pointer(unsafe.SliceData(values)), 4, len(values), start)
}

func (w *world) Gather(b []byte, ends []int) error {
	if len(b) > math.MaxInt32 {
		return fmt.Errorf("a parameter of %d bytes on several ranks: MPI counts at most %d at once", len(b), math.MaxInt32)
	}
	places := make([]C.int, 2*w.size) // counts, then places
	for rank := range w.size {
		from, to := PartOf(ends, rank)
		places[rank], places[w.size+rank] = C.int(to-from), C.int(from)
	}
	return w.do(func() error {
		if w.failure != nil {
			return w.failure
		}
		if len(b) == 0 {
			return nil
		}
		var pinned runtime.Pinner
		defer pinned.Unpin()
		pinned.Pin(&b[0])
		pinned.Pin(&places[0])
		return w.complete("MPI_Iallgatherv", func(request *C.uintptr_t) C.int {
			return C.ranks_start_gather(w.c, unsafe.Pointer(&b[0]), &places[0], &places[w.size], request)
		})
	})
}

func (w *world) OnSeveralHosts() bool {
	return slices.ContainsFunc(w.hosts, func(host string) bool { return host != w.hosts[0] })
}

func (w *world) Exchange(receive, send []byte, ends []int) error {
	from, to := PartOf(ends, w.rank)
	own := to - from
	if len(send) > math.MaxInt32 || w.size*own > math.MaxInt32 {
		return fmt.Errorf("MPI: MPI_Ialltoallv of %d bytes, more than %d", max(len(send), w.size*own), math.MaxInt32)
	}
	shape := make([]C.int, 4*w.size) // counts and places of what is sent, and of what is received
	for rank := range w.size {
		if rank == w.rank {
			continue
		}
		from, to := PartOf(ends, rank)
		shape[rank], shape[w.size+rank] = C.int(to-from), C.int(from)
		shape[2*w.size+rank], shape[3*w.size+rank] = C.int(own), C.int(rank*own)
	}
	return w.do(func() error {
		if w.failure != nil {
			return w.failure
		}
		var pinned runtime.Pinner
		defer pinned.Unpin()
		pinned.Pin(&shape[0])
		for _, b := range [][]byte{send, receive} {
			if len(b) > 0 {
				pinned.Pin(&b[0])
			}
		}
		return w.complete("MPI_Ialltoallv", func(request *C.uintptr_t) C.int {
			return C.ranks_start_exchange(w.c, unsafe.Pointer(unsafe.SliceData(send)), unsafe.Pointer(unsafe.SliceData(receive)),
				&shape[0], C.int(w.size), request)
		})
	})
}

func (w *world) Broadcast(b []byte) error {
	start := func(part unsafe.Pointer, n C.int, request *C.uintptr_t) C.int {
		return C.ranks_start_broadcast(w.c, part, n, request)
	}
	return w.transfer("MPI_Ibcast", unsafe.Pointer(unsafe.SliceData(b)), 1, len(b), start)
}

// transfer makes a call for each part of n values of this size, and waits for it.
func (w *world) transfer(call string, values unsafe.Pointer, size, n int, start func(unsafe.Pointer, C.int, *C.uintptr_t) C.int) error {
	return w.do(func() error {
		if w.failure != nil {
			return w.failure
		}
		var pinned runtime.Pinner // the library keeps the address between calls
		defer pinned.Unpin()
		if n > 0 {
			pinned.Pin(values)
		}
		for from := 0; from < n; from += maxCount {
			err := w.complete(call, func(request *C.uintptr_t) C.int {
				return start(unsafe.Add(values, from*size), C.int(min(n-from, maxCount)), request)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// complete starts a call and waits for it. After an error the library may still use its request.
func (w *world) complete(call string, start func(request *C.uintptr_t) C.int) error {
	request := (*C.uintptr_t)(C.malloc(C.sizeof_uintptr_t))
	if err := w.check(call, start(request)); err != nil {
		return err
	}
	if err := w.wait(call, request); err != nil {
		return err
	}
	C.free(unsafe.Pointer(request))
	return nil
}

// rollCallInterval is how often a rank that waits looks for the roll call of another one.
const rollCallInterval = 100 * time.Millisecond

// wait returns when a call is done. Where that takes too long, or another rank says so, it calls the roll.
// C waits: a short sleep of a goroutine takes a millisecond, and the library transfers nothing meanwhile.
func (w *world) wait(call string, request *C.uintptr_t) error {
	began := time.Now()
	for waited := time.Duration(0); ; waited = time.Since(began) {
		limit := rollCallInterval
		if w.timeout > 0 {
			limit = min(limit, max(w.timeout-waited, time.Millisecond))
		}
		var done C.int
		if err := w.check(call, C.ranks_wait(w.c, request, C.int64_t(waited), C.int64_t(limit), &done)); err != nil || done != 0 {
			return err
		}
		late := w.timeout > 0 && time.Since(began) > w.timeout
		for from := range w.size {
			late = late || w.hasRollCall(from)
		}
		if late {
			return w.callRoll()
		}
	}
}

// hasRollCall reports whether a rank has said that it waits too long.
func (w *world) hasRollCall(from int) bool {
	var found C.int
	return from != w.rank && C.ranks_has_roll_call(w.c, C.int(from), &found) == 0 && found != 0
}

// callRoll says to all ranks that this one waits too long, and waits for the same message of all others. Those
// that do not send it are unresponsive. The messages stay in the library: the process ends.
func (w *world) callRoll() error {
	for to := range w.size {
		if to != w.rank {
			C.ranks_start_roll_call(w.c, C.int(to), (*C.uintptr_t)(C.malloc(C.sizeof_uintptr_t)))
		}
	}
	answered := make([]bool, w.size)
	answered[w.rank] = true
	patience := min(max(w.timeout/8, 2*time.Second), 10*time.Second)
	for began := time.Now(); time.Since(began) < patience && slices.Contains(answered, false); time.Sleep(time.Millisecond) {
		for from := range answered {
			answered[from] = answered[from] || w.hasRollCall(from)
		}
	}
	w.failure = &Unresponsive{Reporter: slices.Index(answered, true), Timeout: w.timeout}
	for rank, ok := range answered {
		if !ok {
			w.failure.Ranks = append(w.failure.Ranks, rank)
		}
	}
	return w.failure
}

// Abort may be called while another goroutine waits in a call. Then MPI_Abort, which only the thread of
// the calls may make, would wait for it: the end of this process makes the launcher end the others.
func (w *world) Abort(string) {
	select {
	case w.calls <- func() { C.ranks_abort(w.c) }:
	case <-time.After(time.Second): // the thread is free soon after a call
	}
}

// Close leaves MPI, which all ranks do together: after a failure Exit ends them.
func (w *world) Close() (err error) {
	if w.failure != nil {
		return nil
	}
	w.left.Do(func() {
		err = w.do(func() error { return w.check("MPI_Finalize", C.ranks_finalize(w.c)) })
		close(w.calls)
	})
	return err
}

// reportTime is how long ranks give the one that reports a failure to write its files.
const reportTime = time.Minute

// Exit ends the process like os.Exit. A process that opened MPI ends so after Close: MPICH informs its launcher
// in an exit handler of C, which os.Exit does not call, that the process has not crashed. After a failure it
// ends all ranks, those that do not respond too.
func Exit(code int) {
	opened.Lock()
	defer opened.Unlock()
	w := opened.world
	if w != nil && w.failure != nil {
		if w.rank != w.failure.Reporter {
			time.Sleep(reportTime)
		}
		w.do(func() error { C.ranks_abort(w.c); return nil })
	}
	if w != nil {
		C.exit(C.int(code))
	}
	os.Exit(code)
}
