package lot

import "github.com/dptrain/dptrain/internal/device/plan"

// addsOnDevice reports whether the devices of the ranks add their sums in their memory. There each rank releases a
// part of the elements, or all.
func (l *Lot) addsOnDevice() bool {
	device, ok := l.Network.Executable.(plan.RankSummer)
	if !ok {
		return false
	}
	m := &l.ranks
	if m.addOnDevice = device.AddRanks(l.Ranks); m.addOnDevice == nil {
		return false
	}
	if ends := device.RankEnds(); ends != nil {
		m.gatherOnDevice = device.GatherWeights
		order := make([]int, len(ends))
		for i := range order {
			order[i] = i
		}
		m.parts, m.gathered = newParts(order, ends, l.Ranks.Size()), make([][]float32, len(ends)) // for checkpoints
	}
	return true
}
