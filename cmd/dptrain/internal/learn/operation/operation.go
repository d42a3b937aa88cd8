// Package operation answers the requests of the guide's page: a request and an answer are JSON. A
// long request can be divided among workers, which are instances of one WebAssembly module.
package operation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
)

// Table has the operations of a module by name.
type Table map[string]Operation

// Operation answers requests of one kind.
type Operation struct {
	answer func(request []byte, progress func(any)) (any, error)
	split  func(request []byte, parts int) (any, error) // nil: a request is one part
	merge  func(answers []byte) (any, error)
}

// Whole is an operation whose requests are not divided. It may report progress.
func Whole[Q, A any](answer func(q Q, progress func(any)) (A, error)) Operation {
	return Operation{answer: func(request []byte, progress func(any)) (any, error) {
		q, err := decode[Q](request)
		if err != nil {
			return nil, err
		}
		return answer(q, progress)
	}}
}

// Divided is an operation whose requests are divided into at most some parts. Merge gets the
// answers in the order of the parts.
func Divided[Q, A any](answer func(q Q, progress func(any)) (A, error), split func(q Q, parts int) []Q,
	merge func(answers []A) A) Operation {
	o := Whole(answer)
	o.split = func(request []byte, parts int) (any, error) {
		q, err := decode[Q](request)
		if err != nil {
			return nil, err
		}
		return split(q, parts), nil
	}
	o.merge = func(answers []byte) (any, error) {
		all, err := decode[[]A](answers)
		if err != nil {
			return nil, err
		}
		return merge(all), nil
	}
	return o
}

// Answer computes the answer to a request.
func (t Table) Answer(name string, request []byte, progress func(any)) ([]byte, error) {
	o, ok := t[name]
	if !ok {
		return nil, fmt.Errorf("there is no operation %q", name)
	}
	a, err := o.answer(request, progress)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

// Split returns the parts of a request as a JSON array.
func (t Table) Split(name string, request []byte, parts int) ([]byte, error) {
	o, ok := t[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no operation %q", name)
	case o.split == nil:
		return json.Marshal([]json.RawMessage{request})
	}
	all, err := o.split(request, parts)
	if err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// Merge returns the answer to a request from a JSON array of the answers to its parts.
func (t Table) Merge(name string, answers []byte) ([]byte, error) {
	o, ok := t[name]
	if !ok {
		return nil, fmt.Errorf("there is no operation %q", name)
	}
	if o.merge == nil {
		all, err := decode[[]json.RawMessage](answers)
		if err != nil || len(all) != 1 {
			return nil, fmt.Errorf("an operation that is not divided has one answer")
		}
		return all[0], nil
	}
	a, err := o.merge(answers)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

func decode[T any](text []byte) (t T, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, fmt.Errorf("the request is malformed: %w", err)
	}
	return t, nil
}

// Number is a number of an answer. JSON has no infinity: infinite and undefined numbers are null.
type Number float64

// MarshalJSON writes null where the number is not finite.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsInf(f, 0) || math.IsNaN(f) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as infinity.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = Number(math.Inf(1))
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// Ranges divides the whole numbers below n into at most parts ranges, from and to, of nearly equal
// length.
func Ranges(n, parts int) iter.Seq2[int, int] {
	parts = max(1, min(parts, n))
	return func(yield func(from, to int) bool) {
		for i := range parts {
			if !yield(n*i/parts, n*(i+1)/parts) {
				return
			}
		}
	}
}
