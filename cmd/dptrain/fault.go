package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit codes that scripts rely on.
const (
	exitDone        = 0
	exitFailed      = 1   // the run failed
	exitWrong       = 2   // bad arguments, configuration or data
	exitOverBudget  = 3   // the budget does not allow it
	exitDamaged     = 4   // a ledger or checkpoint fails verification
	exitInterrupted = 130 // interrupted, with everything saved
)

// fault is an error that knows its exit code.
type fault struct {
	code int
	err  error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// wrong is an error in what the user gave: exit code 2.
func wrong(format string, values ...any) error {
	return &fault{exitWrong, fmt.Errorf(format, values...)}
}

// exitCode is the code of the outermost fault in err; errors of other packages
// are judged by what they are. Whatever was being done with what the user gave, it is not
// wrong because the machine failed.
func exitCode(err error) int {
	var f *fault
	var damage *accountant.Damage
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &f) && (f.code != exitWrong || !machineFailed(err)):
		return f.code
	case errors.As(err, &damage), errors.Is(err, engine.ErrDamaged):
		return exitDamaged
	case machineFailed(err):
		return exitFailed
	case errors.Is(err, engine.ErrBudget):
		return exitOverBudget
	case errors.Is(err, accountant.ErrArgument), errors.Is(err, accountant.ErrUnreachable),
		errors.Is(err, accountant.ErrLocked), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrPermission):
		return exitWrong
	}
	return exitFailed
}

// errorLine is the one line that a user sees of err.
func errorLine(cmd *cobra.Command, err error) string {
	line := strings.Join(strings.Fields(err.Error()), " ")
	if path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "); cmd.HasParent() {
		line = path + ": " + line
	}
	return cmd.Root().Name() + ": " + line
}

// flagFault explains a flag that cobra could not read.
func flagFault(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if unknown.GetSpecifiedShortnames() != "" {
			return wrong("there is no flag -%s: flags have long names, as in --json; see %s --help", unknown.GetSpecifiedName(), cmd.CommandPath())
		}
		hint := ""
		if near := nearest.LikelyTypo(unknown.GetSpecifiedName(), names); near != "" {
			hint = fmt.Sprintf("did you mean --%s? ", near)
		} else if slices.Contains(commandNames(cmd.Root()), unknown.GetSpecifiedName()) {
			hint = fmt.Sprintf("did you mean %s %s? ", cmd.Root().Name(), unknown.GetSpecifiedName())
		}
		return wrong("there is no flag --%s: %ssee %s --help", unknown.GetSpecifiedName(), hint, cmd.CommandPath())
	case errors.As(err, &empty):
		return wrong("--%s needs a value (%s)", empty.GetSpecifiedName(), empty.GetFlag().Usage)
	case errors.As(err, &invalid):
		return wrong("--%s %w", invalid.GetFlag().Name, notA(invalid.GetFlag(), invalid.GetValue()))
	}
	return &fault{exitWrong, err}
}

// notA says what a flag takes in place of a value that it did not.
func notA(f *pflag.Flag, value string) error {
	kind := map[string]string{"float64": "a number", "int": "a whole number", "uint64": "a whole number from 0 on", "bool": "true or false"}[f.Value.Type()]
	if kind == "" {
		kind = "a value it accepts"
	}
	return fmt.Errorf("%q is not %s (%s)", value, kind, f.Usage)
}

// takesCommand makes cmd, which only groups commands, print its help, which is no JSON
// object, and name the nearest command where it gets an unknown one.
func takesCommand(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch asked, err := cmd.Flags().GetBool("json"); {
		case len(args) > 0:
		case err == nil && asked:
			return wrong("--json needs a command: there are %s", strings.Join(commandNames(cmd), ", "))
		default:
			return cmd.Help()
		}
		return unknownName("command", args[0], commandNames(cmd))
	}
}

// takesFolder wants a run's folder and nothing else; example is how that is written.
func takesFolder(example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return wrong("give one folder of a run, as in dptrain %s", example)
		}
		return nil
	}
}

// takesNothing refuses positional arguments.
func takesNothing(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrong("%q is one argument too many: values are given as --flag value", args[0])
	}
	return nil
}

// oneOf checks the value of a flag that has a fixed set of them.
func oneOf(flag, value string, choices []string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return unknownName("--"+flag, value, choices)
}

func unknownName(what, name string, choices []string) error {
	hint := ""
	if near := nearest.LikelyTypo(name, choices); near != "" {
		hint = fmt.Sprintf("did you mean %s? ", near)
	}
	return wrong("%s %q is unknown: %sthere are %s", what, name, hint, strings.Join(choices, ", "))
}
