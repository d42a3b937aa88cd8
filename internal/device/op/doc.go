// Package op defines the operations that dptrain adds to Gorgonia. An [Operation] is one operation with
// its attributes: a comparable value whose String names everything that it computes. Each has a
// float64 reference, in plain loops, with which every device is compared.
//
// # Three families
//
// The operations of a network have a symbolic derivative as well ([Differentiable]). [Apply] adds
// one to a Gorgonia graph, and Gorgonia calls Diff when it derives the backward pass:
//
//	y := Apply(Linear{Act}, x, W, b)       forward: matmul.go, conv.go, attention.go, …
//	G.Grad(loss, W, b)                     backward: the Operations that Diff returns, …Grad
//
// The operations of a private step are added by package perexample after that, so that no gradient
// passes through them. A [Form] is the formula of a record's gradient from the record's block of an
// activation tensor A and its block of a backpropagated tensor Δ:
//
//	                 A        Δ                 form          gradient of record r
//	              ┌─────┐  ┌─────┐              Product       A_rᵀ·Δ_r
//	record 0      │ A_0 │  │ Δ_0 │              ConvWeight    the same over windows of pictures
//	record 1      │ A_1 │  │ Δ_1 │              Shift         sums of Δ_r by channel
//	…             │  …  │  │  …  │              Scale         sums of A_r ⊙ Δ_r by channel
//	              └─────┘  └─────┘              Gather        rows of Δ_r added at indices A_r
//
// With one form, g_r = Form(A_r, Δ_r) and a clip factor c_r for each record, there are three
// operations (record_gradients.go):
//
//	RecordGradients   A, Δ      →  [records, size]   g_r
//	SquaredNorms      A, Δ      →  [records]         ‖g_r‖²
//	ClippedSum        A, Δ, c   →  [size]            Σ_r c_r·g_r
//
// [SquaredNorms] names a [Method] by which a device finds the norm without g_r; the reference
// always builds it. Gradients that were built are squared by [RowSquares] and summed by
// [WeightedRows] (rows.go). [MultiUseNorms] and [MultiUseSum] add several forms of one parameter
// before they square or sum (multi_use_norms.go). [Scatter] and [Map] bring the sum of a slice or a
// transposed view to the layout of its parameter (parameter_map.go). [ScaleRows] weights the
// examples within a record, [StackRows] joins the rows of several uses.
//
// In all sums a record of factor zero adds nothing, even if its rows contain NaN or infinities.
//
// The third family moves or combines elements: rearrange.go, elementwise.go, softmax.go. Gorgonia
// has most of these operations itself. [Canonical] reads a node of Gorgonia's as the Operation that
// computes the same, so that the packages above know one vocabulary; it is nil for an operation
// that only Gorgonia can compute.
//
// # What other packages read
//
//   - perexample calls [Parametric].Use: how an operation uses its weight, as a Form, A and Δ.
//     [Rowwise] states which inputs have independent rows.
//   - plan lowers each Operation to an instruction with the same attributes.
//   - cpu and cuda have a kernel for an Operation or run its Do, the reference, which is slow.
//   - plan/plantest compares every kernel with Do.
package op
