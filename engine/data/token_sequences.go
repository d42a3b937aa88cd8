package data

// maskedColumn is the name of the labels that are masked indices.
const maskedColumn = "masked"

// tokenSequences is a Set of lists of indices. It stores them without padding; Read pads
// them.
type tokenSequences struct {
	columns []Column
	sizes   []int
	indices []float32 // of all examples, concatenated
	ends    []int     // end of each example in indices
	labels  []float32 // of the examples; nil if there are none or each step predicts the next index
	users   []int32

	itself bool // the labels are the indices
	packed bool // the index that begins a text has a mark
}

func newTokenSequences(columns []Column, indices []float32, ends []int, labels []float32, users []int32) (*tokenSequences, error) {
	for _, c := range columns {
		if err := c.validate(); err != nil {
			return nil, err
		}
	}
	s := &tokenSequences{columns: columns, sizes: sizesOf(columns), indices: indices, ends: ends, labels: labels, users: users}
	if len(columns) > 1 && labels == nil {
		s.itself, s.packed = columns[1].Name == maskedColumn, columns[0].Marked
	}
	return s, nil
}

func (t *tokenSequences) Len() int          { return len(t.ends) }
func (t *tokenSequences) Columns() []Column { return t.columns }
func (t *tokenSequences) Users() []int32    { return t.users }

func (t *tokenSequences) Read(dst [][]float32, rows []int) error {
	if err := checkRead(t.columns, t.sizes, len(t.ends), dst, rows); err != nil {
		return err
	}
	length := t.sizes[0]
	for i, r := range rows {
		from := 0
		if r > 0 {
			from = t.ends[r-1]
		}
		indices, features := t.indices[from:t.ends[r]], dst[0][i*length:(i+1)*length]
		if t.packed {
			readPacked(features, dst[1][i*length:(i+1)*length], indices, t.columns[0].Classes)
			continue
		}
		if t.itself {
			pad(features, indices)
			copy(dst[1][i*length:(i+1)*length], features)
			continue
		}
		if len(t.columns) == 1 || t.labels != nil {
			pad(features, indices)
			if t.labels != nil {
				dst[1][i] = t.labels[r]
			}
			continue
		}
		// The last index has no next index, so it is not a feature.
		pad(features, indices[:max(0, len(indices)-1)])
		pad(dst[1][i*length:(i+1)*length], indices[min(1, len(indices)):])
	}
	return nil
}

// pad copies indices and fills the rest with Pad.
func pad(to, indices []float32) {
	rest := to[copy(to, indices):]
	for i := range rest {
		rest[i] = Pad
	}
}
