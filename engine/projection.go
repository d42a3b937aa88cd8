package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/projection"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/perexample"
)

// Projection is a first layer that is computed before the first lot and then fixed: the
// projection on the principal directions of the private records' features (Abadi et al. 2016,
// section 4). The zero value is no projection.
//
// Train releases once the sum over all records of xxᵀ, each record's matrix divided by its
// Frobenius norm, as a symmetric matrix with Gaussian noise, after Analyze Gauss (Dwork, Talwar,
// Thakurta & Zhang, STOC 2014, algorithm 1). The directions are a function of this release. The
// ledger contains the query first, as a lot in which every record takes part, and budgets
// include it from the start. A record's matrix has norm 1, which is the sensitivity to adding,
// removing or blanking a record; replacing one changes the sum by at most √2, and is accounted
// as 2.
//
// The checkpoint contains the directions before the first lot. A run that is stopped before
// that has lost them: its ledger states their cost, and the resumed run releases them, and pays
// for them, again.
type Projection struct {
	Directions int     // number of directions; 0: no projection
	Noise      float64 // σ, the standard deviation of the noise on the diagonal of the sum; off the diagonal it is σ/√2
	// Network returns the network whose inputs are an example's products with the directions,
	// which are rows of the length of the features, one after the other. It replaces
	// Config.Network. The engine calls it with directions of zeros first; the networks may
	// differ only in the directions.
	Network func(directions []float32) (perexample.Build, error)

	released []float32
}

// secondMomentsGroup is the query's name in the ledger.
const secondMomentsGroup = "second moments"

// maxProjectedFeatures is the largest number of features of a projection: the eigenvectors of more
// would take many minutes.
const maxProjectedFeatures = 2048

// checkProjection sets the network of a run with a projection.
func (c *Config) checkProjection() (err error) {
	p := &c.Projection
	if p.Directions == 0 {
		return nil
	}
	width, err := p.Features(c.Train)
	if err != nil {
		return err
	}
	if p.Network == nil {
		return fmt.Errorf("no network: set Config.Projection.Network")
	}
	if err := c.checkProjectionNoise(); err != nil {
		return err
	}
	if len(p.released) != p.Directions*width { // none, or of another run, which Resume refuses later
		c.Network, err = c.unreleasedNetwork()
		return err
	}
	c.Network, err = p.Network(p.released)
	return err
}

// Features returns the number of features that a set's examples are projected from. It refuses a number of
// directions that is impossible for them.
func (p Projection) Features(s data.Set) (int, error) {
	column, err := featureColumn(s)
	if err != nil {
		return 0, err
	}
	width := s.Columns()[column].Size()
	switch {
	case width > maxProjectedFeatures:
		return 0, setting.Errorf("Projection.Directions", "a projection of %d features: the engine computes directions of at most %d features; drop %v", width, maxProjectedFeatures, setting.Named("Projection.Directions"))
	case p.Directions < 1 || p.Directions > width:
		return 0, setting.Errorf("Projection.Directions", "%v: give a number from 1 to %d, the number of features of an example", setting.With("Projection.Directions", p.Directions), width)
	}
	return width, nil
}

func (c *Config) checkProjectionNoise() error {
	p := &c.Projection
	if c.Mechanism.NonPrivate || p.Directions == 0 || p.Noise > 0 && p.Noise <= 1e100 {
		return nil
	}
	return setting.Errorf("Projection.Noise", "%v: give a standard deviation above 0 and at most 1e100; a record's matrix has norm 1", setting.With("Projection.Noise", p.Noise))
}

// unreleasedNetwork returns the network with directions of zeros, as it is before the release.
func (c *Config) unreleasedNetwork() (perexample.Build, error) {
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

// featureColumn returns the column of a set that can be projected.
func featureColumn(s data.Set) (column int, err error) {
	column = -1
	for k, c := range s.Columns() {
		if c.Kind != data.Feature {
			continue
		}
		if column >= 0 {
			return 0, setting.Errorf("Projection.Directions", "a projection needs exactly one column of features, and the data have several: drop %v", setting.Named("Projection.Directions"))
		}
		column = k
	}
	if column < 0 {
		return 0, setting.Errorf("Projection.Directions", "the features are indices, and only numeric features have principal directions: drop %v", setting.Named("Projection.Directions"))
	}
	return column, nil
}

// awaitsProjection reports whether the directions are not released yet.
func (c *Config) awaitsProjection() bool {
	return c.Projection.Directions > 0 && c.Projection.released == nil
}

// Directions returns the released directions, one after the other; nil before Train, and where
// the run has no projection.
func (r *Run) Directions() []float32 { return slices.Clone(r.config.Projection.released) }

// releaseProjection releases the directions and compiles the network that uses them. After an
// error nothing more may run: the same noise would be drawn again. The end of ctx is not such an
// error: nothing is released before the ledger contains the query.
func (r *Run) releaseProjection(ctx context.Context) error {
	if r.fault != nil {
		return r.fault
	}
	r.fault = errPanicked
	directions, err := r.principalDirections(ctx)
	if isEndOf(ctx, err) {
		r.fault = nil
		return err
	}
	if err == nil {
		err = r.recompile(directions) // clears the fault
	}
	if err != nil {
		r.fault = fmt.Errorf("projection: %w", err)
		return r.fault
	}
	if r.checkpoints != nil {
		return r.checkpoints.Save(r.step)
	}
	return nil
}

// principalDirections returns the directions of the noised second moments, after the ledger
// contains them. For many features this takes minutes; the end of ctx interrupts it.
//
// Several ranks add the integers of their records and draw the same noise. All compute the directions, and
// take those of rank 0. A release that they began and did not complete counts as spent, as a lot does.
func (r *Run) principalDirections(ctx context.Context) ([]float32, error) {
	c := &r.config
	column, err := featureColumn(c.Train)
	if err != nil {
		return nil, err
	}
	number := r.lot.Sums.Find(release.ProjectFeatures)
	m := &projection.Moments{Train: c.Train, Index: r.index, Column: column, Threads: cmp.Or(c.Device.Threads, runtime.GOMAXPROCS(0))}
	m.Rank, m.Ranks = c.rankAndCount()
	sum, err := r.noisedSecondMoments(ctx, m, number)
	if err != nil && r.team == nil {
		return nil, err
	}
	var directions []float32
	if err == nil {
		directions, err = projection.SearchDirections(ctx, sum, m.Width(), c.Projection.Directions)
	}
	if err = r.agreeOnEnd(err); isEndOf(ctx, err) {
		return nil, err
	}
	if r.account != nil { // also after an error, which depends on the moments
		err = r.team.AgreeOnSpent(err, r.account.SpendQuery(r.lot.Sums.List[number].Lot()))
	}
	if err != nil {
		return nil, err
	}
	return directions, r.team.TakeFromRankZero(directions)
}

// isEndOf reports whether err is that a context has ended: ctx, or that of another rank.
func isEndOf(ctx context.Context, err error) bool {
	return err != nil && (err == ctx.Err() || err == context.Canceled)
}

// noisedSecondMoments returns the upper triangle of the second moments of all ranks with the noise of an entry of
// the list of releases; without noise where the run is not private.
func (r *Run) noisedSecondMoments(ctx context.Context, m *projection.Moments, entry int) ([]float64, error) {
	q, stream := r.lot.Sums.List[entry].Query, r.lot.Sums.Stream(entry, r.step)
	if q.Mechanism == ledger.RoundedGaussian {
		sum, err := m.Integers(ctx, q.Lattice)
		if err := r.agreeOnEnd(err); err != nil {
			return nil, err
		}
		if err := r.team.Sum(sum); err != nil {
			return nil, err
		}
		return release.ReleaseSymmetric(sum, m.Width(), q, r.source, stream)
	}
	sum, err := m.Sum(ctx, r.account != nil)
	if err == nil && r.account != nil {
		err = release.AddSymmetricNoise(sum, m.Width(), q.Noise, r.source, stream)
	}
	return sum, err
}

// recompile compiles the network that uses released directions. No lot was done, so the state
// of the run is that at its start.
func (r *Run) recompile(directions []float32) error {
	c := r.given
	c.Projection.released = directions
	other, err := buildOnRanks(c)
	if err != nil {
		return err
	}
	other.account = r.account
	if a := other.config.Mechanism.adaptive; a != nil {
		a.Filter = r.config.Mechanism.adaptive.Filter // it has spent the projection
	}
	if r.checkpoints != nil {
		var start state.Checkpoint
		start, err = other.describeStart()
		other.checkpoints = other.newCheckpoints(start)
	}
	if err = errors.Join(err, r.network.Executable.Close()); err != nil {
		return err
	}
	*r = *other
	return nil
}
