//go:build gpu

package driver

// #include "libcuda.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"gorgonia.org/cu"
)

var (
	// ErrOutOfMemory means that the device has too little free memory.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrDeviceLost means that this process cannot use the device any more: every later
	// call fails.
	ErrDeviceLost = errors.New("the device is lost to this process")
)

// minVersion is the oldest driver that loads the output of CUDA 12's compiler, and
// minDriver its release.
const (
	minVersion = 12000
	minDriver  = "525"
)

// ptxDriver is the oldest release of the driver that compiles the embedded PTX, which is
// that of CUDA 12.9's compiler. Only GPUs without a cubin need it; their own minimum is
// release 580 or newer.
const ptxDriver = "575"

// fatalErrors lists the errors after which every call in a context fails. The first
// headers of CUDA 12 lack the names of the last two.
var fatalErrors = map[C.CUresult]string{
	C.CUDA_ERROR_ECC_UNCORRECTABLE:     "its memory has an error that cannot be corrected",
	C.CUDA_ERROR_NVLINK_UNCORRECTABLE:  "its NVLink has an error that cannot be corrected",
	C.CUDA_ERROR_ILLEGAL_ADDRESS:       "a kernel accessed memory outside its allocations",
	C.CUDA_ERROR_LAUNCH_TIMEOUT:        "a kernel ran longer than the host allows",
	C.CUDA_ERROR_CONTEXT_IS_DESTROYED:  "its context was destroyed",
	C.CUDA_ERROR_ASSERT:                "a kernel's assertion failed",
	C.CUDA_ERROR_HARDWARE_STACK_ERROR:  "a kernel's stack is corrupt",
	C.CUDA_ERROR_ILLEGAL_INSTRUCTION:   "a kernel executed an illegal instruction",
	C.CUDA_ERROR_MISALIGNED_ADDRESS:    "a kernel used a misaligned address",
	C.CUDA_ERROR_INVALID_ADDRESS_SPACE: "a kernel used an address of the wrong memory space",
	C.CUDA_ERROR_INVALID_PC:            "a kernel's program counter is outside its code",
	C.CUDA_ERROR_LAUNCH_FAILED:         "a kernel failed",
	C.CUDA_ERROR_DEVICE_UNAVAILABLE:    "another process owns it, or it was disconnected",
	C.CUDA_ERROR_EXTERNAL_DEVICE:       "another device reported an error",
	C.CUDA_ERROR_UNKNOWN:               "it was disconnected, or its driver failed",
	226:                                "its memory or its NVLink has an error that is contained to this process", // CUDA_ERROR_CONTAINED
	810:                                "the MPS server terminated this process's client",                         // CUDA_ERROR_MPS_CLIENT_TERMINATED
}

// Version names the driver: its release, where the host states it, and its version of CUDA.
func Version() string {
	version := max(cu.Version(), 0)
	name := fmt.Sprintf("CUDA %d.%d", version/1000, version%1000/10)
	if release, err := os.ReadFile("/sys/module/nvidia/version"); err == nil && os.Getenv("DPTRAIN_LIBCUDA") == "" {
		name = fmt.Sprintf("release %s, %s", strings.TrimSpace(string(release)), name)
	}
	return name
}

// checkLibrary reports why an opened libcuda cannot be used.
func checkLibrary(library *C.driver_library) error {
	version := max(cu.Version(), 0)
	if missing := C.GoString(&library.missing[0]); missing != "" || version < minVersion {
		have := Version()
		if version >= minVersion {
			have += ", without " + missing
		}
		return fmt.Errorf("the NVIDIA driver is too old (%s): dptrain needs CUDA %d.%d, release %s or newer",
			have, minVersion/1000, minVersion%1000/10, minDriver)
	}
	if library.started != C.CUDA_SUCCESS {
		return fmt.Errorf("the NVIDIA driver cannot be initialized: %v", describe(library.started))
	}
	return nil
}

// noDeviceError reports why a device does not exist on a host that has count devices.
func noDeviceError(count int) error {
	library := C.driver_open()
	switch {
	case library.found == 0:
		return fmt.Errorf("no NVIDIA driver was found (%s)", C.GoString(&library.failure[0]))
	case count == 0:
		return errors.New("no such device: the NVIDIA driver shows no GPU")
	case count == 1:
		return errors.New("no such device: this host has only cuda:0")
	}
	return fmt.Errorf("no such device: this host has cuda:0 to cuda:%d", count-1)
}

// check converts the result of a call into an error that names the device.
func (d *Device) check(failure string, result C.CUresult) error {
	if result == C.CUDA_SUCCESS {
		return nil
	}
	return d.failed(failure, result)
}

func (d *Device) failed(failure string, result C.CUresult) error {
	if why, ok := fatalErrors[result]; ok {
		return fmt.Errorf("%v: %w: %s (%s)", d, ErrDeviceLost, why, describe(result))
	}
	if result == C.CUDA_ERROR_OUT_OF_MEMORY {
		return fmt.Errorf("%v: %s: %w", d, failure, ErrOutOfMemory)
	}
	return fmt.Errorf("%v: %s: %s", d, failure, describe(result))
}

// describe gives CUDA's name and description of a result.
func describe(result C.CUresult) string {
	var name, text *C.char
	if C.cuGetErrorName(result, &name) != C.CUDA_SUCCESS || name == nil {
		return fmt.Sprintf("CUDA error %d", int(result))
	}
	if C.cuGetErrorString(result, &text) != C.CUDA_SUCCESS || text == nil {
		return C.GoString(name)
	}
	return C.GoString(name) + ": " + C.GoString(text)
}

// errorCode returns the number in an error of package cu, whose type is not exported.
func errorCode(err error) C.CUresult {
	v := reflect.ValueOf(err)
	if v.Kind() != reflect.Int {
		return C.CUDA_ERROR_UNKNOWN
	}
	return C.CUresult(v.Int())
}

func describeError(err error) error { return errors.New(describe(errorCode(err))) }
