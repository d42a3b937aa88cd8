package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// jointConfig is a run on two parameters in two groups. A statistic with the numbers of a third column
// joins the first group.
func jointConfig(t testing.TB, scale float64) Config {
	c := testConfig(t)
	sizes := []int{4, 3, 2}
	c.Train = newColumnTable(8, func(i, k, j int) float32 {
		return []float32{0, 0.01, 1, 30, 1e4, 1e-6, 3, 0.3}[i] * float32(1+(i+3*k+5*j)%7) / []float32{1, 2, 50}[k]
	}, sizes...)
	c.Network, c.Sampling.Lot = linearNetwork(sizes...), 4
	c.Mechanism.Clipping = []clip.Group{
		{Name: "joint", Parameters: []string{"w0", "w2"}, Scales: []float64{0.5, 2}, Bound: clip.Constant(1.5)},
		{Name: "other", Parameters: []string{"w1"}, Bound: clip.Constant(0.7)},
	}
	c.Statistics = []Statistic{{Name: "numbers", Size: 3, Sensitivity: 20, Group: "joint", Scale: scale,
		Of: func(dst []float64, record []load.Example) {
			for j := range dst {
				dst[j] = 3 * float64(record[0].Columns[1][j])
			}
		}}}
	return c
}

// jointSums are the sums of a lot of records: the parameters, and the statistic divided by its scale. With
// exact arithmetic they are integers, in lattice steps.
func jointSums(t *testing.T, c Config, records ...int) (parameters [][]float64, statistic []float64) {
	t.Helper()
	r := newRun(t, c)
	r.sampler = &fixedSampler{Sampler: r.sampler, records: records}
	if err := r.sumLot(); err != nil {
		t.Fatal(err)
	}
	m, sum := r.lot.Mechanism, r.lot.Sums.Sum(r.config.entryOf(0))
	for v := range r.network.Program.Parameters {
		var numbers []float64
		if m.Contributions == nil {
			for _, x := range accumulatedSums(r)[v] {
				numbers = append(numbers, float64(x))
			}
		} else {
			for _, x := range r.network.Executable.(interface{ IntegerSum(v int) []int64 }).IntegerSum(v) {
				numbers = append(numbers, float64(x))
			}
		}
		parameters = append(parameters, numbers)
	}
	for i := range c.Statistics[0].Size {
		if sum.Integers != nil {
			statistic = append(statistic, float64(sum.Integers[i]))
		} else {
			statistic = append(statistic, sum.Floats[i])
		}
	}
	r.Close()
	return parameters, statistic
}

// A record's gradients and its statistic, each divided by its scale, are clipped as one vector, whose
// length is at most the bound of the group: in integers with exact arithmetic. Other groups have their
// own bound, and the statistic of a record adds the same whichever records are in the lot.
func TestJointStatistic_RecordIsWithinBound(t *testing.T) {
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		for _, scale := range []float64{0, 0.02, 1, 1000} {
			t.Run(fmt.Sprintf("%s/%v", arithmetic, scale), func(t *testing.T) {
				c := jointConfig(t, scale)
				c.Mechanism.Arithmetic = arithmetic
				if scale == 0 {
					scale = 1
				}
				unit, tolerance := 1.5, 1e-2 // contributions keep at least 99% of the bound
				if arithmetic == ExactArithmetic {
					unit = plan.Bound
				}
				all := make([]float64, 3) // the statistic
				for record := range 8 {
					parameters, statistic := jointSums(t, withLedger(t, c), record)
					value := [][]float32{make([]float32, 4), make([]float32, 3), make([]float32, 2)}
					if err := c.Train.Read(value, []int{record}); err != nil {
						t.Fatal(err)
					}
					var want []float64 // w0/0.5, w2/2, statistic/scale
					for _, x := range value[0] {
						want = append(want, float64(x)/0.5)
					}
					for _, x := range value[2] {
						want = append(want, float64(x)/2)
					}
					own := 0.0
					for _, x := range value[1] {
						own += 9 * float64(x) * float64(x)
					}
					own = min(1, 20/math.Sqrt(own)) // its own bound comes first
					for _, x := range value[1] {
						want = append(want, 3*own*float64(x)/scale)
					}
					length := 0.0
					for _, x := range want {
						length += x * x
					}
					factor := min(1, 1.5/math.Sqrt(length))
					got := slices.Concat(parameters[0], parameters[2], statistic)
					if arithmetic == FloatArithmetic { // sums of parameters have their scale, sums of statistics not
						for i := range 4 {
							got[i] /= 0.5
						}
						for i := 4; i < 6; i++ {
							got[i] /= 2
						}
					}
					squares := 0.0
					for i, x := range got {
						squares += x * x
						if w := want[i] * factor / 1.5 * unit; math.Abs(x-w) > tolerance*unit {
							t.Errorf("record %d, number %d: %v, want %v", record, i, x, w)
						}
					}
					for i, x := range statistic {
						all[i] += x
					}
					if arithmetic == ExactArithmetic && squares > plan.Bound*plan.Bound {
						t.Errorf("record %d: the squared norm is %v, and the bound %v", record, squares, plan.Bound*plan.Bound)
					}
					if arithmetic == FloatArithmetic && math.Sqrt(squares) > 1.5*(1+1e-6) {
						t.Errorf("record %d: the norm is %v, and the bound 1.5", record, math.Sqrt(squares))
					}
					other, bound := 0.0, 0.7*(1+1e-6)
					for _, x := range parameters[1] {
						other += x * x
					}
					if arithmetic == ExactArithmetic {
						bound = plan.Bound
					}
					if math.Sqrt(other) > bound {
						t.Errorf("record %d: the norm in the other group is %v, and the bound %v", record, math.Sqrt(other), bound)
					}
				}
				_, statistic := jointSums(t, withLedger(t, c), 0, 1, 2, 3, 4, 5, 6, 7)
				for i, x := range statistic { // gradients are rounded at random, by their place in the lot
					if arithmetic == ExactArithmetic && x != all[i] {
						t.Errorf("number %d: the sum of the lot is %v, those of its records add up to %v", i, x, all[i])
					}
				}
			})
		}
	}
}

// withLedger returns the configuration with a ledger of its own.
func withLedger(t *testing.T, c Config) Config {
	c.Files.Ledger = t.TempDir() + "/ledger.jsonl"
	return c
}

// The group's query in the ledger covers the statistic: no lot states another one, and ε is that of a run
// without it. What is released has the noise of the group times the scale.
func TestJointStatistic_NoiseAndLedger(t *testing.T) {
	const size = 20_000
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		t.Run(string(arithmetic), func(t *testing.T) {
			c := jointConfig(t, 0.25)
			c.Mechanism.Arithmetic, c.Mechanism.NoiseMultiplier, c.Steps = arithmetic, 3, 4
			c.Statistics[0].Size, c.Statistics[0].Every = size, 2
			c.Statistics[0].Of = func([]float64, []load.Example) {}
			r := newRun(t, c)
			// The noise multiplier 3 of two groups is 3·√2 for each.
			deviation := 3 * math.Sqrt2 * 1.5 * 0.25 / r.Event().ExpectedLot()
			releases := 0
			trainRun(t, r, func(p *Progress) error {
				s := p.Released[0]
				if s.Lot != p.Lot {
					return nil
				}
				releases++
				if math.Abs(s.Deviation/deviation-1) > 1e-9 {
					t.Errorf("lot %d: a deviation of %v is stated, want %v", p.Lot, s.Deviation, deviation)
				}
				squares := 0.0
				for _, x := range s.Mean {
					squares += x * x
				}
				// The standard error of a deviation is 1/√(2n) of it. Five of them fail for one correct release in 10^6.
				if got := math.Sqrt(squares / size); math.Abs(got/deviation-1) > 5/math.Sqrt(2*size) {
					t.Errorf("lot %d: the noise has the deviation %v, want %v", p.Lot, got, deviation)
				}
				return nil
			})
			if releases != 2 {
				t.Errorf("%d releases in 4 lots, want 2", releases)
			}
			for _, spent := range readLedger(t, c.Files.Ledger).Lots {
				if len(spent.Lot.Queries) != 2 || spent.Lot.Queries[0].Group != "joint" || spent.Lot.Queries[0].Sensitivity != 1.5 {
					t.Errorf("queries %+v", spent.Lot.Queries)
				}
			}
			without := c
			without.Statistics = nil
			if got, want := fmt.Sprint(c.PlannedHistory()), fmt.Sprint(without.PlannedHistory()); got != want {
				t.Errorf("planned with the statistic:\n%s\nwithout:\n%s", got, want)
			}
		})
	}
}

// A statistic that is not a number, or depends on the clip factor, cannot weaken the group.
func TestJointStatistic_Refused(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"no group of Mechanism.Clipping": func(c *Config) { c.Statistics[0].Group = "absent" },
		"has the noise 2 and joins":      func(c *Config) { c.Statistics[0].Noise = 2 },
		"the scale is -1":                func(c *Config) { c.Statistics[0].Scale = -1 },
		"and no group":                   func(c *Config) { c.Statistics[0].Group = "" },
		"depends on the clip factor": func(c *Config) {
			c.Statistics[0] = ClippedShare(0)
			c.Statistics[0].Group = "joint"
		},
	} {
		c := jointConfig(t, 2)
		change(&c)
		if r, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			if err == nil {
				r.Close()
			}
		}
	}
	c := jointConfig(t, 1)
	c.Statistics[0].Of = func(dst []float64, record []load.Example) { dst[0] = math.Inf(int(record[0].Columns[0][0])) }
	parameters, statistic := jointSums(t, c, 3)
	for _, x := range append(append(parameters[0], parameters[1]...), statistic...) {
		if x != 0 {
			t.Errorf("a record without a finite statistic adds %v and %v", parameters, statistic)
			break
		}
	}
}

// The loss of a network can join the group of all parameters, for records of several examples, and the run
// ends as it began: with equal weights for equal seeds.
func TestJointStatistic_OfNetwork(t *testing.T) {
	c := testConfig(t)
	c.Train, c.Records = examplesOfUsers(), Records{Users: true, Examples: 3}
	joint := MeanLoss(2, 0)
	joint.Group, joint.Scale = "gradient", 3
	c.Statistics = []Statistic{joint, LotSize(2)}
	var weights [2][]float32
	for i := range weights {
		c.Files.Ledger = t.TempDir() + "/ledger.jsonl"
		c.Microbatch = 1 + 4*i
		r := newRun(t, c)
		trainRun(t, r, nil)
		weights[i] = flatWeights(t, r)
	}
	for i, w := range weights[0] {
		if w != weights[1][i] {
			t.Fatalf("weight %d is %v in microbatches of one record, and %v in those of five", i, w, weights[1][i])
		}
	}
}
