package lot

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/host/memory"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Several ranks divide the records of a lot among them: each computes those of its shard of the data, in
// microbatches of its own. In finish they add their integers; on several hosts, the sums of gradients travel from the
// last microbatch on (sum_exchange.go). Then each releases its part of the elements, and
// they gather the weights (exchange.go). Where a device or a transport has no parts, each adds and releases all.

// ranksMemory is what several ranks need in addition.
type ranksMemory struct {
	drawn     []int     // records of the lot, of all ranks
	positions []int     // [Loader.Records] their numbers in the lot
	isLast    bool      // this rank adds its last microbatch of the lot
	counts    []int     // [rank]: its records of the lot, also blank ones
	sums      [][]int64 // [parameter]: of all ranks; nil where the host adds vectors
	narrow    []int32   // of one parameter

	addOnDevice    func() error // adds the sums of all ranks on the device; nil where the host adds them
	gatherOnDevice func() error // gathers weights and averages on the device; nil where the host gathers them
	parts          *parts       // nil where each rank releases all elements
	exchange       *sumExchange // of the parts
	gathered       [][]float32  // [parameter]: of one slot

	began     time.Time       // the lot
	durations []time.Duration // [rank]: of its records so far, without waiting for others
}

// prepareRanks takes the memory, for sums unless the device adds them.
func (l *Lot) prepareRanks(o Options) error {
	if l.Ranks == nil {
		return nil
	}
	m := &l.ranks
	m.drawn, m.positions = make([]int, len(l.Loader.Records)), make([]int, len(l.Loader.Records))
	m.durations, m.counts = make([]time.Duration, l.Ranks.Size()), make([]int, l.Ranks.Size())
	if o.Local.Steps > 0 {
		return nil
	}
	if l.addsOnDevice() {
		return nil
	}
	if _, ok := l.Network.Executable.(plan.SumReader); !ok {
		return errors.New("the device is not available on several ranks")
	}
	largest := 0
	for _, p := range l.Network.Program.Parameters { // memory that is never written takes no room
		m.sums = append(m.sums, memory.Zeros[int64](p.Shape.TotalSize()))
		largest = max(largest, p.Shape.TotalSize())
	}
	l.Mechanism.Step.Sums = m.sums
	releaser, ok := l.Network.Executable.(plan.PartReleaser)
	if _, exchanges := l.Ranks.(ranks.Exchanger); !ok || !exchanges {
		m.narrow = make([]int32, largest)
		return nil
	}
	var ends [][]int
	for i := range m.sums {
		ends = append(ends, releaser.PartEnds(i, l.Ranks.Size()))
	}
	m.parts, m.gathered = newParts(releaser.SumOrder(), ends, l.Ranks.Size()), make([][]float32, len(ends))
	m.exchange = newSumExchange(m.parts, l.Ranks, releaser, m.sums)
	l.Mechanism.Step.Part, l.Mechanism.Step.Parts = l.Ranks.Rank(), l.Ranks.Size()
	return nil
}

// recordsAtOnce returns how many records a rank adds at once. Local steps compute users one after the other.
func (l *Lot) recordsAtOnce() int {
	if l.isLocal() {
		return 1
	}
	return len(l.Loader.Records)
}

func (l *Lot) isLocal() bool {
	_, local := l.Method.(*LocalSteps)
	return local
}

// addOwnRecords adds the records of the lot that this rank computes.
//
// After an error it computes no more records, but draws the rest of the lot: all ranks exchange sums of the same
// width. The draw itself follows from the key and from public numbers, so it fails on all ranks or on none.
func (l *Lot) addOwnRecords(s sample.Sampler) error {
	m, size, rank := &l.ranks, l.Ranks.Size(), l.Ranks.Rank()
	n, microbatches, position := 0, 0, 0
	var failed error
	add := func() {
		if l.isLocal() {
			l.Loader.Loaded = m.positions[0]
		} else {
			l.Loader.Positions = m.positions[:n]
		}
		if failed == nil {
			failed = l.Method.Add(n)
		}
		microbatches++
		n = 0
	}
	clear(m.counts)
	m.began, m.isLast = time.Now(), false
	for more := true; more; {
		drawn, err := s.Next(m.drawn)
		if err != nil {
			return err
		}
		for _, record := range m.drawn[:drawn] {
			m.counts[ranks.Owner(record, size)]++
		}
		more = drawn == len(m.drawn)
		for _, record := range l.Index.WithoutBlank(m.drawn[:drawn]) {
			if ranks.Owner(record, size) == rank {
				if n == l.recordsAtOnce() {
					add()
				}
				l.Loader.Records[n], m.positions[n] = record, position
				n++
			}
			position++
		}
	}
	if m.exchange != nil {
		m.exchange.begin(slices.Max(m.counts))
	}
	for least := (l.Least + size - 1) / size; n > 0 || microbatches < least; {
		m.isLast = microbatches+1 >= least
		add()
	}
	return failed
}

// addClippedSums adds the clipped sums of a microbatch.
func (l *Lot) addClippedSums() error {
	if x := l.ranks.exchange; x != nil && x.early && l.ranks.isLast {
		return x.device.AddLastClippedSums(x.setFinal)
	}
	return l.Network.Executable.AddClippedSums()
}

// RankDurations returns how long each rank has computed its records, without waiting for the others; nil in one
// process.
func (l *Lot) RankDurations() []time.Duration { return l.ranks.durations }

// combine replaces the sums of this rank by those of all. err is the error of this rank's part of the lot.
func (l *Lot) combine(step int, err error) error {
	own := time.Since(l.ranks.began)
	if x := l.ranks.exchange; x != nil {
		err = cmp.Or(err, x.finish())
	}
	if err := ranks.Agree(l.Ranks, err); err != nil {
		return err
	}
	if err := l.combineCounts(own); err != nil {
		return err
	}
	if v := l.Mechanism.Vectors; v != nil {
		if err := v.Combine(l.Ranks.Sum); err != nil {
			return err
		}
	}
	if l.ranks.addOnDevice != nil {
		if err := l.ranks.addOnDevice(); err != nil {
			return err
		}
	}
	if l.ranks.exchange == nil {
		if err := l.addAllSums(); err != nil {
			return err
		}
	}
	for i := range l.Sums.List {
		if l.Sums.List[i].IsDue(step) {
			if err := l.Ranks.Sum(l.Sums.Sum(i).Integers); err != nil {
				return err
			}
		}
	}
	return nil
}

// addAllSums replaces the sums of gradients by those of all ranks.
func (l *Lot) addAllSums() error {
	for i, sums := range l.ranks.sums {
		if err := l.Network.Executable.(plan.SumReader).ReadSum(i, sums); err != nil {
			return err
		}
		if err := l.addSums(sums); err != nil {
			return err
		}
	}
	return nil
}

// addSums replaces sums of contributions by those of all ranks.
func (l *Lot) addSums(sums []int64) error {
	records := 0
	for _, n := range l.ranks.counts {
		records += n
	}
	if records > plan.MaxNarrowRecords {
		return l.Ranks.Sum(sums)
	}
	narrow := l.ranks.narrow[:len(sums)]
	for i, s := range sums {
		narrow[i] = int32(s)
	}
	if err := l.Ranks.Sum32(narrow); err != nil {
		return err
	}
	for i, s := range narrow {
		sums[i] = int64(s)
	}
	return nil
}

// release releases the part of this rank, and gathers what the next lot needs of all: the weights and their
// averages or, where the host updates the weights, the gradient.
func (l *Lot) release() error {
	e, parts := l.Network.Executable, l.ranks.parts
	err := e.Release(&l.Mechanism.Step)
	if parts == nil {
		return err
	}
	if err := ranks.Agree(l.Ranks, err); err != nil {
		return err
	}
	if gather := l.ranks.gatherOnDevice; gather != nil {
		return gather()
	}
	state := e.State()
	if l.Optimizer != nil {
		return l.gatherSlot(state, 0)
	}
	if err := parts.gather(l.Ranks, state.Weights); err != nil || state.Average == nil {
		return err
	}
	return parts.gather(l.Ranks, state.Average)
}

// GatherState gives all ranks the whole state of the optimizer, as a checkpoint has it. Otherwise each rank keeps
// the state of its part only.
func (l *Lot) GatherState() error {
	if l.ranks.parts == nil || l.Optimizer != nil {
		return nil
	}
	if err := ranks.Agree(l.Ranks, l.Network.Executable.SyncState()); err != nil {
		return err
	}
	state := l.Network.Executable.State()
	for slot := range len(state.Slots[0]) {
		if err := l.gatherSlot(state, slot); err != nil {
			return err
		}
	}
	return nil
}

// gatherSlot gives all ranks a slot of the optimizer's state.
func (l *Lot) gatherSlot(state plan.State, slot int) error {
	for i, slots := range state.Slots {
		l.ranks.gathered[i] = slots[slot]
	}
	return l.ranks.parts.gather(l.Ranks, l.ranks.gathered)
}

// combineCounts adds what was counted while the records were summed, and the weight of the lot. own is how long
// this rank computed.
func (l *Lot) combineCounts(own time.Duration) error {
	p, clipper, parts := &l.Private, l.Mechanism.Clipper, l.Mechanism.Contributions
	counts := []int64{int64(p.Records), int64(p.Unclipped), int64(clipper.ExcludedRecords()), l.Loader.LotWeight, 0, 0}
	if parts != nil {
		counts[4], counts[5] = int64(parts.Reduced), int64(parts.Omitted)
	}
	first := len(counts)
	within := make([]int, len(clipper.Groups()))
	for g := range within {
		counts = append(counts, int64(clipper.QuantileCount(g)+float64(p.Records)/2))
	}
	losses := len(counts) // those of the ranks, each in its place
	counts = append(counts, make([]int64, l.Ranks.Size())...)
	counts[losses+l.Ranks.Rank()] = int64(math.Float64bits(p.Loss))
	times := len(counts)
	counts = append(counts, make([]int64, l.Ranks.Size())...)
	counts[times+l.Ranks.Rank()] = int64(own)
	if err := l.Ranks.Sum(counts); err != nil {
		return err
	}
	p.Records, p.Unclipped, l.Loader.LotWeight = int(counts[0]), int(counts[1]), counts[3]
	if parts != nil {
		parts.Reduced, parts.Omitted = int(counts[4]), int(counts[5])
	}
	for g := range within {
		within[g] = int(counts[first+g])
	}
	clipper.SetCounts(p.Records, int(counts[2]), within)
	p.Loss = 0
	for rank, took := range counts[times:] {
		l.ranks.durations[rank] += time.Duration(took)
	}
	for _, bits := range counts[losses:times] {
		p.Loss += math.Float64frombits(uint64(bits))
	}
	return nil
}
