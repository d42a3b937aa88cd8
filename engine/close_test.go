package engine

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A closed run keeps its weights and trains no further; a closed evaluator opens again. Both may
// be closed twice.
func TestClose_OnEveryDevice(t *testing.T) {
	devices, _ := Devices()
	for _, device := range devices {
		for _, average := range []float64{0, 0.5} {
			c := testConfig(t)
			c.Device.Name, c.Optimization.Average.Decay = device.Name, average
			c.Files.CheckpointFolder = t.TempDir()
			r := newRun(t, c)
			enough := errors.New("enough")
			if err := r.Train(t.Context(), func(p *Progress) error {
				if p.Lot == 2 {
					return enough
				}
				return nil
			}); err != enough {
				t.Fatal(err)
			}
			want := flatWeights(t, r)
			for range 2 {
				if err := r.Close(); err != nil {
					t.Errorf("%s: closed with %v", device.Name, err)
				}
			}
			if !slices.Equal(flatWeights(t, r), want) {
				t.Errorf("%s: a closed run has other weights", device.Name)
			}
			if err := r.Train(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "the run is closed") || r.StepsDone() != 2 {
				t.Errorf("%s: a closed run trained %d lots, %v", device.Name, r.StepsDone(), err)
			}
		}
		e, err := NewEvaluator(mlp, DeviceOptions{Name: device.Name, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		want, err := e.Score(e.Weights(), mlpExamples(9, 4))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := e.Close(); err != nil {
				t.Errorf("%s: evaluator closed with %v", device.Name, err)
			}
		}
		if got, err := e.Score(e.Weights(), mlpExamples(9, 4)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: a closed evaluator scores %+v, %v; before %+v", device.Name, got, err, want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
