//go:build gpu

package driver

// What is copied escapes, though no call keeps it: a driver that reads and writes the
// host's memory as it lies may do so later, and a stack moves.

// #include "calls.h"
// #cgo nocallback driver_copy_in
// #cgo nocallback driver_copy_out
// #cgo nocallback driver_copy
// #cgo nocallback driver_zero
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// Pointer is an address in the memory of a device.
type Pointer uint64

// Memory returns how many bytes of the device's memory are free, and how many
// there are.
func (d *Device) Memory() (free, total int64, err error) {
	err = d.on("it does not tell its memory", func() (err error) {
		free, total, err = cu.MemInfo()
		return err
	})
	return free, total, err
}

// Alloc takes memory, aligned to 256 bytes and not cleared.
func (d *Device) Alloc(bytes int) (Pointer, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("%v: %d bytes were asked for: ask for at least 1", d, bytes)
	}
	var p cu.DevicePtr
	err := d.on("no memory can be taken", func() (err error) {
		p, err = cu.MemAlloc(int64(bytes))
		return err
	})
	if errors.Is(err, ErrMemory) {
		if free, total, unknown := d.Memory(); unknown == nil {
			err = fmt.Errorf("%v: %w: %s asked for, %s of %s free",
				d, ErrMemory, size(int64(bytes)), size(free), size(total))
		}
	}
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	d.taken[Pointer(p)] = bytes
	d.mu.Unlock()
	return Pointer(p), nil
}

// Taken is how many bytes Alloc took that Free did not give back: without the code that is
// loaded, what libraries have of their own, and other processes'.
func (d *Device) Taken() (bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.taken {
		bytes += int64(n)
	}
	return bytes
}

// Free gives back what Alloc took. Freeing 0 does nothing.
func (d *Device) Free(p Pointer) error {
	if p == 0 {
		return nil
	}
	d.mu.Lock()
	delete(d.taken, p)
	d.mu.Unlock()
	return d.on("memory cannot be given back", func() error { return cu.MemFree(cu.DevicePtr(p)) })
}

// Pinned takes page-locked memory of the host: copies from and to it run beside
// the host, and graphs may hold them.
func (d *Device) Pinned(bytes int) ([]byte, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("%v: %d page-locked bytes were asked for: ask for at least 1", d, bytes)
	}
	var memory unsafe.Pointer
	err := d.check(size(int64(bytes))+" of the host's memory cannot be page-locked",
		C.driver_pin(d.current, C.size_t(bytes), &memory))
	if err != nil {
		return nil, err
	}
	b := unsafe.Slice((*byte)(memory), bytes)
	d.mu.Lock()
	d.pinned[&b[0]] = bytes
	d.mu.Unlock()
	return b, nil
}

// FreePinned gives back what Pinned took. Nothing may still be copying it.
func (d *Device) FreePinned(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	d.mu.Lock()
	_, ours := d.pinned[&b[0]]
	delete(d.pinned, &b[0])
	d.mu.Unlock()
	if !ours {
		return fmt.Errorf("%v: memory to be given back is not page-locked", d)
	}
	return d.on("page-locked memory cannot be given back", func() error {
		return cu.MemFreeHost(unsafe.Pointer(&b[0]))
	})
}

// isPinned is asked only while something records: a graph outlives the call that
// it was recorded in.
func (d *Device) isPinned(b []byte) C.int {
	if d.recordings.Load() == 0 {
		return 0
	}
	at := uintptr(unsafe.Pointer(&b[0]))
	d.mu.Lock()
	defer d.mu.Unlock()
	for first, bytes := range d.pinned {
		start := uintptr(unsafe.Pointer(first))
		if at >= start && at+uintptr(len(b)) <= start+uintptr(bytes) {
			return 1
		}
	}
	return 0
}

// CopyIn copies from the host to the device, asynchronously: src must stay as it is
// until Wait.
func (d *Device) CopyIn(dst Pointer, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return d.check("nothing can be copied in", C.driver_copy_in(d.current, d.stream, C.CUdeviceptr(dst),
		(*C.uchar)(unsafe.SliceData(src)), C.size_t(len(src)), d.isPinned(src)))
}

// CopyOut copies from the device to the host, asynchronously: dst holds the bytes after
// Wait.
func (d *Device) CopyOut(dst []byte, src Pointer) error {
	if len(dst) == 0 {
		return nil
	}
	return d.check("nothing can be copied out", C.driver_copy_out(d.current, d.stream,
		(*C.uchar)(unsafe.SliceData(dst)), C.CUdeviceptr(src), C.size_t(len(dst)), d.isPinned(dst)))
}

// Copy copies within the device, asynchronously.
func (d *Device) Copy(dst, src Pointer, bytes int) error {
	if bytes == 0 {
		return nil
	}
	return d.check("nothing can be copied", C.driver_copy(d.current, d.stream,
		C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(bytes)))
}

// Zero clears memory of the device, asynchronously.
func (d *Device) Zero(p Pointer, bytes int) error {
	if bytes == 0 {
		return nil
	}
	return d.check("memory cannot be cleared", C.driver_zero(d.current, d.stream, C.CUdeviceptr(p), C.size_t(bytes)))
}

// size writes a number of bytes for people.
func size(bytes int64) string {
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
