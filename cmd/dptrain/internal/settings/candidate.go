package settings

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/engine"
)

// Hyperparameters are the settings that tune varies, and the noise that follows from them.
type Hyperparameters struct {
	Clip            float64  `json:"clip"`
	LearningRate    float64  `json:"learning_rate"`
	Lot             int      `json:"lot"`
	Steps           int      `json:"steps"`
	NoiseMultiplier float64  `json:"noise_multiplier"`
	Groups          []string `json:"groups,omitempty"`     // values of --group, with the bounds and shares of the setting
	Allocation      string   `json:"allocation,omitempty"` // of the noise among groups; "": without groups, or by shares
}

// Hyperparameters returns the settings that tune varies.
func (s *Spec) Hyperparameters() Hyperparameters {
	c := &s.Config
	h := Hyperparameters{s.Flags.Clip, s.Flags.LearningRate, c.Sampling.Lot, c.Steps, c.Mechanism.NoiseMultiplier, s.Flags.Groups, ""}
	if len(s.Config.Mechanism.Clipping) > 1 && len(s.Config.Mechanism.GroupShares) == 0 {
		h.Allocation = s.Flags.Allocation
	}
	return h
}

// Flags returns the flags that repeat the settings. The noise follows from the budget.
func (h Hyperparameters) Flags() string {
	flags := fmt.Sprintf("--clip %v --lr %v --lot %d --steps %d", h.Clip, h.LearningRate, h.Lot, h.Steps)
	for _, group := range h.Groups {
		flags += " --group " + rundir.ShellQuote(group)
	}
	if h.Allocation != "" {
		flags += " --allocation " + h.Allocation
	}
	return flags
}

// Candidate returns the flags of the i-th candidate of a hyperparameter search. Candidate 0
// has the specification's own flags. The others cover plausible ranges on a logarithmic
// scale. Flags with a value keep it, and so do keys of a group.
//
// With groups, the bound S of each group varies around its default, and how the noise is divided among
// the groups: a third of the candidates each has shares of their own, proportional noise and noise by
// dimension (McMahan et al. 2019, section 4).
func (s *Spec) Candidate(i int) (*Flags, error) {
	f := *s.Flags
	f.given = maps.Clone(s.Flags.given)
	if i == 0 {
		return &f, nil
	}
	groups, err := parseGroups(f.Groups)
	if err != nil {
		return nil, err
	}
	f.Groups = slices.Clone(f.Groups)
	spread := newSpread(i, 4+2*len(groups))
	n := float64(s.Config.PublicRecordCount())
	expected, lots := expectedLot(&s.Config), float64(s.Config.Steps)
	clip, lr := spread(0.1*f.Clip, 10*f.Clip), spread(0.06*f.LearningRate, 6*f.LearningRate)
	lot, steps := spread(max(1, expected/8), min(n, 4*expected)), spread(max(1, lots/8), 2*lots)
	f.varyGroups(groups, i, spread)
	if !f.given["clip"] && (len(groups) == 0 || slices.ContainsFunc(groups, func(g *groupFlag) bool { return g.byShare })) {
		f.Clip, f.given["clip"] = clip, true
	}
	if !f.given["lr"] {
		f.LearningRate = lr
	}
	if !f.given["lot"] {
		f.Lot, f.given["lot"] = int(lot), true
	}
	if !f.given["steps"] && !f.given["epochs"] {
		f.Steps, f.given["steps"] = int(steps), true
	}
	return &f, nil
}

// newSpread returns a function that gives candidate i its value on one axis after the other, of a number of
// axes. Values are evenly spread for any number of candidates: each axis takes multiples of a power
// of the inverse of the root of x^(axes+1) = x + 1.
func newSpread(i, axes int) func(low, high float64) float64 {
	root := 1.0
	for range 64 { // the iteration contracts
		root = math.Pow(1+root, 1/float64(axes+1))
	}
	axis := 0
	return func(low, high float64) float64 {
		axis++
		_, part := math.Modf(0.5 + float64(i)*math.Pow(root, -float64(axis)))
		return number.TwoDigits(low * math.Pow(high/low, part))
	}
}

// varyGroups changes the bounds of groups, and how the noise is divided among them, for candidate i.
func (s *Flags) varyGroups(groups []*groupFlag, i int, spread func(low, high float64) float64) {
	shared, hasShares := 0, false
	for _, g := range groups {
		if g.noise == nil && g.ofMean == 0 {
			shared++
		}
		hasShares = hasShares || g.share != 0
	}
	bySharesOfCandidate := false
	if shared > 1 && !hasShares && !s.given["allocation"] {
		switch i % 3 {
		case 0:
			s.Allocation = string(engine.Proportional)
		case 1:
			s.Allocation = string(engine.DimensionAdjusted)
		default:
			bySharesOfCandidate = true
		}
	}
	for _, g := range groups {
		bound, share := spread(0.1*s.Clip/math.Sqrt(float64(len(groups))), 10*s.Clip/math.Sqrt(float64(len(groups)))), spread(0.1, 10)
		first := slices.IndexFunc(s.Groups, func(text string) bool { return groupName(text) == g.name })
		if g.clip == nil && !g.byShare {
			s.Groups[first] += fmt.Sprintf(",clip=%v", bound)
		}
		if bySharesOfCandidate && g.noise == nil && g.ofMean == 0 {
			s.Groups[first] += fmt.Sprintf(",share=%v", share)
		}
	}
}
