// Package plan lowers a network to a device-neutral program: a list of instructions over buffers
// with shapes and lifetimes. Every device runs the same program, so that what is decided here is
// decided once.
//
// # From a graph to a program
//
// Package perexample has added the nodes of a private step to a Gorgonia graph. [LowerTraining]
// visits the nodes that the results need, operands first, and writes one [Instruction] for each.
// An instruction has the node's op.Operation, the numbers of the buffers that it reads and of the one
// that it writes. This is the program of one dense layer, from ExampleLowerTraining; its buffers
// are inputs (b0, b1), weights (b2, b3), clip factors (b4, b5), a constant (b7) and results:
//
//	Front                                                   what it computes
//	  b6 = linear{identity} b0 b2 b3                        logits x·W + b
//	  b8 = spread{[4],1} b7                                 ∂loss/∂losses: 1 for each of 4 records
//	  b9 = crossEntropyGrad{0} b6 b1 b8                     δ
//	  b10 = squaredNorms{product{8,3},4,rank-one} b0 b9     ‖x‖²·‖δ‖²
//	  b11 = crossEntropy{0} b6 b1                           the records' losses
//	  b13 = rowSquares b12                                  ‖δ‖², the bias's; b12 is b9 reshaped
//	      ───── the caller reads b10 and b13, and writes clip factors to b4 and b5 ─────
//	Back
//	  b14 += clippedSum{product{8,3},4} b0 b9 b4            xᵀ·diag(c)·δ
//	  b15 += weightedRows b12 b5                            Σ_r c_r·δ_r
//
// The program is cut between Front and Back because the clipping rule, which can be the user's Go
// code, runs between them. Back adds to accumulators, so that a lot of any number of microbatches
// is one sum. A parameter whose sum depends on few nodes comes first in both parts: its layer is
// near the loss, and its signal is then still in the caches (orderBySumCost).
//
//	for each microbatch:   inputs ─▶ Front ─▶ norms ─▶ [clip] ─▶ factors ─▶ Back ─▶ accumulators
//	once for a lot:        accumulators ─▶ Release: noise, scale, optimizer ─▶ weights
//
// # Memory
//
// A [Buffer] has a [Role]. Weights, inputs, norms, factors and accumulators have memory of their
// own. Temporaries share one arena: each has a lifetime, from the instruction that writes it to the
// last that reads it, and an offset at which no other temporary is alive, except an operand that its
// result may overwrite (arena.go). A reshape is a second buffer with the same memory.
//
// # Passes
//
// A pass rewrites a program and does not change a bit of any result. [Program.Rematerialize]
// computes cheap results a second time in the backward pass instead of keeping them. [Program.Checkpoint]
// keeps only what crosses the borders of segments, for a program that does not fit otherwise.
// [Program.FuseVocabularyLoss] joins what computes and reads large logits, which then need not exist whole.
// [Program.FuseLSTM] joins the instructions around a recurrent layer. [Program.KeepHalf] marks frozen matrices that can stay
// numbers of 16 bits.
//
// # What is decided once
//
// [Program.Annotated] writes into each instruction what follows from the network, so that no device
// decides it again: the [Path] (a kernel, the reference on the host, Gorgonia, a sum of integers), how
// norms come about ([NormForm]), which norms read the same rows, and for a contribution its number and
// whether rows are rounded or gradients are built ([ContributionForm]). A device chooses among its
// kernels.
//
// # Exact programs
//
// In an exact program the accumulators are integers. What record r adds to parameter i is
//
//	round(c_r · Steps_i · g_r)     rounded to integers at random, from the record's random word
//
// and it is added only if its squared norm, counted in integers, fits what is left of the record's
// budget Bound². [Contributions] has the numbers that such a program reads; [Admission] keeps the
// budgets on the host. The sensitivity of a sum then holds for the bits that are released, and the
// sum does not depend on the order of its terms.
//
// # Where each part lives
//
//   - program.go: [Program], [Buffer], [Instruction]; lower.go: from a graph to a program.
//   - arena.go, rematerialize.go, checkpoint.go, lstm_fusion.go, vocabulary_loss.go, half.go: memory and passes. annotate.go: decisions.
//   - contributions.go, admission.go: exact programs.
//   - release.go, optimizer.go: how a lot's sums become a step, with one definition of the noise
//     stream and of each optimizer for all devices.
//   - device.go, executable.go, pipeline.go: what a device implements. A [Device] compiles a program
//     to an [Executable]; an Executable that computes clip factors itself is a [Pipeline].
//   - plantest: the conformance suite that every device passes.
package plan
