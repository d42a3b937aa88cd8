// Package compile compiles the programs of package plan for NVIDIA GPUs and runs them. Its functions
// need the build tag gpu.
//
// # The idea
//
// A training step of a small network is hundreds of short kernels, and starting each of them from
// the host would take longer than the kernels. [New] therefore does everything that does not depend
// on data: it allocates all memory, turns each instruction of the program into kernel launches with
// fixed arguments, and captures the launches as CUDA graphs. A run launches whole graphs.
//
//	plan.Instruction        b10 = squaredNorms{product{8,3},4,rank-one} b0 b9
//	      │  compiler.go: one lowering function for each family of operations
//	      ▼
//	steps                   a kernel, its grid, its packed arguments, and the memory that
//	      │                 it reads and writes (access)
//	      │  graph.go: joinChains, joinBatches, dependencies
//	      ▼
//	CUDA graph              steps without a conflict run at the same time
//
// The compiler runs twice over a program: first it measures the scratch memory of each instruction,
// then it queues launches with addresses in that memory. Two steps conflict if both access some
// memory that at least one of them writes; only conflicting steps depend on each other. joinBatches
// turns parts of the same kernel into one launch, joinChains computes an elementwise operation in
// the launch that writes its operand.
//
// # From a loss to a clipped sum
//
// Where the host computes clip factors, a microbatch is two sequences of graphs, Front and Back,
// with copies between them (executable.go). Where the clipping rule is a formula (clipping.Formula) and
// no operation runs on the host, the device computes the factors itself, a microbatch is one graph,
// and nothing returns before the end of the lot (pipeline.go):
//
//	host      fill slot 0 │ fill slot 1 │ fill slot 0 │ …          two slots in page-locked memory
//	            Push ─┐     Push ─┐
//	device            └─▶ graph 0 ──┴─▶ graph 1 ─▶ …
//
//	one graph: inputs ─▶ Front ─▶ ‖g_r‖² ─▶ factors.cu: c_r ─▶ Back: sum += Aᵀ·diag(c)·Δ
//	end of lot: counts ─▶ host;   release.cu: noise, scale, optimizer ─▶ weights
//
// # What a record may depend on
//
// A record's bits must not depend on the records that share its microbatch. How a kernel adds up the
// numbers of a record therefore depends on the size of the record and not on the number of records;
// schedule.go chooses among divisions of the work that give the same bits. A shape is given to cuBLASLt or cuDNN only after
// a test on the device in which the library kept records independent (library.go).
//
// Norms are never underestimated: squares are added in float64, and where terms can cancel a bound
// on the rounding errors is added (gram.go, multi_use_norms.go). [Precision] lowers the precision of
// products in the forward and the backward pass only.
//
// # Exact programs
//
// contributions.go queues the kernels that round contributions to integers, take their squared
// norms from the records' budgets and add them. The integers may differ from those of the CPU, where
// gradients differ in their last bits; the bound on a record's norm is the same.
//
// # Where each part lives
//
//   - options.go, open.go: what package cuda uses; executable.go: a plan.Executable.
//   - compiler.go: instructions to steps; graph.go: steps to graphs; step_sequence.go: launches them;
//     memory.go, state.go: memory.
//   - One file for each family of operations: product.go, convolution.go, convolution_gradient.go,
//     patch.go, pool.go, channel.go, normalize.go, loss.go, vocabulary_loss.go, sequence.go,
//     embedding.go, elementwise.go, move.go. host_fallback.go runs an operation without a kernel on the host.
//   - gram.go, multi_use_norms.go, record_gradients.go, clip_factors.go, contributions.go,
//     row_contributions.go, release.go, sum_rounding.go: the private step.
//   - schedule.go, library.go: the ways to compute one product; package timing measures which is
//     the fastest.
//   - Package kernels has the kernels in CUDA C++, package driver binds the CUDA driver, package
//     batch joins launches, package override reads environment variables. emu is an emulated device on
//     which every test of this package runs.
package compile
