package export

import (
	"fmt"

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
	return checkpoint.Export(tensors, labels)
}
