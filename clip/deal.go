package clip

import (
	"errors"
	"fmt"

	"github.com/dptrain/dptrain/internal/nearest"
)

// resolveGroups finds the members of each group. Every vector belongs to exactly one
// group, every pattern is good for at least one vector.
func resolveGroups(names []string, groups []Group) ([]ResolvedGroup, error) {
	if len(names) == 0 {
		return nil, errors.New("clip: there are no vectors to clip")
	}
	owner := make([]string, len(names)) // the group that claimed it
	parts := make([]ResolvedGroup, len(groups))
	taken := make(map[string]bool, len(groups))
	for i, g := range groups {
		if g.Name == "" {
			return nil, fmt.Errorf("clip: group %d has no name; the ledger needs one", i+1)
		}
		if taken[g.Name] {
			return nil, fmt.Errorf("clip: two groups are called %q; the ledger needs to tell them apart", g.Name)
		}
		taken[g.Name] = true
		if len(g.Scales) != 0 && len(g.Scales) != len(g.Parameters) {
			return nil, fmt.Errorf("clip: group %q has %d scales for %d entries of vectors; give one for each, or none", g.Name, len(g.Scales), len(g.Parameters))
		}
		if len(g.Parameters) == 0 {
			return nil, fmt.Errorf("clip: group %q names no vectors", g.Name)
		}
		parts[i].Name = g.Name
		for j, pattern := range g.Parameters {
			scale := 1.0
			if len(g.Scales) != 0 {
				scale = g.Scales[j]
			}
			if !(scale >= minBound && scale <= maxBound) {
				return nil, fmt.Errorf("clip: group %q: scale %v of %q, want a number from %v to %v", g.Name, scale, pattern, minBound, maxBound)
			}
			claimed, err := claimParameters(names, owner, pattern, g.Name)
			if err != nil {
				return nil, err
			}
			for _, v := range claimed {
				parts[i].Members = append(parts[i].Members, Member{v, scale})
			}
		}
	}
	for v, name := range names {
		if owner[v] == "" {
			return nil, fmt.Errorf("clip: vector %q is in no group; add it to one, or add a group for what is left", name)
		}
	}
	return parts, nil
}

// claimParameters makes a group the owner of the vectors that a pattern is good for.
func claimParameters(names, owner []string, pattern, group string) (claimed []int, err error) {
	for v, name := range names {
		if !matches(pattern, name) {
			continue
		}
		if owner[v] != "" {
			return nil, fmt.Errorf("clip: vector %q is claimed by group %q and again by %q of group %q; let one entry claim it", name, owner[v], pattern, group)
		}
		owner[v] = group
		claimed = append(claimed, v)
	}
	if len(claimed) == 0 {
		return nil, fmt.Errorf("clip: group %q: no vector is called %q; the nearest is %q", group, pattern, nearest.Closest(pattern, names))
	}
	return claimed, nil
}
