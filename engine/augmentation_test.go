package engine

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
)

// loggedTransform permutes and scales a view, and stores the result.
type loggedTransform struct{ views [][]float32 }

func (s *loggedTransform) transform(view [][]float32, r *rand.Rand) {
	x := view[0]
	r.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
	by := float32(r.NormFloat64())
	for i := range x {
		x[i] *= by
	}
	s.views = append(s.views, slices.Clone(x))
}

// The sum of a lot must equal a float64 reference: for each record the mean of all views of its
// examples, clipped. The test covers records of one example, of several, and of users with fewer
// examples than fit, several microbatches, and devices that can keep the data set. Statistics
// read the views, too.
func TestAugmentation_AveragesViewsBeforeClipping(t *testing.T) {
	const size, views, bound = 6, 4, 0.4
	wave := func(i, k, j int) float32 { return float32(math.Sin(float64(3*i + j*j))) }
	users := []int32{0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 5, 6, 6, 7}
	owned := func() data.Set {
		plain := newColumnTable(len(users), wave, size)
		x := make([]float32, len(users)*size)
		rows := make([]int, len(users))
		for i := range rows {
			rows[i] = i
		}
		if err := plain.Read([][]float32{x}, rows); err != nil {
			t.Fatal(err)
		}
		s, err := data.NewTable(plain.Columns(), [][]float32{x}, users)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}()
	watched := []Statistic{FeatureMeans(0, size, 100, 1e-9)}
	for _, test := range []struct {
		device     string
		microbatch int
		records    Records
		statistics []Statistic
	}{
		{"cpu", 1, Records{}, nil}, {"cpu", 4, Records{}, watched}, {"gorgonia", 4, Records{}, nil},
		{"cpu", 2, Records{Examples: 3}, nil}, {"cpu", 3, Records{Users: true, Examples: 3}, watched},
		{"cuda:0", 4, Records{}, nil}, {"cuda:0", 3, Records{Users: true, Examples: 3}, nil}, {"cuda:0", 4, Records{}, watched},
	} {
		t.Run(fmt.Sprint(test.device, test.microbatch, test.records, len(test.statistics)), func(t *testing.T) {
			requireDevice(t, test.device)
			c := floatConfig(t)
			useUnitSteps(&c)
			s := &loggedTransform{}
			c.Network, c.Train, c.Steps, c.Sampling.Lot = linearNetwork(size), owned, 5, 4
			c.Device.Name, c.Microbatch, c.Records, c.Statistics = test.device, test.microbatch, test.records, test.statistics
			c.Mechanism.Clipping = clip.Flat(clip.Constant(bound), nil)
			c.Augmentation = Augmentation{views, s.transform}
			r := newRun(t, c)
			disableNoise(r)
			shortened := 0
			for lot := range c.Steps {
				zeroFirstParameter(t, r)
				drawn := drawLot(t, r, lot)
				s.views = nil
				if err := r.runLot(); err != nil {
					t.Fatal(err)
				}
				want, mean := make([]float64, size), make([]float64, size)
				for _, record := range drawn {
					_, share := rowsOf(r, record)
					own := views
					for _, w := range share[1:] {
						if w > 0 {
							own += views
						}
					}
					g := make([]float64, size)
					for _, v := range s.views[:own] {
						for j, x := range v {
							g[j] += float64(x) / float64(own)
						}
					}
					s.views = s.views[own:]
					var squares float64
					for _, v := range g {
						squares += v * v
					}
					factor := min(1, bound/math.Sqrt(squares))
					if factor < 1 {
						shortened++
					}
					for j, v := range g {
						want[j] += factor * v
						mean[j] += v / r.Event().ExpectedLot()
					}
				}
				if len(s.views) > 0 {
					t.Fatalf("lot %d: %d views more than its records have", lot, len(s.views))
				}
				for j, w := range flatWeights(t, r) {
					if got := -float64(w) * r.Event().ExpectedLot(); !(math.Abs(got-want[j]) <= 1e-4) {
						t.Fatalf("lot %d, element %d: a sum of %v, want %v", lot, j, got, want[j])
					}
					if len(r.config.Statistics) > 0 && !(math.Abs(released(r, 0)[j]-mean[j]) <= 1e-5) {
						t.Fatalf("lot %d, element %d: a released mean of %v, want %v", lot, j, released(r, 0)[j], mean[j])
					}
				}
			}
			if shortened == 0 {
				t.Error("no record was clipped: the test has no power")
			}
			if !test.records.Users && test.records.Examples == 0 {
				r.Close()
				if h := readLedger(t, c.Files.Ledger); h.Header.Unit != "example" || h.Header.Records != len(users) || h.Header.Adjacency != ledger.ZeroOut {
					t.Errorf("the ledger protects %+v", h.Header)
				}
			}
		})
	}
}

// Records of single examples have no weights; their single view is transformed all the same.
func TestAugmentation_TransformsSingleView(t *testing.T) {
	c := testConfig(t)
	changed := 0
	c.Augmentation = Augmentation{1, func([][]float32, *rand.Rand) { changed++ }}
	r := newRun(t, c)
	disableNoise(r)
	drawn := len(drawLot(t, r, 0))
	if err := r.runLot(); err != nil {
		t.Fatal(err)
	}
	if changed < drawn || drawn == 0 { // padding may be transformed, too
		t.Errorf("%d examples were changed, of %d drawn", changed, drawn)
	}
}

// The views of an example do not depend on the microbatch. No two views are equal, within a lot,
// across lots and examples, and across runs.
func TestAugmentation_DrawsEachViewIndependently(t *testing.T) {
	const size, views = 3, 2
	one := func(i, k, j int) float32 { return 1 }
	run := func(microbatch int, seed uint64) map[string]float32 { // keys: row, step and view
		made, step := map[string]float32{}, 0
		var drawn []int
		c := testConfig(t)
		c.Network, c.Train, c.Steps, c.Sampling.Lot, c.Sampling.Rate = linearNetwork(size), newColumnTable(12, one, size), 4, 0, 0.6
		c.Microbatch, c.Seed = microbatch, &seed
		c.Augmentation = Augmentation{views, func(view [][]float32, r *rand.Rand) {
			view[0][0] = r.Float32()
			name := fmt.Sprint(drawn[0], " ", step, " ", 0)
			if _, there := made[name]; there {
				name, drawn = fmt.Sprint(drawn[0], " ", step, " ", 1), drawn[1:]
			}
			made[name] = view[0][0]
		}}
		drawn = make([]int, 100) // for the call with zeros
		r := newRun(t, c)
		clear(made)
		for step = range c.Steps {
			drawn = drawLot(t, r, step)
			if err := r.runLot(); err != nil {
				t.Fatal(err)
			}
		}
		return made
	}
	whole := run(12, 1)
	values := map[float32]bool{}
	for _, v := range whole {
		values[v] = true
	}
	if len(values) != len(whole) || len(whole) < 40 {
		t.Errorf("%d views are %d different ones", len(whole), len(values))
	}
	if parts := run(5, 1); !maps.Equal(parts, whole) {
		t.Errorf("in microbatches of 5 views are %v, before %v", parts, whole)
	}
	for name, v := range run(12, 2) {
		if values[v] {
			t.Errorf("row, step and view %s: another run has %v, too", name, v)
		}
	}
}

// Each view has its own dropout masks.
func TestAugmentation_DrawsMasksForEachView(t *testing.T) {
	const records, size, views = 10, 33, 2
	bit := func(i, k, j int) float32 { return float32(uint32(1) << i) }
	c := floatConfig(t)
	useUnitSteps(&c)
	c.Network, c.Train, c.Steps, c.Sampling.Lot = maskRevealingNetwork(size, 0.5), newColumnTable(records, bit, size), 1, 5
	c.Mechanism.Clipping = clip.Flat(clip.Constant(1e9), nil)
	c.Augmentation = Augmentation{views, func([][]float32, *rand.Rand) {}}
	r := newRun(t, c)
	disableNoise(r)
	drawn := drawLot(t, r, 0)
	if err := r.runLot(); err != nil {
		t.Fatal(err)
	}
	for j, w := range flatWeights(t, r) {
		want := 0.0
		for k, row := range drawn {
			for v := range views {
				if keepsElement(t, r, 0.5, k*views+v, 0, j) {
					want += 2 * float64(uint32(1)<<row) / views
				}
			}
		}
		if got := -float64(w) * r.Event().ExpectedLot(); !(math.Abs(got-want) <= 1e-6*want) {
			t.Fatalf("element %d: a sum of %v, want %v", j, got, want)
		}
	}
}

func TestResume_RefusesOtherAugmentation(t *testing.T) {
	c := checkpointedConfig(t)
	c.Augmentation = Augmentation{2, new(loggedTransform).transform}
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	for _, other := range []Augmentation{{}, {3, new(loggedTransform).transform}} {
		d := c
		d.Augmentation, d.Steps = other, 7
		if _, err := Resume(d); err == nil || !strings.Contains(err.Error(), "augmentation") {
			t.Errorf("a run of 2 views was resumed with %d: %v", other.Views, err)
		}
	}
	d := c
	d.Steps, d.Fingerprint = 7, map[string]string{"change": "another"}
	if _, err := Resume(d); err == nil || !strings.Contains(err.Error(), "change is new (another)") {
		t.Errorf("a run of another change was resumed: %v", err)
	}
	c.Steps = 7
	trainRun(t, resumeRun(t, c), nil)
}

// A Transform that panics ends the run with an error that does not quote the example.
func TestAugmentation_PanicHidesExample(t *testing.T) {
	c := testConfig(t)
	c.Augmentation = Augmentation{2, func(view [][]float32, _ *rand.Rand) {
		if view[0][0] != 0 {
			panic(fmt.Sprint("secret ", view[0]))
		}
	}}
	r := newRun(t, c)
	for range 2 {
		err := r.Train(context.Background(), nil)
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "test it on public examples") {
			t.Fatal(err)
		}
	}
}

// Views of cropped pictures begin as windows of the record's own picture, at places that are equally
// likely. The tolerance is 6 standard deviations: of 9 counts and 2 sums one leaves it in one of 4·10⁷
// tests.
func TestAugmentation_TakesRandomWindows(t *testing.T) {
	const records, views = 6, 3
	pixels, labels := make([]byte, records*20), make([]int32, records)
	for i := range pixels {
		pixels[i] = byte(i) // 20 pixels a picture
	}
	pictures, err := data.NewPictures(1, 4, 5, pixels, labels, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	cropped, err := data.Crop(pictures, data.CropSize{Height: 2, Width: 3})
	if err != nil {
		t.Fatal(err)
	}
	train, err := data.Subset(cropped, []int{5, 3, 1, 0, 2, 4})
	if err != nil {
		t.Fatal(err)
	}
	order := []int{5, 3, 1, 0, 2, 4}
	for _, transformed := range []bool{true, false} {
		var seen [][]float32
		c := floatConfig(t)
		useUnitSteps(&c)
		c.Network, c.Train, c.Steps, c.Sampling.Lot = linearNetwork(6, 1), train, 300, 4
		c.Mechanism.Clipping = clip.Flat(clip.Constant(1e9), nil)
		c.Augmentation = Augmentation{Views: views}
		if transformed {
			c.Augmentation.Transform = func(view [][]float32, _ *rand.Rand) { seen = append(seen, slices.Clone(view[0])) }
		}
		r := newRun(t, c)
		disableNoise(r)
		counts := map[int]int{} // by place
		var sum, want float64
		total := 0
		for lot := range c.Steps {
			zeroFirstParameter(t, r)
			drawn := drawLot(t, r, lot)
			seen = nil
			if err := r.runLot(); err != nil {
				t.Fatal(err)
			}
			for i, view := range seen {
				first := int(view[0]*255 + 0.5)
				if picture := order[drawn[i/views]]; first/20 != picture {
					t.Fatalf("a view of picture %d begins with pixel %d", picture, first)
				}
				counts[first%20]++
				total++
			}
			for _, w := range flatWeights(t, r) {
				sum -= float64(w) * r.Event().ExpectedLot()
			}
			for _, record := range drawn { // the expectation of the sum of a window's pixels
				want += 6 * (20*float64(order[record]) + 9.5) / 255
			}
		}
		// The deviation of a window's mean pixel number is √(25·2/3 + 2/3).
		if spread := 6 * math.Sqrt(25*2./3+2./3) / 255 * math.Sqrt(float64(c.Steps*4)/views); math.Abs(sum-want) > 6*spread {
			t.Errorf("the released sum is %v, want %v ± %v", sum, want, spread)
		}
		if !transformed {
			continue
		}
		if len(counts) != 9 {
			t.Errorf("windows at %d places, want 9: %v", len(counts), counts)
		}
		for place, n := range counts {
			if share := float64(total) / 9; math.Abs(float64(n)-share) > 6*math.Sqrt(share) {
				t.Errorf("%d of %d windows begin at pixel %d", n, total, place)
			}
		}
	}
}

// Pictures that differ beyond the middle are different records: the division of a private set does not
// depend on their order.
func TestHoldOut_ReadsWholePictures(t *testing.T) {
	const records = 40
	divide := func(order []int) (held []float32) {
		pixels, labels := make([]byte, records*9), make([]int32, records)
		for i, picture := range order {
			pixels[9*i] = byte(picture) // the corner; all middles are equal
		}
		pictures, err := data.NewPictures(1, 3, 3, pixels, labels, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		cropped, err := data.Crop(pictures, data.CropSize{Height: 1, Width: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, set, err := Records{}.HoldOut(cropped, 10)
		if err != nil {
			t.Fatal(err)
		}
		picture, label := make([]float32, 9), make([]float32, 1)
		for row := range set.Len() {
			if err := data.Uncropped(set).Read([][]float32{picture, label}, []int{row}); err != nil {
				t.Fatal(err)
			}
			held = append(held, picture[0])
		}
		slices.Sort(held)
		return held
	}
	order := make([]int, records)
	for i := range order {
		order[i] = i
	}
	first := divide(order)
	rand.New(rand.NewPCG(3, 9)).Shuffle(records, func(i, j int) { order[i], order[j] = order[j], order[i] })
	if second := divide(order); !slices.Equal(first, second) {
		t.Errorf("in another order %v are held out, before %v", second, first)
	}
}
