//go:build gpu

package compile

import (
	"slices"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

// lowerElementwiseOp queues operations that compute each element separately.
func lowerElementwiseOp(c *compiler, spec op.Operation, k call) bool {
	switch s := spec.(type) {
	case op.Add:
		return lowerBinary(c, op.Binary{Kind: "+"}, k)
	case op.Binary:
		return lowerBinary(c, s, k)
	case op.Unary:
		return lowerUnary(c, s, k)
	case op.Activate:
		launchElement(c, k, element{X: k.in[0], Kind: elementActivation, Code: int32(s.Act)})
	case op.ActivationGrad:
		launchElement(c, k, element{X: k.in[0], Y: k.in[1], Kind: elementActivationGradient, Code: int32(s.Act)})
	case op.Dropout:
		lowerDropout(c, s, k)
	case op.Spread:
		c.launch("spread", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), float32(s.Scale))
	case op.Replace:
		c.launch("replace", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), float32(s.Old), float32(s.New))
	default:
		return false
	}
	return true
}

// lowerBinary applies an operator to two tensors of the same shape, or to a tensor and a
// scalar. The result may overwrite an operand.
func lowerBinary(c *compiler, s op.Binary, k call) bool {
	code, ok := binaryCodes[s.Kind]
	if !ok {
		return false
	}
	n := k.results()
	stride := func(i int) int32 {
		if k.size(i) < n {
			return 0
		}
		return 1
	}
	launchElement(c, k, element{X: k.in[0], Y: k.in[1], Kind: elementBinary, Code: code, StrideX: stride(0), StrideY: stride(1)})
	return true
}

func lowerUnary(c *compiler, s op.Unary, k call) bool {
	code, ok := unaryCodes[s.Kind]
	if ok {
		c.launch("unary", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), code)
	}
	return ok
}

// binaryCodes and unaryCodes are the numbers of kernels/elements.h and elementwise.cu.
var binaryCodes = map[string]int32{
	"+": 0, "-": 1, "*": 2, "/": 3, "^": 4, "<": 5, ">": 6, "<=": 7, ">=": 8, "==": 9, "!=": 10,
}

var unaryCodes = map[string]int32{
	"abs": 0, "sign": 1, "ceil": 2, "floor": 3, "sin": 4, "cos": 5, "exp": 6, "ln": 7, "neg": 8, "square": 9,
	"sqrt": 10, "inv": 11, "cube": 12, "tanh": 13, "sigmoid": 14, "log1p": 15, "expm1": 16, "softplus": 17,
}

// element is struct Element of kernels/elements.h: an operation that computes each element of
// its result from the elements in the same place.
type element struct {
	Out, X, Y, Z                 driver.Pointer
	Kind, Code, StrideX, StrideY int32
	Inner, Channels              divider
}

// Kinds of kernels/elements.h.
const (
	elementBinary int32 = iota
	elementActivation
	elementActivationGradient
	elementAffine
)

// longestChain is that of kernels/elements.h.
const longestChain = 4

// elementChain is struct Chain of kernels/elements.h.
type elementChain struct {
	Count, _ int32
	Of       [longestChain]element
}

func newElementChain(list []element) (c elementChain) {
	c.Count = int32(copy(c.Of[:], list))
	return c
}

// chainLaunch is the launch of a chain of elementwise operations on n elements, or of a kernel
// that processes rows of them, with a chain before and a chain after it.
type chainLaunch struct {
	kernel        driver.Kernel
	grid, block   dim
	n             int
	rows          []any // the arguments of the kernel for rows; nil: all operations are in before
	before, after []element
}

func (l *chainLaunch) queue(d *driver.Device) func() error {
	var packed driver.Args
	if l.rows == nil {
		packed = driver.Pack(newElementChain(l.before), int32(l.n))
	} else {
		packed = driver.Pack(append(slices.Clone(l.rows), newElementChain(l.before), newElementChain(l.after))...)
	}
	return func() error { return d.Launch(l.kernel, l.grid, l.block, packed) }
}

// launchElement queues an elementwise operation.
func launchElement(c *compiler, k call, e element) {
	e.Out = k.out
	c.launchChain("elementwise", blocks(k.results()), threads, &chainLaunch{n: k.results(), before: []element{e}})
}

// launchChain adds a launch that can be joined with elementwise operations.
func (c *compiler) launchChain(kernel string, grid, block dim, l *chainLaunch) {
	var err error
	if l.kernel, err = c.device.Kernel(kernel); err != nil {
		c.fail(err)
		return
	}
	l.grid, l.block = grid, block
	c.queue(c.name+" ("+kernel+")", l.queue(c.device))
	steps := *c.steps
	steps[len(steps)-1].chain = l
}

// joinChain returns the launch of a and then b, or nil if one launch cannot do both.
func joinChain(a, b *chainLaunch) *chainLaunch {
	if a == nil || b == nil || a.n != b.n || a.rows != nil && b.rows != nil {
		return nil
	}
	joined := *a
	switch {
	case a.rows != nil:
		joined.after = slices.Concat(a.after, b.before)
	case b.rows != nil:
		joined = *b
		joined.before = slices.Concat(a.before, b.before)
	default:
		joined.before = slices.Concat(a.before, b.before)
	}
	if len(joined.before) > longestChain || len(joined.after) > longestChain {
		return nil
	}
	return &joined
}

// joinChains joins elementwise operations with the launches whose results they read or which
// read theirs. Two launches are joined where no step between them depends on the order of one of
// them, and where they access the same memory only at the same places: a thread then waits for
// no other thread between them.
func joinChains(d *driver.Device, steps []step) []step {
	steps = slices.Clone(steps)
	for j := 1; j < len(steps); j++ {
		for i := j - 1; i >= 0; i-- {
			a, b := steps[i], steps[j]
			launch := joinChain(a.chain, b.chain)
			if launch == nil || !a.access.conflicts(b.access) || !accessSamePlaces(a.access, b.access, 4*launch.n) {
				continue
			}
			conflicts := func(with *access) bool {
				return slices.ContainsFunc(steps[i+1:j], func(s step) bool { return s.access.conflicts(with) })
			}
			at, gone := i, j
			if conflicts(b.access) {
				at, gone = j, i
				if conflicts(a.access) {
					continue
				}
			}
			steps[at] = step{name: a.name + ", " + b.name, chain: launch, queue: launch.queue(d), access: &access{
				reads: slices.Concat(a.access.reads, b.access.reads), writes: slices.Concat(a.access.writes, b.access.writes)}}
			steps = slices.Delete(steps, gone, gone+1)
			j = max(at-1, 0) // look for more in the joined launch
			break
		}
	}
	return steps
}

// accessSamePlaces reports whether memory that one of two steps writes and the other accesses is
// always a tensor of this many bytes as a whole.
func accessSamePlaces(a, b *access, bytes int) bool {
	same := func(x, y []span) bool {
		for _, p := range x {
			for _, q := range y {
				if p.from < q.to && q.from < p.to && (p != q || p != bytesAt(p.from, bytes)) {
					return false
				}
			}
		}
		return true
	}
	return same(a.writes, b.writes) && same(a.writes, b.reads) && same(a.reads, b.writes)
}

// lowerDropout uses one thread per counter of the generator, which gives four elements.
func lowerDropout(c *compiler, s op.Dropout, k call) {
	examples := k.shape[0]
	n := k.results() / examples
	counters := ceil(n, 4)
	k0, k1 := s.Key()
	c.launch("dropout", blocks(examples*counters), threads, k.out, k.in[0], k.in[1],
		int32(examples*counters), newDivider(counters), int32(n), k0, k1, s.Threshold(), float32(s.Scale()))
}
