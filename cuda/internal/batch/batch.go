// Package batch joins launches of the same kernel into batches. A batch is one launch; its
// argument is a table with the grid and the arguments of each of its parts, and a block finds
// its part in the table (kernels/batch.h). A GPU needs some 2 µs to start a launch, and most
// parameters of a network need less for a norm or a sum.
package batch

import (
	"encoding/binary"
	"slices"
)

// argumentBytes is the most that a kernel's arguments take, on every driver.
const argumentBytes = 4096

// Table is the argument of a kernel for batches, struct Batch of kernels/batch.h: the number
// of parts, then the places of the parts, then their arguments. Parts come in the order of
// Add.
type Table struct {
	places, arguments []byte
	parts, blocks     int
}

const (
	headBytes  = 16
	placeBytes = 16
)

// Capacity is the largest number of parts with arguments of this many bytes, a multiple of
// eight.
func Capacity(bytes int) int { return (argumentBytes - headBytes) / (placeBytes + bytes) }

// Add adds a part with its grid. The arguments have the layout of C.
func (t *Table) Add(grid [3]uint32, arguments []byte) {
	t.places = binary.LittleEndian.AppendUint32(t.places, uint32(t.blocks))
	for _, n := range grid {
		t.places = binary.LittleEndian.AppendUint32(t.places, n)
	}
	t.arguments = append(t.arguments, arguments...)
	for len(t.arguments)%8 != 0 {
		t.arguments = append(t.arguments, 0)
	}
	t.blocks += int(grid[0]) * int(grid[1]) * int(grid[2])
	t.parts++
}

// Blocks is the number of blocks of all parts.
func (t *Table) Blocks() int { return t.blocks }

// Argument is the kernel's argument.
func (t *Table) Argument() []byte {
	n := Capacity(len(t.arguments) / t.parts)
	content := binary.LittleEndian.AppendUint64(make([]byte, 0, argumentBytes), uint64(t.parts))
	content = append(content, make([]byte, headBytes-len(content))...)
	content = append(content, t.places...)
	content = append(content, make([]byte, (n-t.parts)*placeBytes)...)
	content = append(content, t.arguments...)
	return append(content, make([]byte, (n-t.parts)*len(t.arguments)/t.parts)...)
}

// Kind identifies the launches that can share a batch: the kernel and all else that they
// must have in common. The zero Kind is that of a step that is no such launch.
type Kind struct {
	Name       string
	Capacity   int  // of a batch
	InSequence bool // the kernel computes a batch's parts one after the other
}

// Join orders steps and groups them into batches. waits lists, for each step, the earlier
// steps that it waits for. A step comes after all steps for which it waits, so no step of a
// batch waits for another step of it, unless its kind is InSequence: such steps can wait for
// earlier steps of their batch.
//
// A launch that can be part of a batch is delayed until every other step that is left waits
// for such a launch, for its result or for the memory that it reads. Then the launch that
// begins the longest chain of steps forms a batch with all launches of its kind that are
// ready. So a batch takes no memory that its parts would not take. If its kind is InSequence, the other
// ready launches for which launches of this kind wait come first: the batch then contains more of them.
func Join(waits [][]int, kinds []Kind) (groups [][]int) {
	chain := make([]int, len(waits)) // length of the longest chain that begins with a step
	for i := len(waits) - 1; i >= 0; i-- {
		for _, j := range waits[i] {
			chain[j] = max(chain[j], chain[i]+1)
		}
	}
	done := make([]bool, len(waits))
	emit := func(group []int) {
		for _, i := range group {
			done[i] = true
		}
		groups = append(groups, group)
	}
	isReady := func(i int) bool {
		return !done[i] && !slices.ContainsFunc(waits[i], func(j int) bool { return !done[j] })
	}
	for {
		for i, k := range kinds { // a step waits only for earlier steps, so one pass is enough
			if k == (Kind{}) && isReady(i) {
				emit([]int{i})
			}
		}
		longestOf := func(allowed func(i int) bool) int {
			longest := -1
			for i := range kinds {
				if isReady(i) && allowed(i) && (longest < 0 || chain[i] > chain[longest]) {
					longest = i
				}
			}
			return longest
		}
		longest := longestOf(func(int) bool { return true })
		if longest < 0 {
			return groups
		}
		if k := kinds[longest]; k.InSequence {
			leads := precede(waits, done, func(i int) bool { return kinds[i] == k })
			if before := longestOf(func(i int) bool { return leads[i] && !kinds[i].InSequence }); before >= 0 {
				longest = before
			}
		}
		var ready []int
		for i, k := range kinds {
			switch {
			case k != kinds[longest] || done[i]:
			case isReady(i), k.InSequence && !slices.ContainsFunc(waits[i],
				func(j int) bool { return !done[j] && !slices.Contains(ready, j) }):
				ready = append(ready, i)
			}
		}
		for group := range slices.Chunk(ready, kinds[longest].Capacity) {
			emit(group)
		}
	}
}

// precede reports for which steps a selected step that is not done waits, directly or not.
func precede(waits [][]int, done []bool, selected func(i int) bool) []bool {
	precedes := make([]bool, len(waits))
	for i := len(waits) - 1; i >= 0; i-- {
		if done[i] || !precedes[i] && !selected(i) {
			continue
		}
		for _, j := range waits[i] {
			precedes[j] = true
		}
	}
	return precedes
}
