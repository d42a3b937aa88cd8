package pretrained

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/half"
	"github.com/dptrain/dptrain/perexample"
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

	mutex  sync.Mutex
	loaded *contents // nil before the first use
}

// contents are the places of the tensors in their files. The numbers are read when they are needed: the networks of a
// checkpoint share one copy of those that are frozen, and the file is read again for the others.
type contents struct {
	byName map[string]*stored

	mutex  sync.Mutex
	values map[string]*perexample.InitialValue // by name and shape
}

// stored is a tensor in a file.
type stored struct {
	shape []int
	path  string
	half  half.Format // of the numbers in the file, if they have 16 bits
	// read reads rows from an open file, as many as into has.
	read func(file io.ReaderAt, row int, into []float32) error
	// place is where the network has a row of the file; nil if rows have the same order.
	place func(row int) int
}

// load reads the headers of the files, unless it has done so.
func (t *tensors) load() (*contents, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.loaded != nil {
		return t.loaded, nil
	}
	byName, err := t.read()
	if err != nil {
		return nil, err
	}
	t.loaded = &contents{byName: byName, values: map[string]*perexample.InitialValue{}}
	return t.loaded, nil
}

func (t *tensors) read() (map[string]*stored, error) {
	files, err := t.files()
	if err != nil {
		return nil, err
	}
	if file := t.denseFile(); file != "" {
		files = append(files, file)
	}
	byName := map[string]*stored{}
	for _, file := range files {
		path := filepath.Join(t.dir, file)
		err := t.readFile(path, func(original string, x *stored) error {
			name := t.name(original)
			if dense := t.denseFile(); dense != "" && file == dense {
				name = strings.Replace(original, "linear", linearHead, 1)
			}
			if byName[name] != nil {
				return fmt.Errorf("%s: two tensors are %s", path, name)
			}
			x.path, byName[name] = path, x
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return byName, nil
}

// denseFile is the file of the linear head, if the checkpoint has one.
func (t *tensors) denseFile() string {
	if t.config.pooling == "" || t.config.dense == "" {
		return ""
	}
	return filepath.Join(t.config.dense, weightsFile)
}

// readFile passes the tensors of a file to a function.
func (t *tensors) readFile(path string, add func(name string, x *stored) error) error {
	if isGGUF(t.dir) {
		return t.config.readGGUF(path, add)
	}
	return readPlaces(path, t.config.wants, add)
}

// WeightFiles returns the paths of the files with the checkpoint's tensors.
func (m *Model) WeightFiles() ([]string, error) {
	names, err := m.tensors.files()
	for i, name := range names {
		names[i] = filepath.Join(m.Dir, name)
	}
	return names, err
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

func readPlaces(path string, wanted func(name string) bool, add func(name string, x *stored) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	places, _, err := safetensors.Places(f, info.Size(), wanted)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, p := range places {
		x := &stored{shape: p.Shape, half: p.Half()}
		x.read = func(file io.ReaderAt, row int, into []float32) error {
			return p.Read(file, int64(row)*int64(x.columns()), into)
		}
		if err := add(p.Name, x); err != nil {
			return err
		}
	}
	return nil
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

// value returns a parameter's value, or nil if the checkpoint does not have the parameter. The weights of dense layers are
// the transposes of the file's. All networks get the same value.
func (c *contents) value(config *Config, name string, shape []int) (*perexample.InitialValue, error) {
	x := c.byName[name]
	if x == nil {
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
	if !slices.Equal(x.shape, want) {
		return nil, fmt.Errorf("%s has shape %v in the checkpoint, and config.json asks for %v", name, x.shape, want)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	key := fmt.Sprint(name, shape)
	if c.values[key] == nil {
		c.values[key] = x.value(shape, transposed)
	}
	return c.values[key], nil
}

// value returns the value of a parameter with the tensor's numbers.
func (x *stored) value(shape []int, transposed bool) *perexample.InitialValue {
	v := perexample.NewInitialValue(func(into []float32) {
		if !transposed && x.place == nil {
			x.readAll(into)
			return
		}
		fill(into, x, transposed, func(v float32) float32 { return v })
	}, shape...)
	if !transposed && x.place == nil {
		v.Streamed(func(yield func(part []float32)) { x.eachPart(func(_ int, part []float32) { yield(part) }) })
	}
	if len(shape) == 2 && x.half != half.None { // vectors are small
		v.StoredAs(x.half, func(into []uint16) { fill(into, x, transposed, x.half.BitsOf) })
	}
	return v
}

// fill writes all numbers in the order of the network, as the function of returns them.
func fill[T float32 | uint16](into []T, x *stored, transposed bool, of func(float32) T) {
	rows, columns := x.rows(), x.columns()
	x.eachPart(func(first int, part []float32) {
		for i := range len(part) / columns {
			to := first + i
			if x.place != nil {
				to = x.place(to)
			}
			at, step := to*columns, 1
			if transposed {
				at, step = to, rows
			}
			for j, v := range part[i*columns:][:columns] {
				into[at+j*step] = of(v)
			}
		}
	})
}

// columns is the length of a row: of the last axis.
func (x *stored) columns() int {
	if len(x.shape) == 0 {
		return 1
	}
	return max(1, x.shape[len(x.shape)-1])
}

func (x *stored) rows() int {
	n := 1
	for _, d := range x.shape {
		n *= d
	}
	return n / x.columns()
}

// partLength is about how many numbers of a tensor are read together.
const partLength = 1 << 16

var parts = sync.Pool{New: func() any { return new([]float32) }}

// open passes the open file to a function. The value of a parameter has no error, so that of the file is a panic, which those
// who compile a network turn into an error.
func (x *stored) open(use func(file io.ReaderAt) error) {
	file, err := os.Open(x.path)
	if err == nil {
		defer file.Close()
		if err = use(file); err != nil {
			err = fmt.Errorf("%s: %w", x.path, err)
		}
	}
	if err != nil {
		panic(err)
	}
}

// readAll reads all numbers, in the order of the file.
func (x *stored) readAll(into []float32) {
	x.open(func(file io.ReaderAt) error {
		columns := x.columns()
		most := max(1, partLength/columns) * columns
		for at := 0; at < len(into); at += most {
			if err := x.read(file, at/columns, into[at:min(len(into), at+most)]); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachPart reads all rows, and passes some at a time.
func (x *stored) eachPart(yield func(row int, part []float32)) {
	x.open(func(file io.ReaderAt) error {
		rows, columns := x.rows(), x.columns()
		most := min(rows, max(1, partLength/columns))
		buffer := parts.Get().(*[]float32)
		defer parts.Put(buffer)
		*buffer = slices.Grow((*buffer)[:0], most*columns)
		part := (*buffer)[:most*columns]
		for row := 0; row < rows; row += most {
			part := part[:min(most, rows-row)*columns]
			if err := x.read(file, row, part); err != nil {
				return err
			}
			yield(row, part)
		}
		return nil
	})
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
