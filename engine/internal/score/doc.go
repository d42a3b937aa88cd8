// Package score compares the outputs of a network with labels and targets.
package score
