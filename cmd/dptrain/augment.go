package main

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/exitcode"
)

// augmentation is what run.json says of views.
type augmentation struct {
	Change string `json:"augment"`
	Views  int    `json:"views"`
}

// augment reads how pictures are changed, and how many views of one there are.
func (j *job) augment() error {
	s := j.set
	if !s.given["augment"] {
		if s.given["views"] {
			return exitcode.Usagef("--views %d: without a change they would all be the same; give --augment too", s.views)
		}
		return nil
	}
	if s.views < 1 {
		return exitcode.Usagef("--views %d: give at least 1", s.views)
	}
	change, err := data.ParseAugmentation(s.augment, j.task.Train.Columns())
	if err != nil {
		return exitcode.Usagef("--augment: %w", err)
	}
	j.config.Augmentation = engine.Augmentation{Views: s.views, Transform: change}
	return nil
}

// augmented is nil where pictures are shown as they are.
func (j *job) augmented() *augmentation {
	if j.config.Augmentation.Views == 0 {
		return nil
	}
	return &augmentation{j.set.augment, j.set.views}
}

func (a *augmentation) print(w io.Writer) {
	fmt.Fprintf(w, "views\t%d of a picture, changed by %s\n", a.Views, a.Change)
}
