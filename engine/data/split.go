package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/setting"
)

// Split describes a division of the examples of a file by their places. The test part is public,
// by declaration of the user, and is not trained on.
type Split struct {
	Share  float64 `json:"share"` // of the examples, for testing
	Seed   uint64  `json:"seed"`  // of the division
	Rows   int     `json:"rows"`  // examples of the file
	Digest string  `json:"test_digest"`
}

// SplitTest moves a share of the training examples to the test part. Their places are a function of
// the seed and of the number of examples, and not of what the examples contain: blanking or replacing
// an example of the training part changes nothing else. Examples of the test part that cannot be read
// are left out. The task must have no test part.
func (t *Task) SplitTest(share float64, seed uint64) error {
	given, rows := setting.With("split", share), t.Train.Len()
	n := int(math.Round(share * float64(rows)))
	switch {
	case !(share > 0 && share < 1):
		return setting.Errorf("split", "%v: give a share above 0 and below 1, usually 0.2", given)
	case t.Test != nil:
		return setting.Errorf("split", "%v: %s has a test part of its own; drop it", given, t.Name)
	case n < 1 || n >= rows:
		return setting.Errorf("split", "%v makes %d of %d examples public: both parts need at least one; change the share", given, n, rows)
	}
	test := testPlaces(rows, n, seed)
	var train []int
	for row := range rows {
		if _, found := slices.BinarySearch(test, row); !found {
			train = append(train, row)
		}
	}
	if blank := Blank(t.Train); blank != nil {
		test = slices.DeleteFunc(test, func(row int) bool { return blank[row] })
	}
	if len(test) == 0 {
		return setting.Errorf("split", "%v: no example of the public part can be read; correct the schema", given)
	}
	whole := t.Train
	var err error
	if t.Train, err = Subset(whole, train); err != nil {
		return err
	}
	if t.Test, err = Subset(whole, test); err != nil {
		return err
	}
	digest, err := digestOf(t.Test)
	t.Split = &Split{share, seed, rows, digest}
	return err
}

// SplitAgain divides the examples like an earlier division. It returns an error if the file has another
// number of examples, or other ones in the test part: examples that a model was trained on would
// become test examples.
func (t *Task) SplitAgain(s Split) error {
	if t.Train.Len() == s.Rows {
		if err := t.SplitTest(s.Share, s.Seed); err != nil {
			return err
		}
		if t.Split.Digest == s.Digest {
			return nil
		}
	}
	return errors.New("the file differs from the one whose rows were divided for training, so its public part is not known; use that file, or name other data")
}

// testPlaces returns n of the places, in order: those with the smallest keyed hashes.
func testPlaces(rows, n int, seed uint64) []int {
	type place struct {
		key [sha256.Size]byte
		row int
	}
	places := make([]place, rows)
	for row := range places {
		key := binary.LittleEndian.AppendUint64([]byte("split"), seed)
		places[row] = place{sha256.Sum256(binary.LittleEndian.AppendUint64(key, uint64(row))), row}
	}
	slices.SortFunc(places, func(a, b place) int { return bytes.Compare(a.key[:], b.key[:]) })
	test := make([]int, n)
	for i := range test {
		test[i] = places[i].row
	}
	slices.Sort(test)
	return test
}

// digestOf returns a digest of the numbers of a public set.
func digestOf(s Set) (string, error) {
	sum := sha256.New()
	example := make([][]float32, len(s.Columns()))
	for k, c := range s.Columns() {
		example[k] = make([]float32, c.Size())
	}
	var text []byte
	for row := range s.Len() {
		if err := s.Read(example, []int{row}); err != nil {
			return "", err
		}
		text = text[:0]
		for _, column := range example {
			for _, v := range column {
				text = binary.LittleEndian.AppendUint32(text, math.Float32bits(v))
			}
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// StateFindings returns the features and targets whose cells leave the schema, for a public set that
// knows the states of its cells; nil for another set.
func StateFindings(set Set, s Schema) []SchemaFinding {
	states, cells, err := ValidatedCellStates(set)
	names := s.CheckedColumns()
	if err != nil || states == nil || cells != len(names) {
		return nil
	}
	findings := []SchemaFinding{}
	for j, name := range names {
		outside := 0
		for i := range set.Len() {
			if states[i*cells+j] == CellOutside {
				outside++
			}
		}
		if outside == 0 {
			continue
		}
		f := SchemaFinding{Column: name}
		share := float64(outside) / float64(set.Len())
		if _, words := s.Vocabulary[name]; words {
			f.Unknown = share
		} else {
			f.Outside = share
		}
		findings = append(findings, f)
	}
	return findings
}
