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

// install creates or updates the virtual environment of a program. Each has its own, because they
// need different versions of the same packages.
func (b *bench) install(peer string) error {
	if b.venv == "" {
		return nil
	}
	if _, err := os.Stat(b.interpreter(peer)); err != nil {
		if err := run(exec.Command(b.python, "-m", "venv", filepath.Join(b.venv, peer))); err != nil {
			return err
		}
	}
	return run(exec.Command(b.interpreter(peer), "-m", "pip", "install", "--quiet", "--requirement", filepath.Join(b.peers, "requirements-"+peer+".txt")))
}

func (b *bench) interpreter(peer string) string {
	if b.venv == "" {
		return b.python
	}
	return filepath.Join(b.venv, peer, "bin", "python")
}

// run runs a program whose output is progress.
func run(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// peers are the programs in Python.
var peers = []string{"diffprivlib", "opacus", "dp-ebm"}

// runPeers runs the other programs on the same files. Each prints a JSON object a run.
func (b *bench) runPeers(s *splits) error {
	if b.python == "" {
		return nil
	}
	for _, peer := range peers {
		if !b.programs.MatchString(peer) {
			continue
		}
		if err := b.install(peer); err != nil {
			return err
		}
		epsilons := strings.Trim(strings.ReplaceAll(fmt.Sprint(b.epsilons), " ", ","), "[]")
		cmd := exec.Command(b.interpreter(peer), filepath.Join(b.peers, "tables.py"), peer, s.dir, fmt.Sprint(b.runs), epsilons, delta)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s, %s: %v\n", s.table.name, peer, err) // its cells stay empty
		}
		for line := range bytes.Lines(out) {
			r := result{Table: s.table.name, Program: peer}
			if err := json.Unmarshal(line, &r); err != nil {
				return fmt.Errorf("%s printed %q: %w", peer, line, err)
			}
			b.add(r)
		}
		if err := b.write(); err != nil {
			return err
		}
	}
	return nil
}
