//go:build gpu

package driver

// #cgo CFLAGS: -I${SRCDIR}/../include -Wall
// #cgo LDFLAGS: -L${SRCDIR}/lib -ldl -lpthread
// #include "calls.h"
// #include "libcuda.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"gorgonia.org/cu"
)

// MinArch is the oldest compute capability for which there are kernels: 7.5.
const MinArch = 75

// Device is an open GPU of this host. Several goroutines may call its methods.
type Device struct {
	ordinal int
	info    DeviceInfo
	context cu.CUContext
	current C.CUcontext
	stream  C.CUstream
	allocator
	modules
	capturer
	callCounts
}

// DeviceInfo describes a GPU that need not be open.
type DeviceInfo struct {
	Name   string
	Arch   int // 90 for compute capability 9.0
	Memory int64

	multiprocessors int
	floatsPerDouble int // float operations in the time of one double operation
	device          cu.Device
}

// Emulated reports whether this is the emulated device and not a GPU.
func (i DeviceInfo) Emulated() bool { return strings.Contains(strings.ToLower(i.Name), "emulated") }

// Count returns the number of GPUs that the driver shows, 0 if no driver is installed.
// It is an error if DPTRAIN_LIBCUDA names a driver that cannot be opened.
func Count() (int, error) {
	library := C.driver_open()
	if name := os.Getenv("DPTRAIN_LIBCUDA"); library.found == 0 && name != "" {
		return 0, fmt.Errorf("DPTRAIN_LIBCUDA does not name a driver: %s", C.GoString(&library.failure[0]))
	}
	if library.found == 0 || library.started == C.CUDA_ERROR_NO_DEVICE {
		return 0, nil
	}
	if err := checkLibrary(library); err != nil {
		return 0, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return 0, fmt.Errorf("the NVIDIA driver cannot count its devices: %w", describeError(err))
	}
	return n, nil
}

// Devices describes the GPUs that the driver shows. It opens none of them.
func Devices() ([]DeviceInfo, error) {
	count, err := Count()
	if err != nil {
		return nil, err
	}
	list := make([]DeviceInfo, count)
	for n := range list {
		if list[n], err = describeDevice(n); err != nil {
			return nil, fmt.Errorf("cuda:%d cannot be queried: %w", n, describeError(err))
		}
	}
	return list, nil
}

func describeDevice(n int) (i DeviceInfo, err error) {
	if i.device, err = cu.GetDevice(n); err != nil {
		return i, err
	}
	if i.Name, err = i.device.Name(); err != nil {
		return i, err
	}
	i.Name = strings.TrimSpace(i.Name)
	attributes, err := i.device.Attributes(cu.ComputeCapabilityMajor, cu.ComputeCapabilityMinor,
		cu.MultiprocessorCount, cu.SingleToDoublePrecisionPerfRatio)
	if err != nil {
		return i, err
	}
	i.Arch, i.multiprocessors, i.floatsPerDouble = 10*attributes[0]+attributes[1], attributes[2], attributes[3]
	i.Memory, err = i.device.TotalMem()
	return i, err
}

// Open opens GPU n of this host.
func Open(n int) (*Device, error) {
	d := &Device{ordinal: n}
	d.allocator = allocator{device: d, allocations: map[Pointer]int{}, pinned: map[*byte]int{}}
	d.modules = modules{device: d, kernels: map[string]Kernel{}}
	d.capturer = capturer{device: d}
	count, err := Count()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", d, err)
	}
	if n < 0 || n >= count {
		return nil, fmt.Errorf("%v: %w", d, noDeviceError(count))
	}
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Device) open() error {
	info, err := describeDevice(d.ordinal)
	if err != nil {
		return d.failed("the device cannot be queried", errorCode(err))
	}
	d.info = info
	if info.Arch < MinArch {
		return fmt.Errorf("%v: the GPU is too old: its compute capability is %d.%d, and dptrain needs %d.%d or newer",
			d, info.Arch/10, info.Arch%10, MinArch/10, MinArch%10)
	}
	if d.context, err = info.device.RetainPrimaryCtx(); err != nil {
		return d.failed("the device's context cannot be opened", errorCode(err))
	}
	d.current = C.CUcontext(handlePointer(d.context))
	return d.withContext("a stream cannot be created", func() error {
		const nonBlocking = 1
		main, err := cu.MakeStream(nonBlocking)
		if err != nil {
			return err
		}
		capture, err := cu.MakeStream(nonBlocking)
		d.stream, d.captureStream = C.CUstream(unsafe.Pointer(main.C())), C.CUstream(unsafe.Pointer(capture.C()))
		return err
	})
}

// Name returns the GPU's product name.
func (d *Device) Name() string { return d.info.Name }

// Arch returns the compute capability, 90 for 9.0.
func (d *Device) Arch() int { return d.info.Arch }

// Multiprocessors returns the number of multiprocessors: at least that many blocks can
// run at the same time.
func (d *Device) Multiprocessors() int { return d.info.multiprocessors }

// SlowDoubles reports whether the GPU computes many float operations in the time of
// one double operation.
func (d *Device) SlowDoubles() bool { return d.info.floatsPerDouble > 8 }

// Emulated reports whether this is the emulated device, unless it has the name of a GPU.
func (d *Device) Emulated() bool { return d.info.Emulated() }

// HasTimings reports whether the times that work takes are those of a GPU: not of the
// emulated device, under any name.
func (d *Device) HasTimings() bool { return C.driver_open().emulated == 0 }

func (d *Device) String() string {
	if d.info.Name == "" {
		return fmt.Sprintf("cuda:%d", d.ordinal)
	}
	return fmt.Sprintf("cuda:%d (%s)", d.ordinal, d.info.Name)
}

// Synchronize waits until all work on the device's stream has run.
func (d *Device) Synchronize() error {
	d.waits.Add(1)
	return d.check("waiting for its work failed", C.driver_synchronize(d.current, d.stream))
}

// withContext makes the device's context current for calls of package cu.
func (d *Device) withContext(failure string, calls func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cu.SetCurrentContext(d.context)
	if err == nil {
		err = calls()
	}
	if err != nil {
		return d.failed(failure, errorCode(err))
	}
	return nil
}

// handlePointer returns the pointer that package cu wraps in a struct.
func handlePointer(v cu.CUContext) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&v))
}
