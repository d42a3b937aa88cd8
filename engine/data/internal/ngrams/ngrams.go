// Package ngrams maps the words of a text to indices of hashed n-grams (Shi et al. 2009, "Hash kernels";
// Bojanowski et al. 2017 for the n-grams of a word between < and >). It needs no vocabulary, so
// none has to be public.
//
// The index of an n-gram is its CRC-32 (IEEE 802.3, as in zlib) over UTF-8, modulo the number of
// buckets. It is a fixed public function: in Python, zlib.crc32(ngram.encode()) % buckets.
package ngrams

import (
	"hash/crc32"
	"unicode/utf8"
)

const (
	shortestWord = 3 // signs; most shorter words have a grammatical function only
	longestWord  = 64
	shortest     = 4 // signs of an n-gram
	longest      = 5
)

// Hasher lists the distinct indices of one text after the other.
type Hasher struct {
	buckets int
	seen    []uint32 // of each index, the last text that has it
	text    uint32
	word    []byte // <word>
	starts  []int  // of the signs of word, and its length
}

// NewHasher returns a hasher. Indices of n-grams are below buckets. The index buckets stands for
// the text itself: every text has it, so its weight is a bias.
func NewHasher(buckets int) *Hasher {
	return &Hasher{buckets: buckets, seen: make([]uint32, buckets)}
}

// Count is the number of indices.
func (h *Hasher) Count() int { return h.buckets + 1 }

// Begin begins a text and appends the index that every text has.
func (h *Hasher) Begin(indices []float32) []float32 {
	if h.text++; h.text == 0 { // after 2^32 texts
		clear(h.seen)
		h.text = 1
	}
	return append(indices, float32(h.buckets))
}

// Add appends the indices of a word that the text does not have yet, at most limit. A word in
// lower case is expected. Words of less than three signs have none.
func (h *Hasher) Add(indices []float32, word string, limit int) []float32 {
	h.word, h.starts = append(h.word[:0], '<'), append(h.starts[:0], 0)
	signs := 0
	for _, r := range word {
		if signs++; signs > longestWord {
			break
		}
		h.starts = append(h.starts, len(h.word))
		h.word = utf8.AppendRune(h.word, r)
	}
	if signs < shortestWord {
		return indices
	}
	h.starts = append(h.starts, len(h.word), len(h.word)+1)
	h.word = append(h.word, '>')
	last := len(h.starts) - 1
	for n := shortest; n <= min(longest, last); n++ {
		for from := 0; from+n <= last && limit > 0; from++ {
			index := crc32.ChecksumIEEE(h.word[h.starts[from]:h.starts[from+n]]) % uint32(h.buckets)
			if h.seen[index] != h.text {
				h.seen[index] = h.text
				indices = append(indices, float32(index))
				limit--
			}
		}
	}
	return indices
}
