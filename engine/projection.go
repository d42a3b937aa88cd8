package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/perexample"
)

// Projection is a first layer that is found before the first lot, and fixed from
// then on: the projection on the principal directions of the private records'
// features (Abadi et al. 2016, section 4). The zero value is none.
//
// Train releases, once, the sum over all records of xxᵀ, each record's matrix
// divided by its Frobenius norm, as a symmetric matrix with Gaussian noise, after
// Analyze Gauss (Dwork, Talwar, Thakurta & Zhang, STOC 2014, algorithm 1). The
// directions are a function of what was released. The query is in the ledger before it, as a lot
// that every record takes part in, and budgets have room for it from the start. A
// record's matrix has norm 1, which is the sensitivity to adding, removing or blanking
// one; replacing one moves the sum by √2 at most, and is accounted as 2.
//
// The directions are in the checkpoint before the first lot. A run that was stopped
// before they were there has lost them: its ledger says that they were paid for, and
// when it is resumed they are released, and paid for, once more.
type Projection struct {
	Directions int     // how many; 0: none
	Noise      float64 // σ: the standard deviation of the noise on the diagonal of the sum, 1/√2 of it beside it
	// Network gives the network that sees an example's products with the directions:
	// rows as long as its features, one after the other. It takes the place of
	// Config.Network, is called for directions of zeros first, and must give the same
	// network but for them.
	Network func(directions []float32) (perexample.Build, error)

	released []float32
}

// secondMomentsGroup is the query's name in the ledger.
const secondMomentsGroup = "second moments"

// MaxProjected is the largest number of features that are projected: for more the
// eigenvectors would take many minutes.
const MaxProjected = 2048

// checkProjection makes the network of a run with a projection.
func (c *Config) checkProjection() (err error) {
	p := &c.Projection
	if p.Directions == 0 {
		return nil
	}
	column, err := featureColumn(c.Train)
	if err != nil {
		return err
	}
	width := c.Train.Columns()[column].Size()
	switch {
	case p.Network == nil:
		return fmt.Errorf("no network: set Config.Projection.Network")
	case width > MaxProjected:
		return fmt.Errorf("a projection of %d features: the principal directions of at most %d can be found", width, MaxProjected)
	case p.Directions < 0 || p.Directions > width:
		return fmt.Errorf("%d directions of %d features: give between 1 and %d", p.Directions, width, width)
	case !c.Mechanism.NonPrivate && !(p.Noise > 0 && p.Noise <= 1e100):
		return fmt.Errorf("projection noise %v: it must be a positive number up to 1e100; without noise the directions would be private data", p.Noise)
	}
	if len(p.released) != p.Directions*width { // none, or of another run, which Resume says
		c.Network, err = c.unprojected()
		return err
	}
	c.Network, err = p.Network(p.released)
	return err
}

// unprojected is the network before anything was released: behind directions of
// zeros.
func (c *Config) unprojected() (perexample.Build, error) {
	p := &c.Projection
	if p.Directions == 0 {
		return c.Network, nil
	}
	column, err := featureColumn(c.Train)
	if err != nil {
		return nil, err
	}
	return p.Network(make([]float32, p.Directions*c.Train.Columns()[column].Size()))
}

// featureColumn is the one column of a set that can be projected.
func featureColumn(s data.Set) (column int, err error) {
	column = -1
	for k, c := range s.Columns() {
		if c.Kind != data.Feature {
			continue
		}
		if column >= 0 {
			return 0, errors.New("a projection is of one column of features, and the data have several")
		}
		column = k
	}
	if column < 0 {
		return 0, errors.New("a projection is of features that are numbers, and the data have none")
	}
	return column, nil
}

// projecting reports whether the directions are still to be released.
func (c *Config) projecting() bool {
	return c.Projection.Directions > 0 && c.Projection.released == nil
}

func (c *Config) projectionLot(records int) ledger.Lot {
	return ledger.Lot{
		Sampling: ledger.Sampling{Policy: ledger.FullBatch, Records: records},
		Queries: []ledger.Query{{Group: secondMomentsGroup, Mechanism: ledger.Gaussian, Sensitivity: 1,
			Noise: c.Projection.Noise}},
	}
}

// Directions are the released rows that the network projects on, one after the
// other; nil before Train, and where the run has no projection.
func (r *Run) Directions() []float32 { return slices.Clone(r.config.Projection.released) }

// Network is what is trained: Config.Network, or, where the run has a projection, the
// one behind it, which sees nothing but zeros before Train.
func (r *Run) Network() perexample.Build { return r.config.Network }

// project releases the directions and makes the run one of the network behind them.
// After an error nothing more may be run: the same noise would be drawn again. The end
// of ctx is no such error: until the ledger has the query nothing is released.
func (r *Run) project(ctx context.Context) error {
	if r.fault != nil {
		return r.fault
	}
	r.fault = errBroken
	directions, err := r.principalDirections(ctx)
	if err != nil && err == ctx.Err() {
		r.fault = nil
		return err
	}
	if err == nil {
		err = r.rebuild(directions) // to a run without a fault
	}
	if err != nil {
		r.fault = fmt.Errorf("projection: %w", err)
		return r.fault
	}
	if r.keeper != nil {
		return r.save()
	}
	return nil
}

// principalDirections are those of the noised second moments, which nobody has seen
// before the ledger has them. They take minutes where features are many, which the end
// of ctx does not wait for.
func (r *Run) principalDirections(ctx context.Context) ([]float32, error) {
	c := &r.config
	column, err := featureColumn(c.Train)
	if err != nil {
		return nil, err
	}
	sum, err := secondMoments(ctx, c.Train, r.deck, column, !c.Mechanism.NonPrivate, cmp.Or(c.Device.Threads, runtime.GOMAXPROCS(0)))
	if err != nil {
		return nil, err
	}
	width := c.Train.Columns()[column].Size()
	if r.ledger != nil {
		if err := r.hide(sum, width); err != nil {
			return nil, err
		}
	}
	type found struct {
		directions []float32
		err        error
	}
	end := make(chan found, 1)
	go func() {
		directions, err := principal(sum, width, c.Projection.Directions)
		end <- found{directions, err}
	}()
	var f found
	select {
	case f = <-end:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.ledger != nil { // that there are none would tell of the moments too
		r.ledger.LimitReservations(1)
		if err := r.ledger.Spend(r.config.projectionLot(r.deck.count)); err != nil {
			return nil, err
		}
	}
	return f.directions, f.err
}

// hide adds the noise to an upper triangle: independent normals of deviation σ on the
// diagonal and σ/√2 beside it, as if every entry of the whole matrix had got its own
// of deviation σ and the matrix were averaged with its transpose. In the coordinates
// (diagonal, √2·the rest), whose Euclidean norm is the matrix's Frobenius norm, it is
// σ on each.
func (r *Run) hide(upper []float64, width int) error {
	stream, drawn := r.projectionStream(), uint64(0)
	normals := make([]float64, width)
	for i := range width {
		row := upper[i*width+i : (i+1)*width]
		if err := r.source.Normals64(normals[:len(row)], stream, drawn); err != nil {
			return err
		}
		drawn += uint64(len(row))
		for j := range row {
			sigma := r.config.Projection.Noise
			if j > 0 {
				sigma /= math.Sqrt2
			}
			row[j] += sigma * normals[j]
		}
	}
	return nil
}

// rebuild compiles the network behind released directions. No lot was done, so all
// that the run has made is where it begins.
func (r *Run) rebuild(directions []float32) error {
	c := r.config
	c.Projection.released = directions
	other, err := build(c)
	if err != nil {
		return err
	}
	other.ledger, other.meter = r.ledger, r.meter
	if r.keeper != nil {
		other.keeper, err = other.keepIn(c.Files.CheckpointFolder)
	}
	if err = errors.Join(err, r.machine.Close()); err != nil {
		return err
	}
	*r = *other
	return nil
}
