package ngrams

import (
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// The indices are those of zlib in Python:
//
//	[zlib.crc32(g.encode()) % 32768 for g in grams]
func TestAdd_KnownAnswers(t *testing.T) {
	for word, want := range map[string][]float32{
		"":        nil,
		"ok":      nil,
		"é\u0301": nil,
		"the":     {11505, 28678, 3456},
		"film":    {21002, 15906, 23952, 17316, 30588},
		"naïve":   {14665, 29281, 14834, 31470, 25353, 358, 28847},
		"日本語":     {19595, 28547, 28610},
	} {
		got := add(NewHasher(1<<15), word)
		if !slices.Equal(got, want) {
			t.Errorf("%q has the indices %v; want %v", word, got, want)
		}
	}
}

// A text has no index twice, the index of all texts first, and at most limit others.
func TestAdd_DistinctIndices(t *testing.T) {
	h := NewHasher(50)
	for range 3 {
		indices := h.Begin(nil)
		for _, word := range strings.Fields("the quick brown fox jumps over the lazy dog the fox") {
			indices = h.Add(indices, word, 25-len(indices))
		}
		if sorted := slices.Compact(slices.Sorted(slices.Values(indices))); len(sorted) != len(indices) || len(indices) != 25 || indices[0] != 50 || h.Count() != 51 {
			t.Errorf("%d indices, %d of them distinct: %v", len(indices), len(sorted), indices)
		}
	}
}

// A word is cut, so that it does not decide how much memory the hasher takes.
func TestAdd_LongWord(t *testing.T) {
	h := NewHasher(1 << 20)
	long := strings.Repeat("ab€😀", 1<<16)
	indices := h.Add(h.Begin(nil), long, 1<<20)
	if cut := add(NewHasher(1<<20), strings.Repeat("ab€😀", longestWord/4)); !slices.Equal(indices[1:], cut) {
		t.Errorf("%d indices, want those of the first %d signs", len(indices), longestWord)
	}
	if bytes := cap(h.word) + cap(h.starts)*int(unsafe.Sizeof(h.starts[0])); bytes > 4096 {
		t.Errorf("a word of %d bytes takes %d bytes", len(long), bytes)
	}
}

// Texts without new n-grams allocate nothing.
func TestAdd_DoesNotAllocate(t *testing.T) {
	h, indices := NewHasher(1<<15), make([]float32, 0, 100)
	if n := testing.AllocsPerRun(10, func() { h.Add(h.Begin(indices[:0]), "tokenization", 90) }); n != 0 {
		t.Errorf("%v allocations for a text", n)
	}
}

// The counter of texts passes its largest value.
func TestBegin_CounterWraps(t *testing.T) {
	h := NewHasher(1 << 15)
	h.text = ^uint32(0) - 1
	for range 4 {
		if got := h.Add(h.Begin(nil)[1:], "abc", 9); len(got) != 3 {
			t.Errorf("text %d has %d n-grams, want 3", h.text, len(got))
		}
	}
}

// add returns the indices of the n-grams of a text of one word.
func add(h *Hasher, word string) []float32 { return h.Add(h.Begin(nil), word, 1<<20)[1:] }
