//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/internal/collective"
	"github.com/dptrain/dptrain/cuda/internal/compile"
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/cuda/internal/kernels"
	"github.com/dptrain/dptrain/cuda/internal/override"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
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

// ConnectRanks connects the GPUs of ranks that have a communicator for the messages of their hosts: NCCL adds
// their sums. The caller closes the communicator that it returns, and no other. An error is that of all ranks.
func ConnectRanks(o Options, host ranks.Communicator) (ranks.Communicator, error) {
	device, err := compile.Open(o.Ordinal)
	if err := ranks.Agree(host, err); err != nil {
		return nil, err
	}
	return collective.Connect(host, device)
}

// OpenRanks connects the processes of a launch, and their GPUs, by NCCL alone.
func OpenRanks(o Options, launch ranks.Launch) (ranks.Communicator, error) {
	device, err := compile.Open(o.Ordinal)
	if err != nil {
		return nil, err
	}
	return collective.Open(launch, device)
}

// CommunicationLibrary describes the NCCL that connects a GPU with others, or why there is none.
func CommunicationLibrary(ordinal int) (string, error) { return compile.CommunicationLibrary(ordinal) }
