package data

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pad is the index and the label of a step after the end of an example.
const Pad = -1

// The conversions of text to indices. A third conversion is a number.
const (
	byBytes = "bytes"
	byWords = "words"
)

// newline marks the beginning and the end of a text of bytes.
const newline = '\n'

// ParseTokens parses the value of the flag --tokens, the conversion of text to indices:
// bytes, for 256 indices; words:FILE, a public vocabulary with one word in each line; or a
// number of indices, if the text already consists of indices. A vocabulary collected from
// private texts would reveal their rare words, so take it from a dictionary or from public
// texts.
func ParseTokens(text string) (tokens string, words []string, err error) {
	if file, ok := strings.CutPrefix(text, byWords+":"); ok {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", nil, fmt.Errorf("tokens: cannot read the vocabulary %s: %w", file, withoutPath(err))
		}
		for line := range strings.Lines(strings.TrimPrefix(string(content), "\ufeff")) {
			if word := strings.TrimSpace(line); word != "" {
				words = append(words, word)
			}
		}
		if err := checkWords(words); err != nil {
			return "", nil, fmt.Errorf("%s: %w", file, err)
		}
		return byWords, words, nil
	}
	return text, nil, checkTokens(text, nil)
}

func checkTokens(tokens string, words []string) error {
	if tokens != byWords && len(words) > 0 {
		return fmt.Errorf("words are given with tokens %q; write tokens: words", tokens)
	}
	switch tokens {
	case byBytes:
		return nil
	case byWords:
		if len(words) == 0 {
			return errors.New("tokens: words needs a public vocabulary; write words:FILE, a file with one word in each line")
		}
		return checkWords(words)
	}
	if n, err := strconv.Atoi(tokens); err != nil || n < 2 || n > maxClasses {
		return fmt.Errorf("tokens %q: write bytes, words:FILE with a public vocabulary, or the number of indices, from 2 to 2^24", tokens)
	}
	return nil
}

// checkWords returns an error if the vocabulary has a word that splitWords never
// returns.
func checkWords(words []string) error {
	if len(words) == 0 {
		return errors.New("the vocabulary has no words; write one word in each line")
	}
	if len(words) > maxClasses-2 {
		return fmt.Errorf("the vocabulary has %d words; at most 2^24-2 words are supported", len(words))
	}
	if w, twice := repeated(words); twice {
		return fmt.Errorf("the vocabulary contains %q twice", w)
	}
	for _, w := range words {
		if split := slices.Collect(splitWords(w)); len(split) != 1 || split[0] != w {
			return fmt.Errorf("the vocabulary contains %q, but texts are split into %q; write words in lower case, and each sign as a separate word", w, split)
		}
	}
	return nil
}

// splitWords yields the words of a text in lower case. A word is a run of letters, digits and
// apostrophes, or any other single sign. White space separates words.
func splitWords(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from := -1
		text := strings.ToLower(text) // the result is valid UTF-8
		for i, r := range text {
			if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '\'' {
				if from < 0 {
					from = i
				}
				continue
			}
			if from >= 0 && !yield(text[from:i]) {
				return
			}
			from = -1
			if !unicode.IsSpace(r) && !yield(text[i:i+utf8.RuneLen(r)]) {
				return
			}
		}
		if from >= 0 {
			yield(text[from:])
		}
	}
}

// tokenizer converts texts to examples of one public length. The example depends only on
// its text and on public settings.
type tokenizer struct {
	kind   string
	words  map[string]int // the vocabulary
	count  int            // number of indices
	edge   int            // the index at the beginning and the end of a text of a language model; otherwise Pad
	length int
	next   bool // each step predicts the next index
}

// tokenizer returns the tokenizer that the schema describes.
func (s Schema) tokenizer() (*tokenizer, error) {
	if s.Tokens == "" {
		return nil, errors.New("the conversion of text to indices is not given; write --tokens bytes, --tokens words:FILE with a public vocabulary, or --tokens COUNT for indices below COUNT")
	}
	if s.Length < 1 {
		return nil, errors.New("the number of indices of an example is not given; write --length with a public number; longer texts are cut and shorter texts are padded")
	}
	t := &tokenizer{kind: s.Tokens, edge: Pad, length: s.Length, next: s.PredictNext}
	switch s.Tokens {
	case byBytes:
		t.count = 256
		if s.PredictNext {
			t.edge = newline
		}
	case byWords:
		t.words, t.count = indexOf(s.Words), len(s.Words)+1 // all other words share one index
		if s.PredictNext {
			t.edge = t.count
			t.count++
		}
	default:
		t.count, _ = strconv.Atoi(s.Tokens) // validate has checked it
	}
	return t, nil
}

// add appends a text's indices: at most as many as an example needs, and one more if each
// step predicts the next index.
func (t *tokenizer) add(ids []float32, text string) ([]float32, error) {
	from, limit := len(ids), t.length
	if t.next {
		limit++
	}
	if t.edge != Pad {
		ids = append(ids, float32(t.edge))
	}
	switch t.kind {
	case byBytes:
		for i := 0; i < min(len(text), t.length); i++ {
			ids = append(ids, float32(text[i]))
		}
	case byWords:
		for w := range splitWords(text) {
			if len(ids)-from == limit {
				break
			}
			index, ok := t.words[w]
			if !ok {
				index = len(t.words)
			}
			ids = append(ids, float32(index))
		}
	default:
		for w := range strings.FieldsSeq(text) {
			index, err := strconv.Atoi(w)
			if err != nil || index < Pad || index >= t.count {
				return nil, fmt.Errorf("an index is not a whole number from 0 to %d, or -1 for padding", t.count-1)
			}
			if len(ids)-from < limit { // an index that is not needed must be valid, too
				ids = append(ids, float32(index))
			}
		}
	}
	if t.edge != Pad {
		ids = append(ids, float32(t.edge))
	}
	return ids[:min(len(ids), from+limit)], nil
}

// columns returns the network's inputs if the features are indices. Output is the column
// to predict if the network does not predict the next index.
func (t *tokenizer) columns(output Column) []Column {
	features := Column{Name: "features", Kind: Index, Shape: []int{t.length}, Classes: t.count}
	if t.next {
		return []Column{features, {Name: "next", Kind: Label, Shape: []int{t.length}, Classes: t.count}}
	}
	return []Column{features, output}
}
