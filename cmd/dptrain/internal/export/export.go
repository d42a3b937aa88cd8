// Package export writes trained models in the formats of other programs.
package export

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/format/torch"
	"github.com/dptrain/dptrain/internal/modelfile"
)

// Formats are the formats of Model, which are files, and FolderFormats those of Folder.
var (
	Formats       = []string{"safetensors", "onnx"}
	FolderFormats = []string{"hf", "peft"}
)

// File is a model in the format of another program.
type File struct {
	Content []byte
	// Inputs and Outputs are names of tensors; nil if the file has weights only.
	Inputs, Outputs []string
}

// FormatOf returns the format that the extension of a file's name means, or "".
func FormatOf(file string) string {
	extension := strings.TrimPrefix(strings.ToLower(filepath.Ext(file)), ".")
	if slices.Contains(Formats, extension) {
		return extension
	}
	return ""
}

// Model returns a model as a file: its weights as safetensors in PyTorch's layout, or the
// whole network, from the columns of a row to the class, as ONNX.
func Model(format string, m *modelfile.Model) (File, error) {
	metadata := map[string]string{"model": m.Model}
	if format == "onnx" {
		return onnxModel(m, metadata)
	}
	net, err := m.Build(1)
	if err != nil {
		return File{}, err
	}
	tensors, err := torch.Export(net)
	if err != nil {
		return File{}, err
	}
	if m.Directions != nil {
		tensors = append(tensors, safetensors.Tensor(modelfile.DirectionsParameter(m.Directions, m.Shape)))
	}
	metadata["format"] = string(torch.PyTorch)
	var file bytes.Buffer
	err = safetensors.Write(&file, tensors, metadata)
	return File{Content: file.Bytes()}, err
}
