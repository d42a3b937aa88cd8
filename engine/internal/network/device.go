package network

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/gorgonia"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/host/memory"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/dptrain/dptrain/internal/setting"
)

// ErrNoGPU is the reason why no GPU can be chosen.
var ErrNoGPU = setting.Errorf("Device.Name", "found no NVIDIA driver or GPU on this host; use %v", setting.With("Device.Name", "cpu"))

// maxThreads is more than the processors of any host.
const maxThreads = 1 << 16

// DeviceOptions select what executes a program: the fields of engine.DeviceOptions.
type DeviceOptions struct {
	Name      string
	Precision string
	Threads   int
}

// Resolve checks the options and replaces auto by the first GPU, or by the CPU where there is
// none. The note, if any, is what the user should know about the device.
func (o *DeviceOptions) Resolve() (note string, err error) {
	precision, err := cuda.ParsePrecision(o.Precision)
	if err != nil {
		return "", err
	}
	if o.Threads < 0 || o.Threads > maxThreads {
		return "", fmt.Errorf("%d threads: give at least 1 and at most %d, or 0 for one per processor", o.Threads, maxThreads)
	}
	if o.isAuto() {
		note = o.choose()
	}
	switch {
	case o.OnGPU():
		g, err := o.gpu()
		if err != nil {
			return "", err
		}
		if _, err := cuda.ProductLibrary(g.Ordinal); err != nil && !errors.Is(err, cuda.ErrNoLibrary) {
			note = fmt.Sprintf("dptrain's own kernels compute all matrix products: %v", err)
		}
	case o.Name != "cpu" && o.Name != "gorgonia":
		return "", setting.Errorf("Device.Name", "device %q is unknown: use auto, cpu, gorgonia or cuda:N", o.Name)
	case precision != cuda.FP32:
		return "", setting.Errorf("Device.Precision", "precision %v requires a GPU device, and %s computes in float32; use %v or drop %v",
			precision, o.Name, setting.With("Device.Name", "cuda:0"), setting.Named("Device.Precision"))
	}
	return note, nil
}

func (o *DeviceOptions) isAuto() bool { return o.Name == "" || o.Name == "auto" }

// PreferCPU replaces auto by the CPU, for what the CPU does better or alone.
func (o *DeviceOptions) PreferCPU() {
	if o.isAuto() {
		o.Name = "cpu"
	}
}

// choose selects the first GPU, or the CPU where there is none.
func (o *DeviceOptions) choose() (note string) {
	o.Name = "cpu"
	gpus, err := cuda.Devices()
	switch {
	case errors.Is(err, cuda.ErrNotBuilt):
	case err != nil:
		note = fmt.Sprintf("training on the CPU: %v", err)
	case len(gpus) > 0 && !gpus[0].Emulated:
		o.Name = gpus[0].String()
	}
	return note
}

// OnGPU reports whether a GPU executes programs.
func (o DeviceOptions) OnGPU() bool { return strings.HasPrefix(o.Name, "cuda") }

// gpu returns the GPU that Name selects.
func (o DeviceOptions) gpu() (cuda.Device, error) {
	gpus, err := cuda.Devices()
	if err != nil {
		return cuda.Device{}, fmt.Errorf("device %s: %w", o.Name, err)
	}
	for _, g := range gpus {
		if g.String() == o.Name || o.Name == "cuda" {
			return g, nil
		}
	}
	switch len(gpus) {
	case 0:
		return cuda.Device{}, fmt.Errorf("device %s: %w", o.Name, ErrNoGPU)
	case 1:
		return cuda.Device{}, fmt.Errorf("device %s: this host has only cuda:0", o.Name)
	}
	return cuda.Device{}, fmt.Errorf("device %s: this host has cuda:0 to cuda:%d", o.Name, len(gpus)-1)
}

// Open opens the device that Resolve selected, for programs beside data sets of some bytes. Which
// programs fit, and what an error states, follows from the memory before private data were read. Of several ranks
// whose GPUs are connected, each releases a part.
func (o DeviceOptions) Open(held int64, of ranks.Communicator) (plan.Device, error) {
	host := cpu.NewDeviceWithin(o.Threads, memory.AtStart().Without(held))
	if o.Name == "gorgonia" {
		return gorgonia.NewDevice(host), nil
	}
	if !o.OnGPU() {
		return host, nil
	}
	g, err := o.gpu()
	if err != nil {
		return nil, err
	}
	precision, err := cuda.ParsePrecision(o.Precision)
	if err != nil {
		return nil, err
	}
	return cuda.NewDevice(cuda.Options{Ordinal: g.Ordinal, Precision: precision, Ranks: of})
}

// ThreadCount returns the number of host threads that compute.
func (o DeviceOptions) ThreadCount() int {
	switch {
	case o.Name != "cpu":
		return 1
	case o.Threads > 0:
		return o.Threads
	}
	return runtime.GOMAXPROCS(0)
}
