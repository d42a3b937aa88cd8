package lot

import (
	"errors"
	"math"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Several ranks divide the microbatches of a lot among them: rank k mod n computes microbatch k, and the
// others pass over its records. In finish they add their integers.

// prepareRanks takes the memory for the sums of all ranks, unless the device adds them.
func (l *Lot) prepareRanks(o Options) error {
	if l.Ranks == nil || o.Local.Steps > 0 {
		return nil
	}
	if device, ok := l.Network.Executable.(plan.RankSummer); ok {
		if l.addOnDevice = device.AddRanks(l.Ranks); l.addOnDevice != nil {
			return nil
		}
	}
	if _, ok := l.Network.Executable.(plan.SumReader); !ok {
		return errors.New("the device is not available on several ranks")
	}
	for _, p := range l.Network.Program.Parameters {
		l.sums = append(l.sums, make([]int64, p.Shape.TotalSize()))
	}
	l.Mechanism.Step.Sums = l.sums
	return nil
}

// recordsAtOnce returns how many records of a lot a rank computes before the next one's turn. Local steps
// compute users one after the other.
func (l *Lot) recordsAtOnce() int {
	if _, local := l.Method.(*LocalSteps); local && l.Ranks != nil {
		return 1
	}
	return len(l.Loader.Records)
}

// computes reports whether this rank computes a microbatch, counted from 1.
func (l *Lot) computes(microbatch int) bool {
	return l.Ranks == nil || (microbatch-1)%l.Ranks.Size() == l.Ranks.Rank()
}

// combine replaces the sums of this rank by those of all. err is the error of this rank's part of the lot.
func (l *Lot) combine(step int, err error) error {
	if err := ranks.Agree(l.Ranks, err); err != nil {
		return err
	}
	if err := l.combineCounts(); err != nil {
		return err
	}
	if v := l.Mechanism.Vectors; v != nil {
		if err := v.Combine(l.Ranks.Sum); err != nil {
			return err
		}
	}
	if l.addOnDevice != nil {
		if err := l.addOnDevice(); err != nil {
			return err
		}
	}
	for i, sums := range l.sums {
		if err := l.Network.Executable.(plan.SumReader).ReadSum(i, sums); err != nil {
			return err
		}
		if err := l.Ranks.Sum(sums); err != nil {
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

// combineCounts adds what was counted while the records were summed, and the weight of the lot.
func (l *Lot) combineCounts() error {
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
	for _, bits := range counts[losses:] {
		p.Loss += math.Float64frombits(uint64(bits))
	}
	return nil
}
