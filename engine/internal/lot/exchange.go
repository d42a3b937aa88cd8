package lot

import (
	"slices"
	"unsafe"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Each rank releases a part of the elements, so it needs the sums of its part only. Every rank sends each other
// rank the sums of that rank's part, and adds what it receives:
//
//	rank 0   own  [1]  [2]        rank k of n sends (n−1)/n of its sums and
//	rank 1   [0]  own  [2]        receives n−1 times 1/n. Adding all sums in
//	rank 2   [0]  [1]  own        place of these would take twice the bytes.
//
// Then it releases its part and the ranks gather the weights. Both travel in pieces: piece i has the i-th elements of
// every part, in the order in which the device completes the sums. So the memory for messages does not grow with the
// network, the small parameters of a part share a message, and the first pieces travel while the device computes
// the sums of later ones (sumExchange).

// parts are the elements that each rank releases.
type parts struct {
	order  []int    // of the parameters in each part
	spans  [][]span // [rank]
	sizes  []int    // [rank]: elements
	piece  int      // elements of each part in a piece
	pieces int
	needs  []int // [piece]: it has elements of the first needs[piece] parameters in order

	send, receive []byte
	ends          []int // [rank]: of a piece, in bytes
	block         []int64
}

// span is a range of a parameter's elements in a part.
type span struct {
	parameter, from, to int
	at                  int // the first element's place in the part
}

// blockSize is the number of sums that are read at once, so that they stay in the first-level cache.
const blockSize = 1 << 11

// newParts returns parts whose ends in each parameter are ends[parameter][rank]. Each has the parameters in this order.
func newParts(order []int, ends [][]int, size int) *parts {
	p := &parts{order: order, spans: make([][]span, size), sizes: make([]int, size), ends: make([]int, size)}
	p.block = make([]int64, blockSize)
	for _, parameter := range order {
		for rank := range size {
			if from, to := ranks.PartOf(ends[parameter], rank); from < to {
				p.spans[rank] = append(p.spans[rank], span{parameter, from, to, p.sizes[rank]})
				p.sizes[rank] += to - from
			}
		}
	}
	p.cut(plan.PieceElements(size))
	return p
}

// cut cuts the parts into pieces of at most this many elements.
func (p *parts) cut(elements int) {
	largest := slices.Max(p.sizes)
	p.piece = max(1, min(largest, elements))
	p.pieces = (largest + p.piece - 1) / p.piece
	p.needs = make([]int, p.pieces)
	for piece := range p.needs {
		for rank := range p.sizes {
			p.each(rank, piece, func(s span) error {
				p.needs[piece] = max(p.needs[piece], slices.Index(p.order, s.parameter)+1)
				return nil
			})
		}
	}
	bytes := len(p.sizes) * plan.WideSum * p.piece
	p.send, p.receive = wordAligned(bytes), wordAligned(bytes)
}

// wordAligned returns n bytes at an address for 64-bit numbers.
func wordAligned(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

func roundToWords(bytes int) int { return (bytes + 7) &^ 7 }

// prepare sets the ends of a piece whose elements take this many bytes.
func (p *parts) prepare(piece, width int) {
	end := 0
	for rank := range p.ends {
		end += roundToWords(width * p.sizeOf(rank, piece))
		p.ends[rank] = end
	}
}

// sizeOf returns the number of elements of a rank's part in a piece.
func (p *parts) sizeOf(rank, piece int) int {
	return max(0, min(p.sizes[rank]-piece*p.piece, p.piece))
}

// each calls f for the spans of a rank's part in a piece. The place is that in the piece.
func (p *parts) each(rank, piece int, f func(s span) error) error {
	first := piece * p.piece
	last := first + p.sizeOf(rank, piece)
	for _, s := range p.spans[rank] {
		from, to := max(first, s.at), min(last, s.at+s.to-s.from)
		if from >= to {
			continue
		}
		if err := f(span{s.parameter, s.from + from - s.at, s.from + to - s.at, from - first}); err != nil {
			return err
		}
	}
	return nil
}

// pack writes the sums of a rank's part to a message: first the low words of all elements, then the bytes above them.
func (p *parts) pack(message []byte, rank, piece, width int, of plan.PartReleaser) error {
	n := p.sizeOf(rank, piece)
	return p.each(rank, piece, func(s span) error {
		for from := s.from; from < s.to; from += blockSize {
			block := p.block[:min(blockSize, s.to-from)]
			if err := of.ReadSums(s.parameter, from, block); err != nil {
				return err
			}
			at := s.at + from - s.from
			switch width {
			case plan.WideSum:
				copy(int64sOf(message)[at:], block)
				continue
			case plan.MiddleSum:
				high := message[4*n+at:][:len(block)]
				for i, v := range block {
					high[i] = byte(v >> 32)
				}
			}
			low := int32sOf(message)[at:][:len(block)]
			for i, v := range block {
				low[i] = int32(v)
			}
		}
		return nil
	})
}

// add adds a message to the sums of this rank's part.
func (p *parts) add(sums [][]int64, message []byte, own, piece, width int) {
	n := p.sizeOf(own, piece)
	p.each(own, piece, func(s span) error {
		to := sums[s.parameter][s.from:s.to]
		switch width {
		case plan.WideSum:
			for i, v := range int64sOf(message)[s.at:][:len(to)] {
				to[i] += v
			}
		case plan.MiddleSum:
			low, high := int32sOf(message)[s.at:][:len(to)], message[4*n+s.at:][:len(to)]
			for i, v := range low {
				to[i] += int64(int8(high[i]))<<32 | int64(uint32(v))
			}
		default:
			for i, v := range int32sOf(message)[s.at:][:len(to)] {
				to[i] += int64(v)
			}
		}
		return nil
	})
}

// gather gives values of all parameters the parts of all ranks. A nil values[i] has no part.
func (p *parts) gather(c ranks.Communicator, values [][]float32) error {
	const width = 4
	own := c.Rank()
	for piece := range p.pieces {
		p.prepare(piece, width)
		message := p.send[:p.ends[len(p.ends)-1]]
		place := func(rank int) []float32 {
			from, to := ranks.PartOf(p.ends, rank)
			return float32sOf(message[from:to])
		}
		mine := place(own)
		p.each(own, piece, func(s span) error {
			copy(mine[s.at:], values[s.parameter][s.from:s.to])
			return nil
		})
		if err := c.Gather(message, p.ends); err != nil {
			return err
		}
		for rank := range p.sizes {
			if rank == own {
				continue
			}
			theirs := place(rank)
			p.each(rank, piece, func(s span) error {
				copy(values[s.parameter][s.from:s.to], theirs[s.at:])
				return nil
			})
		}
	}
	return nil
}

func int64sOf(b []byte) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

func int32sOf(b []byte) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func float32sOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
