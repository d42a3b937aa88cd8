package engine

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/half"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// fadingSet has zeros for features after its examples were read once.
type fadingSet struct {
	data.Set
	reads int // examples
}

func (s *fadingSet) Read(dst [][]float32, rows []int) error {
	s.reads += len(rows)
	err := s.Set.Read(dst, rows)
	if s.reads > s.Len() {
		clear(dst[0])
	}
	return err
}

// An evaluator that keeps the outputs of frozen layers reads the features of an example once. It scores every
// weights, of the caller's memory or of other memory, with the bits of an evaluator that keeps none.
func TestKeepFrozen_SameBits(t *testing.T) {
	for name, build := range map[string]perexample.Build{"pictures": frozenPictures("frozen", 0, 0), "steps": frozenSteps} {
		whole, kept := newTestEvaluator(t, build), newTestEvaluator(t, build)
		table := pictureTable(300)
		fading := &fadingSet{Set: table}
		if err := kept.KeepFrozen(fading); err != nil {
			t.Fatal(err)
		}
		first := whole.Weights()
		second := make([][]float32, len(first))
		for i, w := range first {
			for j := range w {
				second[i] = append(second[i], w[j]+float32(j%3)-1)
			}
		}
		for _, weights := range [][][]float32{first, second, first} {
			want, err := whole.Score(weights, table)
			if err != nil {
				t.Fatal(err)
			}
			got, err := kept.Score(weights, fading)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: with kept outputs %+v, want %+v", name, got, want)
			}
			first[0][0]++ // the executable reads the caller's memory
		}
		if other, err := kept.Score(first, table); err != nil || other.Examples != 300 {
			t.Errorf("%s: another set: %+v, %v", name, other, err)
		}
	}
}

// tagged is a set whose values are comparable only if the tag is.
type tagged struct {
	data.Set
	tag any
}

// A set that cannot be compared with others keeps no outputs, and has its scores.
func TestKeepFrozen_SetsThatCannotBeCompared(t *testing.T) {
	e := newTestEvaluator(t, frozenSteps)
	set := tagged{pictureTable(5), []int{1}}
	if err := e.KeepFrozen(set); err != nil {
		t.Fatal(err)
	}
	if result, err := e.Score(e.Weights(), set); err != nil || result.Examples != 5 {
		t.Errorf("%+v, %v", result, err)
	}
}

// Without frozen layers there are no outputs to keep.
func TestKeepFrozen_NothingFrozen(t *testing.T) {
	e := newTestEvaluator(t, frozenPictures("none", 0, 0))
	if err := e.KeepFrozen(pictureTable(3)); err != nil || e.network.KeepsFrozen() {
		t.Errorf("kept %v, %v", e.network.KeepsFrozen(), err)
	}
}

// A builder whose frozen weights change, as those of a file that is replaced, is noticed.
func TestCheckConstants_ReplacedFile(t *testing.T) {
	for _, f := range []half.Format{half.None, half.BFloat16, half.Float16} {
		checkReplacedFile(t, f)
	}
}

func checkReplacedFile(t *testing.T, f half.Format) {
	scale := float32(1)
	build := withFrozen("frozen", func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 1)
		b.UseStoredValues(func(name string, shape []int) *perexample.InitialValue {
			number := func(i int) float32 { return scale * float32(i%5-2) / 4 }
			return perexample.NewInitialValue(func(into []float32) {
				for i := range into {
					into[i] = number(i)
				}
			}, shape...).StoredAs(f, func(into []uint16) {
				for i := range into {
					into[i] = f.BitsOf(number(i))
				}
			})
		})
		x := layer.Dense(b, layer.Flatten(b, b.Input("x", 2, 4, 4)), "frozen", 5, layer.Tanh)
		logits := layer.Dense(b, x, "fc", classes, layer.Identity)
		b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
		return b.Network()
	})
	c := frozenConfig(t, build, Records{}, false)
	c.Files.CheckpointFolder = t.TempDir()
	r := newRun(t, c)
	trainRun(t, r, nil)
	if err := r.CheckConstants(); err != nil {
		t.Error(err)
	}
	scale = 2
	if err := r.CheckConstants(); err == nil || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("a replaced file: %v", err)
	}
}

// A run, its fingerprint and an evaluator have one copy of the frozen weights, which are drawn once.
func TestNew_FrozenWeightsAreDrawnOnce(t *testing.T) {
	for _, f := range []half.Format{half.None, half.BFloat16} {
		checkDrawnOnce(t, f)
	}
}

func checkDrawnOnce(t *testing.T, f half.Format) {
	draws := map[string]int{}
	values := map[string]*perexample.InitialValue{}
	whole := func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 1)
		b.UseStoredValues(func(name string, shape []int) *perexample.InitialValue {
			if values[name] == nil {
				values[name] = perexample.NewInitialValue(func(into []float32) {
					draws[name]++
					for i := range into {
						into[i] = float32(i%5-2) / 4
					}
				}, shape...)
				if len(shape) == 2 {
					values[name].StoredAs(f, func(into []uint16) {
						draws[name]++
						for i := range into {
							into[i] = f.BitsOf(float32(i%5-2) / 4)
						}
					})
				}
			}
			return values[name]
		})
		x := layer.Dense(b, layer.Flatten(b, b.Input("x", 2, 4, 4)), "frozen", 5, layer.Tanh)
		logits := layer.Dense(b, x, "fc", classes, layer.Identity)
		b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
		return b.Network()
	}
	c := frozenConfig(t, withFrozen("frozen", whole), Records{}, false)
	c.Files.CheckpointFolder = t.TempDir()
	c.Sampling.Population = c.Train.Len() // a run that keeps the outputs of frozen layers does not keep their weights
	r := newRun(t, c)
	trainRun(t, r, nil)
	trained, err := r.BorrowParameters()
	if err != nil {
		t.Fatal(err)
	}
	e := newTestEvaluator(t, r.Network())
	if _, err := e.Score(Values(trained), pictureTable(5)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"frozen.weight", "frozen.bias"} {
		wide, bits := values[p].IsInMemory(), values[p].IsHalfInMemory()
		if draws[p] != 1 || bits != values[p].IsHalf() || wide == bits {
			t.Errorf("%s was drawn %d times, and is in memory as float32: %v, as 16 bits: %v", p, draws[p], wide, bits)
		}
	}
	runtime.KeepAlive(r)
}
