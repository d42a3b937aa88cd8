// Package settings turns the flags and the configuration file of train into a run specification: an
// engine.Config with calibrated noise.
//
// # The idea
//
// A setting can be given in three places, and what is not given follows from public numbers or from
// the budget. Each source overrides the ones to its left:
//
//	rules ◀ preset ◀ configuration file ◀ command line
//	                       │
//	Flags ── Resolve ──────┘        the values of all flags, and which of them were given
//	  │
//	  │  New(flags, data)           the data's columns; the network; defaults by rule
//	  ▼
//	Spec ── Calibrate               lots, optimizer, clipping; then the noise at which the plan
//	  │                             costs the given ε: of gradients, and of the statistics, the
//	  ▼                             validation and the projection, each with its share of ε
//	Spec.Config  ──▶  engine.New
//
// The noise that calibration finds is written to the run's configuration file, so that a resumed run
// has the same noise.
//
// # Where each part lives
//
//   - flags.go, data_flags.go: [Flags], one field a flag, with its help; config_file.go: the file and
//     resumption; defaults.go: rules.
//   - spec.go: [Spec], [New], [Spec.Calibrate].
//   - One file for each subject with settings of its own: clipping.go, groups.go, lot_schedule.go,
//     multipliers.go, augmentation.go, local_training.go, metrics.go, validation.go, projection.go,
//     weights.go, stop.go, project_budget.go.
//   - network.go: the network, its starting weights and its file; score.go: public test data.
//   - candidate.go: the settings that tune varies. fingerprint.go: a resumed run has the same settings.
package settings
