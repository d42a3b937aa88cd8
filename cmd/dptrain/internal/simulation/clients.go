package simulation

import (
	"fmt"
	"math/rand/v2"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// layout is where a set has its features and its label.
type layout struct {
	columns          []data.Column
	features, labels int // columns
}

// newLayout accepts sets with one column of features and one label.
func newLayout(s data.Set) (l layout, err error) {
	l = layout{s.Columns(), -1, -1}
	for i, c := range l.columns {
		switch {
		case c.Kind == data.Feature && l.features < 0:
			l.features = i
		case c.Kind == data.Label && c.Size() == 1 && c.Classes >= 2 && l.labels < 0:
			l.labels = i
		default:
			return l, errUnsuitable
		}
	}
	if l.features < 0 || l.labels < 0 {
		return l, errUnsuitable
	}
	return l, nil
}

var errUnsuitable = fmt.Errorf("the simulation trains multinomial logistic regression; choose data with numeric features and one label")

func (l layout) inputs() int  { return l.columns[l.features].Size() }
func (l layout) classes() int { return l.columns[l.labels].Classes }

// readAll reads a whole set.
func (l layout) readAll(s data.Set) (drawdiscard.Records, error) {
	var buffers [][]float32
	for _, c := range l.columns {
		buffers = append(buffers, make([]float32, s.Len()*c.Size()))
	}
	rows := make([]int, s.Len())
	for i := range rows {
		rows[i] = i
	}
	return drawdiscard.Records{Features: buffers[l.features], Labels: buffers[l.labels]}, s.Read(buffers, rows)
}

// Purposes of the seed's streams.
const (
	rowsStream uint64 = 1 + iota
	orderStream
	serverStream
	noiseStream
	varianceStream
)

// stream returns the generator of one purpose and number.
func stream(seed, purpose, number uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, purpose<<32|number))
}

// drawRows draws n of the rows in random order. Client c owns n/clients in a row of the result.
func drawRows(rows []int, n int, seed uint64) []int {
	drawn := make([]int, n)
	for i, at := range stream(seed, rowsStream, 0).Perm(len(rows))[:n] {
		drawn[i] = rows[at]
	}
	return drawn
}

// clientOrder returns the order in which clients contribute in a pass. All methods share it.
func clientOrder(clients, pass int, seed uint64) []int {
	return stream(seed, orderStream, uint64(pass)).Perm(clients)
}
