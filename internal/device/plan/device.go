package plan

import "errors"

// ErrOutOfMemory means that a device has too little memory for a program. A smaller
// microbatch may fit.
var ErrOutOfMemory = errors.New("out of memory")

// Device compiles programs. It contains kernels and a scheduler; it does not read the
// network.
type Device interface {
	// Name is the device as Config.Device takes it: cpu, gorgonia, cuda:0.
	Name() string
	// MemoryLimit is the number of bytes that a microbatch chosen by the engine may take.
	MemoryLimit() (int64, error)
	// MaxMicrobatch is the number of records above which a larger microbatch is not faster.
	MaxMicrobatch() int
	// PreferredMicrobatch is p.Records, or half of it if the device runs smaller
	// microbatches of this network as fast and in less memory.
	PreferredMicrobatch(p *Program) int
	// Optimize rewrites a training program by the passes that pay on this device. Every
	// result keeps its bits.
	Optimize(p *Program)
	// Compile allocates the program's memory and initializes its parameters. With average
	// set, the executable also keeps a moving average of the weights. If memory is short,
	// the error is ErrOutOfMemory.
	Compile(p *Program, o Optimizer, average bool) (Executable, error)
}
