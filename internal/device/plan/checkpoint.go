package plan

import "slices"

// Checkpoint makes a program keep only some results of the forward pass (Chen et al. 2016, "Training deep
// nets with sublinear memory cost"). The forward pass is divided into segments. What crosses a border is
// kept; everything else is computed again, a segment at a time, where the backward pass first reads it, and
// once more where Back reads it if that takes less memory:
//
//	forward    k · · · │ k · · · │ k · · · loss        k: kept
//	backward                       k · · · gradients
//	                     k · · · gradients
//	           k · · · gradients
//
// Every result keeps its bits. Time grows by about the forward pass, or two. A program that would not become
// smaller by an eighth stays as it is, and Checkpoint returns false.
func (p *Program) Checkpoint() bool {
	f := newForwardPass(p)
	if f == nil {
		return false
	}
	_, least := p.accesses().peak(p)
	least -= least / 8
	var best *Program
	for _, segments := range [...]int{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128} {
		kept := f.crossing(f.borders(segments))
		for _, again := range []bool{false, true} {
			q := f.rewrite(kept, again)
			if _, alive := q.accesses().peak(q); alive < least {
				best, least = q, alive
			}
		}
	}
	if best == nil {
		return false
	}
	if best.layOutArena(); best.Arena > p.Arena-p.Arena/8 {
		return false
	}
	*p = *best
	return true
}

// forwardPass describes which results a program's forward pass computes, and where they are read.
type forwardPass struct {
	program  *Program
	code     []Instruction // of Front and Back
	end      int           // instructions before it are the forward pass
	producer []int         // the instruction that alone writes a temporary of the forward pass; -1: none does
	lastRead []int         // by an instruction of the forward pass; -1: none
}

// newForwardPass returns nil for a program without norms, where the end of the forward pass is not known.
func newForwardPass(p *Program) *forwardPass {
	f := &forwardPass{program: p, code: slices.Concat(p.Front, p.Back),
		producer: slices.Repeat([]int{-1}, len(p.Buffers)), lastRead: slices.Repeat([]int{-1}, len(p.Buffers))}
	// Parameters near the loss come first, so the first norm follows the loss.
	f.end = slices.IndexFunc(p.Front, func(c Instruction) bool { return p.Buffers[c.Out].Role == RoleSquaredNorms })
	if f.end < 0 {
		return nil
	}
	writers := make([]int, len(p.Buffers))
	for at, c := range f.code {
		out := p.Buffers[c.Out].Base
		if writers[out]++; at < f.end && p.Buffers[out].Role == RoleTemporary {
			f.producer[out] = at
		}
		if at < f.end {
			for _, id := range c.In {
				f.lastRead[p.Buffers[id].Base] = at
			}
		}
	}
	changes := func(id int) bool { return writers[p.Buffers[id].Base] > 1 }
	for b, at := range f.producer {
		if at >= 0 && (changes(b) || f.code[at].Spec == nil || slices.ContainsFunc(f.code[at].In, changes)) {
			f.producer[b] = -1 // it cannot be computed again
		}
	}
	return f
}

// elementsAcross returns for each place in front of an instruction how many elements are read behind it.
func (f *forwardPass) elementsAcross() []int {
	change := make([]int, f.end+1)
	for b, from := range f.producer {
		if to := f.lastRead[b]; from >= 0 && to > from {
			size := f.program.Buffers[b].Size()
			change[from+1] += size
			change[to+1] -= size
		}
	}
	for i := range f.end {
		change[i+1] += change[i]
	}
	return change
}

// borders divides the forward pass into segments with about equally many elements, each border where the
// fewest elements cross it.
func (f *forwardPass) borders(segments int) []int {
	across := f.elementsAcross()
	before := make([]int, f.end+1) // elements of results in front of each place
	for _, at := range f.producer {
		if at >= 0 {
			before[at+1] += f.program.Buffers[f.code[at].Out].Size()
		}
	}
	for i := range f.end {
		before[i+1] += before[i]
	}
	all := before[f.end]
	var borders []int
	for k := 1; k < segments; k++ {
		from, _ := slices.BinarySearch(before, all/segments*k-all/segments/2)
		to, _ := slices.BinarySearch(before, all/segments*k+all/segments/2)
		best := min(from, f.end)
		for i := best; i < min(to, f.end); i++ {
			if across[i] < across[best] {
				best = i
			}
		}
		borders = append(borders, best)
	}
	return slices.Compact(borders)
}

// crossing reports which results of the forward pass are kept: those that are read behind a border that they
// are in front of, and those of the last segment, which the backward pass reads first.
func (f *forwardPass) crossing(borders []int) []bool {
	kept := make([]bool, len(f.producer))
	for b, from := range f.producer {
		border, _ := slices.BinarySearch(borders, from+1) // the first one behind the instruction
		kept[b] = border == len(borders) || f.lastRead[b] >= borders[border]
	}
	return kept
}

// rewrite returns the program with the kept results. Back computes the others again if again is set, and
// otherwise reads what the backward pass computed. The arena is not laid out.
func (f *forwardPass) rewrite(kept []bool, again bool) *Program {
	q := new(Program)
	*q = *f.program
	q.Buffers, q.Arena = slices.Clone(f.program.Buffers), 0
	r := rematerializer{program: q, producer: make([]*Instruction, len(f.producer)),
		dropped: map[int]bool{}, recomputed: map[int]int{}}
	for b, at := range f.producer {
		if at >= 0 && !kept[b] {
			r.producer[b], r.dropped[b] = &f.code[at], true
		}
	}
	for at, c := range f.code {
		if at == len(f.program.Front) {
			q.Front = slices.Clip(r.code)
			if again {
				clear(r.recomputed)
			}
		}
		if at >= f.end {
			c.In = slices.Clone(c.In)
			for k, id := range c.In {
				c.In[k] = r.operand(id, at)
			}
		}
		r.code = append(r.code, c)
	}
	q.Back = r.code[len(q.Front):]
	return q
}
