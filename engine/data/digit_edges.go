package data

import (
	"math"
	"sync"

	"github.com/dptrain/dptrain/engine/data/internal/synthetic"
)

// DigitEdges returns the pictures of Digits, each as histograms of the directions of its edges. A
// linear model of these numbers has few weights, and so needs little noise (Tramèr and Boneh 2021).
// The numbers of a picture are a function of this picture alone, so a picture is still one record.
func DigitEdges() *Task {
	train, test := digitEdges()
	return &Task{Name: "digit-edges", Train: train, Test: test, Classes: 10, ClassNames: tenDigits()}
}

var digitEdges = sync.OnceValues(func() (train, test *Table) {
	digits := Digits()
	return edgesOf(digits.Train), edgesOf(digits.Test)
})

const (
	edgeCell       = 4 // side of the square of pixels that a histogram describes
	edgeDirections = 8
	edgeCells      = synthetic.DigitSide / edgeCell
	edgeNumbers    = edgeCells * edgeCells * edgeDirections // of a picture
)

// edgesOf replaces each picture by histograms of the directions of its edges, one for each cell,
// after Dalal and Triggs 2005. The vector of a picture has norm 1.
func edgesOf(pictures Set) *Table {
	const block, size = 500, synthetic.DigitSide * synthetic.DigitSide
	n := pictures.Len()
	x, labels := make([]float32, n*edgeNumbers), make([]float32, n)
	pixels := make([]float32, block*size)
	rows := make([]int, 0, block)
	for from := 0; from < n; from += block {
		to := min(from+block, n)
		rows = rows[:0]
		for i := from; i < to; i++ {
			rows = append(rows, i)
		}
		if err := pictures.Read([][]float32{pixels[:len(rows)*size], labels[from:to]}, rows); err != nil {
			panic(err) // unreachable: drawn pictures are in memory
		}
		for i := range rows {
			edgeHistograms(x[(from+i)*edgeNumbers:(from+i+1)*edgeNumbers], pixels[i*size:(i+1)*size])
		}
	}
	t, err := NewTable([]Column{{Name: "edges", Shape: []int{edgeNumbers}}, pictures.Columns()[1]}, [][]float32{x, labels}, nil)
	if err != nil {
		panic(err) // unreachable: the shapes and labels are valid
	}
	return t
}

func edgeHistograms(into, pixels []float32) {
	const side = synthetic.DigitSide
	for y := 1; y < side-1; y++ {
		for x := 1; x < side-1; x++ {
			at := y*side + x
			dx, dy := float64(pixels[at+1]-pixels[at-1]), float64(pixels[at+side]-pixels[at-side])
			if dx == 0 && dy == 0 {
				continue
			}
			turn := math.Atan2(dy, dx)/math.Pi + 1 // an edge has no sign: directions repeat after a half turn
			place := (turn - math.Floor(turn)) * edgeDirections
			bin := int(place)
			share := float32(place - float64(bin))
			strength := float32(math.Sqrt(dx*dx + dy*dy))
			cell := into[(y/edgeCell*edgeCells+x/edgeCell)*edgeDirections:]
			cell[bin%edgeDirections] += strength * (1 - share)
			cell[(bin+1)%edgeDirections] += strength * share
		}
	}
	square := 0.0
	for _, v := range into {
		square += float64(v) * float64(v)
	}
	if square > 0 {
		length := float32(math.Sqrt(square))
		for i := range into {
			into[i] /= length
		}
	}
}
