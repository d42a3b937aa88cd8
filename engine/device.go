package engine

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/internal/cpu"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/internal/simd"
	"github.com/dptrain/dptrain/internal/tape"
)

// Device is something that a run can be trained on.
type Device struct {
	Name        string // as DeviceOptions.Name takes it
	Description string
}

// Devices are the devices of this build and host, and what keeps GPUs from being
// among them, if anything does.
func Devices() ([]Device, error) {
	list := []Device{
		{"cpu", fmt.Sprintf("%d threads, %s kernels", runtime.GOMAXPROCS(0), simd.ISA())},
		{"gorgonia", "Gorgonia's own operations one by one: slow, for comparison"},
	}
	gpus, err := cuda.Devices()
	for _, g := range gpus {
		list = append(list, Device{g.String(), fmt.Sprintf("%s, compute capability %d.%d, %.1f GiB",
			g.Name, g.Arch/10, g.Arch%10, float64(g.Memory)/(1<<30))})
	}
	if len(gpus) == 0 && err == nil {
		err = errNoGPU
	}
	return list, err
}

var errNoGPU = errors.New("this host shows no NVIDIA driver or GPU; use --device cpu")

// mostThreads is more than any host has processors.
const mostThreads = 1 << 16

// DeviceOptions select what executes a program.
type DeviceOptions struct {
	Name      string // auto (the default), cpu, gorgonia, cuda:N
	Precision string // of matrix products on a GPU: fp32 (the default), tf32, bf16
	Threads   int    // CPU threads; 0: one per processor
}

// settle names the device: the first GPU, or the CPU where there is none, unless
// another was asked for. The note, if any, is what the user should know of it.
func (p *DeviceOptions) settle() (note string, err error) {
	precision, err := cuda.ParsePrecision(p.Precision)
	if err != nil {
		return "", err
	}
	if p.Threads < 0 || p.Threads > mostThreads {
		return "", fmt.Errorf("%d threads: give at least 1 and at most %d, or 0 for one a processor", p.Threads, mostThreads)
	}
	if p.Name == "" || p.Name == "auto" {
		note = p.choose()
	}
	switch {
	case p.onGPU():
		g, err := p.gpu()
		if err != nil {
			return "", err
		}
		if _, err := cuda.ProductLibrary(g.Ordinal); err != nil && !errors.Is(err, cuda.ErrNoLibrary) {
			note = fmt.Sprintf("own kernels compute all products: %v", err)
		}
	case p.Name != "cpu" && p.Name != "gorgonia":
		return "", fmt.Errorf("device %q is unknown: use auto, cpu, gorgonia or cuda:N", p.Name)
	case precision != cuda.FP32:
		return "", fmt.Errorf("precision %v is a GPU's: %s computes in float32; leave it out", precision, p.Name)
	}
	return note, nil
}

// choose takes the first GPU, or the CPU where there is none.
func (p *DeviceOptions) choose() (note string) {
	p.Name = "cpu"
	gpus, err := cuda.Devices()
	switch {
	case errors.Is(err, cuda.ErrNotBuilt):
	case err != nil:
		note = fmt.Sprintf("training on the CPU: %v", err)
	case len(gpus) > 0 && !gpus[0].Emulated:
		p.Name = gpus[0].String()
	}
	return note
}

func (p DeviceOptions) onGPU() bool { return strings.HasPrefix(p.Name, "cuda") }

// gpu describes the GPU that the device names.
func (p DeviceOptions) gpu() (cuda.Device, error) {
	gpus, err := cuda.Devices()
	if err != nil {
		return cuda.Device{}, fmt.Errorf("device %s: %w", p.Name, err)
	}
	for _, g := range gpus {
		if g.String() == p.Name || p.Name == "cuda" {
			return g, nil
		}
	}
	switch len(gpus) {
	case 0:
		return cuda.Device{}, fmt.Errorf("device %s: %w", p.Name, errNoGPU)
	case 1:
		return cuda.Device{}, fmt.Errorf("device %s: this host has cuda:0 alone", p.Name)
	}
	return cuda.Device{}, fmt.Errorf("device %s: this host has cuda:0 to cuda:%d", p.Name, len(gpus)-1)
}

// open opens the device that the place names.
func (p DeviceOptions) open() (plan.Device, error) {
	host := cpu.NewDevice(p.Threads)
	if p.Name == "gorgonia" {
		return tape.NewDevice(host), nil
	}
	if !p.onGPU() {
		return host, nil
	}
	g, err := p.gpu()
	if err != nil {
		return nil, err
	}
	precision, err := cuda.ParsePrecision(p.Precision)
	if err != nil {
		return nil, err
	}
	return cuda.NewDevice(cuda.Options{Ordinal: g.Ordinal, Precision: precision})
}

// place is where the run's programs run.
func (r *Run) place() DeviceOptions {
	return r.config.Device
}

// threads is how many the run uses.
func (r *Run) threads() int {
	switch {
	case r.config.Device.Name != "cpu":
		return 1
	case r.config.Device.Threads > 0:
		return r.config.Device.Threads
	}
	return runtime.GOMAXPROCS(0)
}
