package data

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// The numbers of remarks that Remarks generates.
const (
	remarksTrain = 20000
	remarksTest  = 2000
)

// remarksSeed is public: the remarks are the same in every program.
const remarksSeed = 0x72656d61726b73

// Words of the remarks. Opposite qualities have the same index.
var (
	remarkThings    = strings.Fields("soup bread coffee room garden film book song bus train teacher doctor market museum hotel phone lamp chair jacket walk")
	remarkOwners    = strings.Fields("the my our this that their")
	remarkVerbs     = strings.Fields("was is seemed felt looked")
	remarkDegrees   = strings.Fields("very really quite rather so")
	remarkNegations = strings.Fields("not hardly never")
	remarkOpeners   = strings.Fields("honestly today yesterday again overall")
	remarkGood      = strings.Fields("good lovely warm clean quick kind bright fresh calm fair sweet brilliant")
	remarkBad       = strings.Fields("bad awful cold dirty slow rude gloomy stale noisy unfair bitter dull")
)

// remarkWords is the vocabulary of all remarks.
var remarkWords = slices.Concat(remarkOwners, remarkThings, remarkVerbs, remarkDegrees, remarkNegations, remarkOpeners,
	remarkGood, remarkBad, strings.Fields("but and , ."))

// remarkLength is the largest number of indices of a remark, including the indices that
// mark its beginning and end.
const remarkLength = 16

// longestRemark is more than the number of bytes of any remark.
const longestRemark = 1 << 10

// Remarks returns a public data set of generated remarks about everyday things. Each
// remark is kind or unkind: "yesterday the soup was cold , but our room felt not dirty ." The
// clause after "but" determines the class, and "not" inverts a quality, so the words without
// their order do not determine the class. By default the tokens are words, with the
// vocabulary of all remarks, and the length is that of the longest remark.
func Remarks(s Schema) (*Task, error) {
	if s.Tokens == "" {
		s.Tokens, s.Words = byWords, remarkWords
		if s.Length == 0 {
			s.Length = remarkLength
		}
	}
	task := &Task{Name: "remarks", Schema: s}
	if err := s.validate(); err != nil {
		return nil, err
	}
	if s.Length > longestRemark {
		return nil, fmt.Errorf("length %d: remarks are shorter, and the rest would be padding; use at most %d", s.Length, longestRemark)
	}
	t, err := s.tokenizer()
	if err != nil {
		return nil, err
	}
	if !s.PredictNext {
		task.Classes, task.ClassNames = 2, []string{"unkind", "kind"}
	} else {
		task.Classes = t.count
	}
	remarks, labels := generateRemarks()
	part := func(from, to int) (set *tokenSequences, err error) {
		var indices []float32
		var ends []int
		for _, text := range remarks[from:to] {
			if indices, err = t.add(indices, text); err != nil {
				return nil, err
			}
			ends = append(ends, len(indices))
		}
		if s.PredictNext {
			return newTokenSequences(t.columns(Column{}), indices, ends, nil, nil)
		}
		return newTokenSequences(t.columns(Column{Name: "label", Kind: Label, Classes: 2}), indices, ends, labels[from:to], nil)
	}
	if task.Train, err = part(0, remarksTrain); err != nil {
		return nil, err
	}
	task.Test, err = part(remarksTrain, remarksTrain+remarksTest)
	return task, err
}

var generateRemarks = sync.OnceValues(func() (texts []string, labels []float32) {
	var source rand.PCG
	r := rand.New(&source)
	for i := range remarksTrain + remarksTest {
		source.Seed(remarksSeed, uint64(i))
		kind := r.IntN(2)
		texts, labels = append(texts, remark(r, kind)), append(labels, float32(kind))
	}
	return texts, labels
})

// remark generates a remark that is kind (1) or unkind (0).
func remark(r *rand.Rand, kind int) string {
	var words []string
	pick := func(list []string) { words = append(words, list[r.IntN(len(list))]) }
	clause := func(kind int) {
		pick(remarkOwners)
		pick(remarkThings)
		pick(remarkVerbs)
		negated := r.IntN(4) == 0
		if negated {
			pick(remarkNegations)
		} else if r.IntN(2) == 0 {
			pick(remarkDegrees)
		}
		if (kind == 1) != negated {
			pick(remarkGood)
		} else {
			pick(remarkBad)
		}
	}
	if r.IntN(3) == 0 {
		pick(remarkOpeners)
	}
	switch r.IntN(3) {
	case 0:
		clause(1 - kind)
		words = append(words, ",", "but")
		clause(kind)
	case 1:
		clause(kind)
		words = append(words, "and")
		clause(kind)
	default:
		clause(kind)
	}
	return strings.Join(append(words, "."), " ")
}
