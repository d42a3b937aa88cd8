package lattice

// kernels is one implementation of all code that depends on the processor. The comments are the
// contract of every implementation; all give the same bits. Counts are at least 1 unless stated
// otherwise. start and step are the state and the step of a key's sequence, see Key.
type kernels struct {
	name string

	// rounding selects the implementation of quantize, squares and add. It is not a table of
	// functions, because the compiler would move the buffers of the last elements of a row to the
	// heap.
	rounding instructionSet
}

// instructionSet names code for a processor.
type instructionSet int

const (
	goCode instructionSet = iota
	avx2
	avx512
	neon
)

// supported lists the implementations that this processor can run, the fastest last. Pure Go is
// the first.
var supported = append([]*kernels{&pureGo}, assembly()...)

var active = supported[len(supported)-1]

// ISA names the instruction set in use: "go", "avx2", "avx512", "avx512vnni" or "neon".
func ISA() string { return active.name }
