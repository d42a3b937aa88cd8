package cpu

import (
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// planChannelsLast finds the buffers of pictures that have their channels last: temporaries
// that only patched convolutions, max pools and elementwise operations read and write. All
// other operations read pictures channel by channel.
func planChannelsLast(l *lowering) map[int]bool {
	last := map[int]bool{}
	for i, b := range l.program.Buffers {
		last[i] = b.Role == plan.RoleTemporary && b.Base == i && b.Shape.Dims() == 4 && b.Shape[1]%8 == 0
	}
	for i, b := range l.program.Buffers {
		if b.Base != i { // a view reads it in another shape
			last[b.Base] = false
		}
	}
	code := slices.Concat(l.program.Front, l.program.Back)
	for _, i := range code {
		in, out := acceptsChannelsLast(l, i)
		for j, id := range i.In {
			if j >= len(in) || !in[j] {
				last[id] = false
			}
		}
		if !out {
			last[i.Out] = false
		}
	}
	for changed := true; changed; {
		changed = false
		restrict := func(allowed bool, ids ...int) {
			for _, id := range ids {
				if !allowed && last[id] {
					last[id], changed = false, true
				}
			}
		}
		for _, i := range code {
			switch i.Spec.(type) {
			case op.ActivationGrad:
				ids := append(i.In[:len(i.In):len(i.In)], i.Out)
				restrict(!slices.ContainsFunc(ids, func(id int) bool { return !last[id] }), ids...)
			case op.MaxPool2D:
				restrict(last[i.In[0]], i.Out)
			case op.MaxPoolGrad:
				restrict(last[i.In[0]], i.In[1], i.Out)
			}
		}
	}
	return last
}

// acceptsChannelsLast reports which operands of an instruction may have their channels
// last, and whether its result may.
func acceptsChannelsLast(l *lowering, i plan.Instruction) (in []bool, out bool) {
	shape := func(operand int) []int { return l.program.Buffers[i.In[operand]].Shape }
	form := func(f op.Form, records int) (v *convolution, pictures int, ok bool) {
		w, ok := f.(op.ConvWeight)
		if !ok {
			return nil, 0, false
		}
		v = newConvolution(w)
		return v, shape(0)[0] / records, newPatched(v, false, false) != nil
	}
	switch s := i.Spec.(type) {
	case op.Conv2D:
		x := shape(0)
		v := newConvolution(op.ConvWeight{Window: s.Window, Groups: s.Groups, C: x[1], H: x[2], W: x[3], O: shape(1)[0]})
		if newWinograd(l, v, x[0], false) == nil && newPatched(v, false, false) != nil {
			return []bool{true}, true
		}
	case op.ConvGradInput:
		v := newConvolution(op.ConvWeight(s))
		if newWinograd(l, v, shape(0)[0], true) == nil && newPatched(v, false, false) != nil {
			return []bool{true}, true
		}
	case op.RecordGradients:
		if _, ok := s.Form.(op.Shift); ok {
			return []bool{true}, false
		}
		if v, _, ok := form(s.Form, s.Records); ok && newGradientWinograd(l, v) == nil {
			return []bool{true, true}, false
		}
	case op.SquaredNorms:
		if v, pictures, ok := form(s.Form, s.Records); ok && s.Method == op.Gram && v.BuildsGradient(pictures*v.area) {
			return []bool{true, true}, false
		}
	case op.ClippedSum:
		v, pictures, ok := form(s.Form, s.Records)
		if ok && v.BuildsGradient(pictures*v.area) && !(l.program.Exact && newGradientWinograd(l, v) != nil) {
			return []bool{true, true}, false
		}
	case op.MaxPool2D:
		return []bool{channelPool(s.Window, shape(0)) != nil}, true
	case op.MaxPoolGrad:
		return []bool{channelPool(s.Window, shape(0)) != nil, true}, true
	case op.ActivationGrad:
		return []bool{true, true}, true
	}
	return nil, false
}
