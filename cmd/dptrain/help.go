package main

import (
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/spf13/cobra"
)

//go:embed help/*.txt
var helpTexts embed.FS

// helpText is the description of a command, and its examples.
type helpText struct{ long, examples string }

// helpOf returns the text of a command whose help has a file of its own, because it has ten lines or more.
func helpOf(command string) helpText {
	text, err := helpTexts.ReadFile("help/" + command + ".txt")
	if err != nil {
		panic(err) // the name of a file that the program contains is wrong
	}
	long, examples, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), "\n\nExamples:\n")
	return helpText{long, examples}
}

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

// printUsage prints how to call a command: examples, subcommands in groups and flags in
// sections, the flags in lines of at most this many columns.
func printUsage(cmd *cobra.Command, columns int) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&text, "\nExamples:\n%s\n", cmd.Example)
	}
	groups := cmd.Groups()
	if len(groups) == 0 && cmd.HasAvailableSubCommands() {
		groups = []*cobra.Group{{Title: "Commands"}}
	}
	for _, group := range groups {
		fmt.Fprintf(&text, "\n%s:\n", group.Title)
		for _, c := range cmd.Commands() {
			if c.GroupID == group.ID && (c.IsAvailableCommand() || c.Name() == "help") {
				fmt.Fprintf(&text, "  %-*s  %s\n", cmd.Commands()[0].NamePadding(), c.Name(), c.Short)
			}
		}
	}
	for _, f := range []string{flags.Usages(cmd.LocalFlags(), "Flags", columns), flags.Usages(cmd.InheritedFlags(), "Flags of every command", columns)} {
		if f != "" {
			fmt.Fprintf(&text, "\n%s\n", f)
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "\n%s COMMAND --help describes a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStderr(), text.String())
	return err
}
