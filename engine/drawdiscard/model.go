package drawdiscard

// TensorShape names a part of a model's weights, in their order.
type TensorShape struct {
	Name  string
	Shape []int
}

// CountWeights is the number of weights of tensors, or one more than most.
func CountWeights(tensors []TensorShape, most int) int {
	count := 0
	for _, t := range tensors {
		size := 1
		for _, n := range t.Shape {
			if size > 0 && n > most/size {
				return most + 1
			}
			size *= n
		}
		if count += size; count > most {
			return most + 1
		}
	}
	return count
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
