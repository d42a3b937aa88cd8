package main

import (
	"math"
	mathrand "math/rand/v2"
)

// idDrawer draws ids. It keeps its memory.
type idDrawer struct {
	weights []float64
	heap    []int // ids; the first has the largest weight
}

// draw returns an id with the probabilities softmax(logits/temperature), of the most probable ids whose probabilities
// sum to topP. A temperature of 0 stands for the most probable id. Of ids with one logit the smaller one is the more
// probable. A logit that is no number counts as −∞.
//
// It takes time linear in the number of ids, and a logarithm more for each id that topP keeps.
func (d *idDrawer) draw(logits []float32, temperature, topP float64, r *mathrand.Rand) int {
	best := 0
	for id, v := range logits {
		if v > logits[best] || logits[best] != logits[best] {
			best = id
		}
	}
	if temperature == 0 {
		return best
	}
	d.weights = d.weights[:0]
	var total float64
	for _, v := range logits {
		w := math.Exp(float64(v-logits[best]) / temperature)
		if v == logits[best] {
			w = 1 // also of infinite logits
		} else if !(w > 0) {
			w = 0
		}
		d.weights, total = append(d.weights, w), total+w
	}
	if topP < 1 {
		return d.drawProbable(topP*total, r)
	}
	at := r.Float64() * total
	for id, w := range d.weights {
		if at -= w; at < 0 {
			return id
		}
	}
	return best
}

// drawProbable draws among the fewest ids with the largest weights whose sum is at least a mass.
func (d *idDrawer) drawProbable(mass float64, r *mathrand.Rand) int {
	d.heap = d.heap[:0]
	for id := range d.weights {
		d.heap = append(d.heap, id)
	}
	for i := len(d.heap)/2 - 1; i >= 0; i-- {
		d.sink(i, len(d.heap))
	}
	// Ids that were taken are behind the heap, the last one first.
	size, sum := len(d.heap), 0.0
	for size > 0 && (sum < mass || size == len(d.heap)) {
		size--
		sum += d.weights[d.heap[0]]
		d.heap[0], d.heap[size] = d.heap[size], d.heap[0]
		d.sink(0, size)
	}
	at, taken := r.Float64()*sum, d.heap[size:]
	for i := len(taken) - 1; i >= 0; i-- {
		if at -= d.weights[taken[i]]; at < 0 {
			return taken[i]
		}
	}
	return taken[0]
}

// sink moves an id of the heap of some size down to its place.
func (d *idDrawer) sink(i, size int) {
	for {
		largest := i
		for child := 2*i + 1; child <= 2*i+2 && child < size; child++ {
			if d.isBefore(d.heap[child], d.heap[largest]) {
				largest = child
			}
		}
		if largest == i {
			return
		}
		d.heap[i], d.heap[largest] = d.heap[largest], d.heap[i]
		i = largest
	}
}

func (d *idDrawer) isBefore(a, b int) bool {
	return d.weights[a] > d.weights[b] || d.weights[a] == d.weights[b] && a < b
}
