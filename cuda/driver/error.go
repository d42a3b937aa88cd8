//go:build gpu

package driver

// #include "library.h"
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
	// ErrMemory is what a lack of memory on the device is.
	ErrMemory = errors.New("out of memory")
	// ErrLost is what ends a device's use by this process: no later call works.
	ErrLost = errors.New("the device is lost to this process")
)

// minVersion is the oldest driver that loads what CUDA 12's compiler makes.
const (
	minVersion = 12000
	minDriver  = "525"
)

// lost lists the errors after which a context answers nothing any more; the first headers
// of CUDA 12 lack the names of the last two.
var lost = map[C.CUresult]string{
	C.CUDA_ERROR_ECC_UNCORRECTABLE:     "its memory has an error that cannot be corrected",
	C.CUDA_ERROR_NVLINK_UNCORRECTABLE:  "its link has an error that cannot be corrected",
	C.CUDA_ERROR_ILLEGAL_ADDRESS:       "a kernel reached outside its memory",
	C.CUDA_ERROR_LAUNCH_TIMEOUT:        "a kernel ran longer than the host allows",
	C.CUDA_ERROR_CONTEXT_IS_DESTROYED:  "its context is gone",
	C.CUDA_ERROR_ASSERT:                "a kernel's assertion failed",
	C.CUDA_ERROR_HARDWARE_STACK_ERROR:  "a kernel's stack is corrupt",
	C.CUDA_ERROR_ILLEGAL_INSTRUCTION:   "a kernel met an instruction that is none",
	C.CUDA_ERROR_MISALIGNED_ADDRESS:    "a kernel used a misaligned address",
	C.CUDA_ERROR_INVALID_ADDRESS_SPACE: "a kernel used an address of another kind of memory",
	C.CUDA_ERROR_INVALID_PC:            "a kernel ran outside its code",
	C.CUDA_ERROR_LAUNCH_FAILED:         "a kernel failed",
	C.CUDA_ERROR_DEVICE_UNAVAILABLE:    "another process holds it or it fell away",
	C.CUDA_ERROR_EXTERNAL_DEVICE:       "another device failed it",
	C.CUDA_ERROR_UNKNOWN:               "it fell away or its driver broke",
	226:                                "its memory or its link has an error that it keeps to this process", // CUDA_ERROR_CONTAINED
	810:                                "the MPS server ended this process's use",                           // CUDA_ERROR_MPS_CLIENT_TERMINATED
}

// usable tells why an opened library cannot be used.
func usable(library *C.driver_library) error {
	version := max(cu.Version(), 0)
	if missing := C.GoString(&library.missing[0]); missing != "" || version < minVersion {
		have := fmt.Sprintf("CUDA %d.%d", version/1000, version%1000/10)
		if release, err := os.ReadFile("/sys/module/nvidia/version"); err == nil && os.Getenv("DPTRAIN_LIBCUDA") == "" {
			have = fmt.Sprintf("release %s, %s", strings.TrimSpace(string(release)), have)
		}
		if version >= minVersion {
			have += ", without " + missing
		}
		return fmt.Errorf("the NVIDIA driver is too old (%s): dptrain needs CUDA %d.%d, release %s or newer",
			have, minVersion/1000, minVersion%1000/10, minDriver)
	}
	if library.started != C.CUDA_SUCCESS {
		return fmt.Errorf("the NVIDIA driver does not start: %v", describe(library.started))
	}
	return nil
}

// absent tells why a device of a host that has count of them is not there.
func absent(count int) error {
	library := C.driver_open()
	switch {
	case library.found == 0:
		return fmt.Errorf("no NVIDIA driver was found (%s)", C.GoString(&library.failure[0]))
	case count == 0:
		return errors.New("no such device: the NVIDIA driver shows none")
	case count == 1:
		return errors.New("no such device: this host has cuda:0 alone")
	}
	return fmt.Errorf("no such device: this host has cuda:0 to cuda:%d", count-1)
}

// check turns what a call returned into an error that begins with the device.
func (d *Device) check(failure string, result C.CUresult) error {
	if result == C.CUDA_SUCCESS {
		return nil
	}
	return d.failed(failure, result)
}

func (d *Device) failed(failure string, result C.CUresult) error {
	if why, ok := lost[result]; ok {
		return fmt.Errorf("%v: %w: %s (%s)", d, ErrLost, why, describe(result))
	}
	if result == C.CUDA_ERROR_OUT_OF_MEMORY {
		return fmt.Errorf("%v: %s: %w", d, failure, ErrMemory)
	}
	return fmt.Errorf("%v: %s: %s", d, failure, describe(result))
}

// describe names a result as CUDA's documentation does.
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

// code is the number in an error of package cu, whose type is its own.
func code(err error) C.CUresult {
	v := reflect.ValueOf(err)
	if v.Kind() != reflect.Int {
		return C.CUDA_ERROR_UNKNOWN
	}
	return C.CUresult(v.Int())
}

func named(err error) error { return errors.New(describe(code(err))) }
