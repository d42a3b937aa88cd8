package engine

import (
	"cmp"
	"fmt"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/internal/release"
)

// Mechanism describes how the influence of a record is bounded and which noise is added.
type Mechanism struct {
	NonPrivate        bool                  // no clipping, no noise, ε = ∞: the baseline
	Clipping          []clip.Group          // default: all parameters together, bound 1
	NoiseMultiplier   float64               // z = σ/S of adaptive counts and of the groups without noise of their own, all together
	NoiseMultiplierAt func(lot int) float64 // z of each lot, from 0, in place of NoiseMultiplier; no function of releases: see Choose
	Allocation        Allocation            // how this noise is divided among groups; default: Proportional
	Distribution      Distribution          // of the noise on gradients; default: GaussianNoise
	Arithmetic        Arithmetic            // how contributions are added and noised; default: exact

	// GroupNoiseMultipliers and GroupNoiseMultiplierAt give groups of Clipping noise of their own,
	// by name: z_g = σ_g/S_g (McMahan et al. 2019, section 3), the same in all lots or one for each
	// lot, from 0, which must depend on public values only. Where every group has its own,
	// NoiseMultiplier and NoiseMultiplierAt must be unset.
	GroupNoiseMultipliers  map[string]float64
	GroupNoiseMultiplierAt map[string]func(lot int) float64

	// GroupShares gives each group without noise of its own, by name, its share of the cost of these groups,
	// in place of Allocation: (S_g/σ_g)² is proportional to it. Only the ratios of shares count.
	GroupShares map[string]float64

	// Choose chooses the noise and the bounds of each lot from what earlier lots released: from its
	// argument, which describes the run before the lot, from the weights, and from public values.
	// An [accountant.Filter] then enforces Budget.StopAtEpsilon, which is required. A choice that
	// would exceed it ends Train with an error that wraps [ErrBudget], before the lot begins.
	// Choose must not depend on private data in another way, such as the duration of a lot.
	Choose   func(*Progress) LotChoice
	adaptive *adaptiveLots
}

// Arithmetic is how the contributions of records are added and noised.
type Arithmetic string

const (
	// ExactArithmetic adds integers, whose norms are checked in integers, and rounds Gaussian noise
	// correctly (package noise). The guarantee holds for the bits that are released.
	ExactArithmetic Arithmetic = "exact"
	// FloatArithmetic adds floating-point numbers and floating-point noise. The guarantee is
	// proved for real numbers.
	FloatArithmetic Arithmetic = "float"
)

// Distribution is the distribution of the noise on gradients.
type Distribution string

const (
	// GaussianNoise belongs to ℓ₂ norms: a record's gradient is clipped by its ℓ₂ norm.
	GaussianNoise Distribution = "gaussian"
	// LaplaceNoise belongs to ℓ₁ norms. A record contributes a vector of integers whose ℓ₁ norm is
	// checked in integers, and the noise is discrete Laplace, with its exact distribution
	// (noise.Source.DiscreteLaplaces). Lots in which every record takes part cost a pure ε. The
	// noise multiplier is its scale over the bound. It requires exact arithmetic, the device cpu,
	// one group without an adaptive bound, and lots that are not truncated.
	LaplaceNoise Distribution = "laplace"
)

// Allocation is a way to divide the noise among groups (McMahan et al. 2019, section 4).
type Allocation string

const (
	// Proportional gives every group the same ratio of noise to sensitivity.
	Proportional Allocation = "proportional"
	// DimensionAdjusted gives a coordinate of a large group a smaller share of the budget.
	DimensionAdjusted Allocation = "dimension"
)

func (m *Mechanism) checkAllocation() error {
	m.Allocation = cmp.Or(m.Allocation, Proportional)
	if a := m.Allocation; a != Proportional && a != DimensionAdjusted {
		return fmt.Errorf("allocation %q is unknown: use %s or %s", a, Proportional, DimensionAdjusted)
	}
	return nil
}

// noise returns the noise on gradients.
func (m *Mechanism) noise() *release.Noise {
	return &release.Noise{Groups: m.Clipping, NoiseMultiplier: m.NoiseMultiplier, NoiseMultiplierAt: m.NoiseMultiplierAt,
		GroupNoiseMultipliers: m.GroupNoiseMultipliers, GroupNoiseMultiplierAt: m.GroupNoiseMultiplierAt,
		GroupShares: m.GroupShares, DimensionAdjusted: m.Allocation == DimensionAdjusted,
		Laplace: m.addsLaplace(), Chosen: m.adaptive != nil}
}

// CombinedNoiseMultiplier returns the noise multiplier of all gradient groups and adaptive counts
// of a lot together: several Gaussian sums with sensitivities S_g and noise σ_g cost as much as one
// with the multiplier (Σ_g (S_g/σ_g)²)^(-1/2) (McMahan et al. 2019, section 3).
func (m Mechanism) CombinedNoiseMultiplier(lot int) float64 { return m.noise().Combined(lot) }

// addsLaplace reports whether gradients have Laplace noise.
func (m *Mechanism) addsLaplace() bool { return !m.NonPrivate && m.Distribution == LaplaceNoise }
