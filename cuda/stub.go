//go:build !gpu

package cuda

import (
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Built reports whether this binary can use a GPU.
const Built = false

// Devices describes the GPUs of this host.
func Devices() ([]Device, error) { return nil, ErrNotBuilt }

// Overrides describes what environment variables replace, one line each.
func Overrides() ([]string, error) { return nil, nil }

// KernelsDigest is the SHA-256 of the embedded kernels, and "" if there are none.
func KernelsDigest() string { return "" }

// VersionMark is what a version ends with if a file replaces the embedded kernels.
func VersionMark() string { return "" }

// AllocatedMemory returns the bytes of a GPU's memory that this process's programs have
// allocated.
func AllocatedMemory(int) (int64, error) { return 0, ErrNotBuilt }

// ProductLibrary describes the cuBLASLt that computes large products on a GPU.
func ProductLibrary(int) (string, error) { return "", ErrNotBuilt }

// ConvolutionLibrary describes the cuDNN that computes large convolutions on a GPU.
func ConvolutionLibrary(int) (string, error) { return "", ErrNotBuilt }

// ConnectRanks connects the GPUs of ranks by NCCL.
func ConnectRanks(Options, ranks.Communicator) (ranks.Communicator, error) { return nil, ErrNotBuilt }

// OpenRanks connects the processes of a launch by NCCL.
func OpenRanks(Options, ranks.Launch) (ranks.Communicator, error) { return nil, ErrNotBuilt }

// CommunicationLibrary describes the NCCL that connects a GPU with others.
func CommunicationLibrary(int) (string, error) { return "", ErrNotBuilt }

// NewDevice returns a GPU as a device.
func NewDevice(Options) (plan.Device, error) { return nil, ErrNotBuilt }
