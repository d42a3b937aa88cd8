package pretrained

import (
	"fmt"
	"slices"
	"strings"
)

// finalNorms are the norms behind the last block.
var finalNorms = []string{"norm.", "ln_f.", "layernorm."}

// isInLastBlocks reports whether a parameter is in a block that is trained, or behind all blocks. The blocks in front of those
// that last=N names are frozen, with the embeddings: their outputs do not change.
func (m *Model) isInLastBlocks(name string) bool {
	own := strings.TrimPrefix(name, m.prefix)
	if m.Tuning.Last == 0 || m.isHead(name) || slices.ContainsFunc(finalNorms, func(n string) bool { return strings.HasPrefix(own, n) }) {
		return true
	}
	return slices.ContainsFunc(m.lastBlocks(), func(i int) bool { return strings.HasPrefix(own, fmt.Sprintf(m.block, i)) })
}

// lastBlocks returns the numbers of the blocks that last=N names.
func (m *Model) lastBlocks() (list []int) {
	for i := m.layers - m.Tuning.Last; i < m.layers; i++ {
		list = append(list, i)
	}
	return list
}
