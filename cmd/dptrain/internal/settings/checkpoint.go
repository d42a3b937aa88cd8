package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/pretrained"
	"github.com/dptrain/dptrain/perexample"
)

// checkpointPrefix is what the names of the networks of a checkpoint begin with.
const checkpointPrefix = "hf:"

// withAdapters adds the value of --lora, such as r=8,alpha=16,targets=query|value, to a model.
func withAdapters(model, lora string) (string, error) {
	if lora == "" {
		return model, nil
	}
	if !strings.HasPrefix(model, checkpointPrefix) {
		return "", exitcode.Usagef("--lora %s needs --model hf:DIR, which names a public checkpoint", lora)
	}
	for option := range strings.SplitSeq(lora, ",") {
		name, value, _ := strings.Cut(option, "=")
		if option == "rank-stabilised" {
			name, value = option, "true"
		}
		option, known := map[string]string{"r": "lora", "alpha": "alpha", "targets": "targets", "rank-stabilised": "rank-stabilised", "last": "last"}[name]
		if !known || value == "" {
			return "", exitcode.Usagef("--lora %q: give r=RANK, alpha=ALPHA, targets=NAME|NAME, last=BLOCKS and rank-stabilised, with commas between them", lora)
		}
		model += "," + option + "=" + value
	}
	return model, nil
}

// addPooling adds the pooling of a checkpoint for sentence embeddings to --model. A run that is resumed has it.
func (s *Spec) addPooling() error {
	f := s.Flags
	text, is := strings.CutPrefix(f.Model, checkpointPrefix)
	if !is || f.Resume != "" || len(s.Network.Example.LabelShape) > 0 {
		return nil
	}
	text, err := pretrained.WithPooling(text)
	if err != nil {
		return exitcode.Usagef("--model: %w", err)
	}
	f.Model = checkpointPrefix + text
	return nil
}

// startFromCheckpoint freezes what a checkpoint's settings do not train. The network has the weights of the
// checkpoint.
func (n *Network) startFromCheckpoint(build perexample.Build, checkpoint *pretrained.Model) (perexample.Build, error) {
	for _, flag := range [][2]string{{"--init", n.flags.Init}, {"--freeze", n.flags.Freeze}, {"--fresh", n.flags.Fresh}} {
		if flag[1] != "" {
			return nil, exitcode.Usagef("%s %s and --model %s exclude each other: the checkpoint has the starting weights, and train=all, head, bias or lora in the name of the model selects what is trained; drop %[1]s", flag[0], flag[1], n.Model)
		}
	}
	net, err := build.ForBatch(1)
	if err != nil {
		return nil, err
	}
	frozen, fresh, err := checkpoint.Parts(net)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	n.part = checkpoint.Tuning.Train
	n.StartingWeights = fmt.Sprintf("%s: %d of the network's %d parameters", checkpoint.Dir, len(net.Params)-len(fresh), len(net.Params))
	if len(fresh) > 0 {
		n.StartingWeights += "; random: " + listed(fresh)
	}
	if len(frozen) == 0 {
		return build, nil
	}
	n.StartingWeights += fmt.Sprintf("; frozen: %s (train=%s)", number.Plural(len(frozen), "parameter"), checkpoint.Tuning.Train)
	n.unfrozen = build
	return weights.Freeze(build, frozen...), nil
}

// listed joins names, or counts them if there are many.
func listed(names []string) string {
	const most = 6
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Movement is what the first lots changed of a checkpoint's network.
type Movement struct {
	Moved, Frozen int
	Still         []string // parameters that are trained, and have their starting values
}

// MovementLot returns the lot after which every trained parameter should differ from the checkpoint. The factor B of an
// adapter is zero at the start, so the factor A has no gradient in the first lot, and without privacy no noise either.
func (s *Spec) MovementLot() int {
	if s.Network.part == pretrained.LoRA && s.Config.Mechanism.NonPrivate && s.Config.Steps > 1 {
		return 2
	}
	return 1
}

// CheckMovement compares the trained parameters after the MovementLot with the starting weights, which it reads
// from the checkpoint again. It returns nil for a network that does not start from a checkpoint.
func (s *Spec) CheckMovement(trained []engine.Parameter) (*Movement, error) {
	n := s.Network
	if !strings.HasPrefix(n.Model, checkpointPrefix) {
		return nil, nil
	}
	start, err := models.Parse(n.Model, n.Example, n.seed)
	if err != nil {
		return nil, err
	}
	net, err := start.ForBatch(1)
	if err != nil {
		return nil, err
	}
	m := &Movement{}
	for _, p := range net.Params {
		i := slices.IndexFunc(trained, func(t engine.Parameter) bool { return t.Name == p.Name() })
		if i < 0 {
			m.Frozen++
			continue
		}
		before, err := op.Values(p)
		if err != nil {
			return nil, err
		}
		if slices.Equal(before, trained[i].Values) {
			m.Still = append(m.Still, p.Name())
		} else {
			m.Moved++
		}
	}
	return m, nil
}
