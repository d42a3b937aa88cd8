//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/internal/compile"
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/cuda/internal/kernels"
	"github.com/dptrain/dptrain/cuda/internal/override"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// Built reports whether this binary can use a GPU.
const Built = true

// Devices describes the GPUs of this host. It opens none of them.
func Devices() ([]Device, error) {
	list, err := driver.Devices()
	var devices []Device
	for n, l := range list {
		devices = append(devices, Device{n, l.Name, l.Arch, l.Memory, l.Emulated()})
	}
	return devices, err
}

// NewDevice returns a GPU as a device. It does not open the GPU. It refuses overrides that
// are not understood.
func NewDevice(o Options) (plan.Device, error) { return compile.NewDevice(o) }

// Overrides describes what environment variables replace, one line each.
func Overrides() ([]string, error) { return override.Describe() }

// KernelsDigest is the SHA-256 of the embedded kernels, and "" if there are none.
func KernelsDigest() string { return kernels.Digest() }

// VersionMark is what a version ends with if a file replaces the embedded kernels.
func VersionMark() string {
	file, err := override.Kernels()
	if err != nil {
		return "" // nothing is loaded
	}
	return file.Mark()
}

// AllocatedMemory returns the bytes of a GPU's memory that this process's programs have
// allocated. It opens the GPU.
func AllocatedMemory(ordinal int) (int64, error) { return compile.AllocatedMemory(ordinal) }

// ProductLibrary describes the cuBLASLt that computes large products on a GPU, or why there is none.
func ProductLibrary(ordinal int) (string, error) { return compile.ProductLibrary(ordinal) }

// ConvolutionLibrary describes the cuDNN that computes large convolutions on a GPU, or why there is
// none.
func ConvolutionLibrary(ordinal int) (string, error) { return compile.ConvolutionLibrary(ordinal) }
