//go:build gpu

// Package driver runs kernels on NVIDIA GPUs through CUDA's driver, which it
// opens at run time: a program that links this package starts on any host. The
// environment variable DPTRAIN_LIBCUDA names another file than the system's
// libcuda.so.1, such as the emulated device's.
//
// Work is sent to one stream a device and runs in order. Whatever says that it is
// asynchronous may report an earlier call's failure.
package driver

// #cgo CFLAGS: -I${SRCDIR}/../include -Wall
// #cgo LDFLAGS: -L${SRCDIR}/lib -ldl -lpthread
// #include "calls.h"
// #include "library.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"gorgonia.org/cu"
)

// MinArch is the oldest compute capability that kernels are compiled for: 7.5.
const MinArch = 75

// Device is one GPU of this host. Its methods may be called from several
// goroutines.
type Device struct {
	ordinal    int
	card       Listed
	context    cu.CUContext
	current    C.CUcontext
	stream     C.CUstream
	capture    C.CUstream // where recordings go
	capturing  sync.Mutex
	recordings atomic.Int32
	mu         sync.Mutex
	modules    []cu.Module
	kernels    map[string]Kernel
	taken      map[Pointer]int // the size of each piece of the device's memory
	pinned     map[*byte]int   // the size of each page-locked block
}

// Count returns how many GPUs the driver shows, 0 where there is no driver. A driver
// that was asked for by name must be there.
func Count() (int, error) {
	library := C.driver_open()
	if name := os.Getenv("DPTRAIN_LIBCUDA"); library.found == 0 && name != "" {
		return 0, fmt.Errorf("DPTRAIN_LIBCUDA names no driver: %s", C.GoString(&library.failure[0]))
	}
	if library.found == 0 || library.started == C.CUDA_ERROR_NO_DEVICE {
		return 0, nil
	}
	if err := usable(library); err != nil {
		return 0, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return 0, fmt.Errorf("the NVIDIA driver does not count its devices: %w", named(err))
	}
	return n, nil
}

// Open makes GPU n of this host ready.
func Open(n int) (*Device, error) {
	d := &Device{ordinal: n, kernels: map[string]Kernel{}, taken: map[Pointer]int{}, pinned: map[*byte]int{}}
	count, err := Count()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", d, err)
	}
	if n < 0 || n >= count {
		return nil, fmt.Errorf("%v: %w", d, absent(count))
	}
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Device) open() error {
	card, err := listed(d.ordinal)
	if err != nil {
		return d.failed("it does not describe itself", code(err))
	}
	d.card = card
	if card.Arch < MinArch {
		return fmt.Errorf("%v: the card is too old: its compute capability is %d.%d, and dptrain needs %d.%d or newer",
			d, card.Arch/10, card.Arch%10, MinArch/10, MinArch%10)
	}
	if d.context, err = card.device.RetainPrimaryCtx(); err != nil {
		return d.failed("it cannot be used", code(err))
	}
	d.current = C.CUcontext(handle(d.context))
	return d.on("no stream can be made", func() error {
		const nonBlocking = 1
		main, err := cu.MakeStream(nonBlocking)
		if err != nil {
			return err
		}
		capture, err := cu.MakeStream(nonBlocking)
		d.stream, d.capture = C.CUstream(unsafe.Pointer(main.C())), C.CUstream(unsafe.Pointer(capture.C()))
		return err
	})
}

// Name returns what the maker calls the card.
func (d *Device) Name() string { return d.card.Name }

// Arch returns the compute capability, 90 for 9.0.
func (d *Device) Arch() int { return d.card.Arch }

// Multiprocessors returns how many blocks can run side by side at the least.
func (d *Device) Multiprocessors() int { return d.card.multiprocessors }

// SlowDoubles tells whether the card does one operation in double for many in float.
func (d *Device) SlowDoubles() bool { return d.card.doubles > 8 }

// Emulated tells whether this is no GPU but the emulated device: its results
// prove nothing about speed.
func (d *Device) Emulated() bool { return d.card.Emulated() }

func (d *Device) String() string {
	if d.card.Name == "" {
		return fmt.Sprintf("cuda:%d", d.ordinal)
	}
	return fmt.Sprintf("cuda:%d (%s)", d.ordinal, d.card.Name)
}

// Wait returns when all that was sent to the device has run.
func (d *Device) Wait() error {
	return d.check("its work does not end", C.driver_wait(d.current, d.stream))
}

// on runs calls of package cu with the device's context current.
func (d *Device) on(failure string, calls func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cu.SetCurrentContext(d.context)
	if err == nil {
		err = calls()
	}
	if err != nil {
		return d.failed(failure, code(err))
	}
	return nil
}

// handle is the pointer that package cu keeps in a struct of its own.
func handle[T cu.CUContext | cu.Function](v T) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&v))
}
