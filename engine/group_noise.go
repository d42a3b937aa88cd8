package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/dptrain/dptrain/clip"
)

// checkNoise checks which groups have noise and of which kind. The noise of each lot is checked
// later: see mechanism.checkLots.
func (m *Mechanism) checkNoise() error {
	for _, name := range slices.Sorted(maps.Keys(m.GroupNoiseMultiplierAt)) {
		if _, both := m.GroupNoiseMultipliers[name]; both {
			return fmt.Errorf("group %q has both a noise multiplier and one for each lot: give it in one of Mechanism.GroupNoiseMultipliers and Mechanism.GroupNoiseMultiplierAt", name)
		}
		if m.GroupNoiseMultiplierAt[name] == nil {
			return fmt.Errorf("group %q has a nil function in Mechanism.GroupNoiseMultiplierAt: give one, or drop the group", name)
		}
	}
	for _, own := range [][]string{slices.Sorted(maps.Keys(m.GroupNoiseMultipliers)), slices.Sorted(maps.Keys(m.GroupNoiseMultiplierAt))} {
		for _, name := range own {
			if !slices.ContainsFunc(m.Clipping, func(g clip.Group) bool { return g.Name == name }) {
				return fmt.Errorf("noise is given for group %q, and no group of Mechanism.Clipping has this name", name)
			}
		}
	}
	switch {
	case m.NoiseMultiplier != 0 && m.NoiseMultiplierAt != nil:
		return fmt.Errorf("both a noise multiplier (%v) and one for each lot are set: set one of Mechanism.NoiseMultiplier and Mechanism.NoiseMultiplierAt", m.NoiseMultiplier)
	case !m.sharesNoise() && (m.NoiseMultiplier != 0 || m.NoiseMultiplierAt != nil):
		return fmt.Errorf("every group has noise of its own, so a noise multiplier for the other groups has no effect: leave Mechanism.NoiseMultiplier and Mechanism.NoiseMultiplierAt unset")
	case m.sharesNoise() && m.NoiseMultiplierAt == nil:
		return checkNoiseMultiplier(m.NoiseMultiplier)
	}
	return nil
}

// sharesNoise reports whether a group has no noise of its own.
func (m *Mechanism) sharesNoise() bool {
	return len(m.Clipping) == 0 || slices.ContainsFunc(m.Clipping, func(g clip.Group) bool {
		_, own := m.groupNoiseMultiplier(g.Name, 0)
		return !own
	})
}

// isNoiseScheduled reports whether some noise is given for each lot.
func (m *Mechanism) isNoiseScheduled() bool {
	return m.NoiseMultiplierAt != nil || len(m.GroupNoiseMultiplierAt) > 0
}

// noiseMultiplier returns z of a lot, for the groups without noise of their own.
func (m *Mechanism) noiseMultiplier(lot int) float64 {
	if m.NoiseMultiplierAt != nil {
		return m.NoiseMultiplierAt(lot)
	}
	return m.NoiseMultiplier
}

// groupNoiseMultiplier returns z_g of a group in a lot. It reports false if the group has no noise
// of its own.
func (m *Mechanism) groupNoiseMultiplier(name string, lot int) (z float64, own bool) {
	if at := m.GroupNoiseMultiplierAt[name]; at != nil {
		return at(lot), true
	}
	z, own = m.GroupNoiseMultipliers[name]
	return z, own
}

// CombinedNoiseMultiplier returns the noise multiplier of all gradient groups and adaptive counts
// of a lot together: several Gaussian sums with sensitivities S_g and noise σ_g cost as much as one
// with the multiplier (Σ_g (S_g/σ_g)²)^(-1/2) (McMahan et al. 2019, section 3).
func (m Mechanism) CombinedNoiseMultiplier(lot int) float64 {
	if len(m.GroupNoiseMultipliers)+len(m.GroupNoiseMultiplierAt) == 0 {
		return m.noiseMultiplier(lot)
	}
	squares := 0.0
	add := func(z float64) { squares += 1 / (z * z) }
	if m.sharesNoise() {
		add(m.noiseMultiplier(lot))
	}
	for _, g := range m.Clipping {
		if z, own := m.groupNoiseMultiplier(g.Name, lot); own {
			add(z)
		}
		if q, adaptive := g.Bound.(clip.Quantile); adaptive && !m.sharesNoise() {
			add(q.Noise / clip.CountSensitivity)
		}
	}
	return 1 / math.Sqrt(squares)
}
