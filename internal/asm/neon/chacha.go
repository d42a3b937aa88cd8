package neon

import "fmt"

const (
	doubleRounds = 10
	counterWord  = 12
	blockLanes   = 16
	groupBytes   = 16 * blockLanes * 4
)

// columns and diagonals are the words of the state in the four quarter rounds of a column
// round and of a diagonal round.
var (
	columns   = [4][4]int{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}
	diagonals = [4][4]int{{0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13}, {3, 4, 9, 14}}
)

// chacha emits the NEON form of package noise's ChaCha groups. A register contains one word of
// four blocks; a pass computes eight blocks, a group takes two passes. On four pipelines, four
// interleaved quarter rounds would stall half the time; eight do not. Two words of each state
// stay in memory. They are among those that a quarter round needs last and finishes first.
func chacha() []*function {
	f := newFunction("groupsNEON", "func(dst *uint32, in *[16]uint32, groups int)")
	dst, in, groups := f.load("dst"), f.load("in"), f.load("groups")
	// On the stack: the words of each state that stay in memory, and the numbers of the blocks.
	const spilled, numbers = 8, 64
	slot := func(state int) int { return 32 * state }
	stack := f.locals(numbers + 32)
	storeVectors(f, []*reg{f.wordVector([4]uint32{0, 1, 2, 3}).reg, f.wordVector([4]uint32{4, 5, 6, 7}).reg}, stack, numbers)
	rotate8 := f.wordVector([4]uint32{0x02010003, 0x06050407, 0x0a09080b, 0x0e0d0c0f}).reg // the bytes of every word
	at, counter, passes, rounds := f.gp(), f.gp(), f.gp(), f.gp()
	f.op(fmt.Sprintf("MOVWU %d(R%%d), R%%d", 4*counterWord), in, counter)

	// rotate sets y to the words of x xor y, rotated.
	rotate := func(x, y *reg, by int) {
		both := xor(f, x, y)
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
	// initial returns the initial value of a word of both states. Words must be requested in
	// order.
	initial := func(word int) [2]*reg {
		x := loadBroadcast(f, at)
		if word != counterWord {
			return [2]*reg{x, x}
		}
		f.op("VDUP R%d, V%d.S4", counter, x)
		n := loadVectors(f, stack, numbers, 2)
		return [2]*reg{addInts(f, x, n[0]), addInts(f, x, n[1])}
	}
	repeat(f, groups, func() {
		f.op("MOVD $2, R%d", passes)
		repeat(f, passes, func() {
			var x [2][16]*reg
			f.op("MOVD R%d, R%d", in, at)
			for j := range x[0] {
				for i, w := range initial(j) {
					if x[i][j] = copyOf(f, w); j == spilled+1 {
						storeVectors(f, x[i][spilled:j+1], stack, slot(i))
					}
				}
			}
			f.op(fmt.Sprintf("MOVD $%d, R%%d", doubleRounds), rounds)
			repeat(f, rounds, func() {
				for _, round := range [][4][4]int{columns, diagonals} {
					half := func(sum, add, mix, by int) {
						for i := range x {
							x := &x[i]
							if sum == 2 {
								copy(x[spilled:], loadVectors(f, stack, slot(i), 2))
							}
							for _, q := range round {
								f.op("VADD V%d.S4, V%d.S4, V%d.S4", x[q[add]], x[q[sum]], x[q[sum]])
							}
							for _, q := range round {
								rotate(x[q[sum]], x[q[mix]], by)
							}
							if sum == 2 {
								storeVectors(f, x[spilled:spilled+2], stack, slot(i))
							}
						}
					}
					half(0, 1, 3, 16)
					half(2, 3, 1, 12)
					half(0, 1, 3, 8)
					half(2, 3, 1, 7)
				}
			})
			f.op("MOVD R%d, R%d", in, at)
			for j := range x[0] {
				for i, w := range initial(j) {
					if j == spilled {
						copy(x[i][j:], loadVectors(f, stack, slot(i), 2))
					}
					f.op("VADD V%d.S4, V%d.S4, V%d.S4", w, x[i][j], x[i][j])
				}
				storeVectors(f, []*reg{x[0][j], x[1][j]}, dst, 4*blockLanes*j)
			}
			increment(f, counter, 8)
			increment(f, dst, 32)
		})
		increment(f, dst, groupBytes-4*blockLanes)
	})
	f.ret()
	return []*function{f}
}
