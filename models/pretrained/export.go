package pretrained

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/tokenizer"
)

// File is a file of a folder that transformers or peft loads.
type File struct {
	Name    string
	Content []byte
}

// Labels are the meanings of a network's outputs: the names of classes, the id of each step, or the units of a
// number, which is shift + scale·output.
type Labels struct {
	Classes      []string
	StepIDs      bool    // the next id of a decoder, or the masked one of an encoder
	Scale, Shift float64 // of a number
}

// TokenizerName is the name of a tokenizer's file in a folder of transformers.
const TokenizerName = "tokenizer.json"

// tokenizerFiles are the files of a checkpoint's tokenizer. They are copied if they exist.
var tokenizerFiles = []string{TokenizerName, "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "vocab.json", "merges.txt"}

// ReplaceTokenizer returns the files of a checkpoint with another tokenizer.
func ReplaceTokenizer(files []File, text []byte) []File {
	files = slices.DeleteFunc(slices.Clone(files), func(f File) bool { return slices.Contains(tokenizerFiles, f.Name) })
	return append(files, File{TokenizerName, text})
}

// CropInPreprocessor returns the files of a checkpoint with a preprocessor that cuts the middle out of pictures and does not
// resize them.
func CropInPreprocessor(files []File, height, width int) ([]File, error) {
	i := slices.IndexFunc(files, func(f File) bool { return f.Name == preprocessorFile })
	if i < 0 {
		return nil, fmt.Errorf("the checkpoint has no %s", preprocessorFile)
	}
	keys, err := jsonObject(files[i].Content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", preprocessorFile, err)
	}
	keys["do_resize"], keys["do_center_crop"], keys["crop_size"] = false, true, map[string]int{"height": height, "width": width}
	text, err := json.MarshalIndent(keys, "", "  ")
	files = slices.Clone(files)
	files[i].Content = append(text, '\n')
	return files, err
}

// jsonObject reads an object, and keeps the digits of its numbers.
func jsonObject(text []byte) (map[string]any, error) {
	object := map[string]any{}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	err := in.Decode(&object)
	if err == nil && object == nil {
		err = errors.New("this is null and not an object")
	}
	return object, err
}

// Export returns the files of a checkpoint with the tensors of a network of the model, in PyTorch's layout;
// adapters are merged into their layers.
func (m *Model) Export(tensors []safetensors.Tensor, labels Labels) ([]File, error) {
	weights, err := m.merge(tensors, true)
	if err != nil {
		return nil, err
	}
	if err := m.scaleOutputs(weights, labels); err != nil {
		return nil, err
	}
	config, err := m.exportConfig(labels)
	if err != nil {
		return nil, err
	}
	for i, x := range weights {
		if m.isPictureTable(x.Name) {
			weights[i].Shape = append([]int{1}, x.Shape...)
			continue
		}
		if len(x.Shape) == 2 && !m.isTable(x.Name) && !m.isTransposed(x.Name, x.Shape) {
			weights[i].Shape, weights[i].Values = []int{x.Shape[1], x.Shape[0]}, make([]float32, len(x.Values))
			transpose(weights[i].Values, x.Values, x.Shape[1])
		}
	}
	inputs, err := m.inputFiles()
	if err != nil {
		return nil, err
	}
	if m.isPooled(labels) {
		modules, err := m.exportModules(weights, config)
		return append(modules, inputs...), err
	}
	content, err := written(weights)
	return append([]File{{"config.json", config}, {weightsFile, content}}, inputs...), err
}

// isPooled reports whether a network with these labels has a linear head behind pooled steps.
func (c *Config) isPooled(labels Labels) bool { return c.pooling != "" && !labels.StepIDs }

// ExportAdapter returns the files of an adapter, with the head, for the checkpoint that the model
// started from. The tensors are in PyTorch's layout.
func (m *Model) ExportAdapter(tensors []safetensors.Tensor, labels Labels) ([]File, error) {
	if isGGUF(m.Dir) {
		return nil, fmt.Errorf("peft loads no GGUF file such as %s; write the whole checkpoint", m.Dir)
	}
	if m.Tuning.Train != LoRA {
		return nil, fmt.Errorf("the model was trained with train=%s, so it has no adapter; write the whole checkpoint", m.Tuning.Train)
	}
	switch {
	case m.isPooled(labels) && m.pooling == meansOfLayers:
		return nil, fmt.Errorf("peft has no head behind pool=layers; write ONNX, or train with pool=head")
	case m.isPooled(labels):
		return nil, fmt.Errorf("peft has no head behind pool=%s; write the whole checkpoint, or train with pool=head", m.pooling)
	}
	if err := m.scaleOutputs(tensors, labels); err != nil {
		return nil, err
	}
	var own []safetensors.Tensor
	for _, x := range tensors {
		if m.trains(x.Name) {
			name := strings.Replace(strings.Replace(m.inModules(x.Name), adapter+".A.", ".lora_A.", 1), adapter+".B.", ".lora_B.", 1)
			own = append(own, safetensors.Tensor{Name: "base_model.model." + name, Shape: x.Shape, Values: x.Values})
		}
	}
	content, err := written(own)
	if err != nil {
		return nil, err
	}
	t, task := m.Tuning, any("SEQ_CLS")
	var head []string
	if labels.StepIDs && m.decoder == nil {
		return nil, fmt.Errorf("peft has no adapter of a network for masked ids; write the whole checkpoint")
	}
	switch {
	case labels.StepIDs:
		task = "CAUSAL_LM"
	case m.picture != nil:
		task, head = nil, m.headModules() // peft has no name for the task
	default:
		head = m.headModules()
	}
	var blocks []int // nil: all
	if t.Last > 0 {
		blocks = m.lastBlocks()
	}
	config, err := json.MarshalIndent(map[string]any{
		"peft_type": "LORA", "task_type": task, "base_model_name_or_path": m.Dir, "r": t.Rank, "lora_alpha": t.Alpha,
		"target_modules": m.targetModules(), "modules_to_save": head, "lora_dropout": 0.0, "bias": "none", "layers_to_transform": blocks,
		"fan_in_fan_out": m.Family == gpt2, "inference_mode": true, "use_rslora": t.RankStabilised, "init_lora_weights": true,
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	return []File{{"adapter_config.json", append(config, '\n')}, {"adapter_model.safetensors", content}}, nil
}

// headModules are the modules of the head in transformers.
func (c *Config) headModules() []string {
	switch c.head {
	case robertaHead:
		return []string{"classifier"}
	case distilledHead:
		return []string{"pre_classifier", "classifier"}
	case lastStepHead:
		return []string{textHead}
	case plainHead:
		if c.picture.twoHeads {
			return []string{tokenHead, distilledTo}
		}
		return []string{"classifier"}
	}
	return []string{"classifier", "pooler"}
}

// outputLayers are the last layers. If there are two, the output is their mean.
func (c *Config) outputLayers() []string {
	if c.pooling != "" {
		return []string{linearHead}
	}
	switch c.head {
	case robertaHead:
		return []string{"classifier.out_proj"}
	case lastStepHead, plainHead:
		return c.headModules()
	}
	return []string{"classifier"}
}

// scaleOutputs gives the outputs of a regression their units.
func (c *Config) scaleOutputs(tensors []safetensors.Tensor, labels Labels) error {
	if labels.Classes != nil || labels.StepIDs {
		return nil
	}
	if c.head == lastStepHead && labels.Shift != 0 {
		return fmt.Errorf("the head of model_type %s has no bias, so it cannot have the middle %v of the bounds; train with bounds around 0, or write onnx", c.Family, labels.Shift)
	}
	for _, x := range tensors {
		part := lastName(x.Name)
		if !slices.Contains(c.outputLayers(), strings.TrimSuffix(x.Name, "."+part)) {
			continue
		}
		for i, v := range x.Values {
			y := float64(v) * labels.Scale
			if part == "bias" {
				y += labels.Shift
			}
			x.Values[i] = float32(y)
		}
	}
	return nil
}

// exportConfig returns the checkpoint's config.json with the head.
func (m *Model) exportConfig(labels Labels) ([]byte, error) {
	config, err := m.originalConfig()
	if err != nil {
		return nil, err
	}
	for key, value := range m.describe(labels) {
		config[key] = value
	}
	if m.decoder != nil && config["pad_token_id"] == nil {
		config["pad_token_id"] = config["eos_token_id"] // transformers needs one to find the last step of a text
	}
	for _, key := range []string{"_name_or_path", "dtype", "num_labels"} {
		delete(config, key)
	}
	text, err := json.MarshalIndent(config, "", "  ")
	return append(text, '\n'), err
}

// originalConfig returns the checkpoint's config.json, or the configuration of a GGUF file in that format.
func (m *Model) originalConfig() (map[string]any, error) {
	if isGGUF(m.Dir) {
		return m.transformersConfig(), nil
	}
	path := filepath.Join(m.Dir, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	config, err := jsonObject(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

// inputFiles returns the files of the checkpoint's tokenizer or preprocessor.
func (m *Model) inputFiles() (files []File, err error) {
	if isGGUF(m.Dir) {
		text, err := tokenizer.ReadJSON(m.Dir)
		return []File{{TokenizerName, text}}, err
	}
	for _, name := range append(slices.Clone(tokenizerFiles), preprocessorFile, lengthFile) {
		text, err := os.ReadFile(filepath.Join(m.Dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, File{name, text})
	}
	return files, nil
}

// describe returns the keys of config.json that depend on what the network predicts.
func (c *Config) describe(labels Labels) map[string]any {
	class := c.class
	switch {
	case c.isPooled(labels):
		class = strings.TrimSuffix(class, "ForSequenceClassification") + "Model"
	case c.decoder == nil && labels.StepIDs:
		class = strings.TrimSuffix(class, "ForSequenceClassification") + "ForMaskedLM"
	case c.decoder == nil:
	case !labels.StepIDs && c.Family == gemma3:
		class += "TextForSequenceClassification"
	case !labels.StepIDs:
		class += "ForSequenceClassification"
	case c.Family == gpt2:
		class += "LMHeadModel"
	default:
		class += "ForCausalLM"
	}
	keys := map[string]any{"architectures": []string{class}, "torch_dtype": "float32"}
	if labels.StepIDs {
		return keys
	}
	names, problem := labels.Classes, "single_label_classification"
	if names == nil {
		names, problem = []string{"LABEL_0"}, "regression"
	}
	byID, byLabel := map[string]string{}, map[string]int{}
	for i, name := range names {
		byID[strconv.Itoa(i)], byLabel[name] = name, i
	}
	keys["id2label"], keys["label2id"], keys["problem_type"] = byID, byLabel, problem
	return keys
}

// written returns a file of tensors as PyTorch's programs expect it.
func written(tensors []safetensors.Tensor) ([]byte, error) {
	var file bytes.Buffer
	err := safetensors.Write(&file, tensors, map[string]string{"format": "pt"})
	return file.Bytes(), err
}
