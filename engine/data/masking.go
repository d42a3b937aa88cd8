package data

import (
	"math/rand/v2"

	"github.com/dptrain/dptrain/internal/setting"
)

// The shares of the chosen ids that are replaced by the id of the mask, and by a random id; the others stay (Devlin et
// al. 2019).
const (
	maskedShare = 0.8
	randomShare = 0.1
)

// masking hides ids of texts. The features and the labels of an example are its ids; afterwards the labels are those of
// the chosen steps, and Pad at the others. Special tokens and padding are not chosen.
type masking struct {
	rate  float64
	mask  float32
	count int
	text  []bool // of each id: it is no special token
}

// checkMasked refuses a share of masked ids without a network that reads it.
func (s Schema) checkMasked() error {
	switch {
	case s.Masked == 0:
		return nil
	case !(s.Masked > 0 && s.Masked < 1):
		return setting.Errorf("masked", "%v: write a share of the ids between 0 and 1, such as 0.15", setting.With("masked", s.Masked))
	case s.PredictNext || s.Target != "" || s.Label != "" || len(s.Classes) > 0:
		return setting.Errorf("masked", "%v: the labels are the masked ids; leave out label, classes, target and next", setting.With("masked", s.Masked))
	case s.TextPair != "":
		return setting.Errorf("masked", "%v: pairs of texts are not supported with masked ids; leave out the second text", setting.With("masked", s.Masked))
	case s.Tokens != "" && s.Tokens != byTokenizer:
		return setting.Errorf("masked", "%v: only a public tokenizer has a mask; give a public checkpoint as network", setting.With("masked", s.Masked))
	}
	return nil
}

// Masking returns the function that masks the ids of an example in place, for engine.Augmentation: each id of a text is
// chosen with the probability Masked. Of the chosen ones, 80% become the id of the mask, 10% a random id and 10% stay.
func (s Schema) Masking() (func(example [][]float32, r *rand.Rand), error) {
	m, err := s.masking()
	if err != nil {
		return nil, err
	}
	return func(example [][]float32, r *rand.Rand) { m.apply(example[0], example[1], r) }, nil
}

func (s Schema) masking() (*masking, error) {
	if s.Tokenizer == nil {
		return nil, setting.Errorf("masked", "%v: only a public tokenizer has a mask; give a public checkpoint as network", setting.With("masked", s.Masked))
	}
	public, err := s.Tokenizer.load()
	if err != nil {
		return nil, err
	}
	id, found := public.MaskID()
	if !found {
		return nil, setting.Errorf("masked", "%v: %s has no token [MASK] or <mask>; give the checkpoint of an encoder", setting.With("masked", s.Masked), s.Tokenizer.File)
	}
	m := &masking{rate: s.Masked, mask: float32(id), count: public.Count()}
	for i := range m.count {
		m.text = append(m.text, !public.IsSpecial(int32(i)))
	}
	return m, nil
}

func (m *masking) apply(ids, labels []float32, r *rand.Rand) {
	for t, id := range ids {
		labels[t] = Pad
		if id < 0 || !m.text[int(id)] || r.Float64() >= m.rate {
			continue
		}
		labels[t] = id
		switch u := r.Float64(); {
		case u < maskedShare:
			ids[t] = m.mask
		case u < maskedShare+randomShare:
			ids[t] = float32(r.IntN(m.count))
		}
	}
}

// fixedMasks is a public set whose masks are the same each time that it is read.
type fixedMasks struct {
	Set
	mask *masking
}

// FixMasks gives the examples of a public set, which can be nil, masks that are the same each time that it is read: all
// of them are evaluated.
func FixMasks(set Set, s Schema) (Set, error) {
	if _, fixed := set.(fixedMasks); fixed || set == nil || s.Masked == 0 {
		return set, nil
	}
	m, err := s.masking()
	if err != nil {
		return nil, err
	}
	return fixedMasks{set, m}, nil
}

// evaluationSeed is the first word of the seeds of fixed masks; the second is the number of the example.
const evaluationSeed = 0x6d61736b

func (f fixedMasks) Read(dst [][]float32, rows []int) error {
	if err := f.Set.Read(dst, rows); err != nil {
		return err
	}
	size := f.Columns()[0].Size()
	for i, row := range rows {
		r := rand.New(rand.NewPCG(evaluationSeed, uint64(row)))
		f.mask.apply(dst[0][i*size:(i+1)*size], dst[1][i*size:(i+1)*size], r)
	}
	return nil
}

func (f fixedMasks) Users() []int32 { return Users(f.Set) }
func (f fixedMasks) Blank() []bool  { return Blank(f.Set) }
