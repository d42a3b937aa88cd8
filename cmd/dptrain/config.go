package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// takeUp makes the settings of a run that stopped those of this one. Its noise
// stays what it was, so a new --epsilon means more lots.
func (s *settings) takeUp() error {
	for _, name := range []string{"config", "out", "preset", "noise"} {
		if s.given[name] {
			return exitcode.Usagef("--resume and --%s were both given: a resumed run keeps its folder, settings and noise", name)
		}
	}
	if s.dryRun {
		return exitcode.Usagef("--resume and --dry-run were both given: what was spent is in the ledger, and no plan; dptrain ledger epsilon %s says how much", rundir.ShellQuote(s.resume))
	}
	s.config, s.out = filepath.Join(s.resume, rundir.ConfigFile), s.resume
	if _, err := os.Stat(s.config); errors.Is(err, fs.ErrNotExist) {
		return exitcode.Usagef("--resume %s: no run to go on with is there (it has no %s)", s.resume, rundir.ConfigFile)
	}
	if s.given["epsilon"] {
		if !(s.epsilon > 0) || math.IsInf(s.epsilon, 0) {
			return exitcode.Usagef("--epsilon %v: a finite budget above 0 is needed", s.epsilon)
		}
		s.extended = s.epsilon
		delete(s.given, "epsilon")
	}
	return nil
}

// keep writes the settings, with steps and noise as they were worked out, into
// the run's folder.
func (s *settings) keep(c *engine.Config) error {
	s.steps, s.noise, s.stopAtEpsilon = c.Steps, c.Mechanism.NoiseMultiplier, c.Budget.StopAtEpsilon
	s.given["steps"], s.given["noise"] = true, !c.Mechanism.NonPrivate
	delete(s.given, "epochs")
	delete(s.given, "epsilon")
	var b bytes.Buffer
	if s.given["seed"] {
		b.WriteString("# INSECURE: whoever has the seed below can subtract this run's noise.\n")
	}
	if err := s.print(&b); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.out, rundir.ConfigFile), b.Bytes())
}

// alternatives say the same thing in two ways.
var alternatives = [][2]string{{"lot", "rate"}, {"epochs", "steps"}, {"noise", "epsilon"}}

// replaced reports whether another way to say what a flag says was given.
func (s *settings) replaced(name string) bool {
	for _, pair := range alternatives {
		if name == pair[0] && s.given[pair[1]] || name == pair[1] && s.given[pair[0]] {
			return true
		}
	}
	return false
}

// overruled reports whether a flag, or another way to say it, was given already. A budget
// takes the place of another, whichever way that was said: a run's own file has it as the
// ε to stop at.
func (s *settings) overruled(name string) bool {
	return s.given[name] || s.replaced(name) || name == "stop-at-epsilon" && s.given["epsilon"]
}

func (s *settings) readConfig() error {
	text, err := os.ReadFile(s.config)
	if err != nil {
		return exitcode.Usagef("--config: %w", err)
	}
	if err := s.configure(text); err != nil {
		return exitcode.Usagef("--config %s: %w", s.config, err)
	}
	return nil
}

// configure takes from a configuration file what was not given yet. Values stand
// there as they would on the command line.
func (s *settings) configure(text []byte) error {
	var keys map[string]yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&keys); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("a key and a value on each line are needed, as in epochs: 3: %w", err)
	}
	if err := in.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document (---): write all settings as one")
	}
	if _, had := keys["init"]; s.resume != "" && s.given["init"] && !had {
		return fmt.Errorf("it has no init, so the run began from no file, and --init %s would be said of weights that are not from there: leave it out", s.init)
	}
	var taken []string
	for key, node := range keys {
		f := s.cmd.Flags().Lookup(key)
		if key == "config" || key == "help" || key == "resume" {
			return fmt.Errorf("%s has no place in a file: give --%s", key, key)
		}
		if f == nil {
			var names []string
			s.cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			hint := ""
			if near := nearest.LikelyTypo(key, names); near != "" {
				hint = ": did you mean " + near + "?"
			}
			return fmt.Errorf("%s is no setting%s", key, hint)
		}
		// What is private is shown to whoever asks for it, and that was another command.
		if s.overruled(key) || key == "show-private" && s.resume != "" {
			continue
		}
		values, listed, err := scalars(&node)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if values == nil {
			continue
		}
		if list, ok := f.Value.(pflag.SliceValue); ok && listed {
			err = list.Replace(values)
		} else if len(values) != 1 {
			err = fmt.Errorf("one value is needed, not %d", len(values))
		} else {
			if err = f.Value.Set(values[0]); err != nil {
				err = invalidValue(f, values[0])
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		taken = append(taken, key)
	}
	for _, key := range taken { // after all, so that a file can contradict itself
		s.given[key] = true
	}
	return nil
}

// scalars are the value or the list of values of a key; nil where it has none.
func scalars(node *yaml.Node) (values []string, listed bool, err error) {
	node = named(node)
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return nil, false, nil
	case node.Kind == yaml.ScalarNode:
		return []string{node.Value}, false, nil
	case node.Kind != yaml.SequenceNode:
		return nil, false, fmt.Errorf("a value or a list of values is needed")
	}
	values = []string{}
	for _, one := range node.Content {
		one = named(one)
		if one.Kind != yaml.ScalarNode || one.Tag == "!!null" {
			return nil, false, fmt.Errorf("a list of values is needed")
		}
		values = append(values, one.Value)
	}
	return values, true, nil
}

// named is what an alias stands for.
func named(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// silent are the flags whose default is not a value but its absence.
var silent = []string{"seed", "delta", "lot", "rate", "noise", "steps", "length", "validation-split", "validation-noise", "project", "project-noise", "views"}

// momentary are the flags that are of one command, and not of the run that it repeats.
var momentary = []string{"config", "resume", "out", "preset", "help", "print-config", "dry-run", "json", "quiet"}

// values are the settings by the names of their flags, those that a configuration
// file has to hold to repeat them.
func (s *settings) values() map[string]any {
	keys := map[string]any{}
	s.cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(momentary, f.Name) || s.replaced(f.Name) {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			if v := list.GetSlice(); len(v) > 0 {
				keys[f.Name] = v
			}
			return
		}
		v := f.Value.String()
		switch {
		case f.Value.Type() == "string":
			if v != "" || f.DefValue != "" {
				keys[f.Name] = v
			}
		case slices.Contains(silent, f.Name) && !s.given[f.Name]:
		default:
			var typed any
			if err := yaml.Unmarshal([]byte(v), &typed); err != nil {
				typed = v
			}
			keys[f.Name] = typed
		}
	})
	return keys
}

// print writes a configuration file that repeats these settings.
func (s *settings) print(w io.Writer) error {
	keys := s.values()
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		line, err := yaml.Marshal(map[string]any{k: keys[k]})
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}
