package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	checkpointName      = "lot-%012d.checkpoint"
	checkpointSuffix    = ".checkpoint"
	temporaryCheckpoint = "unfinished"
)

// RefuseOtherRun returns an error if a folder contains checkpoints.
func RefuseOtherRun(folder string) error {
	names, err := List(folder)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("checkpoint: %s contains checkpoints of another run; resume it, or choose another folder", folder)
	}
	return err
}

// List returns the files in a folder, the newest first; none if there is no
// folder.
func List(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), checkpointSuffix) {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	slices.Reverse(names) // ReadDir sorts them
	return names, nil
}

// Newest opens the newest undamaged checkpoint in a folder; nil where there are no
// checkpoints.
func Newest(folder string) (*Checkpoint, error) {
	names, err := List(folder)
	if err != nil {
		return nil, err
	}
	var first error
	for _, name := range names {
		c, err := Open(name)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, ErrDamaged) {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
		if first == nil {
			first = fmt.Errorf("checkpoint %s: %w", name, err)
		}
	}
	return nil, first
}

// Open reads a checkpoint. Its file stays open for load.
func Open(name string) (c *Checkpoint, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if c, err = readCheckpoint(file, info.Size()); err != nil {
		return nil, err
	}
	c.file = file
	return c, nil
}
