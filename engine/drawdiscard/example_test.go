package drawdiscard_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/noise"
)

// A simulation in one process: 2,000 clients of one record each.
func Example() {
	model, err := drawdiscard.NewGLM(drawdiscard.Logistic, 1, 2)
	if err != nil {
		panic(err)
	}
	step, err := drawdiscard.NewMechanism(drawdiscard.Settings{
		Distribution: drawdiscard.Laplace, Level: drawdiscard.ModelLevel, Epsilon: 16, Clip: 1, LearningRate: 0.5,
	}, model.Weights())
	if err != nil {
		panic(err)
	}
	instances, err := drawdiscard.NewInstances(model.Initial(), 5, step.NoiseVariance(), noise.NewSeeded(1))
	if err != nil {
		panic(err)
	}
	bank, err := drawdiscard.NewNoiseBank(drawdiscard.Laplace, model.Weights(), 2)
	if err != nil {
		panic(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	gradient, next := make([]float32, model.Weights()), &drawdiscard.Instance{Weights: make([]float32, model.Weights())}
	for range 2000 {
		x := random.Float32()
		record := drawdiscard.Records{Features: []float32{x}, Labels: []float32{0}}
		if x > 0.5 {
			record.Labels[0] = 1
		}
		drawn := instances.At(random.IntN(5)).Weights
		if err := model.AverageGradient(gradient, drawn, record); err != nil {
			panic(err)
		}
		step.Simulate(next.Weights, drawn, gradient, bank) // the step of a real client is Release
		next = instances.Swap(random.IntN(5), next)
	}
	average, p := make([]float32, model.Weights()), make([]float32, 2)
	instances.Average(average)
	model.Predict(p, average, []float32{0.1, 0.9})
	fmt.Println("label of 0.1 is 1:", p[0] > 0.5)
	fmt.Println("label of 0.9 is 1:", p[1] > 0.5)
	// Output:
	// label of 0.1 is 1: false
	// label of 0.9 is 1: true
}
