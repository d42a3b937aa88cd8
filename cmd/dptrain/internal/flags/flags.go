// Package flags has helpers for the flags of commands.
package flags

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Alternatives lists the values of a flag for its help: a, b or c.
func Alternatives(values []string) string {
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

const valuesKey = "values" // annotation of a flag with the values that a shell offers

// Complete makes the shell complete a flag with the values. It panics if cmd lacks the flag.
func Complete(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.Flags().SetAnnotation(flag, valuesKey, values); err != nil {
		panic(err)
	}
}

// ServeCompletion lets cmd and its subcommands answer a shell that completes flags. Only a process for
// that calls it: cobra keeps every flag that can be completed until the process ends.
func ServeCompletion(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if values := f.Annotations[valuesKey]; values != nil {
			complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
			failed = errors.Join(failed, cmd.RegisterFlagCompletionFunc(f.Name, complete))
		}
	})
	for _, c := range cmd.Commands() {
		failed = errors.Join(failed, ServeCompletion(c))
	}
	return failed
}

// Names lists the flags of f.
func Names(f *pflag.FlagSet) (names []string) {
	f.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}

// decimal is an integer flag that reads decimal numbers only. Without it, pflag reads
// integers like Go source: 010 would be eight.
type decimal struct{ pflag.Value }

func (d decimal) Set(text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		text = strconv.FormatInt(n, 10)
	} else if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		text = strconv.FormatUint(n, 10)
	} else {
		return err
	}
	return d.Value.Set(text)
}

// ReadDecimal makes the integer flags of cmd and its subcommands read decimal numbers.
func ReadDecimal(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if t := f.Value.Type(); t == "int" || t == "uint64" {
			f.Value = decimal{f.Value}
		}
	})
	for _, c := range cmd.Commands() {
		ReadDecimal(c)
	}
}
