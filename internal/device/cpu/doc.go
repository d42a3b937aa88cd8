// Package cpu runs the programs of package plan on the CPU, with SIMD kernels in Go assembly and
// without cgo. The package's Example computes a clipped sum of two records from their losses.
//
// # The idea
//
// [New] does all work that does not depend on data. It allocates the memory of every buffer and
// lowers each instruction to a step: a function without arguments over fixed memory. A run then
// only calls steps in order.
//
//	plan.Instruction                        step
//	b6 = linear{relu} b0 b2 b3    ──▶    func() { multiply b0 by b2, add b3, apply relu }
//	Spec + buffer numbers                 the closure has the slices, the sizes and scratch memory
//
//	Forward          front[0]() … front[n]()      forward pass, backward pass, squared norms
//	                 the caller writes clip factors
//	AddClippedSums   back[0]() … back[m]()        sum += Aᵀ·diag(c)·Δ
//	Release          one pass over the weights:   noise, scale, optimizer, sum = 0
//
// Steps that consist of kernels do not allocate.
//
// # Threads
//
// A step divides its work into tasks that a pool of threads shares (pool.go, tasks.go). What a task
// computes depends on its number and never on the thread that runs it. No result depends on how
// ranges are cut, so results have the same bits for any number of threads. Each thread has scratch
// memory, whose size the lowering functions reserve before the first run.
//
// # Norms that are never too small
//
// A clip factor protects a record only if the norm behind it is not below the norm of what is
// added. norms.go states the bound that each method keeps:
//
//	‖u‖² ≤ (sq + 1e-30)/(1 − 1e-5)       u: the record's gradient,  sq: its computed squared norm
//
// Squares are added in float64. Where terms can cancel, in a Gram matrix in float32 or in a clipped
// sum, a bound on the rounding errors is added to the norm. Package gram has the Gram matrices and
// their bound.
//
// # Exact programs
//
// Where a program is exact, the steps of Back add integers: contributions.go rounds gradients that
// were built, contribution_rows.go rounds the rows of A and Δ to 16 bits and multiplies them in
// integers, embedding.go rounds gathered rows. Each part takes its squared norm from the record's budget
// (plan.Admission) before it is added. The kernels are those of package lattice.
//
// # Where each part lives
//
//   - executable.go: the memory and the order of steps; device.go: the CPU as a plan.Device;
//     memory.go: refuses a program for which the host lacks memory.
//   - lowering.go: which kernel runs an operation. One without a kernel runs its reference in
//     float64; one of Gorgonia's own runs Gorgonia's code.
//   - One file for each family of operations: products.go, convolution.go (with winograd.go and
//     patched_convolution.go), attention.go, lstm.go, gru.go, embedding.go, normalize.go,
//     pooling.go, softmax.go, losses.go, vocabulary_loss.go, activations.go, elementwise.go, rearrange.go.
//   - channels_last.go: which pictures have their channels last in memory.
//   - norms.go, multi_use_norms.go, record_gradients.go: the operations of a private step.
//   - release.go: noise and optimizer, block by block, each block in the cache once.
//   - Package simd has the float32 kernels, package lattice those for integers.
package cpu
