// Package wordvectors reads public word vectors and averages those of a text.
//
// It reads two text formats, also compressed with gzip. A line of a GloVe file (Pennington et al. 2014)
// is a word and its numbers, with spaces between them. A word2vec file (Mikolov et al. 2013) has a
// first line with the number of words and their dimension before such lines.
//
// Everything here is a function of the file, which is public, and of one text.
package wordvectors

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Limits of a file. They bound the memory of the reader.
const (
	maxDimension = 1 << 14
	maxNumbers   = 1 << 31
	maxLine      = 1 << 20
)

// Table has a vector for each word. It does not change.
type Table struct {
	Dimension int
	Digest    string // SHA-256 of the file, in hexadecimal

	rows    map[string]int
	numbers []float32
}

// Read reads a file.
func Read(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		var reason *os.PathError
		if errors.As(err, &reason) {
			err = reason.Err
		}
		return nil, fmt.Errorf("cannot read the word vectors %s: %w", path, err)
	}
	defer f.Close()
	t, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// read reads a file, of which the digest covers every byte.
func read(file io.Reader) (*Table, error) {
	digest := sha256.New()
	all := bufio.NewReader(io.TeeReader(file, digest))
	text := all
	if magic, _ := all.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(all)
		if err != nil {
			return nil, fmt.Errorf("the file cannot be decompressed: %w", err)
		}
		text = bufio.NewReader(unpacked)
	}
	t := &Table{rows: map[string]int{}}
	if err := t.readLines(text); err != nil {
		return nil, err
	}
	t.center()
	return t, t.finish(all, digest)
}

// finish reads the rest of the file, and computes its digest.
func (t *Table) finish(rest io.Reader, digest hash.Hash) error {
	if _, err := io.Copy(io.Discard, rest); err != nil {
		return err
	}
	t.Digest = hex.EncodeToString(digest.Sum(nil))
	return nil
}

func (t *Table) readLines(text *bufio.Reader) error {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimRight(lines.Text(), " \r")
		if number == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if line == "" || number == 1 && isHeader(line) {
			continue
		}
		if err := t.add(line); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d is longer than %d bytes; a line has a word and its numbers", number+1, maxLine)
	case err != nil:
		return fmt.Errorf("line %d: %w", number+1, err)
	case len(t.rows) == 0:
		return errors.New("the file has no word vectors; each line needs a word and its numbers")
	}
	return nil
}

// isHeader reports whether a line is the first one of a word2vec file: two whole numbers.
func isHeader(line string) bool {
	fields := strings.Fields(line)
	if len(fields) != 2 {
		return false
	}
	_, errWords := strconv.ParseUint(fields[0], 10, 63)
	_, errDimension := strconv.ParseUint(fields[1], 10, 63)
	return errWords == nil && errDimension == nil
}

// add adds the vector of a line. Of the words that are equal in lower case, the first one counts:
// files list frequent words first.
func (t *Table) add(line string) error {
	fields := strings.Split(line, " ")
	if len(fields) < 2 {
		fields = strings.Fields(line)
	}
	if t.Dimension == 0 {
		t.Dimension = len(fields) - 1
	}
	isNumber := func(text string) bool { _, err := strconv.ParseFloat(text, 32); return err == nil }
	switch got := len(fields) - 1; {
	case t.Dimension < 1 || t.Dimension > maxDimension:
		return fmt.Errorf("the word has %d numbers; from 1 to %d are supported, with one space between them", t.Dimension, maxDimension)
	case got < t.Dimension, got > t.Dimension && slices.ContainsFunc(fields[1:len(fields)-t.Dimension], isNumber):
		return fmt.Errorf("the word has %d numbers, and the words before have %d", got, t.Dimension)
	case len(t.numbers)+t.Dimension > maxNumbers:
		return fmt.Errorf("the file has more than 2^31 numbers; use one with fewer words")
	}
	// A word of a GloVe file may contain spaces. The numbers are the last fields.
	values := fields[len(fields)-t.Dimension:]
	word := strings.ToLower(strings.Join(fields[:len(fields)-t.Dimension], " "))
	from := len(t.numbers)
	for _, text := range values {
		v, err := strconv.ParseFloat(text, 32)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%q is not a finite number; the words before have %d numbers", text, t.Dimension)
		}
		t.numbers = append(t.numbers, float32(v))
	}
	if _, twice := t.rows[word]; twice {
		t.numbers = t.numbers[:from]
		return nil
	}
	t.rows[word] = len(t.rows)
	return nil
}

// center subtracts the mean of all vectors, which the words have in common (Mu and Viswanath 2018).
func (t *Table) center() {
	mean := make([]float64, t.Dimension)
	for row := range slices.Chunk(t.numbers, t.Dimension) {
		for j, v := range row {
			mean[j] += float64(v) / float64(len(t.rows))
		}
	}
	for row := range slices.Chunk(t.numbers, t.Dimension) {
		for j := range row {
			row[j] -= float32(mean[j])
		}
	}
}

// Words returns the number of words.
func (t *Table) Words() int { return len(t.rows) }

// Average appends the mean of the vectors of a text's words, scaled to norm 1; zeros if no word
// has a vector. Each word is in lower case.
func (t *Table) Average(features []float32, words func(yield func(string) bool)) []float32 {
	from := len(features)
	features = append(features, make([]float32, t.Dimension)...)
	sum := make([]float64, t.Dimension)
	for w := range words {
		if row, ok := t.rows[w]; ok {
			for j, v := range t.numbers[row*t.Dimension : (row+1)*t.Dimension] {
				sum[j] += float64(v)
			}
		}
	}
	square := 0.0
	for _, v := range sum {
		square += v * v
	}
	if square == 0 {
		return features
	}
	for j, v := range sum {
		features[from+j] = float32(v / math.Sqrt(square))
	}
	return features
}
