package accountant

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/numerics"
	"github.com/dptrain/dptrain/accountant/internal/rdp"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// Odometer is a privacy odometer (Rogers et al. 2016, "Privacy Odometers and Filters"): it bounds
// the privacy loss of what was released so far, at all times at once.
//
// It promises: with probability at least 1-δ, at every time the privacy loss log(P/Q) of the
// releases so far is at most Epsilon of that time. P and Q are the distributions of the releases
// on two neighbouring data sets, in either order. Lots may be chosen from what earlier lots
// released, and the reader may stop at a time of his choice. The ε of a fixed number of lots, such
// as that of [Epsilon], does not hold at such a time: the times at which the loss happens to
// exceed it can be chosen.
//
// The bound at the time of a stop is a function of the releases. It is a guarantee of the kind
// "ex post", which is weaker than (ε, δ)-differential privacy with an ε that was fixed in advance:
// for that, use a [Filter].
//
// Derivation. At each order α the process exp((α-1)(loss - Σ of Rényi divergences)) is a
// supermartingale under P that starts at 1, for lots that are chosen adaptively. So is a mixture of
// such processes over orders with fixed weights. By Ville's inequality it exceeds 1/δ at any time
// with probability at most δ. Epsilon is the largest loss at which the mixture is 1/δ (Whitehouse
// et al. 2023, "Fully-Adaptive Composition in Differential Privacy", use mixtures for zCDP;
// Feldman and Zrnic 2021 and Lécuyer 2021 derive Rényi odometers by union bounds).
type Odometer struct {
	delta     float64
	adjacency ledger.Adjacency
	spent     []float64 // [order]: the sum of divergences
	lots      int

	last     ledger.Lot // the lot whose divergences are in lastCost
	lastN    int
	lastCost []float64
}

// odometerOrders are the orders of the mixture, which have equal weights. They must not depend on
// the releases. Their distance in log(α-1) is 0.35.
var odometerOrders = func() (orders []float64) {
	for i := -14; i <= 30; i++ {
		orders = append(orders, 1+math.Exp2(float64(i)/2))
	}
	return orders
}()

// NewOdometer returns an odometer at delta. The adjacency is that of [NewFilter].
func NewOdometer(delta float64, adjacency ledger.Adjacency) (*Odometer, error) {
	if err := checkDelta(delta); err != nil {
		return nil, err
	}
	if adjacency == "" {
		adjacency = ledger.AddRemove
	}
	return &Odometer{delta: delta, adjacency: adjacency, spent: make([]float64, len(odometerOrders)),
		lastCost: make([]float64, len(odometerOrders))}, nil
}

// OdometerOf returns an odometer that has read a history.
func OdometerOf(h ledger.History, delta float64) (*Odometer, error) {
	s, err := dpevent.FromHistory(h)
	if err != nil {
		return nil, err
	}
	o, err := NewOdometer(delta, s.Adjacency)
	if err != nil {
		return nil, err
	}
	addDivergences(o.spent, s.Events)
	o.lots = h.LotCount()
	return o, nil
}

// Spend adds count equal lots. Of shuffled lots each call counts whole passes.
func (o *Odometer) Spend(lot ledger.Lot, count int) error {
	if count != o.lastN || lot.Sampling != o.last.Sampling || !slices.Equal(lot.Queries, o.last.Queries) {
		events, err := eventsOf(lot, count, o.adjacency)
		if err != nil {
			return err
		}
		clear(o.lastCost)
		addDivergences(o.lastCost, events)
		o.last, o.lastN = ledger.Lot{Sampling: lot.Sampling, Queries: slices.Clone(lot.Queries)}, count
	}
	for i := range o.spent {
		o.spent[i] += o.lastCost[i]
	}
	o.lots += count
	return nil
}

// Epsilon returns the bound of the privacy loss of the lots so far; 0 before the first.
func (o *Odometer) Epsilon() float64 {
	if o.lots == 0 {
		return 0
	}
	return o.epsilonOf(func(i int) float64 { return o.spent[i] })
}

// epsilonOf solves (1/n) Σ exp((α-1)(ε - spent)) = 1/δ over n orders for ε, rounded up.
func (o *Odometer) epsilonOf(spent func(order int) float64) float64 {
	limit, low, high := -math.Log(o.delta), math.Inf(1), math.Inf(1)
	n := math.Log(float64(len(odometerOrders)))
	for i, order := range odometerOrders {
		low = min(low, spent(i)+limit/(order-1))       // every term is at most 1/δ
		high = min(high, spent(i)+(limit+n)/(order-1)) // one term is n/δ
	}
	if math.IsInf(high, 1) {
		return high
	}
	exceeds := func(epsilon float64) bool {
		most, sum := math.Inf(-1), 0.0
		for i, order := range odometerOrders {
			most = max(most, (order-1)*(epsilon-spent(i)))
		}
		for i, order := range odometerOrders {
			sum += math.Exp((order-1)*(epsilon-spent(i)) - most)
		}
		return most+math.Log(sum)-n >= limit
	}
	for range 60 {
		if middle := low + (high-low)/2; exceeds(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return max(0, high)
}

// MaxLots returns how many more lots equal to lot keep Epsilon at most epsilon.
func (o *Odometer) MaxLots(lot ledger.Lot, epsilon float64) (int, error) {
	if !(epsilon > 0) || math.IsInf(epsilon, 1) {
		return 0, dpevent.InvalidArgument("epsilon %v: must be a finite number above 0", epsilon)
	}
	events, err := eventsOf(lot, 1, o.adjacency)
	if err != nil {
		return 0, err
	}
	cost := make([]float64, len(odometerOrders))
	addDivergences(cost, events)
	lots, _, err := numerics.LargestInt(maxSteps, func(n int) (float64, error) {
		return o.epsilonOf(func(i int) float64 { return o.spent[i] + float64(n)*cost[i] }), nil
	}, epsilon)
	return lots, err
}

// addDivergences adds the divergences of the events at each order. Those of fixed-size lots take
// milliseconds an order, so the processors share the orders.
func addDivergences(sum []float64, events []dpevent.RepeatedEvent) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(sum)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(sum); i = int(next.Add(1)) - 1 {
				sum[i] += rdp.TotalDivergence(events, odometerOrders[i], rdp.Divergence)
			}
		})
	}
	workers.Wait()
}

// eventsOf converts count equal lots, which must be accounted under the adjacency.
func eventsOf(lot ledger.Lot, count int, adjacency ledger.Adjacency) ([]dpevent.RepeatedEvent, error) {
	s, err := dpevent.FromHistory(ledger.History{Header: ledger.Header{Adjacency: adjacency},
		Lots: []ledger.RepeatedLot{{Lot: lot, Count: count}}})
	if err != nil {
		return nil, err
	}
	if s.Adjacency != adjacency {
		return nil, dpevent.InvalidArgument("%s lots are accounted under %s adjacency, but the filter or odometer uses %s: create it with %[2]s for all lots", lot.Sampling.Policy, s.Adjacency, adjacency)
	}
	return s.Events, nil
}
