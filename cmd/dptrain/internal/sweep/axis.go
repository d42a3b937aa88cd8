// Package sweep describes runs that differ in some settings, and their results.
package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/nearest"
)

// Axis is a flag of train and the values to try.
type Axis struct {
	Flag   string
	Values []string
}

// ParseAxis parses NAME=A,B,…. Values that contain a comma are separated by | instead.
func ParseAxis(text string, known func(flag string) bool) (Axis, error) {
	name, list, ok := strings.Cut(text, "=")
	if !ok || name == "" || list == "" {
		return Axis{}, exitcode.Usagef("--over %q: write NAME=A,B,…, as in --over clip=1,2,4; separate values that contain a comma by |", text)
	}
	if name = strings.TrimPrefix(name, "--"); !known(name) {
		return Axis{}, exitcode.Usagef("--over %s: train has no flag --%s", text, name)
	}
	separator := ","
	if strings.Contains(list, "|") {
		separator = "|"
	}
	a := Axis{name, strings.Split(list, separator)}
	for i, v := range a.Values {
		if a.Values[i] = strings.TrimSpace(v); a.Values[i] == "" {
			return a, exitcode.Usagef("--over %s: value %d is empty", text, i+1)
		}
		if slices.Contains(a.Values[:i], a.Values[i]) {
			return a, exitcode.Usagef("--over %s: %s is there twice", text, a.Values[i])
		}
	}
	return a, nil
}

// Value is a flag and its value.
type Value struct{ Flag, Value string }

// Setting is a combination of values, one for some axes.
type Setting []Value

// String writes the setting as its flags, without dashes.
func (s Setting) String() string {
	parts := make([]string, len(s))
	for i, v := range s {
		parts[i] = v.Flag + "=" + v.Value
	}
	return strings.Join(parts, " ")
}

// Get returns the value of a flag; "" if the setting does not change it.
func (s Setting) Get(flag string) string {
	for _, v := range s {
		if v.Flag == flag {
			return v.Value
		}
	}
	return ""
}

// Settings returns the settings of the axes: every combination of their values, or with oneAtATime the
// values of each axis alone, while the others keep the value that their flags have.
func Settings(axes []Axis, oneAtATime bool) []Setting {
	if oneAtATime {
		var all []Setting
		for _, a := range axes {
			for _, v := range a.Values {
				all = append(all, Setting{{a.Flag, v}})
			}
		}
		return all
	}
	all := []Setting{nil}
	for _, a := range axes {
		var next []Setting
		for _, s := range all {
			for _, v := range a.Values {
				next = append(next, append(slices.Clip(s), Value{a.Flag, v}))
			}
		}
		all = next
	}
	return all
}

// Named is a sweep of a paper.
type Named struct {
	Name, Summary string
	Flags         []Value // of all runs, unless the user gives others
	Axes          []Axis
	OneAtATime    bool
}

// named are the sweeps of Abadi et al. 2016, section 5.2. A clip bound C of the paper is that of each of
// two layers, so --clip is C·√2. The values of figure 5 are those that its plots mark, or nearly: the
// paper lists none.
var named = []Named{
	{"figure-3", "Abadi et al. 2016, figure 3: accuracy over epochs for three levels of noise", nil,
		[]Axis{{"preset", []string{"abadi-mnist-low", "abadi-mnist", "abadi-mnist-high"}}}, false},
	{"figure-5", "Abadi et al. 2016, figure 5: accuracy at ε = 2 over six parameters, one at a time",
		[]Value{{"preset", "abadi-mnist"}, {"epochs", "1000"}},
		[]Axis{
			{"project", []string{"20", "40", "60", "80", "100"}},
			{"model", []string{"mlp:200", "mlp:500", "mlp:1000", "mlp:2000"}},
			{"lot", []string{"200", "400", "600", "1000", "1600"}},
			{"lr", []string{"0.01", "0.03", "0.07", "0.1", "0.2"}},
			{"clip", []string{"1.414214", "2.828427", "5.656854", "11.313708"}},
			{"noise", []string{"1.414214", "2.828427", "4.242641", "7.071068"}},
		}, true},
}

// FindNamed returns the sweep of a name.
func FindNamed(name string) (Named, error) {
	known := Names()
	if i := slices.Index(known, name); i >= 0 {
		return named[i], nil
	}
	hint := ""
	if near := nearest.LikelyTypo(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %s? ", near)
	}
	return Named{}, exitcode.Usagef("--sweep %s: %schoose from %s", name, hint, strings.Join(known, ", "))
}

// Names lists the sweeps of papers.
func Names() []string {
	names := make([]string, len(named))
	for i, n := range named {
		names[i] = n.Name
	}
	return names
}
