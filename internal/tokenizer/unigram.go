package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// unigram cuts a text into the pieces with the largest sum of scores (Kudo 2018).
type unigram struct {
	pieces  trie
	scores  []float64
	unknown int32   // −1: there is none
	penalty float64 // the score of an unknown character
	bytes   *[256]int32
}

// unknownPenalty is how far below all pieces an unknown character is.
const unknownPenalty = 10

func parseUnigram(m *typed) (*unigram, map[string]int32, error) {
	var s struct {
		UnkID        *int32        `json:"unk_id"`
		Vocab        []scoredPiece `json:"vocab"`
		ByteFallback bool          `json:"byte_fallback"`
	}
	if err := m.into(&s); err != nil {
		return nil, nil, err
	}
	u := &unigram{unknown: -1, penalty: math.Inf(1)}
	vocabulary := map[string]int32{}
	for i, p := range s.Vocab {
		if _, twice := vocabulary[p.text]; twice || p.text == "" || i > maxID {
			return nil, nil, fmt.Errorf("piece %d, %.40q, is empty, occurs twice or is beyond the largest id %d", i, p.text, maxID)
		}
		vocabulary[p.text] = int32(i)
		u.pieces.insert(p.text, int32(i))
		u.scores = append(u.scores, p.score)
		u.penalty = min(u.penalty, p.score-unknownPenalty)
	}
	if err := checkVocabulary(vocabulary); err != nil {
		return nil, nil, err
	}
	if s.UnkID != nil {
		if u.unknown = *s.UnkID; u.unknown < 0 || int(u.unknown) >= len(s.Vocab) {
			return nil, nil, fmt.Errorf("unk_id %d is not an id below %d", u.unknown, len(s.Vocab))
		}
	} else {
		return nil, nil, fmt.Errorf("Unigram without unk_id is not supported")
	}
	if s.ByteFallback {
		u.bytes = byteTokens(vocabulary)
	}
	return u, vocabulary, nil
}

// scoredPiece is a piece and its score, as a list of two.
type scoredPiece struct {
	text  string
	score float64
}

func (p *scoredPiece) UnmarshalJSON(text []byte) error {
	var score json.Number
	pair := []any{&p.text, &score}
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 || score == "" {
		return fmt.Errorf("a piece is a list of its text and its score")
	}
	var err error
	p.score, err = parseScore(score.String())
	return err
}

// byteTokens returns the ids of the pieces <0x00> to <0xFF>; −1 where there is none.
func byteTokens(vocabulary map[string]int32) *[256]int32 {
	var ids [256]int32
	for b := range ids {
		ids[b] = -1
		if id, ok := vocabulary[fmt.Sprintf("<0x%02X>", b)]; ok {
			ids[b] = id
		}
	}
	return &ids
}

// appendBytes appends the pieces of a text's bytes, if the vocabulary has all of them.
func appendBytes(ids []int32, bytes *[256]int32, text string) (_ []int32, ok bool) {
	if bytes == nil {
		return ids, false
	}
	for i := range len(text) {
		if bytes[text[i]] < 0 {
			return ids, false
		}
	}
	for i := range len(text) {
		ids = append(ids, bytes[text[i]])
	}
	return ids, true
}

func (u *unigram) appendIDs(ids []int32, text string) []int32 {
	type end struct {
		score float64
		from  int32 // −1: no path ends here
		id    int32
	}
	best := make([]end, len(text)+1)
	for i := range best {
		best[i].from = -1
	}
	reach := func(from, to int, id int32, score float64) {
		score += best[from].score
		if e := &best[to]; e.from < 0 || score > e.score {
			*e = end{score, int32(from), id}
		}
	}
	for from := 0; from < len(text); {
		_, size := utf8.DecodeRuneInString(text[from:])
		known := false
		node := int32(0)
		for i := from; i < len(text); i++ {
			if node = u.pieces.nodes[node].child(text[i]); node == 0 {
				break
			}
			if v := u.pieces.nodes[node].value; v > 0 {
				reach(from, i+1, v-1, u.scores[v-1])
				known = known || i+1-from == size
			}
		}
		if !known {
			reach(from, from+size, u.unknown, u.penalty)
		}
		from += size
	}
	first := len(ids)
	for to := len(text); to > 0; {
		from := int(best[to].from)
		if id := best[to].id; id != u.unknown {
			ids = append(ids, id)
			to = from
			continue
		}
		for from > 0 && best[from].id == u.unknown { // unknown neighbours become one
			from = int(best[from].from)
		}
		ids = u.appendUnknown(ids, text[from:to])
		to = from
	}
	slices.Reverse(ids[first:])
	return ids
}

// appendUnknown appends the ids of an unknown text, the last first.
func (u *unigram) appendUnknown(ids []int32, text string) []int32 {
	if length, id := u.pieces.longest(text); length == len(text) {
		return append(ids, id)
	}
	first := len(ids)
	ids, ok := appendBytes(ids, u.bytes, text)
	if !ok {
		return append(ids, u.unknown)
	}
	slices.Reverse(ids[first:])
	return ids
}
