package tokenizer

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// bpe joins the pair of neighbours whose merge comes first in a list, until no pair is in the list
// (Sennrich et al. 2016). It begins with the characters of a word or, bytewise, with its bytes.
type bpe struct {
	vocabulary map[string]int32 // bytewise, the keys are bytes
	merges     map[[2]int32]merge
	unknown    int32 // −1: an unknown character is left out
	fuse       bool  // unknown neighbours become one
	bytes      *[256]int32
	whole      bool // a word of the vocabulary is not cut
	bytewise   bool
	byteIDs    [256]int32 // bytewise: −1 where the vocabulary lacks the byte
	asciiIDs   [utf8.RuneSelf]int32
}

type merge struct{ rank, id int32 }

// shortWord is the number of symbols up to which the next pair is searched in all of them.
const shortWord = 48

func parseBPE(m *typed, bytewise bool) (*bpe, map[string]int32, error) {
	var s struct {
		Dropout  *float64
		UnkToken *string          `json:"unk_token"`
		Prefix   *string          `json:"continuing_subword_prefix"`
		Suffix   *string          `json:"end_of_word_suffix"`
		FuseUnk  bool             `json:"fuse_unk"`
		Fallback bool             `json:"byte_fallback"`
		Whole    bool             `json:"ignore_merges"`
		Vocab    map[string]int32 `json:"vocab"`
		Merges   []mergePair      `json:"merges"`
	}
	if err := m.into(&s); err != nil {
		return nil, nil, err
	}
	switch {
	case s.Dropout != nil && *s.Dropout != 0:
		return nil, nil, fmt.Errorf("dropout is not supported")
	case s.Prefix != nil && *s.Prefix != "":
		return nil, nil, fmt.Errorf("continuing_subword_prefix is not supported")
	case s.Suffix != nil && *s.Suffix != "":
		return nil, nil, fmt.Errorf("end_of_word_suffix is not supported")
	case len(s.Merges) > math.MaxInt32:
		return nil, nil, fmt.Errorf("%d merges are too many", len(s.Merges))
	}
	if err := checkVocabulary(s.Vocab); err != nil {
		return nil, nil, err
	}
	b := &bpe{vocabulary: s.Vocab, merges: make(map[[2]int32]merge, len(s.Merges)), unknown: -1,
		fuse: s.FuseUnk, whole: s.Whole, bytewise: bytewise}
	if s.UnkToken != nil && *s.UnkToken != "" {
		id, ok := s.Vocab[*s.UnkToken]
		if !ok {
			return nil, nil, fmt.Errorf("the vocabulary does not have the token %.40q for unknown characters", *s.UnkToken)
		}
		b.unknown = id
	}
	for i, pair := range s.Merges {
		first, ok1 := s.Vocab[pair[0]]
		second, ok2 := s.Vocab[pair[1]]
		joined, ok3 := s.Vocab[pair[0]+pair[1]]
		if !ok1 || !ok2 || !ok3 || pair[0] == "" || pair[1] == "" {
			return nil, nil, fmt.Errorf("merge %d joins %.40q and %.40q: both and the result must be in the vocabulary", i, pair[0], pair[1])
		}
		b.merges[[2]int32{first, second}] = merge{int32(i), joined}
	}
	if s.Fallback {
		b.bytes = byteTokens(s.Vocab)
	}
	if bytewise {
		b.useBytes()
	}
	for c := range b.asciiIDs {
		b.asciiIDs[c] = -1
		if id, ok := b.vocabulary[string(rune(c))]; ok {
			b.asciiIDs[c] = id
		}
	}
	return b, s.Vocab, nil
}

// mergePair is a pair of pieces, as a list of two or as a string with a space between them.
type mergePair [2]string

func (p *mergePair) UnmarshalJSON(text []byte) error {
	var joined string
	if json.Unmarshal(text, &joined) == nil {
		first, second, ok := strings.Cut(joined, " ")
		if !ok || strings.Contains(second, " ") {
			return fmt.Errorf("the merge %.40q is not two pieces with a space between them", joined)
		}
		*p = mergePair{first, second}
		return nil
	}
	var pair []string
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a merge has %d pieces; it joins two", len(pair))
	}
	*p = mergePair(pair)
	return nil
}

// byteOf returns the byte that a character stands for in a bytewise vocabulary: printable bytes stand for
// themselves, and the others for the characters from U+0100 on, in order (Radford et al. 2019).
var byteOf = func() map[rune]byte {
	m, next := map[rune]byte{}, rune(0x100)
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			m[b] = byte(b)
		} else {
			m[next] = byte(b)
			next++
		}
	}
	return m
}()

// useBytes replaces the characters of the vocabulary by the bytes that they stand for. A piece
// with another character occurs in no word.
func (b *bpe) useBytes() {
	for i := range b.byteIDs {
		b.byteIDs[i] = -1
	}
	byBytes := make(map[string]int32, len(b.vocabulary))
	var key []byte
pieces:
	for piece, id := range b.vocabulary {
		key = key[:0]
		for _, r := range piece {
			c, ok := byteOf[r]
			if !ok {
				continue pieces
			}
			key = append(key, c)
		}
		byBytes[string(key)] = id
		if len(key) == 1 {
			b.byteIDs[key[0]] = id
		}
	}
	b.vocabulary = byBytes
}

func (b *bpe) appendIDs(ids []int32, word string) []int32 {
	if b.whole {
		if id, ok := b.vocabulary[word]; ok {
			return append(ids, id)
		}
	}
	from := len(ids)
	if b.bytewise {
		ids = b.appendByteSymbols(ids, word)
	} else {
		ids = b.appendSymbols(ids, word)
	}
	symbols := ids[from:]
	if len(symbols) <= shortWord {
		return ids[:from+b.mergeShort(symbols)]
	}
	return ids[:from+b.mergeLong(symbols)]
}

// appendByteSymbols appends the ids of a word's bytes.
func (b *bpe) appendByteSymbols(ids []int32, word string) []int32 {
	pending := false
	for i := range len(word) {
		id := b.byteIDs[word[i]]
		if id < 0 && b.unknown < 0 {
			continue
		}
		if id < 0 {
			if pending && b.fuse {
				continue
			}
			id, pending = b.unknown, true
		} else {
			pending = false
		}
		ids = append(ids, id)
	}
	return ids
}

// appendSymbols appends the ids of a word's characters. An unknown token is added when the next
// known character, or the end, is reached: the bytes of a character come before it.
func (b *bpe) appendSymbols(ids []int32, word string) []int32 {
	pending := false
	for at, size := 0, 0; at < len(word); at += size {
		id := int32(-1)
		if c := word[at]; c < utf8.RuneSelf {
			id, size = b.asciiIDs[c], 1
		} else {
			_, size = utf8.DecodeRuneInString(word[at:])
			if known, ok := b.vocabulary[word[at:at+size]]; ok {
				id = known
			}
		}
		if id >= 0 {
			if pending {
				ids, pending = append(ids, b.unknown), false
			}
			ids = append(ids, id)
			continue
		}
		var ok bool
		if ids, ok = appendBytes(ids, b.bytes, word[at:at+size]); ok || b.unknown < 0 {
			continue
		}
		if pending && !b.fuse {
			ids = append(ids, b.unknown)
		}
		pending = true
	}
	if pending {
		ids = append(ids, b.unknown)
	}
	return ids
}

// mergeShort merges symbols in place and returns how many remain.
func (b *bpe) mergeShort(symbols []int32) int {
	var ranks [shortWord]merge // of a symbol and the one behind it
	none := merge{rank: math.MaxInt32}
	pair := func(i int) merge {
		if i+1 < len(symbols) {
			if m, ok := b.merges[[2]int32{symbols[i], symbols[i+1]}]; ok {
				return m
			}
		}
		return none
	}
	for i := range symbols {
		ranks[i] = pair(i)
	}
	for {
		best := 0
		for i := 1; i < len(symbols); i++ {
			if ranks[i].rank < ranks[best].rank {
				best = i
			}
		}
		if len(symbols) == 0 || ranks[best].rank == none.rank {
			return len(symbols)
		}
		symbols[best] = ranks[best].id
		copy(symbols[best+1:], symbols[best+2:])
		copy(ranks[best+1:len(symbols)], ranks[best+2:len(symbols)])
		symbols = symbols[:len(symbols)-1]
		ranks[best] = pair(best)
		if best > 0 {
			ranks[best-1] = pair(best - 1)
		}
	}
}

// candidate is a pair that may be merged: the symbol at and the one behind it.
type candidate struct {
	merge
	at, first, second int32
}

type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	return c[i].rank < c[j].rank || c[i].rank == c[j].rank && c[i].at < c[j].at
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// mergeLong is mergeShort in a time of n·log n.
func (b *bpe) mergeLong(symbols []int32) int {
	n := int32(len(symbols))
	before, behind := make([]int32, n), make([]int32, n)
	for i := range n {
		before[i], behind[i] = i-1, i+1
	}
	var queue candidates
	propose := func(i int32) {
		if i < 0 || behind[i] == n {
			return
		}
		first, second := symbols[i], symbols[behind[i]]
		if m, ok := b.merges[[2]int32{first, second}]; ok {
			heap.Push(&queue, candidate{m, i, first, second})
		}
	}
	for i := range n {
		propose(i)
	}
	const gone = -1
	for len(queue) > 0 {
		c := heap.Pop(&queue).(candidate)
		next := behind[c.at]
		if symbols[c.at] != c.first || next == n || symbols[next] != c.second {
			continue // one of the two has been merged
		}
		symbols[c.at], symbols[next] = c.id, gone
		behind[c.at] = behind[next]
		if behind[next] < n {
			before[behind[next]] = c.at
		}
		propose(before[c.at])
		propose(c.at)
	}
	kept := 0
	for _, id := range symbols {
		if id != gone {
			symbols[kept] = id
			kept++
		}
	}
	return kept
}
