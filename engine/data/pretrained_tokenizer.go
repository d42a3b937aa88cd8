package data

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/dptrain/dptrain/internal/setting"
	pretrained "github.com/dptrain/dptrain/internal/tokenizer"
)

// PretrainedTokenizer is the file tokenizer.json of a public language model.
type PretrainedTokenizer struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"` // of the file
	// End is the id at the end of a text of a language model. A text also begins with it if the tokenizer adds no id
	// in front of a text.
	End *int `json:"end,omitempty" yaml:"-"`

	tokenizer *pretrained.Tokenizer
}

// load reads the file, once.
func (p *PretrainedTokenizer) load() (*pretrained.Tokenizer, error) {
	if p.tokenizer != nil {
		return p.tokenizer, nil
	}
	text, err := p.Text()
	if errors.Is(err, fs.ErrNotExist) && p.SHA256 != "" {
		return nil, setting.Errorf("tokens", "%w; restore it, or give its new path with %v", err, setting.With("tokens", "tokenizer:FILE"))
	}
	if err != nil {
		return nil, err
	}
	t, err := pretrained.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.File, err)
	}
	p.tokenizer, p.SHA256 = t, tokenizerDigest(text)
	return t, nil
}

// Text returns the content of the file. It refuses a file with another digest than SHA256, if that is known.
func (p *PretrainedTokenizer) Text() ([]byte, error) {
	text, err := pretrained.ReadJSON(p.File)
	if err != nil {
		return nil, err
	}
	if digest := tokenizerDigest(text); p.SHA256 != "" && p.SHA256 != digest {
		return nil, p.errOtherFile(digest)
	}
	return text, nil
}

// Is reports whether the content of a file is the tokenizer.
func (p *PretrainedTokenizer) Is(text []byte) bool { return p.SHA256 == tokenizerDigest(text) }

func tokenizerDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// CheckTrained returns an error unless p is the tokenizer that a network was trained with. Nil stands for
// none.
func (p *PretrainedTokenizer) CheckTrained(trained *PretrainedTokenizer) error {
	switch {
	case p == nil && trained == nil:
		return nil
	case p == nil:
		return fmt.Errorf("the model was trained with the tokenizer %s; leave out the conversion of text, or give tokenizer:FILE", trained.File)
	case trained == nil:
		return fmt.Errorf("the model was trained without the tokenizer %s; leave it out", p.File)
	case p.SHA256 != trained.SHA256:
		return (&PretrainedTokenizer{File: p.File, SHA256: trained.SHA256}).errOtherFile(p.SHA256)
	}
	return nil
}

func (p *PretrainedTokenizer) errOtherFile(digest string) error {
	return fmt.Errorf("%s is not the tokenizer that the model was trained with: its SHA-256 is %s, and that of the other is %s; give that file", p.File, digest, p.SHA256)
}
