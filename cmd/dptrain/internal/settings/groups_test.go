package settings

import (
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
)

// calibrated is the specification of a run on digits.
func calibrated(t *testing.T, line string) (*Spec, error) {
	t.Helper()
	task := &data.Task{Name: "pictures", Train: blankPictures{1000, []int{1, 28, 28}}, Classes: 10, Private: true}
	spec, err := New(resolved(t, "--model mlp:8 --lot 100 --steps 5 --delta 1e-5 "+line), task)
	if err == nil {
		err = spec.Calibrate()
	}
	return spec, err
}

// rule=adaptive:Q follows the quantile Q, with a rate and noise of the count; without them it has the
// values of Andrew et al.
func TestGroups_AdaptiveQuantile(t *testing.T) {
	spec, err := calibrated(t, "--noise 2 --group a=fc1,clip=3,rule=adaptive:0.9,rate=0.1,count-noise=17 --group b=fc2,rule=adaptive,clip=2")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []clip.Quantile{{Initial: 3, Target: 0.9, Rate: 0.1, Noise: 17}, {Initial: 2, Target: 0.5, Rate: 0.2, Noise: 5}} {
		if got := spec.Config.Mechanism.Clipping[i].Bound; got != want {
			t.Errorf("group %d: %+v, want %+v", i, got, want)
		}
	}
}

// noise-of-mean is σ over the expected lot.
func TestGroups_NoiseOfMean(t *testing.T) {
	spec, err := calibrated(t, "--noise 2 --group a=fc1,clip=0.5,noise-of-mean=0.02 --group b=fc2")
	if err != nil {
		t.Fatal(err)
	}
	if z := spec.Config.Mechanism.GroupNoiseMultipliers["a"]; math.Abs(z*0.5/100-0.02) > 1e-15 {
		t.Errorf("noise multiplier %v: σ of the mean is %v", z, z*0.5/100)
	}
}

func TestGroups_RefuseOtherSettings(t *testing.T) {
	for group, want := range map[string]string{
		"a=*,rule=adaptive:1.5":                       "not a quantile",
		"a=*,rule=adaptive:x":                         "x",
		"a=*,rule=normalized:0.5":                     "adaptive:Q",
		"a=*,rule=median":                             "median",
		"a=*,rate=0.1":                                "rule=adaptive",
		"a=*,count-noise=3,rule=threshold":            "rule=adaptive",
		"a=*,rule=adaptive,rate=0":                    "rate",
		"a=*,rule=adaptive,rate=1,rate=2":             "given twice",
		"a=*,noise=2,noise-of-mean=1":                 "same setting",
		"a=*,noise-of-mean=1,rule=adaptive":           "constant bound",
		"a=*,noise-of-mean=1,clip=linear:1->0.5@3":    "constant bound",
		"a=*,noise-of-mean=-1":                        "noise-of-mean",
		"a=*,noise-of-mean=1,noise-of-mean=1,clip=ab": "given twice",
	} {
		if _, err := calibrated(t, "--stop-at-epsilon 50 --group "+group); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", group, err, want)
		}
	}
}
