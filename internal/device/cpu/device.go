package cpu

import (
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/host/memory"
)

const (
	// microbatchMemory is the memory that a microbatch chosen by the engine may take.
	microbatchMemory = 512 << 20
	// coreCache is an upper bound of a core's own cache, and sharedCache the size of a
	// cache that cores share, in bytes. Measured on the workloads of package bench.
	coreCache   = 8 << 20
	sharedCache = 72 << 20
)

// device is the CPU with a number of threads.
type device struct {
	threads int
	room    *memory.Headroom // of an executable; nil: the current headroom
}

// NewDevice is the CPU. Threads 0 means one per processor; results do not depend on it.
func NewDevice(threads int) plan.Device { return device{threads: threads} }

// NewDeviceWithin is NewDevice with a room for each executable that was determined before private
// data were read.
func NewDeviceWithin(threads int, room memory.Headroom) plan.Device { return device{threads, &room} }

func (device) Name() string                { return "cpu" }
func (device) MemoryLimit() (int64, error) { return microbatchMemory, nil }
func (device) MaxMicrobatch() int          { return 512 }

// PreferredMicrobatch halves a microbatch in two cases. The program is larger than a
// shared cache, and at most half of it are weights and sums, which each half would read
// again. Or the network has few weights, and half the temporaries may fit a core's cache.
func (device) PreferredMicrobatch(p *plan.Program) int {
	half := false
	if all := p.Bytes(); all > sharedCache && p.MicrobatchBytes() > all/2 {
		half = p.Records >= 16
	} else {
		weights := 0
		for _, v := range p.Parameters {
			weights += p.Buffers[v.Value].Size()
		}
		half = p.Records >= 128 && p.Arena > max(1<<20, 16*weights)
	}
	if half {
		return p.Records / 2
	}
	return p.Records
}

// leastLogits is the number of logits, 16 MiB, from which on they are computed some rows at a time.
const leastLogits = 4 << 20

// Optimize computes large logits some rows at a time, and cheap results again instead of keeping them. Frozen matrices of 16
// bits stay as they are.
func (device) Optimize(p *plan.Program) {
	p.FuseVocabularyLoss(leastLogits)
	p.Rematerialize(coreCache)
	p.KeepHalf()
}

// prepared is the program that an executable runs.
func prepared(p *plan.Program) *plan.Program {
	p = p.FuseLSTM()
	p.KeepHalf()
	return p
}

func (d device) Compile(p *plan.Program, o plan.Optimizer, average bool) (plan.Executable, error) {
	p = prepared(p)
	room := availableMemory(size(p, o, average)) // also returns unused memory to the system
	if d.room != nil {
		room = *d.room
	}
	m, err := newExecutableWithin(room, p, o, average, d.threads)
	if err != nil {
		return nil, err // a nil *Executable is not a nil interface
	}
	return m, nil
}
