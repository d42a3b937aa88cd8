package pretrained

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/internal/format/safetensors"
)

// pooling is how the steps of an encoder become the vector that its head reads.
//
// Checkpoints for sentence embeddings were trained with the mean of all steps, or the first one, so a linear head reads
// this vector. Theirs are the folders of sentence-transformers, which are lists of modules: the network, the pooling, and
// perhaps a dense layer. The dense layer is the head.
type pooling string

const (
	ownHead       pooling = "head"   // the family's head in transformers, which reads the first step
	meanOfSteps   pooling = "mean"   // a linear head reads the mean of the steps that are not padding
	firstStep     pooling = "first"  // a linear head reads the first step
	meansOfLayers pooling = "layers" // a linear head reads such a mean of each layer: of the embeddings and of the blocks
)

// linearHead is the layer that reads a pooled vector.
const linearHead = "classifier"

// The files of sentence-transformers.
const (
	modulesFile    = "modules.json"
	poolingFolder  = "1_Pooling"
	denseFolder    = "2_Dense"
	lengthFile     = "sentence_bert_config.json" // the largest number of ids
	identityModule = "torch.nn.modules.linear.Identity"
	modulePackage  = "sentence_transformers.models."
)

// module is an entry of modules.json.
type module struct {
	Index int    `json:"idx"`
	Name  string `json:"name"`
	Path  string `json:"path"`
	Type  string `json:"type"`
}

// is reports whether a module has this name. Versions of sentence-transformers have other packages.
func (m module) is(name string) bool { return lastName(m.Type) == name }

// encodesTexts reports whether a network is an encoder, of texts.
func (c *Config) encodesTexts() bool { return c.decoder == nil && c.picture == nil }

// WithPooling adds the pooling of a folder of sentence-transformers to the model DIR[,…], unless that has one.
func WithPooling(text string) (string, error) {
	dir, options := splitOptions(text)
	if slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "pool=") }) {
		return text, nil
	}
	c, err := readConfigOf(dir)
	if err != nil || !c.encodesTexts() {
		return text, err
	}
	of, _, err := readModules(dir)
	if err != nil {
		return "", fmt.Errorf("%w; add pool=mean or pool=first, or pool=head for the head that transformers has", err)
	}
	if of != "" {
		text += ",pool=" + string(of)
	}
	return text, nil
}

// setPooling sets the pooling that the options name, and returns the other options.
func (c *Config) setPooling(dir string, options []string) (others []string, err error) {
	for _, o := range options {
		value, is := strings.CutPrefix(o, "pool=")
		switch {
		case !is:
			others = append(others, o)
		case c.pooling != "":
			return nil, fmt.Errorf("pool is given twice; remove one")
		case !slices.Contains([]pooling{ownHead, meanOfSteps, firstStep, meansOfLayers}, pooling(value)):
			return nil, fmt.Errorf("pool=%s: write mean, first, layers or head", value)
		case !c.encodesTexts():
			return nil, fmt.Errorf("pool=%s is for encoders of texts, and model_type %s is not one; leave it out", value, c.Family)
		default:
			c.pooling = pooling(value)
		}
	}
	if c.pooling == ownHead {
		c.pooling = ""
	}
	if c.pooling == meanOfSteps || c.pooling == firstStep {
		_, c.dense, _ = readModules(dir) // what is not supported has no head for us
	}
	return others, nil
}

// readModules returns the pooling of a folder of sentence-transformers, and the folder of its dense layer. Other folders have
// none.
func readModules(dir string) (of pooling, dense string, err error) {
	path := filepath.Join(dir, modulesFile)
	var modules []module
	if err := readJSONFile(path, &modules); errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	} else if err != nil {
		return "", "", err
	}
	for _, m := range modules {
		switch {
		case m.Path != "" && (m.Path != filepath.Base(m.Path) || m.Path == ".."):
			return "", "", fmt.Errorf("%s names the folder %.60q; a module's folder is in the same folder", path, m.Path)
		case m.is("Transformer") && m.Path == "", m.is("Normalize"):
		case m.is("Pooling") && of == "":
			if of, err = readPooling(filepath.Join(dir, m.Path, "config.json")); err != nil {
				return "", "", err
			}
		case m.is("Dense") && of != "" && dense == "":
			if err := checkDense(filepath.Join(dir, m.Path, "config.json")); err != nil {
				return "", "", err
			}
			dense = m.Path
		default:
			return "", "", fmt.Errorf("%s has the module %.60q in the folder %.60q, which is not supported", path, m.Type, m.Path)
		}
	}
	if of == "" {
		return "", "", fmt.Errorf("%s has no module Pooling", path)
	}
	return of, dense, nil
}

// readPooling reads the configuration of a pooling.
func readPooling(path string) (pooling, error) {
	var given map[string]any
	if err := readJSONFile(path, &given); err != nil {
		return "", err
	}
	mode, _ := given["pooling_mode"].(string)
	for key, value := range given { // the form of older versions
		if name, is := strings.CutPrefix(key, "pooling_mode_"); is && value == true {
			if mode != "" && mode != name {
				return "", fmt.Errorf("%s joins several kinds of pooling, which is not supported", path)
			}
			mode = name
		}
	}
	switch mode {
	case "mean_tokens", "mean":
		return meanOfSteps, nil
	case "cls_token", "cls":
		return firstStep, nil
	}
	return "", fmt.Errorf("%s: the pooling %.40q is not supported; mean and cls are", path, mode)
}

// checkDense refuses a dense layer that is not linear.
func checkDense(path string) error {
	var given struct {
		Activation string `json:"activation_function"`
	}
	if err := readJSONFile(path, &given); err != nil {
		return err
	}
	if given.Activation != identityModule {
		return fmt.Errorf("%s: a dense layer with the activation %.60q is not supported; one with %s is", path, given.Activation, identityModule)
	}
	return nil
}

func readJSONFile(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// exportModules returns the files of sentence-transformers: weights are those of the network in PyTorch's layout.
func (m *Model) exportModules(weights []safetensors.Tensor, config []byte) ([]File, error) {
	if m.pooling == meansOfLayers {
		return nil, fmt.Errorf("sentence-transformers has no pooling that joins the means of all layers; write ONNX, or train with pool=mean")
	}
	var own, dense []safetensors.Tensor
	for _, x := range weights {
		if part, is := strings.CutPrefix(x.Name, linearHead+"."); is {
			x.Name = "linear." + part
			dense = append(dense, x)
			continue
		}
		x.Name = strings.TrimPrefix(x.Name, m.prefix)
		own = append(own, x)
	}
	pooler, err := m.poolerOfCheckpoint()
	if err != nil {
		return nil, err
	}
	outputs := dense[0].Shape[0]
	files := []File{{"config.json", config}}
	for _, f := range []struct {
		name    string
		content any
	}{
		{modulesFile, []module{
			{0, "0", "", modulePackage + "Transformer"}, {1, "1", poolingFolder, modulePackage + "Pooling"}, {2, "2", denseFolder, modulePackage + "Dense"},
		}},
		{poolingFolder + "/config.json", map[string]any{"word_embedding_dimension": m.hidden,
			"pooling_mode_cls_token": m.pooling == firstStep, "pooling_mode_mean_tokens": m.pooling == meanOfSteps}},
		{denseFolder + "/config.json", map[string]any{"in_features": m.hidden, "out_features": outputs, "bias": true, "activation_function": identityModule}},
	} {
		text, err := json.MarshalIndent(f.content, "", "  ")
		if err != nil {
			return nil, err
		}
		files = append(files, File{f.name, append(text, '\n')})
	}
	for _, f := range []struct {
		name    string
		tensors []safetensors.Tensor
	}{{weightsFile, append(own, pooler...)}, {denseFolder + "/" + weightsFile, dense}} {
		content, err := written(f.tensors)
		if err != nil {
			return nil, err
		}
		files = append(files, File{f.name, content})
	}
	return files, nil
}

// poolerOfCheckpoint returns the tensors that transformers' class has behind the last block. A network with a linear head
// does not have them.
func (m *Model) poolerOfCheckpoint() (list []safetensors.Tensor, err error) {
	checkpoint, err := m.tensors.load()
	if err != nil {
		return nil, err
	}
	for name, x := range checkpoint.byName {
		own := strings.TrimPrefix(name, m.prefix)
		if !strings.HasPrefix(own, "pooler.") {
			continue
		}
		values := make([]float32, x.rows()*x.columns())
		x.readAll(values)
		list = append(list, safetensors.Tensor{Name: own, Shape: x.shape, Values: values})
	}
	slices.SortFunc(list, func(a, b safetensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
