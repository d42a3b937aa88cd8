// Package models provides networks as Gorgonia graphs, and presets that reproduce
// published results.
//
// A network's initial weights are drawn from a public seed and do not depend on data.
// Package layer documents their distributions.
package models
