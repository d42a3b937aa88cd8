package bench

import (
	"github.com/dptrain/dptrain/models"
)

// Workload is a network and its training batch. The batch is random with a fixed seed.
type Workload struct {
	Name    string
	Model   string // in the syntax of [models.Parse]
	Example models.DataSpec
	Batch   int
}

// Workloads returns the workloads of the speed comparison.
func Workloads() []Workload {
	digits := models.DataSpec{Shape: []int{1, 28, 28}, Classes: 10}
	pixels := models.DataSpec{Shape: []int{784}, Classes: 10}
	return []Workload{
		{"logistic-256", "logistic", pixels, 256},
		{"logistic-2048", "logistic", pixels, 2048},
		{"mlp-256", "mlp:1000", pixels, 256},
		{"mlp-1024", "mlp:1000", pixels, 1024},
		{"abadi-mlp-600", "abadi-mlp", models.DataSpec{Shape: []int{60}, Classes: 10}, 600},
		{"mnist-cnn-256", "mnist-cnn", digits, 256},
		{"cifar-abadi-64", "cifar-abadi", models.DataSpec{Shape: []int{3, 24, 24}, Classes: 10}, 64},
		{"cifar-tanh-64", "cifar-tanh", models.DataSpec{Shape: []int{3, 32, 32}, Classes: 10}, 64},
		{"wrn16-4-16", "wrn16-4", models.DataSpec{Shape: []int{3, 32, 32}, Classes: 10}, 16},
		{"lstm-64", "lstm", models.DataSpec{Shape: []int{64}, Vocabulary: 10000, Classes: 2}, 64},
		{"transformer-32", "transformer", models.DataSpec{Shape: []int{64}, Vocabulary: 5000, Classes: 5000, LabelShape: []int{64}}, 32},
		{"embbag-256", "embbag", models.DataSpec{Shape: []int{128}, Vocabulary: 20000, Classes: 2}, 256},
	}
}
