package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errorLine formats err as the single line that the user sees.
func errorLine(cmd *cobra.Command, err error) string {
	line := strings.Join(strings.Fields(settings.Describe(err)), " ")
	if path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "); cmd.HasParent() {
		line = path + ": " + line
	}
	return cmd.Root().Name() + ": " + line
}

// explainFlagError explains a flag that cobra cannot parse.
func explainFlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return exitcode.Usagef("%ssee %s --help", describeUnknownFlag(cmd, unknown), cmd.CommandPath())
	case errors.As(err, &empty):
		return exitcode.Usagef("--%s needs a value (%s)", empty.GetSpecifiedName(), empty.GetFlag().Usage)
	case errors.As(err, &invalid):
		return exitcode.Usagef("--%s %w", invalid.GetFlag().Name, settings.InvalidValue(invalid.GetFlag(), invalid.GetValue()))
	}
	return &exitcode.Error{Code: exitcode.Usage, Err: err}
}

// describeUnknownFlag says that cmd has no such flag, and names the flag that is probably meant.
func describeUnknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	name := unknown.GetSpecifiedName()
	equivalent := flags.Equivalent(cmd.Flags(), name)
	if unknown.GetSpecifiedShortnames() != "" {
		if equivalent != "" {
			return fmt.Sprintf("there is no flag -%s: did you mean --%s? ", name, equivalent)
		}
		return fmt.Sprintf("there is no flag -%s: dptrain has only long flags, such as --json; ", name)
	}
	hint := ""
	if near := nearest.LikelyTypo(name, flags.Names(cmd.Flags())); equivalent != "" {
		hint = fmt.Sprintf("did you mean --%s? ", equivalent)
	} else if near != "" {
		hint = fmt.Sprintf("did you mean --%s? ", near)
	} else if slices.Contains(commandNames(cmd.Root()), name) {
		hint = fmt.Sprintf("did you mean %s %s? ", cmd.Root().Name(), name)
	}
	return fmt.Sprintf("there is no flag --%s: %s", name, hint)
}

// groupSubcommands makes cmd a group of subcommands: without arguments it prints its
// help, and it suggests the nearest name for an unknown subcommand. Help is not JSON, so
// --json needs a subcommand.
func groupSubcommands(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch asked, err := cmd.Flags().GetBool("json"); {
		case len(args) > 0:
		case err == nil && asked:
			return exitcode.Usagef("--json needs a command: choose from %s", strings.Join(commandNames(cmd), ", "))
		default:
			return cmd.Help()
		}
		return exitcode.UnknownName("command", args[0], commandNames(cmd))
	}
}

// oneRunDir requires one argument, the directory of a run; example shows how to write it.
func oneRunDir(example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return exitcode.Usagef("give one run directory, as in dptrain %s", example)
		}
		return nil
	}
}

// noArguments refuses positional arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exitcode.Usagef("unexpected argument %q: give values as --flag value", args[0])
	}
	return nil
}

// completeChoices offers the choices of each flag to the shell.
func completeChoices(cmd *cobra.Command, choices map[string][]string) {
	for flag, values := range choices {
		flags.Complete(cmd, flag, values)
	}
}
