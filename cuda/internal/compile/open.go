//go:build gpu

package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/cuda/internal/kernels"
	"github.com/dptrain/dptrain/cuda/internal/override"
	"github.com/dptrain/dptrain/cuda/internal/timing"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// opened are the open devices: all executables of a process share a device's context and
// its kernels.
var opened struct {
	sync.Mutex
	devices   map[int]*driver.Device
	libraries map[int]*mathLibraries
	choices   map[int]*timing.Table // none for an emulated device
}

// Open returns a GPU of this host, which stays open.
func Open(ordinal int) (*driver.Device, error) {
	opened.Lock()
	defer opened.Unlock()
	if d := opened.devices[ordinal]; d != nil {
		return d, nil
	}
	d, err := driver.Open(ordinal)
	if err != nil {
		return nil, err
	}
	image, err := loadKernels(d)
	if err != nil {
		return nil, err
	}
	if d.HasTimings() {
		sum := sha256.Sum256(image)
		of := timing.Identity{
			Card:    fmt.Sprintf("%s, compute capability %d.%d, %d multiprocessors", d.Name(), d.Arch()/10, d.Arch()%10, d.Multiprocessors()),
			Driver:  driver.Version(),
			Kernels: hex.EncodeToString(sum[:]),
		}
		if opened.choices == nil {
			opened.choices = map[int]*timing.Table{}
		}
		opened.choices[ordinal] = timing.Load(timing.FileName(of), of)
	}
	if opened.devices == nil {
		opened.devices = map[int]*driver.Device{}
	}
	opened.devices[ordinal] = d
	return d, nil
}

// loadKernels loads the embedded kernels, or those of the file that replaces them, and
// returns their image.
func loadKernels(d *driver.Device) (image []byte, err error) {
	file, err := override.Kernels()
	if err != nil {
		return nil, err
	}
	if file == nil {
		if image, err = kernels.ImageFor(d.Arch()); err != nil {
			return nil, fmt.Errorf("%v: %w", d, err)
		}
		return image, d.LoadModule(image)
	}
	if image, err = file.Image(d.Arch()); err == nil {
		err = d.LoadModule(image)
	}
	if err != nil {
		return nil, fmt.Errorf("kernels from %v: %w", file, err)
	}
	return image, nil
}

// choices returns what was measured on an open device, nil if nothing is.
func choices(ordinal int) *timing.Table {
	opened.Lock()
	defer opened.Unlock()
	return opened.choices[ordinal]
}

// FreeMemory returns the free bytes of a GPU's memory. It opens the GPU.
func FreeMemory(ordinal int) (int64, error) {
	d, err := Open(ordinal)
	if err != nil {
		return 0, err
	}
	free, _, err := d.MemoryInfo()
	return free, err
}

// AllocatedMemory returns the bytes of a GPU's memory that this process's programs have
// allocated. It opens the GPU.
func AllocatedMemory(ordinal int) (int64, error) {
	d, err := Open(ordinal)
	if err != nil {
		return 0, err
	}
	return d.Allocated(), nil
}

// microbatchShare is the share of a GPU's free memory that a microbatch chosen by the
// engine may take.
const microbatchShare = 0.4

// gpu implements plan.Device.
type gpu struct{ options Options }

// NewDevice returns a GPU as a device. It does not open the GPU. It refuses overrides that
// are not understood.
func NewDevice(o Options) (plan.Device, error) {
	_, err := override.Describe()
	return gpu{o}, err
}

func (g gpu) Name() string { return fmt.Sprintf("cuda:%d", g.options.Ordinal) }

// MemoryLimit is a share of the free memory.
func (g gpu) MemoryLimit() (int64, error) {
	free, err := FreeMemory(g.options.Ordinal)
	return int64(microbatchShare * float64(free)), err
}

func (gpu) MaxMicrobatch() int { return 1024 }

func (gpu) PreferredMicrobatch(p *plan.Program) int { return p.Records }

// Optimize computes large logits some rows at a time, and keeps frozen matrices of 16 bits as they are. No pass makes programs
// faster here.
func (gpu) Optimize(p *plan.Program) {
	p.FuseVocabularyLoss(blockLogits)
	p.KeepHalf()
}

func (g gpu) Compile(p *plan.Program, o plan.Optimizer, average bool) (plan.Executable, error) {
	p.KeepHalf()
	return New(p, o, average, g.options)
}
