package data

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/internal/setting"
)

// exampleReader collects the examples of a file.
type exampleReader struct {
	*rowLayout
	policy           rowPolicy
	blank            []bool // of the examples
	features, labels chunkedValues
	ends             []int // end of each text's indices in features
	users            []int32
	weights          []float64            // nil without a column of weights
	states           []CellState          // nil unless the schema asks for them
	userNumbers      map[userDigest]int32 // the number of each user so far
	line             []byte               // the text of a row, where a template makes it
	count            int                  // of examples
	places           []int32              // of the examples among those of the shard, -1: not in it; nil without a shard of users
	owned            int                  // examples of the shard
}

// chunkedValues is a growing list in chunks. One growing slice would take three times its
// memory while a file is read, because it is copied each time it grows.
type chunkedValues struct {
	full   [][]float32
	last   []float32
	before int // numbers in the full chunks
}

const chunkLength = 1 << 20

// cut begins a new chunk after a row if the last one is long enough. If all rows have one
// width, the same number of rows fills the new chunk.
func (p *chunkedValues) cut() {
	if len(p.last) >= chunkLength {
		p.full, p.before = append(p.full, p.last), p.before+len(p.last)
		p.last = make([]float32, 0, len(p.last))
	}
}

func (p *chunkedValues) joined() []float32 {
	if len(p.full) == 0 {
		return p.last
	}
	return slices.Concat(append(p.full, p.last)...)
}

// set returns the set of all examples.
func (r *exampleReader) set(s Schema) (Set, error) {
	if r.count == 0 {
		return nil, errors.New("the file has no rows")
	}
	if s.featuresOnly {
		return r.featureSet()
	}
	if r.readsIndices() && r.tokens.pack {
		p := r.packed()
		set, err := newTokenSequences(r.tokens.columns(Column{}), p.indices, p.ends, nil, p.users)
		if err != nil {
			return nil, err
		}
		return withBlank(set, p.blank), nil
	}
	if r.readsIndices() {
		set, err := newTokenSequences(r.tokens.columns(s.outputColumn()), r.features.joined(), r.ends, r.labels.joined(), r.ownUsers())
		if err != nil {
			return nil, err
		}
		return r.withBlankAndWeights(set)
	}
	columns := []Column{
		{Name: "features", Kind: Feature, Shape: []int{r.width}},
		s.outputColumn(),
	}
	set, err := NewTable(columns, [][]float32{r.features.joined(), r.labels.joined()}, r.ownUsers())
	if err != nil {
		return nil, err
	}
	return r.withBlankAndWeights(set)
}

// ownUsers returns the users of a set of all examples; nil for a shard, whose set has those of the others too.
func (r *exampleReader) ownUsers() []int32 {
	if !r.policy.shard.isWhole() {
		return nil
	}
	return r.users
}

func (r *exampleReader) withBlankAndWeights(s Set) (Set, error) {
	if shard := r.policy.shard; !shard.isWhole() {
		s = newSharded(s, shard, r.count, r.users, r.places)
	}
	s, err := WithWeights(s, r.weights)
	if err != nil {
		return nil, err
	}
	return WithCellStates(withBlank(s, r.blank), r.states)
}

// featureSet returns the set of all examples without labels.
func (r *exampleReader) featureSet() (Set, error) {
	if r.readsIndices() {
		return newTokenSequences(r.tokens.columns(Column{})[:1], r.features.joined(), r.ends, nil, nil)
	}
	return NewTable([]Column{{Name: "features", Kind: Feature, Shape: []int{r.width}}}, [][]float32{r.features.joined()}, nil)
}

// addOrBlank appends one row. A row that cannot be read becomes a blank example of its user, or
// an error that describe makes.
func (r *exampleReader) addOrBlank(row []string, describe func(column int, err error) error) error {
	if !r.policy.shard.isWhole() {
		user := ""
		if r.user >= 0 {
			user = strings.TrimSpace(row[r.user])
		}
		if !r.startOwn(user) {
			return nil
		}
	}
	features, labels, ends := r.features.last, r.labels.last, len(r.ends)
	users, weights, states := len(r.users), len(r.weights), len(r.states)
	column, err := r.add(row)
	if err == nil {
		return nil
	}
	r.count--
	r.features.last, r.labels.last = features, labels
	r.ends, r.users, r.weights, r.states = r.ends[:ends], r.users[:users], r.weights[:weights], r.states[:states]
	user := ""
	if r.user >= 0 {
		user = strings.TrimSpace(row[r.user])
	}
	return r.addOwnBlank(user, describe(column, err))
}

// startOwn begins an example of a user. If another process has it, startOwn appends what all processes know of
// it: that it exists, and its user.
func (r *exampleReader) startOwn(user string) (own bool) {
	number := int32(0)
	if r.user >= 0 {
		number = r.userNumber(user)
	}
	if own = r.policy.shard.owns(r.count, number); own {
		if r.policy.shard.Users {
			r.places = append(r.places, int32(r.owned))
		}
		r.owned++
		return true
	}
	r.count++
	r.blank = append(r.blank, false)
	if r.user >= 0 {
		r.users = append(r.users, number)
	}
	if r.weight >= 0 {
		r.weights = append(r.weights, 0)
	}
	r.states = append(r.states, make([]CellState, r.statesPerRow)...)
	if r.policy.shard.Users {
		r.places = append(r.places, -1)
	}
	return false
}

// addBlank appends a blank example in place of one that cannot be read because of err, or returns
// the error. All examples without a user belong to one user, "".
func (r *exampleReader) addBlank(user string, err error) error {
	if !r.policy.shard.isWhole() && !r.startOwn(user) {
		return nil
	}
	return r.addOwnBlank(user, err)
}

func (r *exampleReader) addOwnBlank(user string, err error) error {
	if err := r.policy.resolve(err); err != nil {
		return err
	}
	r.count++
	r.blank = append(r.blank, true)
	if r.readsIndices() {
		r.ends = append(r.ends, r.features.before+len(r.features.last))
	} else {
		r.features.last = append(r.features.last, make([]float32, r.width)...)
	}
	if r.label >= 0 || r.target >= 0 {
		r.labels.last = append(r.labels.last, 0)
	}
	if r.user >= 0 {
		r.users = append(r.users, r.userNumber(user))
	}
	if r.weight >= 0 {
		r.weights = append(r.weights, 0)
	}
	r.states = append(r.states, make([]CellState, r.statesPerRow)...)
	r.features.cut()
	r.labels.cut()
	return nil
}

// userDigest is the SHA-256 of a user. The memory of users thus does not depend on their length.
type userDigest [sha256.Size]byte

// userNumber returns the number of a user.
func (r *exampleReader) userNumber(user string) int32 {
	digest := userDigest(sha256.Sum256([]byte(user)))
	number, ok := r.userNumbers[digest]
	if !ok {
		number = int32(len(r.userNumbers))
		r.userNumbers[digest] = number
	}
	return number
}

// add appends one row. An error is about the column that add returns.
func (r *exampleReader) add(row []string) (column int, err error) {
	r.count++
	r.line = r.line[:0]
	inputs := 0
	for _, k := range r.order {
		cell := strings.TrimSpace(row[k])
		switch {
		case k == r.text:
			if r.pair >= 0 {
				r.features.last = r.tokens.addPair(r.features.last, cell, strings.TrimSpace(row[r.pair]))
			} else if r.features.last, err = r.tokens.add(r.features.last, cell); err != nil {
				return k, err
			}
			r.ends = append(r.ends, r.features.before+len(r.features.last))
		case k == r.label:
			class, ok := r.classes[cell]
			if !ok {
				return k, fmt.Errorf("the label is not one of the %d classes given", len(r.classes))
			}
			r.labels.last = append(r.labels.last, float32(class))
		case k == r.target:
			v, ok := r.roles[k].parseNumber(cell)
			switch {
			case isMissing(cell):
				return k, errors.New("the target has no value; fill it or remove the row")
			case !ok:
				return k, setting.Errorf("target", "the target is not a number; for words, write %v and %v", setting.Named("label"), setting.Named("classes"))
			}
			r.labels.last = append(r.labels.last, r.roles[k].Bounds.Scale(v))
		case k == r.user:
			if cell == "" {
				return k, errors.New("the user is empty")
			}
			r.users = append(r.users, r.userNumber(cell))
		case k == r.weight:
			r.weights = append(r.weights, parseWeight(cell))
		case k == r.pair, r.roles[k].ignore:
		case r.template != nil:
			if r.line, err = r.template.appendCell(r.line, inputs, cell); err != nil {
				return k, err
			}
			inputs++
		default:
			if r.features.last, err = r.roles[k].encode(r.features.last, cell); err != nil {
				return k, err
			}
		}
	}
	if r.template != nil {
		if r.features.last, err = r.tokens.add(r.features.last, string(r.line)); err != nil {
			return 0, err
		}
		r.ends = append(r.ends, r.features.before+len(r.features.last))
	}
	r.addStates(row)
	r.blank = append(r.blank, false)
	r.features.cut()
	r.labels.cut()
	return 0, nil
}

// addStates appends the states of a row's cells.
func (r *exampleReader) addStates(row []string) {
	if r.statesPerRow == 0 {
		return
	}
	for _, k := range r.order {
		if r.isInput(k) {
			r.states = append(r.states, r.roles[k].state(strings.TrimSpace(row[k])))
		}
	}
	if k := r.target; k >= 0 {
		r.states = append(r.states, r.roles[k].state(strings.TrimSpace(row[k])))
	}
}

// parseWeight returns the number in a cell, NaN if there is none.
func parseWeight(cell string) float64 {
	v, err := strconv.ParseFloat(cell, 64) // ±Inf where the number is out of range
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return math.NaN()
	}
	return v
}
