package report

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"gopkg.in/yaml.v3"
)

// mlflowExperiment is the experiment of MLflow that runs of dptrain belong to. MLflow writes 18 digits,
// too, and makes them from the time.
const mlflowExperiment = "100000000000000000"

// mlflowArtifacts are the files that MLflow shows.
var mlflowArtifacts = []string{rundir.SummaryFile, rundir.LedgerFile, rundir.MetricsFile, rundir.ReportFile, rundir.CardFile}

// WriteMLflow adds the run in a directory to a file store of MLflow: one folder for the run, with a file for
// each setting, metric and tag (mlflow/store/tracking/file_store.py). Writing a run again replaces it. It
// returns the folder of the run.
func (r *Run) WriteMLflow(dir, store string) (string, error) {
	store, err := filepath.Abs(store)
	if err != nil {
		return "", err
	}
	finished := r.summary.Finished
	experiment := filepath.Join(store, mlflowExperiment)
	if err := writeExperiment(experiment, finished); err != nil {
		return "", err
	}
	id := fmt.Sprintf("%x", sha256.Sum256([]byte(r.summary.LedgerHead+finished.Format(time.RFC3339))))[:32]
	to := filepath.Join(experiment, id)
	if err := os.RemoveAll(to); err != nil {
		return "", err
	}
	started := finished.Add(-time.Duration(r.summary.Seconds * float64(time.Second)))
	name := r.summary.Model + " " + r.summary.dataName()
	const sourceLocal, statusFinished = 4, 3
	files, err := r.mlflowFiles(started)
	if err != nil {
		return "", err
	}
	files["tags/mlflow.runName"] = name
	meta, err := yaml.Marshal(map[string]any{
		"artifact_uri": fileURL(filepath.Join(to, "artifacts")), "start_time": started.UnixMilli(), "end_time": finished.UnixMilli(),
		"entry_point_name": "", "experiment_id": mlflowExperiment, "lifecycle_stage": "active", "run_id": id, "run_uuid": id, "run_name": name,
		"source_name": "", "source_type": sourceLocal, "source_version": "", "status": statusFinished, "tags": []string{}, "user_id": "",
	})
	if err != nil {
		return "", err
	}
	files["meta.yaml"] = string(meta)
	for _, artifact := range mlflowArtifacts {
		text, err := os.ReadFile(filepath.Join(dir, artifact))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		files["artifacts/"+artifact] = string(text)
	}
	for name, text := range files {
		path := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := atomicfile.Write(path, []byte(text)); err != nil {
			return "", err
		}
	}
	return to, nil
}

// writeExperiment describes the experiment, if the store does not have it.
func writeExperiment(folder string, created time.Time) error {
	path := filepath.Join(folder, "meta.yaml")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	text, err := yaml.Marshal(map[string]any{
		"artifact_location": fileURL(folder), "creation_time": created.UnixMilli(), "last_update_time": created.UnixMilli(),
		"experiment_id": mlflowExperiment, "lifecycle_stage": "active", "name": "dptrain",
	})
	if err != nil {
		return err
	}
	return atomicfile.Write(path, text)
}

// mlflowFiles returns the settings, metrics and tags of the run.
func (r *Run) mlflowFiles(started time.Time) (map[string]string, error) {
	s := &r.summary
	files := map[string]string{"tags/dptrain.version": s.Version, "tags/mlflow.note.content": r.Statement()}
	if s.LedgerHead != "" {
		files["tags/dptrain.ledger_head"] = s.LedgerHead
	}
	text, err := json.Marshal(struct {
		rundir.Lots
		rundir.Settings
		Model    string       `json:"model"`
		Data     string       `json:"data"`
		Clipping string       `json:"clipping,omitempty"`
		Delta    number.Float `json:"delta,omitempty"`
		Unit     string       `json:"unit,omitempty"`
	}{s.Lots, s.Settings, s.Model, s.dataName(), s.Clipping, s.Delta, s.Unit})
	if err != nil {
		return nil, err
	}
	var settings map[string]json.RawMessage
	if err := json.Unmarshal(text, &settings); err != nil {
		return nil, err
	}
	for name, value := range settings {
		files["params/"+name] = strings.Trim(string(value), `"`)
	}
	for _, p := range r.points {
		at := started.Add(time.Duration(p.Seconds * float64(time.Second))).UnixMilli()
		for _, m := range p.scalars() {
			files["metrics/"+m.name] += fmt.Sprintf("%d %s %d\n", at, strconv.FormatFloat(m.value, 'g', -1, 64), p.Lot)
		}
	}
	return files, nil
}

// scalar is a metric with one value.
type scalar struct {
	name  string
	value float64
}

// scalars lists the numbers of a line of metrics.jsonl, with the names that TensorBoard shows.
func (p *metricPoint) scalars() (all []scalar) {
	add := func(name string, x *float64) {
		if x != nil {
			all = append(all, scalar{name, *x})
		}
	}
	add("privacy/epsilon", (*float64)(p.Epsilon))
	add("test/accuracy", p.Accuracy)
	add("test/loss", (*float64)(p.Loss))
	add("test/rmse", p.RMSE)
	add("test/mae", p.MAE)
	add("learning_rate", p.Rate)
	for _, m := range p.Released {
		if len(m.Value) == 1 {
			add("released/"+m.Name, &m.Value[0])
		}
	}
	return slices.DeleteFunc(all, func(s scalar) bool { return s.value != s.value }) // NaN
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}
