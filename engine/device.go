package engine

import (
	"fmt"
	"runtime"

	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// Device describes what can execute a program.
type Device struct {
	Name        string // for DeviceOptions.Name
	Description string
}

// Devices returns the devices of this build and host. Where they include no GPU, the error
// gives the reason.
func Devices() ([]Device, error) {
	list := []Device{
		{"cpu", fmt.Sprintf("%d threads, %s kernels", runtime.GOMAXPROCS(0), simd.ISA())},
		{"gorgonia", "Gorgonia's own operations, one by one: slow, for comparison"},
	}
	gpus, err := cuda.Devices()
	for _, g := range gpus {
		list = append(list, Device{g.String(), fmt.Sprintf("%s, compute capability %d.%d, %.1f GiB",
			g.Name, g.Arch/10, g.Arch%10, float64(g.Memory)/(1<<30))})
	}
	if len(gpus) == 0 && err == nil {
		err = network.ErrNoGPU
	}
	return list, err
}

// DeviceOptions select what executes a program.
type DeviceOptions struct {
	Name      string // auto (the default), cpu, gorgonia, cuda:N
	Precision string // of matrix products on a GPU: fp32 (the default), tf32, bf16
	Threads   int    // CPU threads; 0: one per processor
}

// resolver returns the options as the package below takes them. Resolve replaces auto in both.
func (o *DeviceOptions) resolver() *network.DeviceOptions { return (*network.DeviceOptions)(o) }
