package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/internal/format/safetensors"
)

// Averaged is the model for predictions: the average of the instances.
type Averaged struct {
	Name string
	drawdiscard.Spec
	Weights []float32
	Updates uint64 // of the instances before
}

// FileFormat is the value of the key format in the metadata of a file of GET /v1/models/NAME. The key
// spec has the JSON of the model's drawdiscard.Spec, and updates the number of updates.
const FileFormat = "dptrain-draw-and-discard-1"

// ErrNotServed is the error for a path that is neither a folder of a server nor a file of its averaged
// model.
var ErrNotServed = errors.New("not a model of a server")

// appendFile appends the averaged model as a safetensors file that describes itself.
func (a *Averaged) appendFile(dst []byte, tensors []drawdiscard.TensorShape) ([]byte, error) {
	spec, err := json.Marshal(a.Spec)
	if err != nil {
		return nil, err
	}
	parts := make([]safetensors.Tensor, len(tensors))
	rest := a.Weights
	for i, t := range tensors {
		size := drawdiscard.CountWeights([]drawdiscard.TensorShape{t}, len(rest))
		parts[i] = safetensors.Tensor{Name: t.Name, Shape: t.Shape, Values: rest[:size]}
		rest = rest[size:]
	}
	file := bytes.NewBuffer(dst)
	err = safetensors.Write(file, parts, map[string]string{
		"format": FileFormat, "name": a.Name, "spec": string(spec), "updates": strconv.FormatUint(a.Updates, 10),
	})
	return file.Bytes(), err
}

// ReadAveraged reads the averaged model from the folder of a server with one model, from the folder of
// one of its models, or from a file of GET /v1/models/NAME. The error is ErrNotServed where the path is
// none of these. No server may use the folder meanwhile.
func ReadAveraged(path string) (*Averaged, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNotServed
	case err != nil:
		return nil, err
	case info.IsDir():
		return readFolder(path)
	case info.Mode().IsRegular():
		return readFile(path, info.Size())
	}
	return nil, ErrNotServed
}

func readFolder(path string) (*Averaged, error) {
	found, err := servedFolders(path)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, ErrNotServed
	case len(found) > 1:
		names := make([]string, len(found))
		for i, folder := range found {
			names[i] = filepath.Base(folder)
		}
		return nil, fmt.Errorf("%s has the models %s: name the folder of one, as in %s", path, strings.Join(names, ", "), found[0])
	}
	folder := found[0]
	report, err := checkFolder(folder)
	switch {
	case err != nil:
		return nil, err
	case !report.OK:
		return nil, &DamagedError{folder, report.Damage}
	}
	text, err := os.ReadFile(filepath.Join(folder, descriptionName))
	if err != nil {
		return nil, err
	}
	var d Description
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, &DamagedError{filepath.Join(folder, descriptionName), err.Error()}
	}
	instances, err := drawdiscard.RestoreInstances(report.state.instances)
	if err != nil {
		return nil, err
	}
	a := &Averaged{Name: d.Name, Spec: d.Spec, Weights: make([]float32, instances.Weights()), Updates: report.state.updates}
	instances.Average(a.Weights)
	return a, nil
}

// servedFolders returns the folders of models that are at a path, or directly below it. Each has a
// snapshot, which the folder of a run has not.
func servedFolders(path string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(path, snapshotName)); err == nil {
		return []string{path}, nil
	}
	below, err := filepath.Glob(filepath.Join(escapePattern(path), "*", snapshotName))
	for i := range below {
		below[i] = filepath.Dir(below[i])
	}
	return below, err
}

// escapePattern makes Glob read a path as it is.
func escapePattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func readFile(path string, size int64) (*Averaged, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	metadata, err := safetensors.ReadMetadata(file, size)
	if err != nil || metadata["format"] != FileFormat {
		return nil, ErrNotServed
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	tensors, _, err := safetensors.Read(file, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a := &Averaged{Name: metadata["name"]}
	if err := json.Unmarshal([]byte(metadata["spec"]), &a.Spec); err != nil {
		return nil, fmt.Errorf("%s: the metadata spec: %w", path, err)
	}
	if a.Updates, err = strconv.ParseUint(metadata["updates"], 10, 64); err != nil {
		return nil, fmt.Errorf("%s: the metadata updates: %w", path, err)
	}
	expected, err := a.Tensors()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	codec, err := drawdiscard.NewCodec(expected)
	if err != nil {
		return nil, err
	}
	plain := bytes.Buffer{} // without the metadata, for the checks of the codec
	if err := safetensors.Write(&plain, tensors, nil); err != nil {
		return nil, err
	}
	if a.Weights, err = codec.Decode(plain.Bytes()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}
