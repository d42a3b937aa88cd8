package plan_test

import (
	"fmt"
	"log"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// The program of a network with one dense layer, for microbatches of four records.
func ExampleLowerTraining() {
	net, err := perexample.Compile(func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		logits := layer.Dense(n, n.Input("x", 8), "fc", 3, layer.Identity)
		n.SetLoss(layer.CrossEntropy(n, logits, n.Input("label")), logits)
		return n.Network()
	}, 4, 1)
	if err != nil {
		log.Fatal(err)
	}
	p, err := plan.LowerTraining(net, plan.TrainingOptions{Norms: true})
	if err != nil {
		log.Fatal(err)
	}
	show := func(i plan.Instruction) {
		sign := "="
		if i.Accumulate {
			sign = "+="
		}
		fmt.Printf("  b%d %s %v", i.Out, sign, i.Spec)
		for _, id := range i.In {
			fmt.Printf(" b%d", id)
		}
		fmt.Println()
	}
	fmt.Println("Front")
	for _, i := range p.Front {
		show(i)
	}
	fmt.Println("Back")
	for _, i := range p.Back {
		show(i)
	}
	for _, v := range p.Parameters {
		fmt.Printf("%s: weights b%d, squared norms b%d, clip factors b%d, sum b%d\n", v.Name, v.Value, v.SquaredNorms, v.ClipFactors, v.ClippedSum)
	}
	// Output:
	// Front
	//   b6 = linear{identity} b0 b2 b3
	//   b8 = spread{[4],1} b7
	//   b9 = crossEntropyGrad{0} b6 b1 b8
	//   b10 = squaredNorms{product{8,3},4,rank-one} b0 b9
	//   b11 = crossEntropy{0} b6 b1
	//   b13 = rowSquares b12
	// Back
	//   b14 += clippedSum{product{8,3},4} b0 b9 b4
	//   b15 += weightedRows b12 b5
	// fc.weight: weights b2, squared norms b10, clip factors b4, sum b14
	// fc.bias: weights b3, squared norms b13, clip factors b5, sum b15
}
