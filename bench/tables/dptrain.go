package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// delta is δ of all programs.
const delta = "1e-5"

// repeat trains once on each split, with flags of dptrain train. It adds each score to those of kind,
// the program.
func (b *bench) repeat(s *splits, kind result, epsilon float64, setting string) error {
	for i := range b.runs {
		r, err := b.train(s, i, epsilon, setting)
		if err != nil {
			return fmt.Errorf("%s: %w", setting, err)
		}
		r.Program, r.Tries, r.Run = kind.Program, kind.Tries, i
		b.add(r)
		if err := b.write(); err != nil { // a later failure loses nothing
			return err
		}
	}
	return nil
}

// build compiles the program that is compared.
func (b *bench) build() error {
	b.program = filepath.Join(b.dir, "dptrain")
	return run(exec.Command("go", "build", "-o", b.program, "github.com/dptrain/dptrain/cmd/dptrain"))
}

// train runs dptrain train on a split.
func (b *bench) train(s *splits, split int, epsilon float64, setting string) (r result, err error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	line := fmt.Sprintf("train --json --quiet --device cpu --epsilon %v --delta %s %s", epsilon, delta, setting)
	c := exec.Command(b.program, append(strings.Fields(line), "--out", filepath.Join(dir, "run"),
		"--data", s.file("train", split), "--test", s.file("test", split), "--schema", s.schema)...)
	var out, problem bytes.Buffer
	c.Stdout, c.Stderr = &out, &problem
	if err := c.Run(); err != nil {
		return r, fmt.Errorf("%w: %s", err, strings.TrimSpace(problem.String()))
	}
	var printed struct {
		Accuracy     float64 `json:"test_accuracy"`
		RMSE         float64 `json:"test_rmse"`
		Model        string
		Steps        int
		Lot          float64 `json:"expected_lot"`
		Clip         float64
		LearningRate float64 `json:"learning_rate"`
		ROC          struct {
			Classes []struct{ AUC float64 }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
		return r, err
	}
	r = result{Table: s.table.name, Epsilon: epsilon, Setting: setting, Score: printed.Accuracy}
	if setting == "" {
		r.Setting = fmt.Sprintf("--model %s --lot %v --steps %d --clip %v --lr %v", printed.Model, printed.Lot, printed.Steps, printed.Clip, printed.LearningRate)
	}
	if s.table.number {
		half := (s.high - s.low) / 2 // targets are scaled to [-1, 1]
		r.Score = -printed.RMSE * printed.RMSE / (half * half)
	}
	if s.classes == 2 && len(printed.ROC.Classes) > 0 {
		r.AUC = printed.ROC.Classes[0].AUC
	}
	return r, nil
}
