package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan(term *terminal.Terminal) *cobra.Command {
	out := ""
	cmd := &cobra.Command{
		Use:     "man",
		Short:   "Write a manual page for each command",
		Example: "  dptrain man --out ~/.local/share/man/man1\n  man dptrain-train",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := writeManual(cmd.Root(), out)
			if err != nil {
				return exitcode.Usagef("--out %s: %w", out, err)
			}
			return term.Print(map[string][]string{"files": files}, strings.Join(files, "\n"), func(w io.Writer) {
				fmt.Fprintf(w, "wrote\t%d pages to %s\n", len(files), out)
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "man1", "folder for the pages")
	return cmd
}

// writeManual writes the pages of root and its subcommands into dir.
func writeManual(root *cobra.Command, dir string) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	build := currentBuild()
	header := &doc.GenManHeader{Section: "1", Source: "dptrain " + build.Version, Manual: "dptrain"}
	if !build.Time.IsZero() {
		header.Date = &build.Time
	}
	root.DisableAutoGenTag = true
	if err := doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{Header: header, Path: dir, CommandSeparator: "-"}); err != nil {
		return nil, err
	}
	for _, c := range documentedCommands(root) {
		files = append(files, filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
	}
	return files, nil
}

// documentedCommands lists the commands that have a manual page.
func documentedCommands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() && !child.IsAdditionalHelpTopicCommand() {
			all = append(all, documentedCommands(child)...)
		}
	}
	return all
}
