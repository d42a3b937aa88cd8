package main

import (
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/spf13/cobra"
)

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Explain a command",
		Example: "  dptrain help budget noise",
		RunE: func(cmd *cobra.Command, args []string) error {
			about := cmd.Root()
			for _, name := range args {
				var next *cobra.Command
				for _, c := range about.Commands() {
					if c.Name() == name {
						next = c
					}
				}
				if next == nil {
					return exitcode.UnknownName("command", name, commandNames(about))
				}
				about = next
			}
			return about.Help()
		},
	}
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}
