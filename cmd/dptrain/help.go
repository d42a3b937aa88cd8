package main

import (
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/spf13/cobra"
)

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Print the help of a command",
		Example: "  dptrain help budget noise",
		RunE: func(cmd *cobra.Command, args []string) error {
			command := cmd.Root()
			for _, name := range args {
				var next *cobra.Command
				for _, c := range command.Commands() {
					if c.Name() == name {
						next = c
					}
				}
				if next == nil {
					return exitcode.UnknownName("command", name, commandNames(command))
				}
				command = next
			}
			return command.Help()
		},
	}
}

// commandNames lists the subcommands of a command.
func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}
