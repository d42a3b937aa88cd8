package data

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// How many remarks there are.
const (
	remarksTrain = 20000
	remarksTest  = 2000
)

// remarksSeed is public: the remarks are the same for everybody.
const remarksSeed = 0x72656d61726b73

// Words of the remarks. A quality has its opposite at the same place.
var (
	remarkThings  = strings.Fields("soup bread coffee room garden film book song bus train teacher doctor market museum hotel phone lamp chair jacket walk")
	remarkOwners  = strings.Fields("the my our this that their")
	remarkVerbs   = strings.Fields("was is seemed felt looked")
	remarkDegrees = strings.Fields("very really quite rather so")
	remarkDenials = strings.Fields("not hardly never")
	remarkOpeners = strings.Fields("honestly today yesterday again overall")
	remarkGood    = strings.Fields("good lovely warm clean quick kind bright fresh calm fair sweet brilliant")
	remarkBad     = strings.Fields("bad awful cold dirty slow rude gloomy stale noisy unfair bitter dull")
)

// remarkWords is the vocabulary: every word that a remark may have.
var remarkWords = slices.Concat(remarkOwners, remarkThings, remarkVerbs, remarkDegrees, remarkDenials, remarkOpeners,
	remarkGood, remarkBad, strings.Fields("but and , ."))

// remarkLength is as many indices as a remark has at most, with both its edges.
const remarkLength = 16

// longestRemark is more than a remark has, in letters even.
const longestRemark = 1 << 10

// Remarks puts short remarks about everyday things together, each kind or unkind:
// "yesterday the soup was cold , but our room felt not dirty ." What a remark says
// last, after "but", is what it means, and "not" turns a word into its opposite,
// so that words alone tell only part of it. Nobody stands behind them. Where the
// schema says nothing of tokens, they are by words, whose vocabulary is that of
// all remarks, and of as many as the longest one has.
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
		return nil, fmt.Errorf("length %d: remarks are short, and the rest of so many indices would be padding; give at most %d", s.Length, longestRemark)
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
	remarks, labels := writtenRemarks()
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
			return newTexts(t.columns(Column{}), indices, ends, nil, nil)
		}
		return newTexts(t.columns(Column{Name: "label", Kind: Label, Classes: 2}), indices, ends, labels[from:to], nil)
	}
	if task.Train, err = part(0, remarksTrain); err != nil {
		return nil, err
	}
	task.Test, err = part(remarksTrain, remarksTrain+remarksTest)
	return task, err
}

var writtenRemarks = sync.OnceValues(func() (texts []string, labels []float32) {
	var source rand.PCG
	r := rand.New(&source)
	for i := range remarksTrain + remarksTest {
		source.Seed(remarksSeed, uint64(i))
		kind := r.IntN(2)
		texts, labels = append(texts, remark(r, kind)), append(labels, float32(kind))
	}
	return texts, labels
})

// remark writes a remark that is kind, or not.
func remark(r *rand.Rand, kind int) string {
	var words []string
	one := func(list []string) { words = append(words, list[r.IntN(len(list))]) }
	clause := func(kind int) {
		one(remarkOwners)
		one(remarkThings)
		one(remarkVerbs)
		denied := r.IntN(4) == 0
		if denied {
			one(remarkDenials)
		} else if r.IntN(2) == 0 {
			one(remarkDegrees)
		}
		if (kind == 1) != denied {
			one(remarkGood)
		} else {
			one(remarkBad)
		}
	}
	if r.IntN(3) == 0 {
		one(remarkOpeners)
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
