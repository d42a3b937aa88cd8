package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
)

// smallCharsMap returns a map of a few characters, as base64: ﬁ, ㍿, e with an acute accent of two
// characters, the ideographic space and carriage return.
func smallCharsMap() string {
	entries := []struct{ from, to string }{
		{"\r", " "}, {"e\u0301", "é"}, {"\u3000", " "}, {"ﬁ", "fi"}, {"㍿", "株式会社"}, {"Ⅳ", "IV"}, {"\u200d", ""}, {"１", "1"},
	}
	var replacements []byte
	type node struct {
		children map[byte]*node
		value    uint32
		leaf     bool
	}
	root := &node{children: map[byte]*node{}}
	for _, e := range entries {
		at := root
		for i := range len(e.from) {
			if at.children[e.from[i]] == nil {
				at.children[e.from[i]] = &node{children: map[byte]*node{}}
			}
			at = at.children[e.from[i]]
		}
		at.leaf, at.value = true, uint32(len(replacements))
		replacements = append(append(replacements, e.to...), 0)
	}
	// Each node has 256 units of its own: the child for c is at the node's block, exclusive or c.
	units := make([]uint32, 256)
	var place func(n *node, unit int)
	place = func(n *node, unit int) {
		block := len(units)
		units = append(units, make([]uint32, 256)...)
		distance := uint32(unit ^ block) // from a unit to its block
		units[unit] |= distance << 10
		if n.leaf {
			units[unit] |= 1 << 8
			units[block] = n.value | 1<<31
		}
		for c := range 256 {
			if child := n.children[byte(c)]; child != nil {
				units[block^c] |= uint32(c)
				place(child, block^c)
			}
		}
	}
	place(root, 0)
	content := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		content = binary.LittleEndian.AppendUint32(content, u)
	}
	return base64.StdEncoding.EncodeToString(append(content, replacements...))
}
