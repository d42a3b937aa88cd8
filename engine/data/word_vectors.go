package data

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/dptrain/dptrain/engine/data/internal/wordvectors"
	"github.com/dptrain/dptrain/internal/setting"
)

// WordVectors is a file of public word vectors, in the text format of GloVe or of word2vec, also
// compressed with gzip. The average of the vectors of a text's words, scaled to norm 1, becomes its
// features.
type WordVectors struct {
	File      string `json:"file"`
	SHA256    string `json:"sha256"` // of the file
	Dimension int    `json:"dimension"`

	table *wordvectors.Table
}

// load reads the file, once. It refuses a file with another digest than SHA256, if that is known.
func (v *WordVectors) load() (*wordvectors.Table, error) {
	if v.table != nil {
		return v.table, nil
	}
	t, err := wordvectors.Read(v.File)
	if errors.Is(err, fs.ErrNotExist) && v.SHA256 != "" {
		return nil, setting.Errorf("tokens", "%w; restore it, or give its new path with %v", err, setting.With("tokens", "vectors:FILE"))
	}
	if err != nil {
		return nil, err
	}
	if v.SHA256 != "" && v.SHA256 != t.Digest {
		return nil, v.errOtherFile(t.Digest)
	}
	v.table, v.SHA256, v.Dimension = t, t.Digest, t.Dimension
	return t, nil
}

// CheckTrained returns an error unless v are the word vectors that a network was trained with. Nil
// stands for none.
func (v *WordVectors) CheckTrained(trained *WordVectors) error {
	switch {
	case v == nil && trained == nil:
		return nil
	case v == nil:
		return fmt.Errorf("the model was trained with word vectors, of the file %s; leave out the conversion of text, or give vectors:FILE", trained.File)
	case trained == nil:
		return fmt.Errorf("the model was trained without word vectors; leave out those of %s", v.File)
	case v.SHA256 != trained.SHA256:
		return (&WordVectors{File: v.File, SHA256: trained.SHA256}).errOtherFile(v.SHA256)
	}
	return nil
}

func (v *WordVectors) errOtherFile(digest string) error {
	return fmt.Errorf("%s does not have the word vectors that the model was trained with: its SHA-256 is %s, and theirs is %s; give that file", v.File, digest, v.SHA256)
}
