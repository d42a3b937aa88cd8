//go:build gpu

package driver

// Copied slices escape to the heap, although no call keeps them: a driver that accesses
// pageable host memory directly may do so after the call, and a stack may move.

// #include "calls.h"
// #cgo nocallback driver_copy_in
// #cgo nocallback driver_copy_out
// #cgo nocallback driver_copy
// #cgo nocallback driver_zero
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"gorgonia.org/cu"
)

// Pointer is an address in the memory of a device.
type Pointer uint64

// MemoryInfo returns the free and the total bytes of the device's memory.
func (d *Device) MemoryInfo() (free, total int64, err error) {
	err = d.withContext("its free memory cannot be queried", func() (err error) {
		free, total, err = cu.MemInfo()
		return err
	})
	return free, total, err
}

// allocator owns a device's memory and the host's page-locked memory.
type allocator struct {
	device      *Device
	mu          sync.Mutex
	allocations map[Pointer]int // bytes of each allocation on the device
	pinned      map[*byte]int   // bytes of each page-locked block
}

// Alloc allocates memory on the device, aligned to 256 bytes and not cleared.
func (a *allocator) Alloc(bytes int) (Pointer, error) {
	d := a.device
	if bytes <= 0 {
		return 0, fmt.Errorf("%v: cannot allocate %d bytes: the size must be at least 1", d, bytes)
	}
	var p cu.DevicePtr
	err := d.withContext("memory cannot be allocated", func() (err error) {
		p, err = cu.MemAlloc(int64(bytes))
		return err
	})
	if errors.Is(err, ErrOutOfMemory) {
		if free, total, unknown := d.MemoryInfo(); unknown == nil {
			err = fmt.Errorf("%v: %w: %s requested, %s of %s free",
				d, ErrOutOfMemory, formatBytes(int64(bytes)), formatBytes(free), formatBytes(total))
		}
	}
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	a.allocations[Pointer(p)] = bytes
	a.mu.Unlock()
	return Pointer(p), nil
}

// Allocated returns the bytes that Alloc allocated and Free did not free. It does not
// count loaded modules, memory that libraries allocate, and other processes.
func (a *allocator) Allocated() (bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.allocations {
		bytes += int64(n)
	}
	return bytes
}

// Free frees memory that Alloc allocated. Freeing 0 does nothing.
func (a *allocator) Free(p Pointer) error {
	if p == 0 {
		return nil
	}
	a.mu.Lock()
	delete(a.allocations, p)
	a.mu.Unlock()
	return a.device.withContext("memory cannot be freed", func() error { return cu.MemFree(cu.DevicePtr(p)) })
}

// AllocPinned allocates page-locked memory of the host: copies from and to it run
// asynchronously, and graphs may contain them.
func (a *allocator) AllocPinned(bytes int) ([]byte, error) {
	b, _, err := a.AllocMapped(bytes)
	return b, err
}

// AllocMapped allocates page-locked memory of the host that kernels access, too, at the returned address.
// The host sees what a kernel has written after it has waited for the kernel.
func (a *allocator) AllocMapped(bytes int) ([]byte, Pointer, error) {
	d := a.device
	if bytes <= 0 {
		return nil, 0, fmt.Errorf("%v: cannot allocate %d page-locked bytes: the size must be at least 1", d, bytes)
	}
	var memory unsafe.Pointer
	var mapped C.CUdeviceptr
	err := d.check(formatBytes(int64(bytes))+" of the host's memory cannot be page-locked",
		C.driver_alloc_pinned(d.current, C.size_t(bytes), &memory, &mapped))
	if err != nil {
		return nil, 0, err
	}
	b := unsafe.Slice((*byte)(memory), bytes)
	a.mu.Lock()
	a.pinned[&b[0]] = bytes
	a.mu.Unlock()
	return b, Pointer(mapped), nil
}

// FreePinned frees memory that AllocPinned or AllocMapped allocated. No copy may still use it.
func (a *allocator) FreePinned(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	a.mu.Lock()
	_, ours := a.pinned[&b[0]]
	delete(a.pinned, &b[0])
	a.mu.Unlock()
	if !ours {
		return fmt.Errorf("%v: cannot free page-locked memory: AllocPinned did not allocate it", a.device)
	}
	return a.device.withContext("page-locked memory cannot be freed", func() error {
		return cu.MemFreeHost(unsafe.Pointer(&b[0]))
	})
}

// isPinned reports, during a capture, whether b is page-locked: a graph outlives the call
// that captured it. Outside captures it returns 0 without a search.
func (a *allocator) isPinned(b []byte) C.int {
	if a.device.captures.Load() == 0 {
		return 0
	}
	at := uintptr(unsafe.Pointer(&b[0]))
	a.mu.Lock()
	defer a.mu.Unlock()
	for first, bytes := range a.pinned {
		start := uintptr(unsafe.Pointer(first))
		if at >= start && at+uintptr(len(b)) <= start+uintptr(bytes) {
			return 1
		}
	}
	return 0
}

// CopyIn copies from the host to the device, asynchronously: src must not change before
// Synchronize returns.
func (d *Device) CopyIn(dst Pointer, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	d.copies.Add(1)
	return d.check("a copy to the device failed", C.driver_copy_in(d.current, d.stream, C.CUdeviceptr(dst),
		(*C.uchar)(unsafe.SliceData(src)), C.size_t(len(src)), d.isPinned(src)))
}

// CopyOut copies from the device to the host, asynchronously: dst has the bytes after
// Synchronize returns.
func (d *Device) CopyOut(dst []byte, src Pointer) error {
	if len(dst) == 0 {
		return nil
	}
	d.copies.Add(1)
	return d.check("a copy from the device failed", C.driver_copy_out(d.current, d.stream,
		(*C.uchar)(unsafe.SliceData(dst)), C.CUdeviceptr(src), C.size_t(len(dst)), d.isPinned(dst)))
}

// Copy copies within the device, asynchronously.
func (d *Device) Copy(dst, src Pointer, bytes int) error {
	if bytes == 0 {
		return nil
	}
	d.copies.Add(1)
	return d.check("a copy within the device failed", C.driver_copy(d.current, d.stream,
		C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(bytes)))
}

// Zero sets memory of the device to zero, asynchronously.
func (d *Device) Zero(p Pointer, bytes int) error {
	if bytes == 0 {
		return nil
	}
	d.fills.Add(1)
	return d.check("memory cannot be cleared", C.driver_zero(d.current, d.stream, C.CUdeviceptr(p), C.size_t(bytes)))
}

// formatBytes formats a size with a binary unit.
func formatBytes(bytes int64) string {
	switch {
	case bytes < 1<<10:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	case bytes < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
