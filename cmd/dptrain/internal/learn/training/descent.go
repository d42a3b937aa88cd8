package training

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

type descentRequest struct {
	Lot   int     `json:"lot"`
	Steps int     `json:"steps"`
	Rate  float64 `json:"rate"`
	Noise float64 `json:"noise"` // noise multiplier; 0: SGD without clipping and noise
	Clip  float64 `json:"clip"`
}

type descentAnswer struct {
	X    []float32    `json:"x"` // the points
	Y    []float32    `json:"y"`
	Path [][2]float32 `json:"path"` // slope and intercept after each lot
	Grid []float64    `json:"grid"` // the loss at slopes and intercepts from −1.5 to 1.5, row by row
	Loss float64      `json:"loss"` // at the end of the path
	Best float64      `json:"best"` // the smallest on the grid
}

const (
	linePoints = 200
	gridSize   = 25
)

var errDescent = errors.New("give a lot of 1 to 200 points, 1 to 500 lots and a positive rate")

// lineNetwork is y = w₀·x + w₁ with the squared error.
func lineNetwork(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	x := n.Input("x", 2)
	y := n.Input("y", 1)
	n.UseBias(false)
	p := layer.Dense(n, x, "line", 1, layer.Identity)
	n.SetLoss(layer.SquaredError(n, p, y), p)
	return n.Network()
}

// descent fits a line by SGD with the engine. The two weights make a picture of the loss.
func descent(q descentRequest, _ func(any)) (a descentAnswer, err error) {
	if q.Lot < 1 || q.Lot > linePoints || q.Steps < 1 || q.Steps > 500 || !(q.Rate > 0) {
		return a, errDescent
	}
	random := rand.New(rand.NewPCG(3, 1)) // public points, the same for every reader
	inputs := make([]float32, 0, 2*linePoints)
	for range linePoints {
		x := float32(2*random.Float64() - 1)
		a.X, a.Y = append(a.X, x), append(a.Y, 0.9*x-0.5+float32(0.25*random.NormFloat64()))
		inputs = append(inputs, x, 1)
	}
	columns := []data.Column{{Name: "x", Shape: []int{2}}, {Name: "y", Kind: data.Target, Shape: []int{1}}}
	set, err := data.NewTable(columns, [][]float32{inputs, a.Y}, nil)
	if err != nil {
		return a, err
	}
	start := []float32{-1.2, 1.2}
	if err := a.drawPath(q, set, start); err != nil {
		return a, err
	}
	e, err := engine.NewEvaluator(lineNetwork, oneThread)
	if err != nil {
		return a, err
	}
	defer e.Close()
	for i := len(grid); i < gridSize*gridSize; i++ {
		s, err := e.Score([][]float32{{gridValue(i % gridSize), gridValue(i / gridSize)}}, set)
		if err != nil {
			return a, err
		}
		grid = append(grid, s.Loss)
	}
	a.Grid, a.Best = grid, slices.Min(grid)
	end := a.Path[len(a.Path)-1]
	s, err := e.Score([][]float32{end[:]}, set)
	a.Loss = s.Loss
	return a, err
}

// grid has the losses of the points of the grid: they do not depend on a request.
var grid []float64

func gridValue(i int) float32 { return -1.5 + 3*float32(i)/(gridSize-1) }

func (a *descentAnswer) drawPath(q descentRequest, set data.Set, start []float32) error {
	c := plainSGD(startingAt(lineNetwork, [][]float32{start}), set, q.Rate)
	c.Sampling, c.Steps = engine.Sampling{Lot: q.Lot}, q.Steps
	if q.Noise > 0 {
		c.Mechanism = engine.Mechanism{Clipping: clip.Flat(clip.Constant(q.Clip), nil), NoiseMultiplier: q.Noise}
		c.Files.LedgerWriter = &bytes.Buffer{}
	}
	r, err := engine.New(c)
	if err != nil {
		return err
	}
	defer r.Close()
	a.Path = append(a.Path, [2]float32(start))
	return r.Train(context.Background(), func(*engine.Progress) error {
		p, err := r.BorrowParameters()
		if err == nil {
			a.Path = append(a.Path, [2]float32(p[0].Values))
		}
		return err
	})
}

// startingAt returns the network with other initial values.
func startingAt(build perexample.Build, weights [][]float32) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n, err := build(batch)
		if err != nil {
			return nil, err
		}
		return n, setInitial(n, weights)
	}
}
