package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// wordPiece cuts a word into the longest pieces from its beginning on (Wu et al. 2016). A word that
// cannot be cut is unknown as a whole.
type wordPiece struct {
	begin, inside trie // of pieces at the beginning of a word and inside it
	unknown       int32
	longest       int // characters of a word; a longer word is unknown
}

func parseWordPiece(m *typed) (*wordPiece, map[string]int32, error) {
	s := struct {
		UnkToken string           `json:"unk_token"`
		Prefix   string           `json:"continuing_subword_prefix"`
		Longest  int              `json:"max_input_chars_per_word"`
		Vocab    map[string]int32 `json:"vocab"`
	}{Prefix: "##", Longest: 100}
	if err := m.into(&s); err != nil {
		return nil, nil, err
	}
	if err := checkVocabulary(s.Vocab); err != nil {
		return nil, nil, err
	}
	unknown, ok := s.Vocab[s.UnkToken]
	if !ok {
		return nil, nil, fmt.Errorf("the vocabulary does not have the token %.40q for unknown words", s.UnkToken)
	}
	w := &wordPiece{unknown: unknown, longest: s.Longest}
	for piece, id := range s.Vocab {
		if piece != "" {
			w.begin.insert(piece, id)
		}
		if rest, ok := strings.CutPrefix(piece, s.Prefix); ok && rest != "" {
			w.inside.insert(rest, id)
		}
	}
	return w, s.Vocab, nil
}

func (w *wordPiece) appendIDs(ids []int32, word string) []int32 {
	if len(word) > w.longest && utf8.RuneCountInString(word) > w.longest {
		return append(ids, w.unknown)
	}
	from, pieces := len(ids), &w.begin
	for word != "" {
		length, id := pieces.longest(word)
		if length == 0 {
			return append(ids[:from], w.unknown)
		}
		ids, word, pieces = append(ids, id), word[length:], &w.inside
	}
	return ids
}
