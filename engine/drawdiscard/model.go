package drawdiscard

// TensorShape names a part of a model's weights, in their order.
type TensorShape struct {
	Name  string
	Shape []int
}

// Model computes the gradients of a client.
type Model interface {
	// Weights is the number of weights.
	Weights() int
	// Initial returns the public initial weights.
	Initial() []float32
	// Tensors describes the weights in a file, in their order.
	Tensors() []TensorShape
	// AverageGradient writes the mean gradient of the records' losses, unclipped.
	AverageGradient(dst, weights []float32, records Records) error
}
