//go:build gpu

package perexample_test

import (
	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
)

// The networks also run on a GPU if there is one, real or emulated. Without the build
// tag, go test runs them on the other devices only.
func init() {
	switch list, err := cuda.Devices(); {
	case err != nil:
		panic(err)
	case len(list) == 0:
		return
	}
	card := device{"cuda", func(p *perexample.PrivateNetwork) (accumulator, error) {
		program, err := plan.LowerTraining(p, plan.TrainingOptions{Norms: true, Output: true})
		if err != nil {
			return nil, err
		}
		d, err := cuda.NewDevice(cuda.Options{})
		if err != nil {
			return nil, err
		}
		m, err := d.Compile(program, plan.Optimizer{Kind: plan.SGD}, false)
		if err != nil {
			return nil, err
		}
		return onCard{m.(summing)}, nil
	}}
	devices = []device{card}
}

// summing is a GPU's executable, whose sums a test reads.
type summing interface {
	plan.Executable
	Sum(v int) ([]float32, error)
}

type onCard struct{ summing }

func (m onCard) Sum(v int) []float32 { return must(m.summing.Sum(v)) }
