//go:build gpu

package driver

// #include "nccl.h"
import "C"

import (
	"errors"
	"fmt"
	"time"
	"unsafe"
)

// NCCLIDBytes is the size of the id with which ranks find each other.
const NCCLIDBytes = C.NCCL_ID_BYTES

// oldestNCCL is the first version that reports the errors of other ranks, in the encoding that
// version explains.
const oldestNCCL = 20400

// NCCL connects a device with those of other processes, through NVIDIA's library. Its calls run in the
// order of the device's work.
type NCCL struct {
	library
	c *C.driver_nccl
}

// OpenNCCL opens the NCCL that DPTRAIN_NCCL names, or the one that is installed. If the name is not a
// file, for example none, no NCCL is used.
func OpenNCCL(d *Device) (*NCCL, error) {
	n := &NCCL{library: library{device: d, name: "NCCL", variable: "DPTRAIN_NCCL", file: "libnccl.so.", versions: []int{2}}}
	n.title = func() string {
		v := n.version()
		return fmt.Sprintf("NCCL %d.%d.%d", v/10000, v/100%100, v%100)
	}
	n.status = func(status C.int) string { return C.GoString(C.driver_nccl_status(n.c, status)) }
	err := n.find(func(path *C.char, found *C.int, failure *C.char, bytes C.size_t) bool {
		n.c = C.driver_nccl_open(path, found, failure, bytes)
		return n.c != nil
	})
	if err != nil {
		return nil, err
	}
	if n.version() < oldestNCCL {
		err := fmt.Errorf("%s cannot be used: version 2.4 or newer is needed", n)
		n.Close()
		return nil, err
	}
	return n, nil
}

// version is 22705 for 2.27.5. Up to 2.8 the encoding was 2408 for 2.4.8.
func (n *NCCL) version() int {
	v := int(C.driver_nccl_version(n.c))
	if v < 10000 {
		v = v/1000*10000 + v%1000
	}
	return v
}

func (n *NCCL) String() string { return fmt.Sprintf("%s (%s)", n.title(), n.path) }

// NewID returns the id of a new group of ranks, for all of them.
func (n *NCCL) NewID() ([]byte, error) {
	id := make([]byte, NCCLIDBytes)
	return id, n.check("NCCL makes no id", C.driver_nccl_make_id(n.c, (*C.char)(unsafe.Pointer(&id[0]))))
}

// Join joins the group of an id as one of its ranks, and returns when all have joined.
func (n *NCCL) Join(id []byte, rank, size int) error {
	if len(id) != NCCLIDBytes {
		return fmt.Errorf("NCCL: the id has %d bytes, not %d", len(id), NCCLIDBytes)
	}
	return n.check("NCCL connects no ranks", C.driver_nccl_join(n.device.current, n.c, (*C.char)(unsafe.Pointer(&id[0])), C.int(rank), C.int(size)))
}

// Sum replaces integers of the device by their sums over all ranks, asynchronously.
func (n *NCCL) Sum(values Pointer, count int) error {
	if count == 0 {
		return nil
	}
	return n.check("NCCL adds nothing", C.driver_nccl_sum(n.device.current, n.device.stream, n.c, C.CUdeviceptr(values), C.size_t(count)))
}

// Broadcast replaces bytes of the device by those of rank 0, asynchronously.
func (n *NCCL) Broadcast(at Pointer, bytes int) error {
	if bytes == 0 {
		return nil
	}
	return n.check("NCCL sends nothing", C.driver_nccl_broadcast(n.device.current, n.device.stream, n.c, C.CUdeviceptr(at), C.size_t(bytes)))
}

// Part is memory of a device whose contents belong to one rank: driver_nccl_part in C.
type Part struct {
	At    Pointer
	Bytes uint64
	Owner int64
}

const _ = -(unsafe.Sizeof(Part{}) ^ unsafe.Sizeof(C.driver_nccl_part{})) // both are equally large

// SumParts gives each rank the sums of the integers in its parts, asynchronously. The parts of the others are
// undefined afterwards. All ranks pass the same parts, each at its own addresses.
func (n *NCCL) SumParts(parts []Part) error {
	if len(parts) == 0 {
		return nil
	}
	return n.check("NCCL adds no parts", C.driver_nccl_sum_parts(n.device.current, n.device.stream, n.c,
		(*C.driver_nccl_part)(unsafe.Pointer(&parts[0])), C.size_t(len(parts))))
}

// BroadcastParts gives all ranks the bytes of each rank's parts, asynchronously. All ranks pass the same parts.
func (n *NCCL) BroadcastParts(parts []Part) error {
	if len(parts) == 0 {
		return nil
	}
	return n.check("NCCL sends no parts", C.driver_nccl_broadcast_parts(n.device.current, n.device.stream, n.c,
		(*C.driver_nccl_part)(unsafe.Pointer(&parts[0])), C.size_t(len(parts))))
}

// ErrLate means that work has not run in time.
var ErrLate = errors.New("NCCL waits for other ranks")

// Wait waits until all work on the device's stream has run, but no longer than a limit; 0: without limit. It
// returns an error if NCCL notices that another rank has failed, and ErrLate after the limit.
func (n *NCCL) Wait(limit time.Duration) error {
	n.device.waits.Add(1)
	status := C.driver_nccl_wait(n.device.current, n.device.stream, n.c, C.int64_t(limit.Milliseconds()))
	if status == C.NCCL_LATE {
		return ErrLate
	}
	return n.check("waiting for the other ranks failed", status)
}

// Abort ends what this rank has queued. Another goroutine may wait for it.
func (n *NCCL) Abort() { C.driver_nccl_abort(n.c) }

// Close leaves the group.
func (n *NCCL) Close() {
	if n.c != nil {
		C.driver_nccl_close(n.device.current, n.c)
		n.c = nil
	}
}
