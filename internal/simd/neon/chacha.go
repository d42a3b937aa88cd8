package main

import "fmt"

const (
	doubleRounds = 10
	counterWord  = 12
	blockLanes   = 16
	groupBytes   = 16 * blockLanes * 4
)

// Words of the state that meet in the four quarter rounds of a column round and
// of a diagonal round.
var (
	columns   = [4][4]int{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}
	diagonals = [4][4]int{{0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13}, {3, 4, 9, 14}}
)

// chacha is groupsGeneric of package noise: a word of the state in each of 16
// registers, a block in each of their lanes, four passes a group.
func chacha() []*function {
	f := newFunction("groupsNEON", "func(dst *uint32, in *[16]uint32, groups int)")
	dst, in, groups := f.load("dst"), f.load("in"), f.load("groups")
	fours := f.bits(4)
	counter := f.row([4]uint32{0, 1, 2, 3}).reg
	rotate8 := f.row([4]uint32{0x02010003, 0x06050407, 0x0a09080b, 0x0e0d0c0f}).reg // every word's bytes
	at, passes, rounds := f.gp(), f.gp(), f.gp()
	f.op(fmt.Sprintf("ADD $%d, R%%d, R%%d", 4*counterWord), in, at)
	first := f.everyAt(at)
	f.op("VADD V%d.S4, V%d.S4, V%d.S4", first, counter, counter)

	// rotate turns the words of x xor y, which becomes y.
	rotate := func(x, y *reg, by int) {
		both := f.xor(x, y)
		switch by {
		case 16:
			f.op("VREV32 V%d.H8, V%d.H8", both, y)
		case 8:
			f.op("VTBL V%d.B16, [V%d.B16], V%d.B16", rotate8, both, y)
		default:
			f.op(fmt.Sprintf("VSHL $%d, V%%d.S4, V%%d.S4", by), both, y)
			f.op(fmt.Sprintf("VSRI $%d, V%%d.S4, V%%d.S4", 32-by), both, y)
		}
	}
	f.repeat(groups, func() {
		f.op("MOVD $4, R%d", passes)
		f.repeat(passes, func() {
			var x [16]*reg
			f.op("MOVD R%d, R%d", in, at)
			for j := range x {
				x[j] = f.everyAt(at)
				if j == counterWord {
					x[j] = f.copyOf(counter)
				}
			}
			f.op(fmt.Sprintf("MOVD $%d, R%%d", doubleRounds), rounds)
			f.repeat(rounds, func() {
				for _, round := range [][4][4]int{columns, diagonals} {
					half := func(sum, add, mix, by int) {
						for _, q := range round {
							f.op("VADD V%d.S4, V%d.S4, V%d.S4", x[q[add]], x[q[sum]], x[q[sum]])
						}
						for _, q := range round {
							rotate(x[q[sum]], x[q[mix]], by)
						}
					}
					half(0, 1, 3, 16)
					half(2, 3, 1, 12)
					half(0, 1, 3, 8)
					half(2, 3, 1, 7)
				}
			})
			f.op("MOVD R%d, R%d", in, at)
			for j, w := range x {
				start := f.everyAt(at)
				if j == counterWord {
					start = counter
				}
				f.op("VADD V%d.S4, V%d.S4, V%d.S4", start, w, w)
				f.store(w, dst, 4*blockLanes*j)
			}
			f.op("VADD V%d.S4, V%d.S4, V%d.S4", fours, counter, counter)
			f.addTo(dst, 16)
		})
		f.addTo(dst, groupBytes-4*blockLanes)
	})
	f.ret()
	return []*function{f}
}
