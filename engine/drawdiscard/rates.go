package drawdiscard

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine/optim"
)

// Rates is the learning rate of a client's step as a function of the number of updates before its draw.
// The rate scales gradient and noise alike, so it changes no guarantee of a client.
type Rates struct{ schedule optim.Schedule }

// ParseRates parses a schedule of package optim whose epochs are updates, such as linear:0.01@100000 or
// step:0.1@10000,100000. The empty text is constant.
func ParseRates(text string, base float64) (Rates, error) {
	if text == "" {
		text = string(optim.ShapeConstant)
	}
	s, err := optim.ParseSchedule(text, base)
	switch {
	case err != nil:
		return Rates{}, err
	case s.Shape == optim.ShapeCosine:
		return Rates{}, fmt.Errorf("schedule %q ends with the training, and a server has no end; use linear:RATE@UPDATES or step:FACTOR@UPDATES,…", text)
	case s.Shape == optim.ShapeLinear && s.FinalRate == 0:
		return Rates{}, fmt.Errorf("schedule %q ends with a learning rate of 0; use a rate above 0", text)
	}
	return Rates{s}, nil
}

// At is the learning rate of a step whose instance is drawn after a number of updates.
func (r Rates) At(updates uint64) float64 {
	return r.schedule.Rate(int(min(updates, math.MaxInt-1))+1, 1, 0)
}
