package sweep

import (
	"strings"
	"testing"

	"github.com/dptrain/dptrain/models"
)

func TestSettings_CombineOrAlternate(t *testing.T) {
	axes := []Axis{{"clip", []string{"1", "2"}}, {"lr", []string{"a", "b", "c"}}}
	names := func(all []Setting) string {
		var parts []string
		for _, s := range all {
			parts = append(parts, s.String())
		}
		return strings.Join(parts, "; ")
	}
	if got, want := names(Settings(axes, false)), "clip=1 lr=a; clip=1 lr=b; clip=1 lr=c; clip=2 lr=a; clip=2 lr=b; clip=2 lr=c"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := names(Settings(axes, true)), "clip=1; clip=2; lr=a; lr=b; lr=c"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestParseAxis_SeparatesByBars(t *testing.T) {
	known := func(string) bool { return true }
	if a, err := ParseAxis("--model=mlp:64,32 | logistic", known); err != nil || a.Flag != "model" || len(a.Values) != 2 || a.Values[0] != "mlp:64,32" || a.Values[1] != "logistic" {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := ParseAxis("clip=1,2", known); err != nil || len(a.Values) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}

// The presets of the sweeps of papers exist, and each axis contains the preset's own value or changes
// the preset.
func TestNamed_AreAroundThePreset(t *testing.T) {
	for _, name := range Names() {
		n, err := FindNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		own := map[string]string{"model": "mlp:1000"} // abadi-mlp
		for _, f := range n.Flags {
			if f.Flag != "preset" {
				continue
			}
			p, err := models.FindPreset(f.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range p.Flags {
				if own[f.Name] == "" {
					own[f.Name] = f.Value
				}
			}
		}
		for _, a := range n.Axes {
			found := a.Flag == "preset"
			for _, v := range a.Values {
				if a.Flag == "preset" {
					if _, err := models.FindPreset(v); err != nil {
						t.Error(err)
					}
				}
				found = found || v == own[a.Flag]
			}
			if !found {
				t.Errorf("%s: the values of %s lack the preset's %s", name, a.Flag, own[a.Flag])
			}
		}
	}
}
