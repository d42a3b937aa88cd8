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

	"github.com/dptrain/dptrain/engine/data/internal/ngrams"
	"github.com/dptrain/dptrain/engine/data/internal/wordvectors"
	"github.com/dptrain/dptrain/internal/setting"
	pretrained "github.com/dptrain/dptrain/internal/tokenizer"
)

// Pad is the index and the label of a step after the end of an example.
const Pad = -1

// The conversions of text to indices. Another conversion is a number. byNgrams may have a number of
// buckets behind a colon; the schema of a task has it.
const (
	byBytes  = "bytes"
	byWords  = "words"
	byNgrams = "ngrams"

	byVectors = "vectors" // to numbers, in place of indices

	byTokenizer = "tokenizer" // of a public language model
)

// The public settings of a text whose conversion or length is not given.
const (
	ngramBuckets = 1 << 15
	ngramLength  = 512

	tokenizerLength = 128
)

// newline marks the beginning and the end of a text of bytes.
const newline = '\n'

// SetTokens sets the conversion of text, as the flag --tokens has it: bytes, for 256 indices;
// words:FILE, a public vocabulary with one word in each line; ngrams:BUCKETS, for the set of hashed n-grams
// of its words, without a vocabulary; vectors:FILE, for the average of its words' vectors in a
// public file; tokenizer:FILE, for the ids of a public tokenizer.json; or a number of indices, if the text
// already consists of indices. A vocabulary or vectors collected from private texts would reveal their rare
// words, so take them from a dictionary or from public texts.
func (s *Schema) SetTokens(text string) (err error) {
	kind, file, _ := strings.Cut(text, ":")
	s.Tokens, s.Words, s.Vectors, s.Tokenizer = text, nil, nil, nil
	switch {
	case kind == byWords && file != "":
		s.Tokens = byWords
		if s.Words, err = readVocabulary(file); err != nil {
			return err
		}
	case kind == byVectors && file != "":
		s.Tokens, s.Vectors = byVectors, &WordVectors{File: file}
		_, err = s.Vectors.load()
		return err
	case kind == byTokenizer && file != "":
		s.Tokens, s.Tokenizer = byTokenizer, &PretrainedTokenizer{File: file}
		_, err = s.Tokenizer.load()
		return err
	}
	return s.checkTokens()
}

// readVocabulary reads a file with one word in each line.
func readVocabulary(file string) (words []string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("tokens: cannot read the vocabulary %s: %w", file, withoutPath(err))
	}
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\ufeff")) {
		if word := strings.TrimSpace(line); word != "" {
			words = append(words, word)
		}
	}
	if err := checkWords(words); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return words, nil
}

func (s Schema) checkTokens() error {
	kind, _, _ := strings.Cut(s.Tokens, ":")
	switch {
	case s.Tokens != byWords && len(s.Words) > 0:
		return fmt.Errorf("words are given with tokens %q; write tokens: words", s.Tokens)
	case s.Tokens == byBytes:
		return nil
	case kind == byWords && len(s.Words) == 0:
		return errors.New("tokens: words needs a public vocabulary; write words:FILE, a file with one word in each line")
	case s.Tokens == byWords:
		return checkWords(s.Words)
	case kind == byVectors && s.Vectors == nil:
		return errors.New("tokens: vectors needs public word vectors; write vectors:FILE, a file with a word and its numbers in each line")
	case kind == byTokenizer && s.Tokenizer == nil:
		return errors.New("tokens: tokenizer needs the file of a public tokenizer; write tokenizer:FILE, with a tokenizer.json")
	case s.Tokens == byVectors, s.Tokens == byTokenizer:
		return nil
	case kind == byNgrams:
		_, err := parseBuckets(s.Tokens)
		return err
	}
	if n, err := strconv.Atoi(s.Tokens); err != nil || n < 2 || n > maxClasses {
		return fmt.Errorf("tokens %q: write ngrams, bytes, words:FILE with a public vocabulary, vectors:FILE with public word vectors, tokenizer:FILE with a public tokenizer.json, or the number of indices, from 2 to 2^24", s.Tokens)
	}
	return nil
}

// parseBuckets returns the number of buckets of ngrams[:BUCKETS].
func parseBuckets(tokens string) (int, error) {
	if tokens == byNgrams {
		return ngramBuckets, nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(tokens, byNgrams+":"))
	if err != nil || n < 2 || n >= maxClasses {
		return 0, fmt.Errorf("tokens %q: write ngrams, or ngrams:BUCKETS with a number from 2 to 2^24-1", tokens)
	}
	return n, nil
}

// isNgrams reports whether a conversion gives hashed n-grams.
func isNgrams(tokens string) bool { return strings.HasPrefix(tokens, byNgrams) }

// Unordered reports whether the order of an example's indices has no meaning.
func (s Schema) Unordered() bool { return isNgrams(s.Tokens) }

// DescribeText describes the conversion of text to numbers; "" for other data.
func (s Schema) DescribeText() string {
	switch buckets, err := parseBuckets(s.Tokens); {
	case s.Text == "":
		return ""
	case isNgrams(s.Tokens) && err == nil:
		return fmt.Sprintf("hashed n-grams in %d buckets, at most %d of a text", buckets, s.Length)
	case s.Vectors != nil:
		return fmt.Sprintf("the average of word vectors of %s, %d numbers", s.Vectors.File, s.Vectors.Dimension)
	case s.Tokenizer != nil:
		of := "a text"
		if s.TextPair != "" {
			of = "a pair of texts"
		}
		return fmt.Sprintf("ids of the tokenizer %s, %d of %s", s.Tokenizer.File, s.Length, of)
	}
	return fmt.Sprintf("%s, %d indices", s.Tokens, s.Length)
}

// withTextDefaults sets the conversion and the length of a text with a label or a target where they
// are not given, and the number of buckets.
func (s Schema) withTextDefaults() Schema {
	if s.Text == "" || s.PredictNext {
		return s
	}
	if s.Tokens == "" && s.Masked == 0 {
		s.Tokens = byNgrams
	}
	if s.Tokens == byTokenizer && s.Length == 0 {
		s.Length = tokenizerLength
	}
	if isNgrams(s.Tokens) {
		buckets, _ := parseBuckets(s.Tokens) // validate reports the error
		s.Tokens = fmt.Sprintf("%s:%d", byNgrams, buckets)
		if s.Length == 0 {
			s.Length = ngramLength
		}
	}
	return s
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
	kind    string
	words   map[string]int // the vocabulary
	ngrams  *ngrams.Hasher
	vectors *wordvectors.Table // examples are averages of vectors in place of indices
	public  *pretrained.Tokenizer
	count   int  // number of indices
	edge    int  // the index at the beginning and the end of a text of a language model; otherwise Pad
	begun   bool // the tokenizer adds an id in front of a text, in place of edge
	length  int
	next    bool // each step predicts the next index
	pack    bool // an example is several texts, of which the first indices are marked
	masked  bool // the labels are the indices themselves, of which some are masked
	pairs   bool // an example is a pair of texts, and the indices of the second are marked
}

// errPairTokens refuses a pair of texts without a public tokenizer.
func (s Schema) errPairTokens() error {
	return setting.Errorf("text-pair", "%v: only a public tokenizer joins two texts; give a public checkpoint as network", setting.With("text-pair", s.TextPair))
}

// tokenizer returns the tokenizer that the schema describes.
func (s Schema) tokenizer() (*tokenizer, error) {
	if s.Masked > 0 {
		if _, err := s.masking(); err != nil {
			return nil, err
		}
	}
	if s.Tokens == "" {
		return nil, setting.Errorf("tokens", "the conversion of text to indices is not given; write %v, %v with a public vocabulary, or %v for indices below COUNT",
			setting.With("tokens", "bytes"), setting.With("tokens", "words:FILE"), setting.With("tokens", "COUNT"))
	}
	if s.TextPair != "" && s.Tokens != byTokenizer {
		return nil, s.errPairTokens()
	}
	if isNgrams(s.Tokens) && s.PredictNext {
		return nil, setting.Errorf("tokens", "ngrams are a set without an order, and with next the network predicts the next index; write %v, or %v with a public vocabulary",
			setting.With("tokens", "bytes"), setting.With("tokens", "words:FILE"))
	}
	if s.Tokens == byVectors {
		table, err := s.Vectors.load()
		if err != nil {
			return nil, err
		}
		return &tokenizer{kind: byVectors, edge: Pad, length: table.Dimension, vectors: table}, nil
	}
	if s.Tokens == byTokenizer && s.PredictNext && s.Tokenizer.End == nil {
		return nil, setting.Errorf("tokens", "with next, the tokenizer is that of a checkpoint, which has the id at the end of a text; leave it out and give the checkpoint as network, or write %v, or %v with a public vocabulary",
			setting.With("tokens", "bytes"), setting.With("tokens", "words:FILE"))
	}
	if s.Length < 1 {
		return nil, setting.Errorf("length", "the number of indices of an example is not given; write %v with a public number; longer texts are cut and shorter texts are padded", setting.Named("length"))
	}
	if err := s.checkPacked(); err != nil {
		return nil, err
	}
	t := &tokenizer{kind: s.Tokens, edge: Pad, length: s.Length, next: s.PredictNext, pack: s.Pack, masked: s.Masked > 0}
	switch {
	case isNgrams(s.Tokens):
		buckets, err := parseBuckets(s.Tokens)
		if err != nil {
			return nil, err
		}
		t.kind, t.ngrams = byNgrams, ngrams.NewHasher(buckets)
		t.count = t.ngrams.Count()
	case s.Tokens == byTokenizer:
		public, err := s.Tokenizer.load()
		if err != nil {
			return nil, err
		}
		t.public, t.count, t.pairs = public, public.Count(), s.TextPair != ""
		if t.pairs && !public.Pairs() {
			return nil, setting.Errorf("text-pair", "%v: the post_processor of %s has no template for a pair of texts; join the texts in one column",
				setting.With("text-pair", s.TextPair), s.Tokenizer.File)
		}
		if s.PredictNext {
			t.edge, t.begun = *s.Tokenizer.End, len(public.Encode(nil, "", 0)) > 0
			if t.edge >= t.count {
				return nil, setting.Errorf("tokens", "the id %d at the end of a text is not one of the %d of %s", t.edge, t.count, s.Tokenizer.File)
			}
		}
	case s.Tokens == byBytes:
		t.count = 256
		if s.PredictNext {
			t.edge = newline
		}
	case s.Tokens == byWords:
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
// step predicts the next index. With word vectors it appends their average.
func (t *tokenizer) add(ids []float32, text string) ([]float32, error) {
	if t.vectors != nil {
		return t.vectors.Average(ids, splitWords(text)), nil
	}
	from, limit := len(ids), t.length
	if t.next {
		limit++
	}
	if t.pack {
		limit = 0 // the packing cuts texts
	}
	if t.edge != Pad && !t.begun {
		ids = append(ids, float32(t.edge))
	}
	switch t.kind {
	case byBytes:
		for i := 0; i < min(len(text), t.length); i++ {
			ids = append(ids, float32(text[i]))
		}
	case byTokenizer:
		for _, id := range t.public.Encode(nil, text, limit) {
			ids = append(ids, float32(id))
		}
	case byNgrams:
		ids = t.ngrams.Begin(ids)
		for w := range splitWords(text) {
			if len(ids)-from >= limit {
				break
			}
			ids = t.ngrams.Add(ids, w, limit-(len(ids)-from))
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
	if t.pack {
		return ids, nil
	}
	return ids[:min(len(ids), from+limit)], nil
}

// addPair appends the indices of two texts, of which those of the second segment are marked.
func (t *tokenizer) addPair(ids []float32, first, second string) []float32 {
	indices, segments := t.public.EncodePair(nil, nil, first, second, t.length)
	for i, id := range indices {
		if segments[i] != 0 {
			id += int32(t.count)
		}
		ids = append(ids, float32(id))
	}
	return ids
}

// columns returns the network's inputs if the features are indices. Output is the column
// to predict if the network does not predict the next index.
func (t *tokenizer) columns(output Column) []Column {
	features := Column{Name: "features", Kind: Index, Shape: []int{t.length}, Classes: t.count, Marked: t.pairs || t.pack}
	if t.next {
		return []Column{features, {Name: "next", Kind: Label, Shape: []int{t.length}, Classes: t.count}}
	}
	if t.masked {
		return []Column{features, {Name: maskedColumn, Kind: Label, Shape: []int{t.length}, Classes: t.count}}
	}
	return []Column{features, output}
}
