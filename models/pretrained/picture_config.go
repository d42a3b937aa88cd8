package pretrained

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// picture is what a configuration of a network for pictures has in addition.
type picture struct {
	size     sides
	patch    int
	channels int
	qkvBias  bool
	// distilled networks have a second token in front of the patches. Those with two heads return the mean of their outputs.
	distilled, twoHeads bool

	mean, deviation []float64 // of each channel, of numbers from 0 to 1
	resampling      string    // by which the preprocessor resizes
	resized         sides     // before the middle is cut out; width 0: height is the length of the shorter side
	filter          string    // one of resamplings; empty where the preprocessor does not resize
}

// PictureInput describes the pictures that a network reads, and how its preprocessor makes them of others.
type PictureInput struct {
	Channels, Height, Width int
	// Filter is the interpolation by which pictures are resized to ResizedHeight and ResizedWidth, after which the
	// middle is cut out. ResizedWidth 0: ResizedHeight is the length of the shorter side. It is empty where the
	// preprocessor does not resize.
	Filter                      string
	ResizedHeight, ResizedWidth int
}

// Pictures returns what pictures the model DIR[,…] reads; nil for models that read texts.
func Pictures(text string) (*PictureInput, error) {
	dir, _ := splitOptions(text)
	c, err := readConfigOf(dir)
	if err != nil || c.picture == nil {
		return nil, err
	}
	p := c.picture
	return &PictureInput{p.channels, p.size.height, p.size.width, p.filter, p.resized.height, p.resized.width}, nil
}

// sides are height and width: a number for both, or a list.
type sides struct{ height, width int }

func (s *sides) UnmarshalJSON(text []byte) error {
	var both []int
	if json.Unmarshal(text, &both) == nil && len(both) == 2 {
		*s = sides{both[0], both[1]}
		return nil
	}
	var n int
	err := json.Unmarshal(text, &n)
	*s = sides{n, n}
	return err
}

func (s sides) String() string { return fmt.Sprintf("%d×%d", s.height, s.width) }

// visionBlock are the names in files. Since transformers 5.24 the modules have others: see moduleNames.
var visionBlock = blockNames{
	query: "attention.attention.query", key: "attention.attention.key", value: "attention.attention.value",
	attentionOut: "attention.output.dense", attentionNorm: "layernorm_before",
	inner: "intermediate.dense", outer: "output.dense", outerNorm: "layernorm_after",
}

var visionParts = []string{"embeddings.", "encoder.", "layernorm.", "pooler."}

// visions are the families that read pictures.
var visions = map[string]*architecture{
	"vit":  {"vit.", visionParts, "encoder.layer.%d.", visionBlock, plainHead, "ViTForImageClassification"},
	"deit": {"deit.", visionParts, "encoder.layer.%d.", visionBlock, plainHead, "DeiTForImageClassification"},
}

// Names of tensors.
const (
	classToken        = "embeddings.cls_token"
	distillationToken = "embeddings.distillation_token"
	pictureTable      = "embeddings.position_embeddings"
	patchLayer        = "embeddings.patch_embeddings.projection"
	tokenHead         = "cls_classifier"
	distilledTo       = "distillation_classifier"
	twoHeadsClass     = "DeiTForImageClassificationWithTeacher"
)

// moduleNames are pairs of a part of a name in a file and of the name of its module since transformers 5.24.
var moduleNames = [][2]string{
	{".encoder.layer.", ".layers."}, {".attention.attention.query", ".attention.q_proj"}, {".attention.attention.key", ".attention.k_proj"},
	{".attention.attention.value", ".attention.v_proj"}, {".attention.output.dense", ".attention.o_proj"}, {".intermediate.dense", ".mlp.fc1"},
	{".output.dense", ".mlp.fc2"},
}

// ReadsPictures reports whether the network reads pictures, and not texts.
func (c *Config) ReadsPictures() bool { return c.picture != nil }

func parseVision(text []byte, family string) (*Config, error) {
	var f struct {
		Hidden    *int     `json:"hidden_size"`
		Layers    *int     `json:"num_hidden_layers"`
		Heads     *int     `json:"num_attention_heads"`
		Inner     *int     `json:"intermediate_size"`
		Epsilon   *float64 `json:"layer_norm_eps"`
		Act       string   `json:"hidden_act"`
		Size      *sides   `json:"image_size"`
		Patch     *sides   `json:"patch_size"`
		Channels  *int     `json:"num_channels"`
		Bias      *bool    `json:"qkv_bias"`
		Classes   []string `json:"architectures"`
		Quantized any      `json:"quantization_config"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("this is not a config.json: %w", err)
	}
	// The defaults of ViTConfig and DeiTConfig.
	c := &Config{Family: family, architecture: visions[family], hidden: orDefault(f.Hidden, 768), layers: orDefault(f.Layers, 12),
		heads: orDefault(f.Heads, 12), inner: orDefault(f.Inner, 3072), epsilon: orDefault(f.Epsilon, 1e-12)}
	patch := orDefault(f.Patch, sides{16, 16})
	c.picture = &picture{size: orDefault(f.Size, sides{224, 224}), patch: patch.height, channels: orDefault(f.Channels, 3),
		qkvBias: orDefault(f.Bias, true), distilled: family == "deit", twoHeads: slices.Contains(f.Classes, twoHeadsClass)}
	if c.picture.twoHeads {
		own := *c.architecture
		own.class = twoHeadsClass
		c.architecture = &own
	}
	switch size := c.picture.size; {
	case f.Quantized != nil:
		return nil, fmt.Errorf("quantization_config is not supported; give a checkpoint of F32, F16 or BF16")
	case patch.height != patch.width:
		return nil, fmt.Errorf("patch_size %v is not supported; squares are", patch)
	case patch.height < 1 || size.height < patch.height || size.width < patch.height || size.height > 1<<13 || size.width > 1<<13:
		return nil, fmt.Errorf("image_size %v or patch_size %d is out of range", size, patch.height)
	case c.picture.channels < 1 || c.picture.channels > 1<<10:
		return nil, fmt.Errorf("num_channels %d is out of range", c.picture.channels)
	case c.picture.twoHeads && family != "deit":
		return nil, fmt.Errorf("architectures: %s is not a class of model_type %s", twoHeadsClass, family)
	}
	c.vocabulary, c.positions = 1, c.picture.tokens()
	if err := c.setActivation(cmp.Or(f.Act, "gelu")); err != nil {
		return nil, err
	}
	return c, c.check()
}

// tokens is the number of steps: patches and the tokens in front of them.
func (p *picture) tokens() int {
	n := (p.size.height/p.patch)*(p.size.width/p.patch) + 1
	if p.distilled {
		n++
	}
	return n
}

// resamplings are those of the library Pillow, by number.
var resamplings = []string{"nearest neighbour", "Lanczos", "bilinear", "bicubic", "box", "Hamming"}

// preprocessorFile describes what happens to a picture before a network reads it.
const preprocessorFile = "preprocessor_config.json"

// readPreprocessor reads mean and deviation from the file in the checkpoint's folder, and compares the size of its pictures with
// that of the network.
func (c *Config) readPreprocessor(dir string) error {
	path := filepath.Join(dir, preprocessorFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no %s, which has the mean and the deviation of pixels; restore it", dir, preprocessorFile)
	}
	if err != nil {
		return err
	}
	if err := c.parsePreprocessor(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// target is a size of a preprocessor: a number, sides, or the length of the shorter side.
type target struct {
	sides
	isShort bool
}

func (t *target) UnmarshalJSON(text []byte) error {
	var f struct {
		Height  int `json:"height"`
		Width   int `json:"width"`
		Shorter int `json:"shortest_edge"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return json.Unmarshal(text, &t.sides)
	}
	if f.Shorter != 0 {
		f.Height, f.Width = f.Shorter, f.Shorter
	}
	*t = target{sides{f.Height, f.Width}, f.Shorter != 0}
	return nil
}

func (c *Config) parsePreprocessor(text []byte) error {
	isDeiT := c.Family == "deit"
	f := struct {
		Resize     bool      `json:"do_resize"`
		Size       target    `json:"size"`
		Resampling int       `json:"resample"`
		Crop       bool      `json:"do_center_crop"`
		CropSize   target    `json:"crop_size"`
		Rescale    bool      `json:"do_rescale"`
		Factor     float64   `json:"rescale_factor"`
		Normalize  bool      `json:"do_normalize"`
		Mean       []float64 `json:"image_mean"`
		Deviation  []float64 `json:"image_std"`
	}{Resize: true, Size: target{sides: sides{224, 224}}, Resampling: 2, Crop: isDeiT, CropSize: target{sides: sides{224, 224}},
		Rescale: true, Factor: 1.0 / 255, Normalize: true} // the defaults of ViTImageProcessor
	if isDeiT {
		f.Size, f.Resampling = target{sides: sides{256, 256}}, 3
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("this is not a configuration of a preprocessor: %w", err)
	}
	p := c.picture
	if f.Mean == nil {
		f.Mean = slices.Repeat([]float64{0.5}, p.channels)
	}
	if f.Deviation == nil {
		f.Deviation = slices.Repeat([]float64{0.5}, p.channels)
	}
	if !f.Normalize {
		f.Mean, f.Deviation = make([]float64, p.channels), slices.Repeat([]float64{1}, p.channels)
	}
	written := f.Size
	if f.Crop {
		written = f.CropSize
	}
	inRange := func(low, high float64, list []float64) bool {
		return !slices.ContainsFunc(list, func(x float64) bool { return !(x >= low && x <= high) })
	}
	switch {
	case !f.Rescale || math.Abs(f.Factor*255-1) > 1e-6:
		return fmt.Errorf("do_rescale %v with rescale_factor %v is not supported; 1/255 is", f.Rescale, f.Factor)
	case len(f.Mean) != p.channels || len(f.Deviation) != p.channels || !inRange(-1e3, 1e3, f.Mean) || !inRange(1e-6, 1e6, f.Deviation):
		return fmt.Errorf("image_mean %v or image_std %v is out of range, or has another length than num_channels %d", f.Mean, f.Deviation, p.channels)
	case (f.Resize || f.Crop) && written.sides != p.size:
		return fmt.Errorf("the preprocessor writes pictures of %v, and the network reads %v", written.sides, p.size)
	case f.Resampling < 0 || f.Resampling >= len(resamplings):
		return fmt.Errorf("resample %d is not known", f.Resampling)
	}
	p.mean, p.deviation = f.Mean, f.Deviation
	if f.Resize {
		p.filter, p.resized = resamplings[f.Resampling], f.Size.sides
		if f.Size.isShort {
			p.resized.width = 0
		}
	}
	switch by := resamplings[f.Resampling]; {
	case f.Resize && f.Crop && f.Size.isShort:
		p.resampling = fmt.Sprintf("resize the shorter side to %d by %s interpolation, then crop the middle", f.Size.height, by)
	case f.Resize && f.Crop:
		p.resampling = fmt.Sprintf("resize to %v by %s interpolation, then crop the middle", f.Size.sides, by)
	case f.Resize:
		p.resampling = fmt.Sprintf("resize by %s interpolation", by)
	default:
		p.resampling = "crop or resize"
	}
	return nil
}
