package settings

import (
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
)

// resolveAugmentation sets how images are changed, and the number of views.
func (s *Spec) resolveAugmentation() error {
	f := s.Flags
	if !f.given["augment"] {
		if f.given["views"] {
			return exitcode.Usagef("--views %d needs --augment: without a random change all views are equal", f.Views)
		}
		return nil
	}
	if f.Views < 1 {
		return exitcode.Usagef("--views %d: give at least 1", f.Views)
	}
	transform, err := data.ParseAugmentation(f.Augment, s.Task.Train.Columns())
	if err != nil {
		return exitcode.Usagef("--augment: %w", err)
	}
	s.Config.Augmentation = engine.Augmentation{Views: f.Views, Transform: transform}
	return nil
}

// AugmentationSummary describes the views for run.json; nil if images are not changed.
func (s *Spec) AugmentationSummary() *rundir.Augmentation {
	if !s.Flags.given["augment"] {
		return nil
	}
	return &rundir.Augmentation{Transform: s.Flags.Augment, Views: s.Flags.Views}
}
