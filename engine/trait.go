package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
)

// trait is one public thing that must be the same where a run goes on: of its
// data, its network, its mechanism, its optimiser. Nothing in it is computed from
// records: a digest of the data would tell data sets apart that the run must not.
type trait struct {
	What string `json:"what"`
	Is   string `json:"is"`
}

func (r *Run) traits() ([]trait, error) {
	c := &r.config
	var all []trait
	note := func(what, format string, values ...any) {
		all = append(all, trait{what, fmt.Sprintf(format, values...)})
	}
	note("private", "%v", !c.Mechanism.NonPrivate)
	note("unit", "%s of at most %d examples", c.Records.Unit(), r.deck.per)
	note("records", "%d", r.deck.count)
	for _, column := range c.Train.Columns() {
		note("column "+column.Name, "%v %v", column.Kind, column.Shape)
		if column.Kind == data.Label || column.Kind == data.Index {
			note("classes of "+column.Name, "%d", column.Classes)
		}
	}
	for _, v := range r.program.Parameters {
		note("parameter "+v.Name, "%v", v.Shape)
	}
	operations, constants, err := r.structure()
	if err != nil {
		return nil, err
	}
	note("operations of the network", "%s", operations)
	note("frozen weights and other constants of the network", "%s", constants)
	e := r.Event()
	note("sampling", "%s", e.Policy)
	note("expected lot", "%.9g", e.ExpectedLot())
	if !c.Mechanism.NonPrivate {
		for _, g := range c.Mechanism.Clipping {
			note("group "+g.Name, "vectors %q, scales %v, bound %s, rule %s", g.Parameters, g.Scales, bound(g.Bound), rule(g.Rule))
		}
		note("noise", "%v", c.multiplier(0))
		note("allocation", "%s", c.Mechanism.Allocation)
	}
	for _, s := range c.Statistics {
		note("statistic "+s.Name, "%d numbers, sensitivity %v, noise %v", s.Size, s.Sensitivity, s.Noise)
	}
	if v := c.Validation; v.Set != nil {
		note("validation", "%d examples held out, noise %v", v.Set.Len(), v.Noise)
	}
	if p := c.Projection; p.Directions > 0 {
		note("projection", "%d directions, noise %v", p.Directions, p.Noise)
	}
	if a := c.Augmentation; a.Views > 0 {
		note("augmentation", "%d views", a.Views)
	}
	note("optimizer", "%+v", c.Optimization.Optimizer)
	if c.Optimization.LearningRateAt == nil {
		note("schedule", "%v", c.Optimization.Schedule)
	} else {
		note("schedule", "a function from %v", c.Optimization.LearningRateAt(0)) // as it is known of a bound
	}
	for v, p := range r.release.ParamGroups {
		name := r.program.Parameters[v].Name
		if p.RateMultiplier != 1 {
			note("learning rate of "+name, "times %v", p.RateMultiplier)
		}
		if p.DecayMultiplier != 1 {
			note("weight decay of "+name, "times %v", p.DecayMultiplier)
		}
	}
	note("average", "%v", c.Optimization.Average.Decay)
	for _, what := range slices.Sorted(maps.Keys(c.Fingerprint)) {
		note(what, "%s", c.Fingerprint[what])
	}
	return all, nil
}

// bound describes a bound: a function only by its kind and its value in lot 0.
func bound(b clip.Bound) string {
	switch b.(type) {
	case clip.Constant, clip.Quantile:
		return fmt.Sprintf("%T%+v", b, b)
	}
	return fmt.Sprintf("%T from %v", b, b.At(0))
}

func rule(r clip.Rule) string {
	if r == nil {
		r = clip.Threshold{}
	}
	return fmt.Sprintf("%T%+v", r, r)
}

// structure is what the network computes from an example, as two digests: of its
// operations, their shapes and what is dropped in training, and of its constants but the
// directions of a projection.
func (r *Run) structure() (operations, constants string, err error) {
	network, err := r.config.unprojected()
	if err != nil {
		return "", "", err
	}
	_, program, err := evaluation(network, 1)
	if err != nil {
		return "", "", err
	}
	sum := sha256.New()
	for _, i := range program.Front {
		if i.Spec != nil {
			fmt.Fprintln(sum, i.Spec.String(), i.In, i.Out)
		} else {
			fmt.Fprintln(sum, i.Foreign.String(), i.In, i.Out)
		}
	}
	for _, d := range r.dropouts() {
		fmt.Fprintln(sum, d)
	}
	values := sha256.New()
	var four [4]byte
	for _, b := range program.Buffers {
		fmt.Fprintln(sum, b.Role, b.Index, b.Shape)
		if b.Role != plan.RoleConstant {
			continue
		}
		for _, v := range b.Value {
			binary.LittleEndian.PutUint32(four[:], math.Float32bits(v))
			values.Write(four[:])
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), hex.EncodeToString(values.Sum(nil)[:8]), nil
}

// dropouts are the layers that evaluation leaves out, in an order that no microbatch
// changes.
func (r *Run) dropouts() []string {
	layers := map[string]bool{}
	for _, i := range r.program.Front {
		if d, drops := i.Spec.(op.Dropout); drops {
			layers[d.String()] = true
		}
	}
	return slices.Sorted(maps.Keys(layers))
}

// differences says in one line how traits differ, or "".
func differences(saved, now []trait) string {
	is := map[string]string{}
	for _, t := range now {
		is[t.What] = t.Is
	}
	var lines []string
	for _, t := range saved {
		switch value, there := is[t.What]; {
		case !there:
			lines = append(lines, fmt.Sprintf("%s is gone (it was %s)", t.What, t.Is))
		case value != t.Is:
			lines = append(lines, fmt.Sprintf("%s is %s (it was %s)", t.What, value, t.Is))
		}
		delete(is, t.What)
	}
	for _, t := range now {
		if _, left := is[t.What]; left {
			lines = append(lines, fmt.Sprintf("%s is new (%s)", t.What, t.Is))
		}
	}
	return strings.Join(lines, "; ")
}
