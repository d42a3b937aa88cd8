package main

import (
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// decimal is a whole number as people write it. By itself pflag reads one as Go's source
// does: 010 would be eight.
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

// inDecimal has the flags of a command, and of those below it, read so.
func inDecimal(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if t := f.Value.Type(); t == "int" || t == "uint64" {
			f.Value = decimal{f.Value}
		}
	})
	for _, c := range cmd.Commands() {
		inDecimal(c)
	}
}
