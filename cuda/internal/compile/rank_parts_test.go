//go:build gpu

package compile

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/dptrain/dptrain/noise"
)

// joined are executables on one device that stand for ranks. They make each call in the order of their ranks, and it
// takes effect when the last one makes it.
type joined struct {
	device *driver.Device
	calls  [][]driver.Part // [rank]
}

type member struct {
	ranks.Communicator
	*joined
	rank int
}

func (m member) Rank() int { return m.rank }

func (m member) Size() int { return len(m.calls) }

func (m member) IsOn(d *driver.Device) bool { return d == m.device }

func (m member) Wait() error { return nil }

func (m member) SumOnDevice(driver.Pointer, int) error { return errors.New("all sums are added") }

// each calls f with the memory of all ranks, part by part.
func (m member) each(parts []driver.Part, f func(owner int, memory [][]byte)) error {
	m.calls[m.rank] = parts
	if m.rank < len(m.calls)-1 {
		return nil
	}
	for k, part := range parts {
		memory := make([][]byte, len(m.calls))
		for rank, call := range m.calls {
			if call[k].Bytes != part.Bytes || call[k].Owner != part.Owner {
				return fmt.Errorf("part %d is %+v on rank %d, and %+v here", k, call[k], rank, part)
			}
			memory[rank] = make([]byte, part.Bytes)
			if err := cmp.Or(m.device.CopyOut(memory[rank], call[k].At), m.device.Synchronize()); err != nil {
				return err
			}
		}
		f(int(part.Owner), memory)
		for rank, call := range m.calls {
			if err := cmp.Or(m.device.CopyIn(call[k].At, memory[rank]), m.device.Synchronize()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m member) SumParts(parts []driver.Part) error {
	return m.each(parts, func(owner int, memory [][]byte) {
		for i := range int64sOf(memory[owner]) {
			sum := int64(0)
			for _, of := range memory {
				sum += int64sOf(of)[i]
				int64sOf(of)[i] = -99 // it is undefined
			}
			int64sOf(memory[owner])[i] = sum
		}
	})
}

func (m member) BroadcastParts(parts []driver.Part) error {
	return m.each(parts, func(owner int, memory [][]byte) {
		for _, of := range memory {
			copy(of, memory[owner])
		}
	})
}

// team compiles a program for n ranks.
func team(t *testing.T, p *plan.Program, o plan.Optimizer, average bool, n int) (all []*Executable) {
	t.Helper()
	device(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	group := &joined{d, make([][]driver.Part, n)}
	for rank := range n {
		x, err := New(p, o, average, Options{Ranks: member{joined: group, rank: rank}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, x.(*Executable))
	}
	return all
}

// releaseTogether releases sums of which each rank has a share.
func releaseTogether(all []*Executable, now *plan.Release, sums [][]int64, r *rand.Rand) error {
	for v, total := range sums {
		rest := slices.Clone(total)
		for rank, e := range all {
			own := rest
			if rank < len(all)-1 {
				own = make([]int64, len(rest))
				for i := range own {
					own[i] = r.Int64N(1 << 59)
					rest[i] -= own[i]
				}
			}
			if err := e.memory.upload(e.state.parameters[v].sum, bytesOf(own)); err != nil {
				return err
			}
		}
	}
	for _, step := range []func(e *Executable) error{
		func(e *Executable) error { return e.AddRanks(e.parts.ranks)() },
		func(e *Executable) error { return e.Release(now) },
		(*Executable).GatherWeights,
		(*Executable).SyncState,
	} {
		for _, e := range all {
			if err := step(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ranks that each release a part have the bits of one process: in weights, averages and, each in its part, in the
// optimizer's numbers, for values that the device decides and for those that the host decides. Another number of ranks
// continues with the whole state.
func TestRankParts_SameBitsAsOneProcess(t *testing.T) {
	const hard = 20 // sums of a parameter next to boundaries
	source, gaussian := noise.NewSeeded(13), noise.RoundedGaussian{Sigma: 0x1.6p59}
	average := plan.Average{Decay: 0.9}
	for _, sizes := range [][]int{{hard, 700, 20_000, 4096, 9000}, {700, hard}} { // the second has fewer blocks than ranks
		var groups []plan.RateFactors
		for v := range sizes {
			groups = append(groups, plan.RateFactors{RateMultiplier: 1 + float64(v%2), DecayMultiplier: 1})
		}
		program := bare(sizes)
		program.Exact = true
		for _, o := range []plan.Optimizer{
			{Kind: plan.SGD, WeightDecay: 0.1}, {Kind: plan.Momentum, Momentum: 0.9},
			{Kind: plan.Adam, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-3}, {Kind: plan.RMSProp, Beta2: 0.9, Epsilon: 1e-3},
		} {
			if len(sizes) == 2 && o.Kind != plan.Adam {
				continue
			}
			t.Run(fmt.Sprint(o.Kind, len(sizes)), func(t *testing.T) {
				device(t)
				x, err := New(program, o, true, Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				one, r := x.(*Executable), rand.New(rand.NewPCG(1, 8))
				var all []*Executable
				for lot, n := range []int{1, 2, 2, 4, 3, 3} {
					if n != len(all) { // it begins, or continues with the state of the others
						all = team(t, program, o, true, n)
						for _, e := range all {
							copyState(e.State(), one.State())
							if err := e.LoadState(); err != nil {
								t.Fatal(err)
							}
							for _, slots := range e.State().Slots {
								for _, slot := range slots {
									clear(slot)
								}
							}
						}
					}
					now := &plan.Release{Source: source, Lot: uint64(lot), Scale: 1, Optimizer: o, Step: lot + 1, Rate: 0.01, Average: average}
					if lot%2 > 0 {
						now.ParamGroups = groups
					}
					for range sizes {
						now.Sigma, now.Unit = append(now.Sigma, gaussian.Sigma), append(now.Unit, 0x1p-59)
					}
					var sums [][]int64
					for v, n := range sizes {
						low, _ := boundaries(t, gaussian, source, now.Stream(v), hard)
						for range n - hard {
							low = append(low, r.Int64N(1<<60)-1<<59)
						}
						sums = append(sums, low)
						if err := one.memory.upload(one.state.parameters[v].sum, bytesOf(low)); err != nil {
							t.Fatal(err)
						}
					}
					if err := cmp.Or(one.Release(now), one.SyncState(), releaseTogether(all, now, sums, r)); err != nil {
						t.Fatal(err)
					}
					compareState(t, lot, one, all)
				}
			})
		}
	}
}

// copyState copies weights, averages and the optimizer's numbers.
func copyState(to, from plan.State) {
	for v := range from.Weights {
		copy(to.Weights[v], from.Weights[v])
		copy(to.Average[v], from.Average[v])
		for k, slot := range from.Slots[v] {
			copy(to.Slots[v][k], slot)
		}
	}
}

func compareState(t *testing.T, lot int, one *Executable, all []*Executable) {
	t.Helper()
	want := one.State()
	covered := make([]int, len(want.Weights))
	for rank, e := range all {
		got := e.State()
		for v := range want.Weights {
			if !slices.Equal(got.Weights[v], want.Weights[v]) {
				t.Fatalf("lot %d: rank %d of %d has other weights of parameter %d", lot, rank, len(all), v)
			}
			if !slices.Equal(got.Average[v], want.Average[v]) {
				t.Fatalf("lot %d: rank %d of %d has other averages of parameter %d", lot, rank, len(all), v)
			}
			own := e.parts.own(v, 0)
			covered[v] += own.size()
			for k, slot := range want.Slots[v] {
				if !slices.Equal(got.Slots[v][k][own.from:own.to], slot[own.from:own.to]) {
					t.Fatalf("lot %d: rank %d of %d has other numbers %d of parameter %d", lot, rank, len(all), k, v)
				}
				if slices.ContainsFunc(got.Slots[v][k][:own.from], isNotZero) || slices.ContainsFunc(got.Slots[v][k][own.to:], isNotZero) {
					t.Fatalf("lot %d: rank %d of %d writes numbers of other parts", lot, rank, len(all))
				}
			}
			sum, err := e.IntegerSum(v)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(sum, func(x int64) bool { return x != 0 }) {
				t.Fatalf("lot %d: rank %d of %d keeps sums of parameter %d", lot, rank, len(all), v)
			}
		}
	}
	for v, n := range covered {
		if n != len(want.Weights[v]) {
			t.Fatalf("the parts cover %d of %d elements", n, len(want.Weights[v]))
		}
	}
}

func isNotZero(x float32) bool { return x != 0 }

// A rank has memory for the optimizer's numbers of its part only.
func TestRankParts_Memory(t *testing.T) {
	device(t)
	const size, n = 1 << 20, 4
	program, adam := bare([]int{size}), plan.Optimizer{Kind: plan.Adam, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-3}
	program.Exact = true
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	before := d.Allocated()
	x, err := New(program, adam, true, Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole := d.Allocated() - before
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	team(t, program, adam, true, n)
	saved := n*whole - (d.Allocated() - before)
	if want := int64((n - 1) * 8 * size); saved < want || saved > want+want/4 { // and what lists the values of a release
		t.Errorf("%d ranks have %d bytes less than %d processes, want %d", n, saved, n, want)
	}
}

// Parts are of about one size, and end where blocks end.
func TestPartEnds(t *testing.T) {
	for _, sizes := range [][]int{{1, 7, 4096, 4097, 70_001}, {5}, {9000, 0, 20_000}} {
		var total int
		for _, n := range sizes {
			total += ceil(n, releaseBlock)
		}
		for parts := 1; parts <= 5; parts++ {
			ends := partEnds(sizes, parts)
			blocks := make([]int, parts)
			for v, n := range sizes {
				if !slices.IsSorted(ends[v]) || ends[v][parts-1] != n {
					t.Errorf("%d elements end at %d", n, ends[v])
				}
				for part := range parts {
					from, to := ranks.PartOf(ends[v], part)
					if from < to && from%releaseBlock != 0 {
						t.Errorf("a part starts at element %d", from)
					}
					blocks[part] += elements{from, to}.blocks()
				}
			}
			if slices.Max(blocks)-slices.Min(blocks) > 1 {
				t.Errorf("the parts of %d have %d blocks", sizes, blocks)
			}
		}
	}
}

func int64sOf(b []byte) []int64 { return unsafe.Slice((*int64)(unsafe.Pointer(&b[0])), len(b)/8) }
