package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
)

// generated returns the tables that the program draws. They are the same in each run of the program.
func generated() []*table {
	return []*table{
		{name: "skewed numbers", rows: skewed(2500, 12, 1)},
		{name: "a class of 2%", rows: imbalanced(6000, 10, 2)},
		{name: "200 words", rows: words(8000, 200, 3)},
		{name: "missing values", rows: missing(4000, 8, 4)},
		{name: "80,000 records", rows: interactions(80000, 15, 5)},
		{name: "5 classes", rows: clusters(3000, 8, 5, 6)},
		{name: "skewed numbers, 900", held: true, rows: skewed(900, 6, 11)},
		{name: "a class of 10%, 700", held: true, rows: imbalanced(700, 25, 12)},
		{name: "30 words, 1500", held: true, rows: words(1500, 30, 13)},
		{name: "interactions, 12,000", held: true, rows: interactions(12000, 8, 15)},
		{name: "12 classes, 2000", held: true, rows: clusters(2000, 20, 12, 16)},
		{name: "70 records", held: true, rows: clusters(88, 4, 2, 17)},
		{name: "curved target, 6000", number: true, held: true, rows: curved(6000, 8, 18)},
		{name: "skewed target, 1200", number: true, held: true, rows: skewedTarget(1200, 6, 19)},
	}
}

// rowWriter collects rows of numbers and words.
type rowWriter struct {
	rows [][]string
	*rand.Rand
}

func newRows(seed uint64, numbers int, more ...string) *rowWriter {
	w := &rowWriter{Rand: rand.New(rand.NewPCG(seed, 1))}
	var header []string
	for i := range numbers {
		header = append(header, fmt.Sprintf("x%d", i))
	}
	w.rows = append(w.rows, append(header, more...))
	return w
}

func (w *rowWriter) normals(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = w.NormFloat64()
	}
	return x
}

func (w *rowWriter) add(x []float64, more ...string) {
	var row []string
	for _, v := range x {
		row = append(row, strconv.FormatFloat(v, 'g', 5, 64))
	}
	w.rows = append(w.rows, append(row, more...))
}

// class draws a class with the given logit.
func (w *rowWriter) class(logit float64) string {
	if w.Float64() < 1/(1+math.Exp(-logit)) {
		return "yes"
	}
	return "no"
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// skewed has log-normal columns; the logarithms decide the class.
func skewed(n, d int, seed uint64) [][]string {
	w := newRows(seed, d, "y")
	beta := w.normals(d)
	for range n {
		u := w.normals(d)
		logit := 0.8 * dot(u, beta)
		for i := range u {
			u[i] = math.Exp(1.2 * u[i])
		}
		w.add(u, w.class(logit))
	}
	return w.rows
}

// imbalanced has one rare class, which the columns decide linearly.
func imbalanced(n, d int, seed uint64) [][]string {
	w := newRows(seed, d, "y")
	beta := w.normals(d)
	scale := 3.5 / math.Sqrt(dot(beta, beta))
	offset := map[bool]float64{true: -7.6, false: -4.6}[n > 1000]
	for range n {
		x := w.normals(d)
		w.add(x, w.class(scale*dot(x, beta)+offset))
	}
	return w.rows
}

// words has a column of words with an effect of each, and three numbers.
func words(n, vocabulary int, seed uint64) [][]string {
	w := newRows(seed, 3, "word", "y")
	effect := w.normals(vocabulary)
	for range n {
		k := min(int(w.ExpFloat64()*float64(vocabulary)/6), vocabulary-1)
		x := w.normals(3)
		w.add(x, fmt.Sprintf("w%d", k), w.class(1.5*effect[k]+x[0]-0.5*x[1]+0.3*x[2]))
	}
	return w.rows
}

// missing has blank numbers and a column of words, of which one is blank.
func missing(n, d int, seed uint64) [][]string {
	w := newRows(seed, d, "kind", "y")
	beta := w.normals(d)
	kinds := []string{"a", "b", "c", "unknown"}
	for range n {
		x := w.normals(d)
		kind := w.IntN(len(kinds))
		w.add(x, kinds[kind], w.class(dot(x, beta)+float64(kind)-1.5))
		if row := w.rows[len(w.rows)-1]; w.Float64() < 0.1 {
			row[w.IntN(d)] = ""
		}
	}
	return w.rows
}

// interactions has products and squares of columns in its logit.
func interactions(n, d int, seed uint64) [][]string {
	w := newRows(seed, d, "y")
	beta := w.normals(d)
	for range n {
		x := w.normals(d)
		w.add(x, w.class(0.7*dot(x, beta)+0.8*x[0]*x[1]+0.6*(x[2]*x[2]-1)))
	}
	return w.rows
}

// clusters has a normal distribution for each class, of different frequencies.
func clusters(n, d, classes int, seed uint64) [][]string {
	w := newRows(seed, d, "y")
	centres := make([][]float64, classes)
	for k := range centres {
		centres[k] = w.normals(d)
	}
	for range n {
		k := int(float64(classes) * math.Pow(w.Float64(), 1.5))
		x := w.normals(d)
		for i := range x {
			x[i] += 1.2 * centres[k][i]
		}
		w.add(x, fmt.Sprintf("c%02d", k))
	}
	return w.rows
}

// curved has a target with a product and a square of columns.
func curved(n, d int, seed uint64) [][]string {
	w := newRows(seed, d, "y")
	beta := w.normals(d)
	for range n {
		x := w.normals(d)
		y := dot(x, beta) + 1.5*x[0]*x[1] + x[2]*x[2] + 0.5*w.NormFloat64()
		w.add(append(x, y))
	}
	return w.rows
}

// skewedTarget has a log-normal target that depends little on the columns.
func skewedTarget(n, d int, seed uint64) [][]string {
	w := newRows(seed, d, "y")
	for range n {
		x := w.normals(d)
		w.add(append(x, math.Exp(w.NormFloat64()+0.5*x[0])))
	}
	return w.rows
}
