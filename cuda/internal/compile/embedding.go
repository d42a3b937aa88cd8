//go:build gpu

package compile

import (
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

// lowerEmbeddingOp queues table lookups and their gradient.
func lowerEmbeddingOp(c *compiler, spec op.Operation, k call) bool {
	switch s := spec.(type) {
	case op.Embed:
		vocabulary, width := k.shapes[0][0], k.shapes[0][1]
		c.launch("embed", blocks(k.results()), threads, k.out, k.in[0], k.in[1],
			int32(k.results()), int32(vocabulary), int32(width), int32(k.formats[0]))
	case op.EmbedBag:
		lowerEmbedBag(c, s, k)
	case op.EmbedGrad:
		launchScatterAdd(c, op.Gather(s), k, 0)
	default:
		return false
	}
	return true
}

// lowerEmbedBag assigns a block to each bag; its threads divide columns and steps.
func lowerEmbedBag(c *compiler, s op.EmbedBag, k call) {
	vocabulary, width, columns := k.shapes[0][0], k.shapes[0][1], 1
	for columns < min(width, 32) {
		columns *= 2
	}
	grid := dim{uint32(k.shape[0]), uint32(ceil(width, columns)), 1}
	c.launch("embed_bag", grid, threads, k.out, k.in[0], k.in[1],
		int32(k.shapes[1][1]), int32(vocabulary), int32(width), int32(columns), float32(s.Scale))
}

// launchScatterAdd adds rows of Δ to the table rows named by the indices, each multiplied
// by its record's clip factor where factors is not 0. Each block owns the table rows whose
// number modulo the number of blocks equals the block's number.
func launchScatterAdd(c *compiler, f op.Gather, k call, factors driver.Pointer) {
	if !k.accumulate {
		c.zero(k.out, 4*k.results())
	}
	n, each := k.size(0), 1
	if factors != 0 {
		each = n / k.size(2)
	}
	grid := dim{uint32(min(f.Vocabulary, 2*c.device.Multiprocessors())), 1, 1}
	c.launch("gather_sum", grid, dim{512, 1, 1}, k.out, k.in[0], k.in[1], factors,
		int32(n), int32(each), int32(f.Vocabulary), int32(f.Dim), int32(f.Bag))
}

// scatterAddRoundings is an upper bound on the number of sums of other records' rows that
// launchScatterAdd adds to a record's contribution, for this many rows. A list of 2048 to
// 4096 rows is divided among 16 to 512 groups of threads: a group adds its rows one by
// one, then its sum is added to that of the group before it.
func scatterAddRoundings(rows int) int { return rows/2048 + 1 + 4096/16 + 512 }

// gatherRoom is how many keys of a record fit shared memory: list_capacity of
// kernels/embedding.cu.
const gatherRoom = 4096

// launchSortedGather queues a kernel that sorts each record's indices, one block per
// record. Long records are sorted in scratch memory.
func launchSortedGather(c *compiler, kernel string, f op.Gather, records int, k call) {
	rows, slots := k.size(0)/records, 1
	for slots < rows {
		slots *= 2
	}
	var keys driver.Pointer
	if slots > gatherRoom {
		keys = c.allocScratch(8 * records * slots)
	}
	c.launch(kernel, dim{uint32(records), 1, 1}, threads, k.out, k.in[0], k.in[1], keys,
		int32(rows), int32(slots), int32(f.Vocabulary), int32(f.Dim), int32(f.Bag))
}
