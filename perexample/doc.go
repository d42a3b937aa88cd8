// Package perexample turns a loss graph into a private step. It reads a Gorgonia graph, finds how
// each parameter is used, and adds the nodes that compute the squared norm of each record's
// gradient and the sum of the clipped gradients. [Compile] does this; [PrivateNetwork] states what
// the nodes guarantee.
//
// # The problem
//
// Let ℓ_r be the loss of record r and g_r = ∂ℓ_r/∂W its gradient. Backpropagation from Σ_r ℓ_r
// computes Σ_r g_r. DP-SGD needs
//
//	Σ_r c_r·g_r   with factors such as   c_r = min(1, C/‖g_r‖)
//
// and so the norm of each g_r, which backpropagation does not compute. To build every g_r takes
// the memory of the weights times the number of records.
//
// # The idea
//
// Every record's gradient is a function of two tensors that backpropagation computes anyway. In a
// layer y = a·W these are the layer's input a and the backpropagated signal δ = ∂ℓ/∂y. The rows t
// of record r are its examples, the positions of its sequence or the windows of its picture, and
// make up the matrices A_r and Δ_r:
//
//	gradient      g_r         = Σ_t a_t ⊗ δ_t = A_rᵀ·Δ_r
//	norm, 1 row   ‖g_r‖²      = ‖a‖²·‖δ‖²
//	norm, T rows  ‖g_r‖²      = ⟨A_r·A_rᵀ, Δ_r·Δ_rᵀ⟩          two T×T Gram matrices
//	clipped sum   Σ_r c_r·g_r = Aᵀ·diag(c)·Δ                 one product for all records
//
// The loss is the sum of the examples' losses and no operation mixes examples. The rows Δ_r of a
// record are therefore the same whichever records share its microbatch. The whole step is one
// forward pass, one backward pass, the norms, and one product that replaces the usual weight
// gradient:
//
//	forward       x ──▶ … ──▶ a ──▶ a·W ──▶ … ──▶ Σ_r ℓ_r
//	                          │                     │
//	backward                  │   δ ◀── … ◀─────────┘
//	                          ▼   ▼
//	norms               SquaredNorms_r = ‖g_r‖²        (r = 1 … Records)
//	                          │
//	                  the caller's clipping rule       (packages clip and engine)
//	                          ▼
//	                    ClipFactors_r = c_r
//	                          ▼
//	sum                 ClippedSum = Aᵀ·diag(c)·Δ
//
// # Other uses of a parameter
//
// Each use of a parameter has one of four kinds. Package op calls their formulas forms: op.Product
// and op.ConvWeight, op.Shift, op.Scale, op.Gather.
//
//	kind      forward   gradient of a record
//	product   a_t·W     Σ_t a_t ⊗ δ_t             dense layers, convolutions
//	shift     x + β     Σ_t δ_t                   biases
//	scale     x ⊙ γ     Σ_t x_t ⊙ δ_t             normalization
//	gather    E[i_t]    δ_t added to row i_t      embeddings
//
// Shifts and scales have gradients that are no larger than their rows: these are built, squared and
// summed. A product is built as well where its gradient is cheaper than Gram matrices
// (chooseMethod). Several uses of the same elements in one form become one use with more rows
// (stackUses). If other uses share elements, the norm needs their cross terms, and an operation
// computes it from each record's whole gradient (addMixed).
//
// # How a graph is read
//
//   - build_pair.go: the network is built for two numbers of examples. An axis whose length differs
//     contains the examples.
//   - layout_analysis.go, layout_transfer.go: each node of the forward pass gets a layout, its
//     memory seen as [outer, batch, inner]. An operation that mixes examples is refused; one that
//     no rule covers is marked.
//   - private_network.go: Gorgonia differentiates the loss, which gives the signal δ of every node.
//   - parameter_view.go, parameter_use.go: a parameter is followed through reshapes, transposes,
//     slices, repeats and concatenations to the operations that use it together with examples.
//     Each is a use: a form, A, Δ, and the elements of the parameter that it reads.
//   - parameter.go: nodes for norms and sums are added for each use.
//   - derived_weight.go, vjp.go, batched_vjp.go: a parameter that examples use through a function of
//     it, such as a standardized weight. Each record's gradient of the function's value is built
//     and multiplied by the function's transposed Jacobian.
//
// If a use has no rule, the network is compiled for one record at a time (wholeGradients): the
// ordinary gradient is then the record's. [PrivateNetwork].Warning names the node. example_mixing.go
// refuses layers that certainly mix examples although they have no layout; unsupported.go and
// gorgonia_bugs.go refuse operations that Gorgonia computes wrongly; frozen_outputs.go finds the
// outputs of frozen first layers, which are the same in every lot.
//
// # References
//
// Goodfellow 2015 (norms of products of one row), Li et al. 2022 (Gram matrices, "ghost clipping").
// Packages plan, cpu and cuda execute the nodes; clip computes the factors.
package perexample
