package release

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/internal/setting"
)

// Noise is the noise on the sums of groups of parameters, as multiples of their sensitivities: the fields of
// engine.Mechanism.
type Noise struct {
	Groups                 []clip.Group
	NoiseMultiplier        float64               // of the groups without noise of their own, all together
	NoiseMultiplierAt      func(lot int) float64 // of each lot
	GroupNoiseMultipliers  map[string]float64    // of groups
	GroupNoiseMultiplierAt map[string]func(lot int) float64
	GroupShares            map[string]float64 // of the cost of the groups without noise of their own; empty: see DimensionAdjusted
	DimensionAdjusted      bool               // a coordinate of a large group gets a smaller share of the budget
	Laplace                bool
	Chosen                 bool // each lot's multiplier is chosen from releases, and a filter accounts for it
}

// Check checks which groups have noise and of which kind. The noise of each lot is checked later: see
// Mechanism.checkLots.
func (n *Noise) Check() error {
	for _, name := range slices.Sorted(maps.Keys(n.GroupNoiseMultiplierAt)) {
		if _, both := n.GroupNoiseMultipliers[name]; both {
			return fmt.Errorf("group %q has both a noise multiplier and one for each lot: give it in one of Mechanism.GroupNoiseMultipliers and Mechanism.GroupNoiseMultiplierAt", name)
		}
		if n.GroupNoiseMultiplierAt[name] == nil {
			return fmt.Errorf("group %q has a nil function in Mechanism.GroupNoiseMultiplierAt: give one, or drop the group", name)
		}
	}
	for _, own := range [][]string{slices.Sorted(maps.Keys(n.GroupNoiseMultipliers)), slices.Sorted(maps.Keys(n.GroupNoiseMultiplierAt))} {
		for _, name := range own {
			if !slices.ContainsFunc(n.Groups, func(g clip.Group) bool { return g.Name == name }) {
				return fmt.Errorf("noise is given for group %q, and no group of Mechanism.Clipping has this name", name)
			}
		}
	}
	if err := n.checkShares(); err != nil {
		return err
	}
	switch {
	case n.NoiseMultiplier != 0 && n.NoiseMultiplierAt != nil:
		return fmt.Errorf("both a noise multiplier (%v) and one for each lot are set: set one of Mechanism.NoiseMultiplier and Mechanism.NoiseMultiplierAt", n.NoiseMultiplier)
	case !n.IsShared() && (n.NoiseMultiplier != 0 || n.NoiseMultiplierAt != nil):
		return fmt.Errorf("every group has noise of its own, so a noise multiplier for the other groups has no effect: leave Mechanism.NoiseMultiplier and Mechanism.NoiseMultiplierAt unset")
	case n.IsShared() && n.NoiseMultiplierAt == nil:
		if CheckMultiplier(n.NoiseMultiplier) != nil {
			return setting.Errorf("Mechanism.NoiseMultiplier", "%v: give a finite multiplier above 0, or train without noise and privacy (%v)",
				setting.With("Mechanism.NoiseMultiplier", n.NoiseMultiplier), setting.Named("Mechanism.NonPrivate"))
		}
	}
	return nil
}

// checkShares checks that the groups without noise of their own have shares, or none has.
func (n *Noise) checkShares() error {
	if len(n.GroupShares) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(n.GroupShares)) {
		if !slices.ContainsFunc(n.Groups, func(g clip.Group) bool { return g.Name == name }) {
			return fmt.Errorf("a share of the noise is given for group %q, and no group of Mechanism.Clipping has this name", name)
		}
	}
	for _, g := range n.Groups {
		_, own := n.OfGroup(g.Name, 0)
		share, given := n.GroupShares[g.Name]
		switch {
		case own && given:
			return fmt.Errorf("group %q has noise of its own and a share of the noise of the others: give one of them", g.Name)
		case !own && !given:
			return fmt.Errorf("group %q has no share of the noise, and others have one: give each group without noise of its own a share, or none", g.Name)
		case given && (!(share > 0) || math.IsInf(share, 1)):
			return fmt.Errorf("group %q has the share %v of the noise: give a finite number above 0", g.Name, share)
		}
	}
	return nil
}

// IsShared reports whether a group has no noise of its own.
func (n *Noise) IsShared() bool {
	return len(n.Groups) == 0 || slices.ContainsFunc(n.Groups, func(g clip.Group) bool {
		_, own := n.OfGroup(g.Name, 0)
		return !own
	})
}

// IsScheduled reports whether some noise is given for each lot.
func (n *Noise) IsScheduled() bool {
	return n.NoiseMultiplierAt != nil || len(n.GroupNoiseMultiplierAt) > 0
}

// Shared returns z of a lot, for the groups without noise of their own.
func (n *Noise) Shared(lot int) float64 {
	if n.NoiseMultiplierAt != nil {
		return n.NoiseMultiplierAt(lot)
	}
	return n.NoiseMultiplier
}

// OfGroup returns z_g of a group in a lot. It reports false if the group has no noise
// of its own.
func (n *Noise) OfGroup(name string, lot int) (z float64, own bool) {
	if at := n.GroupNoiseMultiplierAt[name]; at != nil {
		return at(lot), true
	}
	z, own = n.GroupNoiseMultipliers[name]
	return z, own
}

// Combined returns the noise multiplier of all gradient groups and adaptive counts of a lot together: see
// engine.Mechanism.CombinedNoiseMultiplier.
func (n *Noise) Combined(lot int) float64 {
	if len(n.GroupNoiseMultipliers)+len(n.GroupNoiseMultiplierAt) == 0 {
		return n.Shared(lot)
	}
	squares := 0.0
	add := func(z float64) { squares += 1 / (z * z) }
	if n.IsShared() {
		add(n.Shared(lot))
	}
	for _, g := range n.Groups {
		if z, own := n.OfGroup(g.Name, lot); own {
			add(z)
		}
		if q, adaptive := g.Bound.(clip.Quantile); adaptive && !n.IsShared() {
			add(q.Noise / clip.CountSensitivity)
		}
	}
	return 1 / math.Sqrt(squares)
}

// CheckMultiplier refuses a noise multiplier that protects no record or hides everything.
func CheckMultiplier(z float64) error {
	if z > 0 && !math.IsInf(z, 1) {
		return nil
	}
	return fmt.Errorf("noise multiplier %v: give a finite number above 0", z)
}
