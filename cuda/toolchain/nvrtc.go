//go:build gpu

package main

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "nvrtc.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// version is what the committed images are compiled with: a later compiler's would
// ask for later drivers.
const major, minor = 12, 9

// image is a compiled unit, with what the compiler said about it.
type image struct {
	target target
	code   []byte
	log    string
}

type compiler struct{ calls *C.nvrtc }

func openCompiler(library string) (compiler, error) {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	calls := (*C.nvrtc)(C.calloc(1, C.sizeof_nvrtc))
	if failure := C.nvrtc_open(calls, name); failure != nil {
		return compiler{}, fmt.Errorf("NVRTC cannot be opened: %s", C.GoString(failure))
	}
	if calls.major != major || calls.minor != minor {
		return compiler{}, fmt.Errorf("%s is NVRTC %d.%d: the images are made by %d.%d", library, calls.major, calls.minor, major, minor)
	}
	return compiler{calls}, nil
}

func (c compiler) compile(u unit, t target) (image, error) {
	options := []string{"--gpu-architecture=" + t.architecture, "--std=c++17", "--ptxas-options=--verbose"}
	if t.ptx {
		options = options[:2]
	}
	source := C.CString(u.source)
	defer C.free(unsafe.Pointer(source))
	names, texts, flags := cStrings(u.names), cStrings(u.texts), cStrings(options)
	defer names.free()
	defer texts.free()
	defer flags.free()
	var made C.nvrtc_image
	failed := C.nvrtc_compile(c.calls, source, C.int(len(u.names)), names.at(), texts.at(),
		C.int(len(options)), flags.at(), C.int(bit(t.ptx)), &made)
	defer C.free(unsafe.Pointer(made.code))
	defer C.free(unsafe.Pointer(made.log))
	log := C.GoString(made.log)
	if failed != nil {
		return image{}, fmt.Errorf("%s\n%s", C.GoString(failed), strings.TrimSpace(log))
	}
	code := C.GoBytes(unsafe.Pointer(made.code), C.int(made.bytes))
	if t.ptx {
		code = []byte(strings.TrimRight(string(code), "\x00"))
	}
	return image{t, code, log}, nil
}

type cArray []*C.char

func cStrings(values []string) cArray {
	a := cArray(unsafe.Slice((**C.char)(C.calloc(C.size_t(len(values)), C.size_t(unsafe.Sizeof(uintptr(0))))), len(values)))
	for i, v := range values {
		a[i] = C.CString(v)
	}
	return a
}

func (a cArray) at() **C.char { return unsafe.SliceData(a) }

func (a cArray) free() {
	for _, s := range a {
		C.free(unsafe.Pointer(s))
	}
	C.free(unsafe.Pointer(a.at()))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
