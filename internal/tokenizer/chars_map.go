package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/rivo/uniseg"
)

// charsMap replaces characters as SentencePiece does (Kudo & Richardson 2018). Its file consists of the
// length of a trie, the trie as a double array (Aoe 1989), and the replacements, each with a zero byte
// at its end.
type charsMap struct {
	units        []uint32
	replacements []byte
}

// longestCluster limits the bytes of characters that are replaced together.
const longestCluster = 5

func parseCharsMap(p *typed) (normalizer, error) {
	var s struct {
		Map string `json:"precompiled_charsmap"`
	}
	if err := p.into(&s); err != nil {
		return nil, err
	}
	content, err := base64.StdEncoding.DecodeString(s.Map)
	if err != nil {
		return nil, fmt.Errorf("Precompiled: the map is not base64")
	}
	if len(content) == 0 {
		return nil, nil
	}
	if len(content) < 4 {
		return nil, fmt.Errorf("Precompiled: the map has %d bytes; its first 4 are a length", len(content))
	}
	size := binary.LittleEndian.Uint32(content)
	if content = content[4:]; uint64(size) > uint64(len(content)) || size%4 != 0 || size == 0 {
		return nil, fmt.Errorf("Precompiled: the map states a trie of %d bytes, and has %d", size, len(content))
	}
	m := &charsMap{replacements: content[size:]}
	for i := uint32(0); i < size; i += 4 {
		m.units = append(m.units, binary.LittleEndian.Uint32(content[i:]))
	}
	return m.apply, nil
}

// The parts of a unit of the double array.
func offset(unit uint32) uint32    { return unit >> 10 << (unit & (1 << 9) >> 6) }
func label(unit uint32) uint32     { return unit & (1<<31 | 0xff) }
func hasLeaf(unit uint32) bool     { return unit>>8&1 == 1 }
func leafValue(unit uint32) uint32 { return unit & (1<<31 - 1) }

// replacement returns what the shortest beginning of the characters that has a replacement becomes.
func (m *charsMap) replacement(chars string) (string, bool) {
	at := offset(m.units[0])
	for i := range len(chars) {
		c := uint32(chars[i])
		if at ^= c; c == 0 || at >= uint32(len(m.units)) {
			return "", false
		}
		unit := m.units[at]
		if label(unit) != c {
			return "", false
		}
		if at ^= offset(unit); at >= uint32(len(m.units)) {
			return "", false
		}
		if hasLeaf(unit) {
			from := leafValue(m.units[at])
			if from > uint32(len(m.replacements)) {
				return "", false
			}
			text, _, _ := bytes.Cut(m.replacements[from:], []byte{0})
			return string(text), true
		}
	}
	return "", false
}

func (m *charsMap) apply(text string) string {
	b := make([]byte, 0, len(text))
	for state := -1; text != ""; {
		var cluster string
		cluster, text, _, state = uniseg.FirstGraphemeClusterInString(text, state)
		if len(cluster) <= longestCluster {
			if to, ok := m.replacement(cluster); ok {
				b = append(b, to...)
				continue
			}
		}
		for _, r := range cluster {
			if to, ok := m.replacement(string(r)); ok {
				b = append(b, to...)
			} else {
				b = append(b, string(r)...)
			}
		}
	}
	return string(b)
}
