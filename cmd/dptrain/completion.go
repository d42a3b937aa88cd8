package main

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newCompletion(term *terminal.Terminal) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print the shell completion script",
		Long: `Print a script that makes a shell complete dptrain's commands and flags. The script for
bash requires the package bash-completion.`,
		Example: `  source <(dptrain completion bash)
  dptrain completion zsh > "${fpath[1]}/_dptrain"
  dptrain completion fish > ~/.config/fish/completions/dptrain.fish`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exitcode.Usagef("give one shell: %s", strings.Join(shells, ", "))
			}
			if !slices.Contains(shells, args[0]) {
				return exitcode.UnknownName("shell", args[0], shells)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var script bytes.Buffer
			var err error
			switch root := cmd.Root(); args[0] {
			case "bash":
				err = root.GenBashCompletionV2(&script, true)
			case "zsh":
				err = root.GenZshCompletion(&script)
			case "fish":
				err = root.GenFishCompletion(&script, true)
			case "powershell":
				err = root.GenPowerShellCompletionWithDesc(&script)
			}
			if err != nil {
				return err
			}
			value := map[string]string{"shell": args[0], "script": script.String()}
			text := strings.TrimSuffix(script.String(), "\n")
			if term.JSON {
				return term.Print(value, text, nil)
			}
			_, err = io.WriteString(term.Out, text+"\n")
			return err
		},
	}
}
