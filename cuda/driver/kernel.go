//go:build gpu

package driver

// #include "calls.h"
// #cgo noescape driver_launch
// #cgo nocallback driver_launch
import "C"

import (
	"fmt"
	"reflect"
	"unsafe"

	"gorgonia.org/cu"
)

// Kernel is a function that runs on the device.
type Kernel struct {
	name     string
	function C.CUfunction
}

// Dim is the size of a grid or of a block along x, y and z.
type Dim [3]uint32

// Args are a kernel's arguments, laid out as C does.
type Args []byte

// Load makes the kernels of an image known: a cubin for the device, or PTX.
func (d *Device) Load(image []byte) error {
	return d.on(fmt.Sprintf("an image of %s cannot be loaded", size(int64(len(image)))), func() error {
		module, err := cu.LoadData(string(image))
		if err == nil {
			d.mu.Lock()
			d.modules = append(d.modules, module)
			d.mu.Unlock()
		}
		return err
	})
}

// Kernel finds a kernel in the images that were loaded.
func (d *Device) Kernel(name string) (Kernel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k, ok := d.kernels[name]; ok {
		return k, nil
	}
	failure := "kernel " + name + " is in no image that was loaded"
	err := fmt.Errorf("%v: %s", d, failure)
	for _, module := range d.modules {
		err = d.on(failure, func() error {
			function, err := module.Function(name)
			if err == nil {
				d.kernels[name] = Kernel{name, C.CUfunction(handle(function))}
			}
			return err
		})
		if err == nil {
			return d.kernels[name], nil
		}
	}
	return Kernel{}, err
}

// Launch runs a kernel on grid blocks of block threads, asynchronously. It takes
// no memory.
func (d *Device) Launch(k Kernel, grid, block Dim, args Args) error {
	result := C.driver_launch(d.current, d.stream, k.function,
		C.uint(grid[0]), C.uint(grid[1]), C.uint(grid[2]), C.uint(block[0]), C.uint(block[1]), C.uint(block[2]),
		(*C.uchar)(unsafe.SliceData(args)), C.size_t(len(args)))
	if result != C.CUDA_SUCCESS {
		return d.failed(fmt.Sprintf("kernel %s cannot be launched with grid %v, block %v", k.name, grid, block), result)
	}
	return nil
}

// Pack lays arguments out as C does: a Pointer, a number of a fixed size, or a
// struct of such, each at a multiple of its alignment. It panics on any other
// type, whose size C may see differently.
func Pack(args ...any) Args {
	var packed Args
	for _, arg := range args {
		v := reflect.ValueOf(arg)
		if !v.IsValid() || !fixed(v.Type()) {
			panic(fmt.Sprintf("driver.Pack: a kernel cannot take an argument of type %T", arg))
		}
		for len(packed)%v.Type().Align() != 0 {
			packed = append(packed, 0)
		}
		held := reflect.New(v.Type())
		held.Elem().Set(v)
		packed = append(packed, unsafe.Slice((*byte)(held.UnsafePointer()), v.Type().Size())...)
	}
	return packed
}

// fixed tells whether Go and C agree on the layout of a type.
func fixed(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return true
	case reflect.Array:
		return fixed(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !fixed(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}
