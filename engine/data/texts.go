package data

// tokenSequences is a Set of lists of indices, each kept as short as it is: what an example does
// not reach of its length is padded when it is read.
type tokenSequences struct {
	columns []Column
	sizes   []int
	indices []float32 // of the examples, one after the other
	ends    []int     // where those of each end
	labels  []float32 // of the examples; nil where there are none, or that of a step is the index after it
	users   []int32
}

func newTexts(columns []Column, indices []float32, ends []int, labels []float32, users []int32) (*tokenSequences, error) {
	for _, c := range columns {
		if err := c.validate(); err != nil {
			return nil, err
		}
	}
	return &tokenSequences{columns, sizesOf(columns), indices, ends, labels, users}, nil
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
		if len(t.columns) == 1 || t.labels != nil {
			pad(features, indices)
			if t.labels != nil {
				dst[1][i] = t.labels[r]
			}
			continue
		}
		// The last index has nothing after it that it could predict.
		pad(features, indices[:max(0, len(indices)-1)])
		pad(dst[1][i*length:(i+1)*length], indices[min(1, len(indices)):])
	}
	return nil
}

// pad copies indices, and Pad to the rest.
func pad(to, indices []float32) {
	rest := to[copy(to, indices):]
	for i := range rest {
		rest[i] = Pad
	}
}
