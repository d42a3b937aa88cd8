//go:build gpu

package driver

// #include <stdlib.h>
// #include "calls.h"
// #cgo noescape driver_launch
// #cgo nocallback driver_launch
import "C"

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"unsafe"
)

// Kernel is a function that runs on the device.
type Kernel struct {
	name     string
	function C.CUfunction
}

// Dim is the size of a grid or of a block along x, y and z.
type Dim [3]uint32

// Args are a kernel's arguments in C's layout.
type Args []byte

// modules owns the modules loaded on a device and finds kernels in them.
type modules struct {
	device  *Device
	mu      sync.Mutex
	loaded  []C.CUmodule
	kernels map[string]Kernel
}

// LoadModule loads an image, a cubin for the device or PTX, and makes its kernels
// available. The error contains what the driver's compiler reported.
func (m *modules) LoadModule(image []byte) error {
	content := C.CString(string(image)) // PTX ends with a zero byte
	defer C.free(unsafe.Pointer(content))
	var module C.CUmodule
	var log [4096]C.char
	result := C.driver_load_module(m.device.current, content, &module, &log[0], C.size_t(len(log)))
	if err := m.device.check(fmt.Sprintf("an image of %s cannot be loaded", formatBytes(int64(len(image)))), result); err != nil {
		if result == C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION {
			return fmt.Errorf("%w; install driver release %s or newer", err, ptxDriver)
		}
		if report := strings.Join(strings.Fields(C.GoString(&log[0])), " "); report != "" {
			err = fmt.Errorf("%w (%s)", err, report)
		}
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded = append(m.loaded, module)
	return nil
}

// Kernel returns the kernel of this name from the loaded modules.
func (m *modules) Kernel(name string) (Kernel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.kernels[name]; ok {
		return k, nil
	}
	failure := "kernel " + name + " is in no loaded module"
	err := fmt.Errorf("%v: %s", m.device, failure)
	symbol := C.CString(name)
	defer C.free(unsafe.Pointer(symbol))
	for _, module := range m.loaded {
		k := Kernel{name: name}
		if err = m.device.check(failure, C.driver_find_function(m.device.current, module, symbol, &k.function)); err == nil {
			m.kernels[name] = k
			return k, nil
		}
	}
	return Kernel{}, err
}

// Launch launches a kernel on a grid of blocks, asynchronously. It allocates nothing.
func (d *Device) Launch(k Kernel, grid, block Dim, args Args) error {
	d.launches.Add(1)
	result := C.driver_launch(d.current, d.stream, k.function,
		C.uint(grid[0]), C.uint(grid[1]), C.uint(grid[2]), C.uint(block[0]), C.uint(block[1]), C.uint(block[2]),
		(*C.uchar)(unsafe.SliceData(args)), C.size_t(len(args)))
	if result != C.CUDA_SUCCESS {
		return d.failed(fmt.Sprintf("kernel %s cannot be launched with grid %v, block %v", k.name, grid, block), result)
	}
	return nil
}

// Pack lays arguments out as C does, each at a multiple of its alignment. An argument is
// a Pointer, a number of fixed size, or an array or a struct of these. Pack panics on any
// other type, because C may give it another size.
func Pack(args ...any) Args {
	var packed Args
	for _, arg := range args {
		v := reflect.ValueOf(arg)
		if !v.IsValid() || !hasFixedLayout(v.Type()) {
			panic(fmt.Sprintf("driver.Pack: a kernel cannot take an argument of type %T", arg))
		}
		for len(packed)%v.Type().Align() != 0 {
			packed = append(packed, 0)
		}
		value := reflect.New(v.Type())
		value.Elem().Set(v)
		packed = append(packed, unsafe.Slice((*byte)(value.UnsafePointer()), v.Type().Size())...)
	}
	return packed
}

// hasFixedLayout reports whether Go and C agree on the layout of a type.
func hasFixedLayout(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return true
	case reflect.Array:
		return hasFixedLayout(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !hasFixedLayout(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}
