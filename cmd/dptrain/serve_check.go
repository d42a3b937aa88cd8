package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
	"github.com/spf13/cobra"
)

// checkResult is the JSON output of serve check.
type checkResult struct {
	OK     bool                   `json:"ok"`
	Models []*server.FolderReport `json:"models"`
	Saved  string                 `json:"saved,omitempty"` // the folder that --save wrote
}

func newServeCheck(term *terminal.Terminal) *cobra.Command {
	var save string
	cmd := &cobra.Command{
		Use:     "check DIR",
		Short:   "Check the files of a server's models, and save what can be read",
		Long:    helpOf("serve-check").long,
		Example: helpOf("serve-check").examples,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exitcode.Usagef("give one folder, as in dptrain serve check served")
			}
			return checkServed(term, args[0], save)
		},
	}
	cmd.Flags().StringVar(&save, "save", "", "new folder for what can be read")
	return cmd
}

// checkServed checks a folder and saves what can be read if save names a folder.
func checkServed(term *terminal.Terminal, folder, save string) error {
	all, err := server.Check(folder)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	result := checkResult{OK: true, Models: all, Saved: save}
	for _, r := range all {
		if save != "" {
			if err := r.Save(save); err != nil {
				return exitcode.AsUsage(fmt.Errorf("--save %s: %w", save, err))
			}
		}
		if !r.OK && result.OK {
			result.OK = false
			err = &exitcode.Error{Code: exitcode.Damaged, Err: fmt.Errorf("%s: model %s is damaged: %s; --save NEW writes what can be read", folder, r.Name, r.Damage)}
		}
	}
	if save != "" {
		err = nil // what can be read is safe
	}
	return errors.Join(err, term.Print(result, map[bool]string{true: "ok", false: "damaged"}[result.OK], result.print))
}

func (c checkResult) print(w io.Writer) {
	for _, r := range c.Models {
		if r.OK {
			fmt.Fprintf(w, "%s\tok, %s\n", r.Name, number.Plural(int(r.Updates), "update"))
		} else {
			fmt.Fprintf(w, "%s\tdamaged: %s\n", r.Name, r.Damage)
		}
		switch {
		case !r.OK && r.Instances == 0:
			fmt.Fprintf(w, "\tnothing can be saved without the snapshot: restore the file from a copy\n")
		case !r.OK:
			fmt.Fprintf(w, "\t%d instances up to update %d can be saved, without %s\n", r.Instances, r.Updates, number.Plural(int(r.Lost), "lost update"))
		case r.Incomplete > 0:
			fmt.Fprintf(w, "\t%d bytes of an incomplete update follow; the next start drops them\n", r.Incomplete)
		}
	}
	if c.Saved != "" {
		fmt.Fprintf(w, "saved\tserve --dir %s continues it\n", c.Saved)
	}
}
