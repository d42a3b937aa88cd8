package pretrained

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Model is a checkpoint and what of it is trained.
type Model struct {
	*Config
	Dir    string
	Tuning Tuning

	tensors *tensors
}

// Parse reads a folder with a checkpoint, or a GGUF file, with options: which of its parameters are trained, and what the
// head of an encoder reads.
//
//	PATH[,train=all|head|bias|lora][,lora=RANK][,alpha=ALPHA][,targets=NAME|NAME…][,rank-stabilised=true]
//	[,last=BLOCKS][,pool=mean|first|layers|head]
func Parse(text string) (*Model, error) {
	dir, options := splitOptions(text)
	if dir == "" {
		return nil, fmt.Errorf("the folder of the checkpoint is missing; write hf:DIR")
	}
	config, err := readConfigOf(dir)
	if err != nil {
		return nil, err
	}
	if options, err = config.setPooling(dir, options); err != nil {
		return nil, err
	}
	m := &Model{Config: config, Dir: dir}
	if m.Tuning, err = config.parseTuning(options); err != nil {
		return nil, err
	}
	m.tensors = &tensors{dir: dir, config: config}
	return m, nil
}

// TokenizerFile is the tokenizer of the model DIR[,…]. A GGUF file contains its own.
func TokenizerFile(text string) string {
	dir, _ := splitOptions(text)
	if isGGUF(dir) {
		return dir
	}
	return filepath.Join(dir, TokenizerName)
}

// EndOfText returns the id at the end of a text of the model DIR[,…], for networks that predict the next id.
func EndOfText(text string) (int, error) {
	dir, _ := splitOptions(text)
	c, err := readConfigOf(dir)
	switch {
	case err != nil:
		return 0, err
	case c.decoder == nil:
		return 0, fmt.Errorf("model_type %s sees the next id, so it cannot predict it; give a decoder, such as gpt2 or llama", c.Family)
	case c.endID.int == nil || *c.endID.int < 0 || *c.endID.int >= c.vocabulary:
		return 0, fmt.Errorf("%s has no eos_token_id below %d, the id at the end of a text", dir, c.vocabulary)
	}
	return *c.endID.int, nil
}

// splitOptions separates the options NAME=VALUE at the end from the folder, which may contain commas.
func splitOptions(text string) (dir string, options []string) {
	parts := strings.Split(text, ",")
	for i := len(parts) - 1; i > 0; i-- {
		if !strings.Contains(parts[i], "=") || strings.ContainsAny(parts[i], "/\\") {
			return strings.Join(parts[:i+1], ","), parts[i+1:]
		}
	}
	return parts[0], parts[1:]
}

// Tuning says which parameters are trained.
type Tuning struct {
	Train   Part
	Last    int // the number of blocks, from the end, in which parameters are trained; 0: all, and the embeddings
	Rank    int // of low-rank adapters; 0 unless Train is LoRA
	Alpha   float64
	Targets []string
	// RankStabilised divides outputs of adapters by the root of the rank in place of the rank (Kalajdzievski 2023).
	RankStabilised bool
}

// scale is the factor of the outputs of adapters.
func (t Tuning) scale() float64 {
	if t.RankStabilised {
		return t.Alpha / math.Sqrt(float64(t.Rank))
	}
	return t.Alpha / float64(t.Rank)
}

// Part is a part of a network that is trained.
type Part string

// The parts. The head, which is what follows the last block, is always trained.
const (
	All    Part = "all"
	Head   Part = "head"
	Biases Part = "bias"
	LoRA   Part = "lora"
)

func (c *Config) parseTuning(options []string) (t Tuning, err error) {
	given := map[string]string{}
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		if _, twice := given[name]; twice {
			return t, fmt.Errorf("%s is given twice; remove one", name)
		}
		given[name] = value
	}
	for name, value := range given {
		switch name {
		case "train":
			t.Train = Part(value)
		case "lora":
			if t.Rank, err = strconv.Atoi(value); err != nil || t.Rank < 1 || t.Rank > c.hidden {
				return t, fmt.Errorf("lora=%s: write a rank from 1 to %d, the width of the network", value, c.hidden)
			}
		case "last":
			if t.Last, err = strconv.Atoi(value); err != nil || t.Last < 1 || t.Last > c.layers {
				return t, fmt.Errorf("last=%s: write a number of blocks from 1 to %d, as many as the network has", value, c.layers)
			}
		case "alpha":
			if t.Alpha, err = strconv.ParseFloat(value, 64); err != nil || !(t.Alpha > 0 && t.Alpha <= 1e6) {
				return t, fmt.Errorf("alpha=%s: write a number above 0 and at most 10^6", value)
			}
		case "targets":
			t.Targets = strings.Split(value, "|")
		case "rank-stabilised":
			if t.RankStabilised = value == "true"; !t.RankStabilised {
				return t, fmt.Errorf("rank-stabilised=%s: write true, or leave it out", value)
			}
		default:
			return t, fmt.Errorf("option %s=%s is not known; write train=all, train=head, train=bias or train=lora, lora=RANK, alpha=ALPHA, targets=NAME|NAME, rank-stabilised=true, last=BLOCKS or pool=mean|first|layers|head", name, value)
		}
	}
	switch t.Train {
	case "":
		if t.Train = All; t.Rank > 0 {
			t.Train = LoRA
		}
	case All, Head, Biases, LoRA:
	default:
		return t, fmt.Errorf("train=%s: write all, head, bias or lora", t.Train)
	}
	if t.Train == Head && t.Last > 0 {
		return t, fmt.Errorf("last=%d and train=head exclude each other: the head is behind all blocks; drop one of them", t.Last)
	}
	if t.Train == Biases && !c.hasBiases() {
		return t, fmt.Errorf("train=bias: the blocks of the checkpoint have no biases; use lora=RANK or train=head")
	}
	return t, c.completeLoRA(&t, given)
}

// The defaults of adapters.
const (
	defaultRank         = 8
	defaultAlphaPerRank = 2
)

// completeLoRA checks the settings of adapters and sets those that are not given.
func (c *Config) completeLoRA(t *Tuning, given map[string]string) error {
	if t.Train != LoRA {
		for _, name := range []string{"lora", "alpha", "targets", "rank-stabilised"} {
			if given[name] != "" {
				return fmt.Errorf("%s=%s is for low-rank adapters, and train=%s has none; drop one of them", name, given[name], t.Train)
			}
		}
		return nil
	}
	if t.Rank == 0 {
		t.Rank = min(defaultRank, c.hidden)
	}
	if t.Alpha == 0 {
		t.Alpha = float64(defaultAlphaPerRank * t.Rank)
	}
	if t.Targets == nil {
		t.Targets = []string{lastName(c.names.query)}
		if c.names.value != "" {
			t.Targets = append(t.Targets, lastName(c.names.value))
		}
	}
	known := c.targetNames()
	if slices.Equal(t.Targets, []string{allLinear}) {
		t.Targets = known
	}
	for i, target := range t.Targets {
		switch {
		case slices.Contains(t.Targets[:i], target):
			return fmt.Errorf("targets: %s is given twice", target)
		case !slices.Contains(known, target):
			return fmt.Errorf("targets: the network has no layer %q; choose from %s, or write %s", target, strings.Join(known, ", "), allLinear)
		}
	}
	return nil
}

// allLinear are all dense layers of the blocks, as peft calls them.
const allLinear = "all-linear"

// lastName is a name without what stands in front of its last point.
func lastName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// layerNames are the dense layers of a block.
func (c *Config) layerNames() (list []string) {
	n := c.names
	for _, name := range []string{n.query, n.key, n.value, n.attentionOut, n.gate, n.inner, n.outer} {
		if name != "" {
			list = append(list, name)
		}
	}
	return list
}

// targetNames are the names by which adapters choose dense layers of a block: the last parts of their names. A name that is
// just dense is whole, because layers outside of the blocks end with it, too.
func (c *Config) targetNames() (list []string) {
	for _, name := range c.layerNames() {
		if last := lastName(name); last != "dense" {
			name = last
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// isTarget reports whether a dense layer has an adapter. As in peft, a target is the end of a name, behind a point.
func (t Tuning) isTarget(layer string) bool {
	return t.Train == LoRA && slices.ContainsFunc(t.Targets, func(target string) bool { return strings.HasSuffix("."+layer, "."+target) })
}
