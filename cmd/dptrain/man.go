package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newMan(term *terminal.Terminal) *cobra.Command {
	out := ""
	cmd := &cobra.Command{
		Use:     "man",
		Short:   "Write manual pages, one for each command",
		Example: "  dptrain man --out ~/.local/share/man/man1\n  man dptrain-train",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(out, 0o755); err != nil {
				return exitcode.Usagef("--out %s: %w", out, err)
			}
			var files []string
			for _, c := range family(cmd.Root()) {
				var page strings.Builder
				manPage(&page, c)
				file := filepath.Join(out, pageName(c)+".1")
				if err := atomicfile.Write(file, []byte(page.String())); err != nil {
					return exitcode.Usagef("--out %s: %w", out, err)
				}
				files = append(files, file)
			}
			return term.Print(map[string][]string{"files": files}, strings.Join(files, "\n"), func(w io.Writer) {
				fmt.Fprintf(w, "wrote\t%d pages into %s\n", len(files), out)
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "man1", "folder for the pages")
	return cmd
}

// family is a command and all below it, those that only help left out.
func family(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() && child.Name() != "help" {
			all = append(all, family(child)...)
		}
	}
	return all
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage writes a command's page in the man macros of roff.
func manPage(w io.Writer, c *cobra.Command) {
	fmt.Fprintf(w, ".TH %s 1 \"\" \"dptrain %s\" \"dptrain\"\n", strings.ToUpper(roff(pageName(c))), roff(thisBuild().Version))
	fmt.Fprintf(w, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	fmt.Fprintf(w, ".SH DESCRIPTION\n")
	for i, paragraph := range strings.Split(strings.TrimSpace(about), "\n\n") {
		if i > 0 {
			fmt.Fprintf(w, ".PP\n")
		}
		fmt.Fprintf(w, "%s\n", roff(paragraph))
	}
	manFlags(w, "OPTIONS", c.NonInheritedFlags())
	manFlags(w, "OPTIONS OF EVERY COMMAND", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(w, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	if !c.HasParent() {
		fmt.Fprintf(w, ".SH EXIT STATUS\n%s\n", roff("0: done. 1: the run failed. 2: bad arguments, configuration or data. 3: the budget does not allow it. 4: a ledger or checkpoint fails verification. 130: interrupted, with everything saved."))
	}
	var beside []string
	if c.HasParent() {
		beside = append(beside, pageName(c.Parent()))
	}
	for _, child := range family(c)[1:] {
		if child.Parent() == c {
			beside = append(beside, pageName(child))
		}
	}
	fmt.Fprintf(w, ".SH SEE ALSO\n")
	for i, name := range beside {
		comma := ","
		if i == len(beside)-1 {
			comma = ""
		}
		fmt.Fprintf(w, ".BR %s (1)%s\n", roff(name), comma)
	}
}

func manFlags(w io.Writer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(w, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		value := ""
		if kind != "" {
			value = fmt.Sprintf(" \\fI%s\\fR", roff(kind))
		}
		fmt.Fprintf(w, ".TP\n\\fB%s\\fR%s\n%s\n", roff("--"+f.Name), value, roff(usage))
		if d := f.DefValue; d != "" && d != "0" && d != "false" && d != "[]" && !strings.Contains(usage, "(default") {
			fmt.Fprintf(w, "%s\n", roff("(default "+d+")"))
		}
	})
}

// roff is text that roff prints as it is. A dash stays a dash, so that options can
// be copied from the page.
func roff(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			b.WriteString(`\&`)
		}
		for _, r := range line {
			switch {
			case r == '\\':
				b.WriteString(`\e`)
			case r == '-':
				b.WriteString(`\-`)
			case r == '"':
				b.WriteString(`\(dq`)
			case r == '\'':
				b.WriteString(`\(aq`)
			case r == '^':
				b.WriteString(`\(ha`)
			case r == '~':
				b.WriteString(`\(ti`)
			case r == '`':
				b.WriteString(`\(ga`)
			case r > 126:
				fmt.Fprintf(&b, `\[u%04X]`, r)
			default:
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
