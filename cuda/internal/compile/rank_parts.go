//go:build gpu

package compile

import (
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Several ranks whose GPUs NCCL connects each release a part of the elements (ZeRO-1):
//
//	SumParts ──▶ a rank has the sums of its part ──▶ Release ──▶ BroadcastParts ──▶ a rank has all weights
//
// A rank draws the noise of its part, and has memory for the optimizer's numbers of its part only, so the parts are
// known when the program is compiled. They end where blocks of the release end, and a block has its place in the noise
// stream whichever rank releases it.

// deviceRanks is a communicator that reaches the memory of devices.
type deviceRanks interface {
	ranks.Communicator
	IsOn(*driver.Device) bool
	SumOnDevice(values driver.Pointer, count int) error
	SumParts([]driver.Part) error
	BroadcastParts([]driver.Part) error
	Wait() error
}

// reaching returns c where it reaches the memory of a device, and otherwise nil.
func reaching(d *driver.Device, c ranks.Communicator) deviceRanks {
	if of, ok := c.(deviceRanks); ok && of.IsOn(d) {
		return of
	}
	return nil
}

// elements is a range of a parameter's elements that starts where a block of the release starts.
type elements struct{ from, to int }

func (e elements) size() int { return e.to - e.from }

func (e elements) blocks() int { return ceil(e.size(), releaseBlock) }

// undecided is the room in a list for the undecided values. A thousandth of the values is undecided in float32. The
// room is for all values, or for many times a thousandth: a list overflows with a probability below 2^-1000.
func (e elements) undecided() int { return min(e.size(), e.size()/128+4096) }

// rankParts are the parts of the elements that the ranks release.
type rankParts struct {
	ranks         deviceRanks
	device        *driver.Device
	ends          [][]int       // [parameter][rank]
	sums, weights []driver.Part // the latter with the averages
	clearing      *driver.Graph // sets the sums of the other ranks' parts to zero; nil where there are none
}

// newRankParts divides the elements of an exact program; nil where c does not reach the device.
func newRankParts(p *plan.Program, d *driver.Device, c ranks.Communicator) *rankParts {
	of := reaching(d, c)
	if of == nil || !p.Exact {
		return nil
	}
	sizes := make([]int, len(p.Parameters))
	for v, x := range p.Parameters {
		if x.ClippedSum >= 0 {
			sizes[v] = x.Shape.TotalSize()
		}
	}
	return &rankParts{ranks: of, device: d, ends: partEnds(sizes, of.Size())}
}

// partEnds returns where each part ends in parameters of these sizes: [parameter][part]. The numbers of blocks of the
// parts differ by at most one.
func partEnds(sizes []int, parts int) [][]int {
	total := 0
	for _, n := range sizes {
		total += ceil(n, releaseBlock)
	}
	ends, first := make([][]int, len(sizes)), 0
	for v, n := range sizes {
		for part := range parts {
			behind := (part + 1) * total / parts // the first block of the next part
			ends[v] = append(ends[v], min(n, max(0, behind-first)*releaseBlock))
		}
		first += ceil(n, releaseBlock)
	}
	return ends
}

// own returns the elements that this rank releases of a parameter: all where there are no parts.
func (p *rankParts) own(parameter, size int) elements {
	if p == nil {
		return elements{0, size}
	}
	return p.of(parameter, p.ranks.Rank())
}

func (p *rankParts) of(parameter, rank int) elements {
	from, to := ranks.PartOf(p.ends[parameter], rank)
	return elements{from, to}
}

// layOut lists the memory of the parts.
func (p *rankParts) layOut(parameters []parameterMemory) (err error) {
	if p == nil {
		return nil
	}
	var zeros []step
	for v, t := range parameters {
		for rank := range p.ranks.Size() {
			e := p.of(v, rank)
			if e.size() == 0 {
				continue
			}
			list := func(to *[]driver.Part, at driver.Pointer, width int) driver.Part {
				part := driver.Part{At: at + driver.Pointer(width*e.from), Bytes: uint64(width * e.size()), Owner: int64(rank)}
				*to = append(*to, part)
				return part
			}
			sums := list(&p.sums, t.sum, 8)
			list(&p.weights, t.weights, 4)
			if t.average != 0 {
				list(&p.weights, t.average, 4)
			}
			if rank != p.ranks.Rank() {
				zeros = append(zeros, step{name: "zeros", access: &access{writes: []span{bytesAt(sums.At, int(sums.Bytes))}},
					queue: func() error { return p.device.Zero(sums.At, int(sums.Bytes)) }})
			}
		}
	}
	if len(zeros) > 0 {
		p.clearing, err = capture(p.device, zeros)
	}
	return err
}

// clearOthers clears the sums of the parts that other ranks release, asynchronously.
func (p *rankParts) clearOthers() error {
	if p == nil || p.clearing == nil {
		return nil
	}
	return p.device.LaunchGraph(p.clearing)
}

func (p *rankParts) close() {
	if p != nil && p.clearing != nil {
		p.clearing.Close()
	}
}

// AddRanks returns a function that replaces the accumulators by the sums of all ranks, those of this rank's part or
// all; nil where c adds on the host.
func (e *Executable) AddRanks(c ranks.Communicator) func() error {
	of := reaching(e.device, c)
	if of == nil || e.contributions == nil {
		return nil
	}
	return func() error {
		if err := e.completeRelease(); err != nil {
			return err
		}
		if err := e.queueSums(of); err != nil {
			return err
		}
		return of.Wait()
	}
}

func (e *Executable) queueSums(of deviceRanks) error {
	if e.parts != nil {
		return of.SumParts(e.parts.sums)
	}
	for _, p := range e.state.parameters {
		if p.sum == 0 { // not trained
			continue
		}
		if err := of.SumOnDevice(p.sum, p.size); err != nil {
			return err
		}
	}
	return nil
}

// RankEnds returns where the part that each rank releases ends in the elements of each parameter; nil where every
// rank releases all.
func (e *Executable) RankEnds() [][]int {
	if e.parts == nil {
		return nil
	}
	return e.parts.ends
}

// GatherWeights gives this rank the weights and averages of all parts, after all ranks have released theirs.
func (e *Executable) GatherWeights() error {
	if err := e.parts.ranks.BroadcastParts(e.parts.weights); err != nil {
		return err
	}
	return e.parts.ranks.Wait()
}
