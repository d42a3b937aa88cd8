package wordvectors

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const glove = "good 1 0.5\nbad -1 0\n. . . 0 4.5\nGood 9 9\n"

func write(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "vectors")
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func compressed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Both formats, with LF and CRLF, with a byte order mark and compressed, have the same vectors. The
// digest is that of the file.
func TestRead_Formats(t *testing.T) {
	for name, content := range map[string][]byte{
		"GloVe":      []byte(glove),
		"word2vec":   []byte("4 2\n" + strings.ReplaceAll(glove, "\n", " \n")),
		"CRLF":       []byte("\ufeff" + strings.ReplaceAll(glove, "\n", "\r\n")),
		"compressed": compressed(t, glove),
	} {
		table, err := Read(write(t, content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sum := sha256.Sum256(content)
		if table.Words() != 3 || table.Dimension != 2 || table.Digest != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: %d words, dimension %d, digest %s", name, table.Words(), table.Dimension, table.Digest)
		}
		// The mean of all vectors is [0, 5/3].
		for text, want := range map[string][]float64{"good": {1, 0.5 - 5./3}, "good bad unknown": {0, 0.5 - 10./3}, "unknown": {0, 0}, "": {0, 0}} {
			got := table.Average([]float32{7}, slices.Values(strings.Fields(text)))
			norm := max(1e-300, math.Hypot(want[0], want[1]))
			if len(got) != 3 || got[0] != 7 || !(math.Abs(float64(got[1])-want[0]/norm)+math.Abs(float64(got[2])-want[1]/norm) < 1e-6) {
				t.Errorf("%s: the average of %q is %v, want the direction of %v", name, text, got, want)
			}
		}
	}
}

// An error names the line, and what is wrong there, in one line.
func TestRead_Invalid(t *testing.T) {
	for content, want := range map[string]string{
		"":                              "no word vectors",
		"5 3\n":                         "no word vectors",
		"word\n":                        "line 1: the word has 0 numbers",
		"good 1 2\nbad 1\n":             "line 2: the word has 1 numbers, and the words before have 2",
		"good 1 2\nbad 1 2 3\n":         "line 2: the word has 3 numbers, and the words before have 2",
		"good 1 2\nx y 2\n":             `line 2: "y" is not a finite number`,
		"good 1 2\nbad 1 NaN\n":         `line 2: "NaN" is not a finite number`,
		"good 1 2\nbad 1e99 1\n":        `line 2: "1e99" is not a finite number`,
		"good 1 2\nbad 1 inf\n":         `line 2: "inf" is not a finite number`,
		"good 1 2\nbad 1 Infinity\n":    "line 2",
		"a " + strings.Repeat("1", 2e6): "line 1 is longer than",
		"\x1f\x8bxx":                    "cannot be decompressed",
	} {
		_, err := Read(write(t, []byte(content)))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q: %v; want %q", content, err, want)
		}
	}
	whole := compressed(t, strings.Repeat(glove, 1000))
	if _, err := Read(write(t, whole[:len(whole)/2])); err == nil {
		t.Error("a file that was cut is read")
	}
	if _, err := Read("none.txt"); err == nil || !strings.Contains(err.Error(), "cannot read the word vectors none.txt") {
		t.Errorf("a missing file: %v", err)
	}
}
