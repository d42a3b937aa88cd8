package served

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/models"
)

// InitialWeights reads the weights that a server's model starts from: those of a run, of a safetensors
// file, or of another server's model. It is the inverse of Model: the weights of a run on a table are
// changed to features in [0, 1].
func InitialWeights(spec drawdiscard.Spec, path string) ([]float32, error) {
	averaged, err := server.ReadAveraged(path)
	switch {
	case err == nil && (averaged.Model != spec.Model || !slices.Equal(averaged.Inputs, spec.Inputs) ||
		averaged.Classes != spec.Classes || averaged.Vocabulary != spec.Vocabulary):
		return nil, fmt.Errorf("it is a model %s with inputs %v and %d classes; use one like the model to serve", averaged.Model, averaged.Inputs, averaged.Classes)
	case err == nil:
		return averaged.Weights, nil
	case !errors.Is(err, server.ErrNotServed):
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if err := modelfile.VerifyWeights(path); err != nil {
			return nil, err
		}
		path = filepath.Join(path, modelfile.WeightsFile)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	manifest, err := Manifest(&server.Averaged{Spec: spec}, data.Schema{})
	if err != nil {
		return nil, err
	}
	build, err := models.Parse(manifest.Model, manifest.Example(), 1)
	if err != nil {
		return nil, err
	}
	if build, _, err = weights.Load(build, file); err != nil {
		return nil, err
	}
	network, err := build(1)
	if err != nil {
		return nil, err
	}
	parameters := make([][]float32, len(network.Params))
	for i, p := range network.Params {
		parameters[i] = slices.Clone(p.Value().Data().([]float32))
	}
	var schema data.Schema // of the run, if the file is in its directory
	if m, err := modelfile.ReadManifest(filepath.Dir(path)); err == nil && filepath.Base(path) == modelfile.WeightsFile {
		schema = m.Schema
	}
	if bounded := drawdiscard.BoundedFeatures(schema, spec.Inputs.Size()); slices.Contains(bounded, true) {
		scaleToUnit(parameters[0], parameters[1], bounded)
	}
	if spec.IsGLM() {
		return drawdiscard.Family(spec.Model).WeightsOfDense(parameters[0], parameters[1]), nil
	}
	return slices.Concat(parameters...), nil
}

// scaleToUnit changes the weights [in, out] of a dense layer from features x in [-1, 1] to u in [0, 1]:
// w·(2u-1) = 2w·u - w.
func scaleToUnit(w, bias []float32, bounded []bool) {
	for i, isBounded := range bounded {
		if !isBounded {
			continue
		}
		for o := range bias {
			bias[o] -= w[i*len(bias)+o]
			w[i*len(bias)+o] *= 2
		}
	}
}
