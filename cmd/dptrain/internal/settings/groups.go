package settings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/nearest"
	"gopkg.in/yaml.v3"
	G "gorgonia.org/gorgonia"
)

// dimensionBound is the value of clip that gives a group its share of --clip by size:
// C·√(d_g/D), for d_g of D weights (McMahan et al. 2019, section 4).
const dimensionBound = "dimension"

var groupRules = []string{"threshold", "normalized", "adaptive"}

// groupFlag is one --group, or all that have the same name.
type groupFlag struct {
	name     string
	patterns []string
	scales   []float64    // one for each pattern
	clip     *lotSchedule // nil: see bound
	byShare  bool         // clip is dimensionBound
	noise    *lotSchedule // σ over the bound; nil: the group takes part in --noise or --epsilon
	ofMean   float64      // σ of the released mean, in place of noise; 0: not given
	share    float64      // of the cost of the groups without noise of their own; 0: --allocation
	rule     string
	target   float64 // of rule adaptive: the share of records that are not clipped; 0: the median
	rate     float64 // of rule adaptive; 0: adaptationRate
	counts   float64 // of rule adaptive: σ of the count; 0: a twentieth of the lot
}

// parseGroups parses the values of --group. Values with the same name add patterns to one group.
func parseGroups(flags []string) (groups []*groupFlag, err error) {
	for _, text := range flags {
		name, rest, found := strings.Cut(text, "=")
		if !found || name == "" || strings.ContainsAny(name, ",:*") {
			return nil, exitcode.Usagef("--group %q: give NAME=PATTERN[,clip=C][,noise=Z][,noise-of-mean=S][,share=P][,rule=RULE][,rate=R][,count-noise=B][,scale=A]", text)
		}
		i := slices.IndexFunc(groups, func(g *groupFlag) bool { return g.name == name })
		if i < 0 {
			i, groups = len(groups), append(groups, &groupFlag{name: name})
		}
		if err := groups[i].parse(rest); err != nil {
			return nil, exitcode.Usagef("--group %q: %w", text, err)
		}
	}
	return groups, nil
}

// groupName returns the name in a value of --group.
func groupName(text string) string {
	name, _, _ := strings.Cut(text, "=")
	return name
}

// parse parses PATTERN[,KEY=VALUE]…. A part without a key continues the value before it: a schedule
// may have commas.
func (g *groupFlag) parse(text string) error {
	parts := strings.Split(text, ",")
	pattern, settings := strings.TrimSpace(parts[0]), [][2]string{}
	for _, part := range parts[1:] {
		key, value, found := strings.Cut(part, "=")
		switch last := len(settings) - 1; {
		case found:
			settings = append(settings, [2]string{strings.TrimSpace(key), strings.TrimSpace(value)})
		case last >= 0:
			settings[last][1] += "," + strings.TrimSpace(part)
		default:
			return fmt.Errorf("%q needs a key, as in clip=%s; a second pattern of the group needs a --group of its own, with the same name", part, part)
		}
	}
	if pattern == "" {
		return fmt.Errorf("the pattern is empty: give a layer, a parameter or a pattern such as fc*")
	}
	if slices.Contains(g.patterns, pattern) {
		return fmt.Errorf("the group has the pattern %s twice: drop one of them", pattern)
	}
	g.patterns, g.scales = append(g.patterns, pattern), append(g.scales, 1)
	for _, s := range settings {
		if err := g.set(s[0], s[1]); err != nil {
			return err
		}
	}
	return nil
}

func (g *groupFlag) set(key, value string) (err error) {
	twice := fmt.Errorf("%s is given twice for the group: give it once", key)
	switch key {
	case "clip":
		if g.clip != nil || g.byShare {
			return twice
		}
		if g.byShare = value == dimensionBound; !g.byShare {
			g.clip, err = parseLotSchedule(value)
		}
	case "noise":
		if g.noise != nil {
			return twice
		}
		g.noise, err = parseLotSchedule(value)
	case "noise-of-mean":
		if g.ofMean != 0 {
			return twice
		}
		g.ofMean, err = parsePositive(value)
	case "share":
		if g.share != 0 {
			return twice
		}
		g.share, err = parsePositive(value)
	case "rule":
		if g.rule != "" {
			return twice
		}
		name, quantile, hasQuantile := strings.Cut(value, ":")
		if g.rule = name; !slices.Contains(groupRules, name) || hasQuantile && name != "adaptive" {
			return fmt.Errorf("rule: %q is unknown: use %s, or adaptive:Q", value, strings.Join(groupRules, ", "))
		}
		if hasQuantile {
			if g.target, err = parsePositive(quantile); err == nil && g.target >= 1 {
				err = fmt.Errorf("%v is not a quantile: give the share of records that are not clipped, between 0 and 1", g.target)
			}
		}
	case "rate":
		if g.rate != 0 {
			return twice
		}
		g.rate, err = parsePositive(value)
	case "count-noise":
		if g.counts != 0 {
			return twice
		}
		g.counts, err = parsePositive(value)
	case "scale":
		g.scales[len(g.scales)-1], err = parsePositive(value)
	default:
		return fmt.Errorf("%q is not a key of a group: use clip, noise, noise-of-mean, share, rule, rate, count-noise or scale", key)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return err
}

// ClippingName returns what run.json names clipping: --clipping, or groups.
func (s *Flags) ClippingName() string {
	if len(s.Groups) > 0 {
		return "groups"
	}
	return s.Clipping
}

// resolveGroups sets the clipping, and the groups' own noise, of --group.
func (s *Flags) resolveGroups(c *engine.Config) error {
	parsed, err := parseGroups(s.Groups)
	if err != nil {
		return err
	}
	net, err := c.Network(1)
	if err != nil {
		return err
	}
	size := func(names []string) (n int) {
		for _, p := range net.Trained() {
			if slices.Contains(names, p.Name()) {
				n += p.Shape().TotalSize()
			}
		}
		return n
	}
	var all []string
	for _, p := range net.Trained() {
		all = append(all, p.Name())
	}
	m := &c.Mechanism
	m.GroupNoiseMultipliers, m.GroupNoiseMultiplierAt = map[string]float64{}, map[string]func(int) float64{}
	if m.GroupShares, err = s.shares(parsed); err != nil {
		return err
	}
	for _, g := range parsed {
		group := clip.Group{Name: g.name}
		for i, pattern := range g.patterns {
			names := matchParameters(net.Trained(), pattern)
			if names == nil {
				known := slices.Concat(weights.LayerNames(net), all)
				return exitcode.Usagef("--group %s=%s: the network has no such layer or parameter to train; the nearest is %s (dptrain train --dry-run lists them)", g.name, pattern, nearest.Closest(pattern, known))
			}
			for _, name := range names {
				group.Parameters, group.Scales = append(group.Parameters, name), append(group.Scales, g.scales[i])
			}
		}
		share := 1 / math.Sqrt(float64(len(parsed)))
		if g.byShare {
			share = math.Sqrt(float64(size(group.Parameters)) / float64(size(all)))
		}
		if err := g.setBoundAndRule(&group, s.Clip*share, expectedLot(c)); err != nil {
			return err
		}
		m.Clipping = append(m.Clipping, group)
		if err := g.resolveNoiseOfMean(group, expectedLot(c)); err != nil {
			return err
		}
		switch {
		case g.noise == nil:
		case g.noise.isConstant():
			m.GroupNoiseMultipliers[g.name] = g.noise.value
		default:
			m.GroupNoiseMultiplierAt[g.name] = g.noise.at
		}
	}
	if _, err := clipping.NewClipper(all, m.Clipping, clipping.Float32Accuracy); err != nil {
		return exitcode.Usagef("--group: %s", strings.TrimPrefix(err.Error(), "clip: "))
	}
	c.Fingerprint["groups"] = strings.Join(s.Groups, "; ") // the engine compares the first value of a schedule
	return s.checkGroupNoise(parsed)
}

// setBoundAndRule sets a group's bound and rule. bound is the one of a group without clip.
func (g *groupFlag) setBoundAndRule(group *clip.Group, bound, lot float64) error {
	group.Bound = clip.Constant(bound)
	if g.rule != "adaptive" && (g.rate != 0 || g.counts != 0) {
		return exitcode.Usagef("--group %s: rate and count-noise are for rule=adaptive: add it, or drop them", g.name)
	}
	switch {
	case g.clip == nil:
	case g.clip.isConstant():
		bound = g.clip.value
		group.Bound = clip.Constant(bound)
	case g.rule == "adaptive":
		return exitcode.Usagef("--group %s: clip=%s and rule=adaptive exclude each other: an adaptive bound starts at a number and follows the norms", g.name, g.clip.text)
	default:
		group.Bound = clip.Schedule(g.clip.at)
	}
	switch g.rule {
	case "normalized":
		group.Rule = clip.Normalized{Gamma: stabilityConstant}
	case "adaptive":
		q := adaptiveBound(bound, lot)
		q.Target, q.Rate, q.Noise = cmp.Or(g.target, q.Target), cmp.Or(g.rate, q.Rate), cmp.Or(g.counts, q.Noise)
		group.Bound = q
	}
	return nil
}

// resolveNoiseOfMean sets the noise of a group whose noise is given as the deviation σ/L of the released
// mean: a sum with deviation σ is divided by the expected lot L (McMahan et al. 2019, section 2).
func (g *groupFlag) resolveNoiseOfMean(group clip.Group, lot float64) error {
	if g.ofMean == 0 {
		return nil
	}
	bound, isConstant := group.Bound.(clip.Constant)
	switch {
	case g.noise != nil:
		return exitcode.Usagef("--group %s: noise and noise-of-mean are the same setting: give one of them", g.name)
	case !isConstant:
		return exitcode.Usagef("--group %s: noise-of-mean requires a constant bound, because noise follows the bound: give clip=C, or noise=Z", g.name)
	}
	g.noise = &lotSchedule{value: g.ofMean * lot / float64(bound)}
	return nil
}

// shares returns the shares of --group by name; nil where no group has one.
func (s *Flags) shares(groups []*groupFlag) (map[string]float64, error) {
	shares := map[string]float64{}
	for _, g := range groups {
		switch own := g.noise != nil || g.ofMean != 0; {
		case g.share == 0:
		case own:
			return nil, exitcode.Usagef("--group %s: a group with noise of its own has no share of --noise or --epsilon: drop share, or drop noise", g.name)
		// A file with all settings of a run has the default, too.
		case s.OnCommandLine("allocation") || s.Allocation != string(engine.Proportional):
			return nil, exitcode.Usagef("--group %s: share=%v and --allocation %s are two ways to divide the noise: drop one of them", g.name, g.share, s.Allocation)
		default:
			shares[g.name] = g.share
		}
	}
	for _, g := range groups {
		if len(shares) > 0 && g.share == 0 && g.noise == nil && g.ofMean == 0 {
			return nil, exitcode.Usagef("--group %s: other groups have a share of the noise: give this one a share, or noise of its own", g.name)
		}
	}
	return shares, nil
}

// matchParameters returns the names of the parameters that a pattern of --group matches: those of a
// layer, a single one, or those that match a pattern with *.
func matchParameters(params G.Nodes, pattern string) (names []string) {
	for _, p := range params {
		if clip.Matches(pattern, p.Name()) || weights.BelongsTo(p.Name(), pattern) {
			names = append(names, p.Name())
		}
	}
	return names
}

// checkGroupNoise refuses noise for the other groups where every group has its own.
func (s *Flags) checkGroupNoise(groups []*groupFlag) error {
	s.allGroupsHaveNoise = !slices.ContainsFunc(groups, func(g *groupFlag) bool { return g.noise == nil })
	for _, flag := range []string{"noise", "epsilon", "allocation"} {
		if s.allGroupsHaveNoise && s.given[flag] && (s.Resume == "" || s.OnCommandLine(flag)) {
			return exitcode.Usagef("--%s has no effect, because every --group has noise of its own: drop it, or drop the noise of a group; --stop-at-epsilon limits ε", flag)
		}
	}
	return nil
}

// groupsFromYAML translates the groups section of a configuration file into values of --group:
//
//	groups:
//	  convolutions: {parameters: conv*, clip: 0.5, noise: 4}
//	  head: {parameters: [fc1, fc2], scale: [0.1, 1]}
func groupsFromYAML(node *yaml.Node) (flags []string, err error) {
	node = dereference(node)
	if node.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("give a mapping from names to groups, as in convolutions: {parameters: conv*, clip: 0.5}")
	}
	for i := 0; i < len(node.Content); i += 2 {
		name, group := node.Content[i].Value, dereference(node.Content[i+1])
		if group.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("%s: give a mapping, as in {parameters: conv*, clip: 0.5}", name)
		}
		var patterns, scales []string
		settings := ""
		for k := 0; k < len(group.Content); k += 2 {
			key := group.Content[k].Value
			values, _, err := scalars(group.Content[k+1])
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s: %s: %w", name, key, err)
			case key == "parameters":
				patterns = values
			case key == "scale":
				scales = values
			case len(values) != 1:
				return nil, fmt.Errorf("%s: %s: give one value", name, key)
			default:
				settings += "," + key + "=" + values[0]
			}
		}
		if len(patterns) == 0 {
			return nil, fmt.Errorf("%s: parameters is missing: give a layer, a parameter, a pattern or a list of them", name)
		}
		if len(scales) != 0 && len(scales) != len(patterns) {
			return nil, fmt.Errorf("%s: scale has %d numbers for %d entries of parameters: give one for each", name, len(scales), len(patterns))
		}
		for j, pattern := range patterns {
			flag := name + "=" + pattern
			if j == 0 {
				flag += settings
			}
			if len(scales) != 0 {
				flag += ",scale=" + scales[j]
			}
			flags = append(flags, flag)
		}
	}
	return flags, nil
}
