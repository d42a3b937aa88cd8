package training

import (
	"math"

	"github.com/dptrain/dptrain/engine/data"
)

// edgesOfDigits returns the features of the training and of the test pictures.
func edgesOfDigits() (train, test data.Set, err error) {
	if digitEdges.train == nil {
		digits := data.Digits()
		if digitEdges.train, err = edges(digits.Train); err != nil {
			return nil, nil, err
		}
		if digitEdges.test, err = edges(digits.Test); err != nil {
			return nil, nil, err
		}
	}
	return digitEdges.train, digitEdges.test, nil
}

// digitEdges are computed once: a module has one thread.
var digitEdges struct{ train, test data.Set }

const (
	side       = 28 // of a picture, in pixels
	cell       = 4  // of a histogram
	directions = 8
	cells      = side / cell
	// edgeFeatures is the number of features of a picture.
	edgeFeatures = cells * cells * directions
)

// edges replaces each picture by histograms of the directions of its edges, one for each cell of 4×4
// pixels, after Dalal and Triggs 2005. The vector of a picture has norm 1. It is a function of this
// picture and of public numbers, so a picture is still one record. Linear models of such features have
// few weights, and so little noise (Tramèr and Boneh 2021).
func edges(s data.Set) (data.Set, error) {
	const block = 500
	n := s.Len()
	x, labels := make([]float32, n*edgeFeatures), make([]float32, n)
	pixels := make([]float32, block*side*side)
	rows := make([]int, 0, block)
	for from := 0; from < n; from += block {
		to := min(from+block, n)
		rows = rows[:0]
		for i := from; i < to; i++ {
			rows = append(rows, i)
		}
		if err := s.Read([][]float32{pixels[:len(rows)*side*side], labels[from:to]}, rows); err != nil {
			return nil, err
		}
		for i := range rows {
			histograms(x[(from+i)*edgeFeatures:(from+i+1)*edgeFeatures], pixels[i*side*side:(i+1)*side*side])
		}
	}
	label := s.Columns()[1]
	return data.NewTable([]data.Column{{Name: "edges", Shape: []int{edgeFeatures}}, label}, [][]float32{x, labels}, nil)
}

func histograms(into, pixels []float32) {
	for y := 1; y < side-1; y++ {
		for x := 1; x < side-1; x++ {
			at := y*side + x
			dx, dy := float64(pixels[at+1]-pixels[at-1]), float64(pixels[at+side]-pixels[at-side])
			if dx == 0 && dy == 0 {
				continue
			}
			turn := math.Atan2(dy, dx)/math.Pi + 1 // an edge has no sign: directions repeat after a half turn
			place := (turn - math.Floor(turn)) * directions
			bin := int(place)
			share := float32(place - float64(bin))
			strength := float32(math.Sqrt(dx*dx + dy*dy))
			cell := into[(y/cell*cells+x/cell)*directions:]
			cell[bin%directions] += strength * (1 - share)
			cell[(bin+1)%directions] += strength * share
		}
	}
	if length := norm(into); length > 0 {
		for i := range into {
			into[i] /= float32(length)
		}
	}
}
