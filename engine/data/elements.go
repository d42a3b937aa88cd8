package data

import "errors"

// ElementType says what an array's numbers were read from: the same picture gives a network
// other numbers from bytes than from numbers.
type ElementType string

const (
	Bytes   ElementType = "bytes"   // scaled to [0, 1], and then perhaps standardized
	Numbers ElementType = "numbers" // taken as they are
)

// CheckCompatible says why a network that learnt from other elements cannot be asked about these. It
// says nothing where one of the two is not known.
func (e ElementType) CheckCompatible(learnt ElementType) error {
	switch {
	case e == learnt || e == "" || learnt == "":
		return nil
	case learnt == Bytes:
		return errors.New("examples are numbers, taken as they are, and the model was trained on bytes, scaled to [0, 1]; save x as uint8, of 0 to 255")
	}
	return errors.New("examples are bytes, scaled to [0, 1], and the model was trained on numbers, taken as they were; save x as float32, on the scale of those")
}
