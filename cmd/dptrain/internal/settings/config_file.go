package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// resolveResume reads the settings of the run to continue. Its noise stays the same, so a
// larger --epsilon allows more lots.
func (s *Flags) resolveResume() error {
	for _, name := range []string{"config", "out", "preset", "noise", "adjacency"} {
		if s.given[name] {
			return exitcode.Usagef("--resume and --%s exclude each other: a resumed run keeps its directory, settings, noise and guarantee", name)
		}
	}
	if s.DryRun {
		return exitcode.Usagef("--resume and --dry-run exclude each other: the ledger states what the run has spent; read it with dptrain ledger epsilon %s", rundir.ShellQuote(s.Resume))
	}
	s.Config, s.Out = filepath.Join(s.Resume, rundir.ConfigFile), s.Resume
	if _, err := os.Stat(s.Config); errors.Is(err, fs.ErrNotExist) {
		return exitcode.Usagef("--resume %s: there is no run to continue (it has no %s); check the path", s.Resume, rundir.ConfigFile)
	}
	ended, _ := rundir.Read(s.Resume) // a run that was killed has no summary
	if planned := ended.PlannedSteps; s.given["steps"] && s.Steps < planned {
		return exitcode.Usagef("--steps %d: the run ended before its plan of %d lots, and its end may depend on what it released; a smaller plan would understate its cost: give at least %[2]d", s.Steps, planned)
	}
	if s.given["epsilon"] {
		if err := (engine.Budget{}).CheckEpsilon(s.Epsilon); err != nil {
			return exitcode.AsUsage(err)
		}
		s.resumedEpsilon = s.Epsilon
		delete(s.given, "epsilon")
	}
	return nil
}

// WriteConfig writes the settings, with the steps and the noise of the configuration, to
// the run's directory, from which --resume reads them.
func (s *Flags) WriteConfig(c *engine.Config) error {
	s.Steps, s.Noise, s.StopAtEpsilon = c.Steps, c.Mechanism.NoiseMultiplier, c.Budget.StopAtEpsilon
	if s.resolvedMetrics != nil {
		s.Metrics = s.resolvedMetrics
	}
	s.given["steps"], s.given["noise"] = true, !c.Mechanism.NonPrivate && !s.allGroupsHaveNoise
	if !c.Mechanism.NonPrivate {
		s.Delta, s.given["delta"] = c.Budget.Delta, true
	}
	delete(s.given, "epochs")
	delete(s.given, "epsilon")
	var b bytes.Buffer
	if s.given["seed"] {
		b.WriteString("# INSECURE: the seed below determines this run's noise, so anyone who knows it can subtract the noise.\n")
	}
	if err := s.PrintYAML(&b); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.Out, rundir.ConfigFile), b.Bytes())
}

func (s *Flags) readConfig() error {
	text, err := os.ReadFile(s.Config)
	if err != nil {
		return exitcode.Usagef("--config: %w", err)
	}
	if err := s.parseYAML(text); err != nil {
		return exitcode.Usagef("--config %s: %w", s.Config, err)
	}
	return nil
}

// parseYAML takes the values of flags that have no value yet from a configuration file.
// A value is written as on the command line.
func (s *Flags) parseYAML(text []byte) error {
	var keys map[string]yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&keys); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("each line needs a key and a value, as in epochs: 3: %w", err)
	}
	if err := in.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document (---): write all settings in one document")
	}
	if _, hasInit := keys["init"]; s.Resume != "" && s.given["init"] && !hasInit {
		return fmt.Errorf("the run did not start from a file (it has no init), so --init %s would describe it wrongly; drop the flag", s.Init)
	}
	if groups, both := keys["groups"]; both {
		if _, both = keys["group"]; both {
			return errors.New("group and groups are the same setting: drop one of them")
		}
		list, err := groupsFromYAML(&groups)
		if err != nil {
			return fmt.Errorf("groups: %w", err)
		}
		delete(keys, "groups")
		var group yaml.Node
		if err := group.Encode(list); err != nil {
			return err
		}
		group.Line = groups.Line
		keys["group"] = group
	}
	lines := map[string]int{}
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(a, b string) int { return keys[a].Line - keys[b].Line }) {
		node, f := keys[key], s.set.Lookup(key)
		if key == "config" || key == "help" || key == "resume" || key == "mpi" {
			return fmt.Errorf("%s cannot be set in a file: use --%s", key, key)
		}
		if f == nil {
			hint := "; dptrain train --help lists all settings"
			if equivalent := flags.Equivalent(s.set, key); equivalent != "" {
				hint = ": did you mean " + strings.Replace(equivalent, " ", ": ", 1) + "?"
			} else if near := nearest.LikelyTypo(key, flags.Names(s.set)); near != "" {
				hint = ": did you mean " + near + "?"
			}
			return fmt.Errorf("line %d: %s is not a setting%s", node.Line, key, hint)
		}
		if s.Resume != "" {
			s.saved.read(key, &node)
		}
		// A resumed run prints private values only if the resuming command asks for them.
		if s.overridden(key) || key == "show-private" && s.Resume != "" {
			continue
		}
		values, isList, err := scalars(&node)
		if err != nil {
			return fmt.Errorf("line %d: %s: %w", node.Line, key, err)
		}
		if values == nil {
			continue
		}
		if err := setValues(f, values, isList); err != nil {
			return fmt.Errorf("line %d: %s: %w", node.Line, key, err)
		}
		lines[key] = node.Line
	}
	for key := range lines { // after the loop, so that Resolve finds contradictions within the file
		s.given[key] = true
	}
	s.linesInFile = lines
	return nil
}

// InFile adds the place in the configuration file to an error in a value that is from there.
func (s *Flags) InFile(err error) error {
	if err == nil || s.Resume != "" { // the program wrote the file of a run to resume
		return err
	}
	text, key := Describe(err), ""
	if refused := (*engine.SettingError)(nil); errors.As(err, &refused) {
		key, _, _ = strings.Cut(FlagOf(refused.Setting), " ")
	} else if flag, found := strings.CutPrefix(text, "--"); found {
		key, _, _ = strings.Cut(strings.ReplaceAll(flag, ":", " "), " ")
	}
	switch line, found := s.linesInFile[key]; {
	case !found:
		return err
	case strings.HasPrefix(text, "--"+key):
		return fmt.Errorf("--config %s: line %d: %w", s.Config, line, err)
	default:
		return fmt.Errorf("--config %s: line %d: %s: %w", s.Config, line, key, err)
	}
}

func setValues(f *pflag.Flag, values []string, isList bool) error {
	if list, ok := f.Value.(pflag.SliceValue); ok && isList {
		return list.Replace(values)
	}
	if len(values) != 1 {
		return fmt.Errorf("give one value, not %d", len(values))
	}
	if f.Value.Set(values[0]) != nil {
		return InvalidValue(f, values[0])
	}
	return nil
}

// InvalidValue describes the values that a flag accepts.
func InvalidValue(f *pflag.Flag, value string) error {
	kind := map[string]string{"float64": "a number", "int": "a whole number", "uint64": "a whole number, 0 or more", "bool": "true or false"}[f.Value.Type()]
	if kind == "" {
		kind = "an accepted value"
	}
	return fmt.Errorf("%q is not %s (%s)", value, kind, f.Usage)
}

// scalars returns the value or the list of values of a key, or nil if the key has none.
func scalars(node *yaml.Node) (values []string, isList bool, err error) {
	node = dereference(node)
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return nil, false, nil
	case node.Kind == yaml.ScalarNode:
		return []string{node.Value}, false, nil
	case node.Kind != yaml.SequenceNode:
		return nil, false, fmt.Errorf("give a value or a list of values")
	}
	values = []string{}
	for _, item := range node.Content {
		item = dereference(item)
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return nil, false, fmt.Errorf("give a list of values")
		}
		values = append(values, item.Value)
	}
	return values, true, nil
}

// savedPlan is what the settings of a run to resume state about its plan and its budget.
type savedPlan struct {
	budget        string // file of a project budget, or ""
	steps         int
	stopAtEpsilon float64 // 0: no limit
}

func (p *savedPlan) read(key string, node *yaml.Node) {
	switch key {
	case "budget":
		p.budget = node.Value
	case "steps":
		node.Decode(&p.steps) // setValues reports a value that is not a number
	case "stop-at-epsilon":
		node.Decode(&p.stopAtEpsilon)
	}
}

// check refuses a private run that is resumed with a smaller plan: releases may have decided it, so the
// cost would be that of the saved plan. A plan that a higher limit on ε bounds is not smaller.
func (p *savedPlan) check(c *engine.Config, resumedEpsilon float64) error {
	raised := resumedEpsilon > 0 && p.stopAtEpsilon > 0 && c.Budget.StopAtEpsilon >= p.stopAtEpsilon
	if raised || c.Steps >= p.steps {
		return nil
	}
	return exitcode.Usagef("the run would end after %d lots, and was planned with %d: its end may depend on what it released, and a smaller plan would understate its cost; give --steps of at least %[2]d, or a higher --epsilon", c.Steps, p.steps)
}

// dereference returns the node that an alias refers to.
func dereference(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// unsetByDefault are the flags whose default means that no value is set.
var unsetByDefault = []string{"seed", "delta", "lot", "rate", "epochs", "population", "max-lot", "clip", "lr", "ema", "noise", "steps", "length", "split", "split-seed", "validation-split", "validation-noise", "project", "project-noise", "views"}

// commandFlags belong to a command and not to the run that it starts.
var commandFlags = []string{"config", "resume", "out", "preset", "help", "print-config", "dry-run", "json", "quiet", "mpi"}

// Values returns the settings by flag name: the keys of a configuration file that repeats
// the run.
func (s *Flags) Values() map[string]any {
	keys := map[string]any{}
	s.set.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(commandFlags, f.Name) || s.hasAlternative(f.Name) {
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
		case slices.Contains(unsetByDefault, f.Name) && !s.given[f.Name] && !slices.Contains(s.byRule, f.Name):
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

// PrintYAML writes a configuration file that repeats the run.
func (s *Flags) PrintYAML(w io.Writer) error {
	keys := s.Values()
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
