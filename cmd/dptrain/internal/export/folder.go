package export

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/format/torch"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/pretrained"
)

// Folder returns a fine-tuned checkpoint as the files of a folder: hf for transformers, or peft, the adapter alone.
func Folder(format string, m *modelfile.Model) ([]pretrained.File, error) {
	checkpoint, err := models.Pretrained(m.Model)
	if err != nil {
		return nil, err
	}
	if checkpoint == nil {
		return nil, fmt.Errorf("--format %s is for networks of --model hf:DIR, and this one is %s; write safetensors or onnx", format, m.Model)
	}
	net, err := m.Build(1)
	if err != nil {
		return nil, err
	}
	tensors, err := torch.Export(net)
	if err != nil {
		return nil, err
	}
	labels := pretrained.Labels{Classes: m.ClassNames, StepIDs: len(m.Labels) > 0}
	if m.Targets > 0 {
		bounds := m.Schema.Bounds[m.Schema.Target] // outputs from -1 to 1
		labels = pretrained.Labels{Scale: (bounds[1] - bounds[0]) / 2, Shift: (bounds[1] + bounds[0]) / 2}
	}
	if format == "peft" {
		return checkpoint.ExportAdapter(tensors, labels)
	}
	files, err := checkpoint.Export(tensors, labels)
	switch crop := m.Crop(); {
	case err != nil:
		return nil, err
	case m.Schema.Tokenizer != nil:
		return withTrainedTokenizer(files, m.Schema.Tokenizer)
	case m.Whole != nil:
		return pretrained.CropInPreprocessor(files, crop.Height, crop.Width)
	}
	return files, nil
}

// withTrainedTokenizer returns the files of a checkpoint with the tokenizer of the training, which can be another one than the
// checkpoint's.
func withTrainedTokenizer(files []pretrained.File, trained *data.PretrainedTokenizer) ([]pretrained.File, error) {
	for _, f := range files {
		if f.Name == pretrained.TokenizerName && trained.Is(f.Content) {
			return files, nil
		}
	}
	text, err := trained.Text()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; it is the tokenizer of the training: restore it", err)
	}
	return pretrained.ReplaceTokenizer(files, text), err
}
