package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// A Target is an architecture that kernels are compiled for. A cubin runs on its own
// architecture and on later ones of the same major version; PTX, which the driver compiles, on
// its own and all later ones.
type Target struct {
	Architecture string // sm_80, or compute_90 for PTX
	Base         string // the cubin from which an archive stores this one's differences, or ""
}

// Targets are the targets of a release, the oldest first.
var Targets = []Target{
	{Architecture: "sm_75"},
	{Architecture: "sm_80"},
	{Architecture: "sm_86", Base: "sm_80.cubin"},
	{Architecture: "sm_89", Base: "sm_86.cubin"},
	{Architecture: "sm_90"},
	{Architecture: "sm_100"},
	{Architecture: "sm_120"},
	{Architecture: "compute_90"},
}

// PTX reports whether the image of a target is PTX.
func (t Target) PTX() bool { return strings.HasPrefix(t.Architecture, "compute_") }

// String is the name of a target in a list of targets.
func (t Target) String() string {
	if t.PTX() {
		return "ptx"
	}
	return t.Architecture
}

// Image is the name of a target's image in an archive.
func (t Target) Image() string {
	if t.PTX() {
		return t.Architecture + ".ptx"
	}
	return t.Architecture + ".cubin"
}

// Capability is the architecture as a number: 90 for 9.0.
func (t Target) Capability() (c int) {
	_, digits, _ := strings.Cut(t.Architecture, "_")
	fmt.Sscanf(digits, "%d", &c) // targets are well formed
	return c
}

// newest returns the newest of some targets whose image a GPU of this compute capability (90 for 9.0)
// runs: a cubin of its major version, else PTX.
func newest(targets []Target, capability int) (best Target, ok bool) {
	for _, t := range targets {
		c := t.Capability()
		if c > capability || !t.PTX() && c/10 != capability/10 {
			continue
		}
		if better := best.PTX() && !t.PTX() || best.PTX() == t.PTX() && c > best.Capability(); !ok || better {
			best, ok = t, true
		}
	}
	return best, ok
}

// TargetFor returns the target whose image a GPU of this compute capability runs.
func TargetFor(capability int) (Target, error) {
	if t, ok := newest(Targets, capability); ok {
		return t, nil
	}
	oldest := Targets[0].Capability()
	return Target{}, fmt.Errorf("there are no kernels for compute capability %d.%d: the oldest is %d.%d",
		capability/10, capability%10, oldest/10, oldest%10)
}

// ParseTargets reads a list such as sm_90,ptx. The architecture of a card that has no target of
// its own (sm_87) selects the target that the card runs.
func ParseTargets(list string) ([]Target, error) {
	if list == "all" {
		return Targets, nil
	}
	selected := make([]bool, len(Targets))
	for word := range strings.SplitSeq(list, ",") {
		var capability int
		t, err := Target{}, error(nil)
		if word == "ptx" {
			t = Targets[len(Targets)-1]
		} else if n, _ := fmt.Sscanf(word, "sm_%d", &capability); n == 1 {
			t, err = TargetFor(capability)
		} else {
			err = fmt.Errorf("the target %q is unknown: write all, or a list of architectures and ptx, such as sm_86,sm_90,ptx", word)
		}
		if err != nil {
			return nil, err
		}
		selected[slices.Index(Targets, t)] = true
	}
	var targets []Target
	for i, t := range Targets {
		if selected[i] {
			targets = append(targets, t)
		}
	}
	return targets, nil
}
