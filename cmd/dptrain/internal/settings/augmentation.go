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
	if s.Task.Schema.Masked > 0 {
		return s.resolveMasking()
	}
	if !f.given["augment"] && !f.given["crop"] {
		if f.given["views"] {
			return exitcode.Usagef("--views %d needs --crop or --augment: without a random change all views are equal", f.Views)
		}
		return nil
	}
	switch {
	case f.Views == 0: // which the engine reads as no change
		return exitcode.Usagef("--views 0: give at least 1")
	case f.given["crop"] && f.LocalSteps > 0:
		return exitcode.Usagef("--crop %s takes a random part of each image, which is not available with --local-steps: drop one of them", f.Crop)
	}
	a := engine.Augmentation{Views: f.Views}
	if f.given["augment"] {
		var err error
		if a.Transform, err = data.ParseAugmentation(f.Augment, s.Task.Train.Columns()); err != nil {
			return exitcode.Usagef("--augment: %w", err)
		}
	}
	s.Config.Augmentation = a
	return nil
}

// resolveMasking masks ids: those of a record in a lot are drawn from the run's random stream.
func (s *Spec) resolveMasking() error {
	f := s.Flags
	for name, given := range map[string]bool{"augment": f.Augment != "", "crop": f.Crop != "", "views": f.Views > 1, "split": f.Split > 0,
		"validation-split": f.ValidationSplit > 0, "local-steps": f.LocalSteps > 0} {
		if given {
			return exitcode.Usagef("--%s is not available with --masked: drop one of them", name)
		}
	}
	transform, err := s.Task.Schema.Masking()
	if err != nil {
		return exitcode.AsUsage(err)
	}
	s.Config.Augmentation = engine.Augmentation{Views: 1, Transform: transform}
	return nil
}

// AugmentationSummary describes the views for run.json; nil if images are not changed.
func (s *Spec) AugmentationSummary() *rundir.Augmentation {
	f := s.Flags
	if !f.given["augment"] && !f.given["crop"] {
		return nil
	}
	return &f.Augmentation
}
