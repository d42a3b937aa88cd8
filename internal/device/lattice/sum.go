package lattice

import "fmt"

// Sum is a vector of sums of contributions, each of which has a norm of at most Bound. It is exact:
// the same integers for every order of the contributions.
//
// Low has the sums modulo 2^32. Contributions are added there, without carries. At times the sums are
// settled: ⌊s/2^28⌋ of each sum s is stored. Until the next time at most MaxUnsettled contributions
// are added, which change a sum by at most 15·2^27. So its distance from ⌊s/2^28⌋·2^28 + 2^27 is in
// [-2^31, 2^31), and the sum modulo 2^32 determines it.
//
// A sum takes 4 bytes in a small lot, which needs no settling, and 6 bytes in a larger one. (Memory
// that was never written takes no room.) In a lot of a million records it takes 10 bytes.
type Sum struct {
	low  []int32
	high []int16 // ⌊s/2^28⌋ when the sums were settled last, less 16·top
	top  []int32 // nil in most lots

	unsettled int // contributions since the sums were settled
	settled   int // how often the sums were settled in this lot
}

const (
	// MaxUnsettled is the number of contributions that may be added between two settlings.
	MaxUnsettled = 15 << 27 / Bound

	// maxSettled limits how often high changes before its multiples of 16 move to top. Each time it
	// changes by at most 8.
	maxSettled = 1 << 11
)

// NewSum returns sums of zero in the memory low, which the caller has set to zero. It allocates half
// as much memory in addition.
func NewSum(low []int32) *Sum { return &Sum{low: low, high: make([]int16, len(low))} }

// Len returns the number of sums.
func (s *Sum) Len() int { return len(s.low) }

// Low returns the sums modulo 2^32, for contributions that Reserve has counted.
func (s *Sum) Low() []int32 { return s.low }

// Reserve counts contributions that follow, at most MaxUnsettled. If it returns true, the caller
// settles all sums before it adds them. It allocates once, after 983,040 contributions to a lot.
func (s *Sum) Reserve(contributions int) (full bool) {
	if uint(contributions) > MaxUnsettled {
		panic(fmt.Sprintf("lattice: %d contributions at once, more than %d", contributions, MaxUnsettled))
	}
	if full = s.unsettled+contributions > MaxUnsettled; full {
		s.unsettled = 0
		if s.settled++; s.settled%maxSettled == 0 && s.top == nil {
			s.top = make([]int32, len(s.low))
		}
	}
	s.unsettled += contributions
	return full
}

// Settle settles the sums from … to-1. Several threads may settle different sums.
func (s *Sum) Settle(from, to int) { s.settle(active, from, to) }

func (s *Sum) settle(k *kernels, from, to int) {
	low, high := s.low[from:to], s.high[from:to]
	whole := wholeWords(k.settle != nil, to-from)
	if whole > 0 {
		k.settle(&low[0], &high[0], whole)
	}
	for i, v := range low[whole:] {
		high := &high[whole+i]
		*high = int16(sumOf(v, *high) >> 28)
	}
	if s.top != nil && s.settled%maxSettled == 0 {
		for i, v := range high {
			s.top[from+i] += int32(v >> 4)
			high[i] = v & 15
		}
	}
}

// wholeWords returns how many of n elements the assembly of settle and readSums handles.
func wholeWords(hasAssembly bool, n int) int {
	if hasAssembly {
		return n &^ 7
	}
	return 0
}

// sumOf returns a sum without its top.
func sumOf(low int32, high int16) int64 {
	middle := int64(high)<<28 + 1<<27
	return middle + int64(low-int32(middle))
}

// noHigh replaces high until the sums are settled, because high was never written.
var noHigh [4096]int16

// Read writes the sums from one on to dst.
func (s *Sum) Read(dst []int64, from int) { s.read(active, dst, from) }

func (s *Sum) read(k *kernels, dst []int64, from int) {
	for len(dst) > 0 {
		n := min(len(dst), len(noHigh))
		low, high := s.low[from:from+n], noHigh[:n]
		if s.settled > 0 {
			high = s.high[from : from+n]
		}
		whole := wholeWords(k.readSums != nil, n)
		if whole > 0 {
			k.readSums(&dst[0], &low[0], &high[0], whole)
		}
		for i := whole; i < n; i++ {
			dst[i] = sumOf(low[i], high[i])
		}
		if s.top != nil {
			for i, v := range s.top[from : from+n] {
				dst[i] += int64(v) << 32
			}
		}
		dst, from = dst[n:], from+n
	}
}

// Clear sets the sums from … to-1 to zero. After all were cleared, Restart begins the next lot.
func (s *Sum) Clear(from, to int) {
	clear(s.low[from:to])
	if s.settled > 0 {
		clear(s.high[from:to])
	}
	if s.top != nil {
		clear(s.top[from:to])
	}
}

// Restart begins a lot after Clear.
func (s *Sum) Restart() { s.unsettled, s.settled = 0, 0 }
