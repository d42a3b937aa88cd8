package settings

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/setting"
)

// flagOf lists the settings of the libraries whose flags, and keys of a configuration file, have other
// names. The keys of a schema are flags with the same names.
var flagOf = map[string]string{
	"Budget.Accountant": "accountant", "Budget.AllowLargeDelta": "allow-large-delta", "Budget.Delta": "delta", "Budget.Project": "budget", "Budget.StopAtEpsilon": "stop-at-epsilon",
	"Epsilon":     "epsilon",
	"Device.Name": "device", "Device.Precision": "precision",
	"Augmentation.Views":  "views",
	"LocalTraining.Batch": "local-batch", "LocalTraining.Rate": "local-lr", "LocalTraining.Steps": "local-steps",
	"Mechanism.Arithmetic": "arithmetic",
	"Mechanism.Clipping":   "clipping", "Mechanism.Clipping.Bound": "clip",
	"Mechanism.Distribution": "mechanism", "Mechanism.NoiseMultiplier": "noise", "Mechanism.NonPrivate": "non-private",
	"Microbatch":   "microbatch",
	"Options.Crop": "crop", "Options.Dir": "data-dir", "Options.Image": "image", "Options.Public": "public", "Options.Standardize": "standardize", "Options.Test": "test",
	"Projection.Directions": "project", "Projection.Noise": "project-noise", "Validation.Noise": "validation-noise", "Validation.Share": "validation-split",
	"RankTimeout":                "rank-timeout",
	"Records.Users":              "record user:COLUMN",
	"Optimization.Schedule.Base": "lr",
	"Sampling.ConstantWork":      "constant-work", "Sampling.Lot": "lot", "Sampling.MaxLot": "max-lot", "Sampling.Policy": "sampling",
	"Sampling.Population": "population", "Sampling.Rate": "rate", "Steps": "steps",
	"Weights.Cap": "weight-cap", "Weights.Mean": "weight-mean", "Weights.MinMean": "weight-min-mean",
}

// FlagOf returns the flag of a setting, without its value.
func FlagOf(name string) string {
	if flag, other := flagOf[name]; other {
		return flag
	}
	return name
}

// AsFlag writes a reference to a setting as on the command line.
func AsFlag(r setting.Ref) string {
	switch flag := "--" + FlagOf(r.Name); r.Value {
	case "":
		return flag
	case "true", "false":
		return flag + "=" + r.Value
	default:
		return fmt.Sprintf("%s %s", flag, r.Value)
	}
}

// Describe returns the message of err. It names settings as on the command line.
func Describe(err error) string { return setting.Describe(err, AsFlag) }
