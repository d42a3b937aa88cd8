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
	"sync"
	"weak"

	"github.com/dptrain/dptrain/internal/format/safetensors"
)

// The files of tensors: one, or several with an index.
const (
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

// tensors are the files of a checkpoint's tensors.
type tensors struct {
	dir    string
	config *Config

	mutex sync.Mutex
	last  weak.Pointer[contents]
}

// contents are the tensors that were read. They stay in memory as long as a network may read them: a run that
// is compiled has its own copy.
type contents struct{ byName map[string]safetensors.Tensor }

// load reads the files, unless what it read before is still in memory.
func (t *tensors) load() (*contents, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if c := t.last.Value(); c != nil {
		return c, nil
	}
	byName, err := t.read()
	if err != nil {
		return nil, err
	}
	c := &contents{byName}
	t.last = weak.Make(c)
	return c, nil
}

func (t *tensors) read() (map[string]safetensors.Tensor, error) {
	files, err := t.files()
	if err != nil {
		return nil, err
	}
	byName := map[string]safetensors.Tensor{}
	for _, file := range files {
		list, err := t.readFile(file)
		if err != nil {
			return nil, err
		}
		for _, x := range list {
			name := t.name(x.Name)
			if _, twice := byName[name]; twice {
				return nil, fmt.Errorf("%s: two tensors are %s", filepath.Join(t.dir, file), name)
			}
			byName[name] = x
		}
	}
	return byName, nil
}

func (t *tensors) readFile(name string) ([]safetensors.Tensor, error) {
	if isGGUF(t.dir) {
		return t.config.readGGUF(t.dir)
	}
	return readTensors(filepath.Join(t.dir, name), t.config.wants)
}

// files returns the names of the files with tensors.
func (t *tensors) files() ([]string, error) {
	if isGGUF(t.dir) {
		return []string{""}, nil
	}
	path := filepath.Join(t.dir, indexFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(t.dir, weightsFile)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s has neither %s nor %s; other formats of weights are not supported", t.dir, weightsFile, indexFile)
		}
		return []string{weightsFile}, nil
	}
	if err != nil {
		return nil, err
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var files []string
	for _, file := range index.WeightMap {
		if file != filepath.Base(file) || !strings.HasSuffix(file, ".safetensors") {
			return nil, fmt.Errorf("%s names the file %.60q; a file of tensors is in the same folder and ends in .safetensors", path, file)
		}
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	if slices.Sort(files); len(files) == 0 {
		return nil, fmt.Errorf("%s names no file of tensors", path)
	}
	return files, nil
}

func readTensors(path string, wanted func(name string) bool) ([]safetensors.Tensor, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	list, _, err := safetensors.ReadWanted(f, info.Size(), wanted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// name returns a tensor's name in the network for classification. A checkpoint without a head has no prefix, and
// old ones have other names for normalization.
func (t *tensors) name(name string) string {
	name = strings.Replace(name, "LayerNorm.gamma", "LayerNorm.weight", 1)
	name = strings.Replace(name, "LayerNorm.beta", "LayerNorm.bias", 1)
	for _, part := range t.config.parts {
		if strings.HasPrefix(name, part) {
			return t.config.prefix + name
		}
	}
	return name
}

// wants reports whether a tensor may be a parameter: it is not a constant, and does not belong to a head for a
// task that is not supported.
func (c *Config) wants(name string) bool {
	if c.decoder != nil {
		return !(strings.HasSuffix(name, ".attn.bias") || strings.HasSuffix(name, ".attn.masked_bias") || strings.HasSuffix(name, ".inv_freq"))
	}
	if c.picture != nil {
		return !strings.HasPrefix(name, "decoder.") && !strings.HasSuffix(name, "embeddings.mask_token") // masked pictures
	}
	// The table of the ids is also the head for masked ids.
	for _, head := range []string{"cls.seq_relationship.", "cls.predictions.decoder.", "lm_head.decoder.", "vocab_projector.weight", "qa_outputs."} {
		if strings.HasPrefix(name, head) {
			return false
		}
	}
	return !strings.HasSuffix(name, ".position_ids") && !strings.HasSuffix(name, ".token_type_ids")
}

// value returns the function that writes a parameter's value, or nil if the checkpoint does not have the
// parameter. The weights of dense layers are the transposes of the file's.
func (c *contents) value(config *Config, name string, shape []int) (func(into []float32), error) {
	x, ok := c.byName[name]
	if !ok {
		return nil, nil
	}
	transposed := config.isTransposed(name, shape)
	want := slices.Clone(shape)
	switch {
	case transposed:
		slices.Reverse(want)
	case config.isPictureTable(name):
		want = append([]int{1}, want...)
	}
	if !slices.Equal(x.Shape, want) {
		return nil, fmt.Errorf("%s has shape %v in the checkpoint, and config.json asks for %v", name, x.Shape, want)
	}
	if !transposed {
		return func(into []float32) { copy(into, c.byName[name].Values) }, nil
	}
	return func(into []float32) { transpose(into, c.byName[name].Values, want[1]) }, nil
}

// transpose writes the transpose of a matrix with the given number of columns.
func transpose(into, from []float32, columns int) {
	rows := len(from) / columns
	for i := range rows {
		for j := range columns {
			into[j*rows+i] = from[i*columns+j]
		}
	}
}
