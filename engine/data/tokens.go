package data

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pad is the index, and the label, of a step that an example does not reach.
const Pad = -1

// The ways to turn text into indices; a count is a third.
const (
	byBytes = "bytes"
	byWords = "words"
)

// newline is where a text begins and ends, by bytes.
const newline = '\n'

// ParseTokens reads how text becomes indices: bytes, of which there are 256;
// words:FILE, a public vocabulary of one word a line; or a count, where the text
// is indices already. A vocabulary gathered from private texts would give away
// their rare words: take it from a dictionary, or from public texts.
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
		return fmt.Errorf("words are given, and tokens %q: write tokens: words", tokens)
	}
	switch tokens {
	case byBytes:
		return nil
	case byWords:
		if len(words) == 0 {
			return errors.New("tokens by words need a public vocabulary; write words:FILE, a file of one word a line")
		}
		return checkWords(words)
	}
	if n, err := strconv.Atoi(tokens); err != nil || n < 2 || n > maxClasses {
		return fmt.Errorf("tokens %q: write bytes, words:FILE with a public vocabulary, or how many indices there are, from 2 to 2^24", tokens)
	}
	return nil
}

// checkWords refuses a vocabulary with a word that no text is ever cut into.
func checkWords(words []string) error {
	if len(words) == 0 {
		return errors.New("the vocabulary has no words; write one a line")
	}
	if len(words) > maxClasses-2 {
		return fmt.Errorf("the vocabulary has %d words; at most 2^24-2 can be told apart", len(words))
	}
	if w, twice := repeated(words); twice {
		return fmt.Errorf("the vocabulary has %q twice", w)
	}
	for _, w := range words {
		if cut := cutWords(w); len(cut) != 1 || cut[0] != w {
			return fmt.Errorf("the vocabulary has %q, and texts are cut into %q; write words in lower case, signs by themselves", w, cut)
		}
	}
	return nil
}

// cutWords cuts a text as tokens by words do: runs of letters, digits and
// apostrophes, in lower case, and every other sign by itself; space separates.
func cutWords(text string) []string {
	var list []string
	from := -1
	text = strings.ToLower(text) // of which every byte is valid UTF-8
	for i, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '\'' {
			if from < 0 {
				from = i
			}
			continue
		}
		if from >= 0 {
			list, from = append(list, text[from:i]), -1
		}
		if !unicode.IsSpace(r) {
			list = append(list, text[i:i+utf8.RuneLen(r)])
		}
	}
	if from >= 0 {
		list = append(list, text[from:])
	}
	return list
}

// tokenizer turns texts into examples of one public length. What it makes of a
// text depends on that text and on public settings alone.
type tokenizer struct {
	kind   string
	known  map[string]int // words
	count  int            // of indices
	edge   int            // the index that a text begins and ends with, where each step predicts the next; or Pad
	length int
	next   bool
}

// tokenizer is the one that the schema describes.
func (s Schema) tokenizer() (*tokenizer, error) {
	if s.Tokens == "" {
		return nil, errors.New("how text becomes indices was not given; write --tokens bytes, --tokens words:FILE with a public vocabulary, or --tokens COUNT for indices below COUNT")
	}
	if s.Length < 1 {
		return nil, errors.New("how many indices an example has was not given; write --length with a public number: longer texts are cut, shorter ones padded")
	}
	t := &tokenizer{kind: s.Tokens, edge: Pad, length: s.Length, next: s.PredictNext}
	switch s.Tokens {
	case byBytes:
		t.count = 256
		if s.PredictNext {
			t.edge = newline
		}
	case byWords:
		t.known, t.count = indexOf(s.Words), len(s.Words)+1 // all others share one
		if s.PredictNext {
			t.edge = t.count
			t.count++
		}
	default:
		t.count, _ = strconv.Atoi(s.Tokens) // validate has read it
	}
	return t, nil
}

// add appends a text's indices, as many as an example takes and, where each step
// predicts the next, one more.
func (t *tokenizer) add(ids []float32, text string) ([]float32, error) {
	from, most := len(ids), t.length
	if t.next {
		most++
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
		for _, w := range cutWords(text) {
			at, ok := t.known[w]
			if !ok {
				at = len(t.known)
			}
			ids = append(ids, float32(at))
		}
	default:
		for w := range strings.FieldsSeq(text) {
			at, err := strconv.Atoi(w)
			if err != nil || at < Pad || at >= t.count {
				return nil, fmt.Errorf("an index is no whole number from 0 to %d, or -1 for padding", t.count-1)
			}
			ids = append(ids, float32(at))
		}
	}
	if t.edge != Pad {
		ids = append(ids, float32(t.edge))
	}
	return ids[:min(len(ids), from+most)], nil
}

// columns are the network's inputs where the features are indices; answer is what is
// predicted where that is not the next of them.
func (t *tokenizer) columns(answer Column) []Column {
	features := Column{Name: "features", Kind: Index, Shape: []int{t.length}, Classes: t.count}
	if t.next {
		return []Column{features, {Name: "next", Kind: Label, Shape: []int{t.length}, Classes: t.count}}
	}
	return []Column{features, answer}
}
