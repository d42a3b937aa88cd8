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
		program, err := plan.LowerTraining(p, plan.Options{Norms: true, Output: true})
		if err != nil {
			return nil, err
		}
		m, err := cuda.New(program, plan.Optimizer{Kind: plan.SGD}, false, cuda.Options{})
		if err != nil {
			return nil, err
		}
		return onCard{m.(*cuda.Executable)}, nil
	}}
	devices = []device{card}
}

type onCard struct{ *cuda.Executable }

func (m onCard) Sum(v int) []float32 { return must(m.Executable.Sum(v)) }
