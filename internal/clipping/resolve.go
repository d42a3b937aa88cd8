package clipping

import (
	"errors"
	"fmt"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/internal/nearest"
)

// resolveGroups finds the members of each group. Each parameter must belong to exactly one
// group, and each pattern must match at least one parameter.
func resolveGroups(names []string, groups []clip.Group) ([]ResolvedGroup, error) {
	if len(names) == 0 {
		return nil, errors.New("clip: there are no parameters to clip")
	}
	owner := make([]string, len(names)) // the group of each parameter
	parts := make([]ResolvedGroup, len(groups))
	taken := make(map[string]bool, len(groups))
	for i, g := range groups {
		if g.Name == "" {
			return nil, fmt.Errorf("clip: group %d has no name: give it one for the ledger", i+1)
		}
		if taken[g.Name] {
			return nil, fmt.Errorf("clip: two groups have the name %q: the names in the ledger must be unique", g.Name)
		}
		taken[g.Name] = true
		if len(g.Scales) != 0 && len(g.Scales) != len(g.Parameters) {
			return nil, fmt.Errorf("clip: group %q has %d scales for %d entries of parameters: give one for each entry or none", g.Name, len(g.Scales), len(g.Parameters))
		}
		if len(g.Parameters) == 0 {
			return nil, fmt.Errorf("clip: group %q has no parameters", g.Name)
		}
		parts[i].Name = g.Name
		for j, pattern := range g.Parameters {
			scale := 1.0
			if len(g.Scales) != 0 {
				scale = g.Scales[j]
			}
			if !(scale >= minBound && scale <= maxBound) {
				return nil, fmt.Errorf("clip: group %q: scale %v of %q must be a number from %v to %v", g.Name, scale, pattern, minBound, maxBound)
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
			return nil, fmt.Errorf("clip: parameter %q is in no group: add it to a group, or add a group for the remaining parameters", name)
		}
	}
	return parts, nil
}

// claimParameters assigns the parameters that match a pattern to a group.
func claimParameters(names, owner []string, pattern, group string) (claimed []int, err error) {
	for v, name := range names {
		if !clip.Matches(pattern, name) {
			continue
		}
		if owner[v] != "" {
			return nil, fmt.Errorf("clip: parameter %q is in group %q and also matches %q of group %q: let one entry match it", name, owner[v], pattern, group)
		}
		owner[v] = group
		claimed = append(claimed, v)
	}
	if len(claimed) == 0 {
		return nil, fmt.Errorf("clip: group %q: no parameter has the name %q; the most similar name is %q", group, pattern, nearest.Closest(pattern, names))
	}
	return claimed, nil
}
