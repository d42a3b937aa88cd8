//go:build gpu

package ranks

// abi is a binary interface of MPI: the values of the handles and constants that dptrain uses. Functions
// have the same parameters in all three. A handle is a number, or the address of a symbol.
type abi struct {
	name string

	world, int64s, int32s, bytes, sum, errorsReturn handle

	inPlace  uintptr
	funneled int
}

type handle struct {
	number uintptr
	symbol string
}

func number(n uintptr) handle   { return handle{number: n} }
func symbol(name string) handle { return handle{symbol: name} }

// The three interfaces. Intel MPI, MVAPICH and Cray MPICH have that of MPICH.
var (
	// The standard ABI of MPI 5.0, chapter 20; mpi_abi.h of MPICH 5.0.2.
	standardABI = abi{"standard ABI", number(0x101), number(0x258), number(0x250), number(0x247), number(0x21), number(0x143), 1, 1024}
	// mpi.h of MPICH 5.0.2; the same values since MPICH 3.1 (https://www.mpich.org/abi). Handles are ints.
	mpichABI = abi{"MPICH", number(0x44000000), number(0x4c00083a), number(0x4c000439), number(0x4c00010d),
		number(0x58000003), number(0x54000001), ^uintptr(0), 1}
	// mpi.h of Open MPI 5.0.11.
	openMPIABI = abi{"Open MPI", symbol("ompi_mpi_comm_world"), symbol("ompi_mpi_int64_t"), symbol("ompi_mpi_int32_t"), symbol("ompi_mpi_byte"),
		symbol("ompi_mpi_op_sum"), symbol("ompi_mpi_errors_return"), 1, 1}
)

// Limits of all three.
const (
	maxErrorString   = 512
	maxVersionString = 8192
)
