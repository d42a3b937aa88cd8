package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/internal/host/loopback"
	"github.com/spf13/cobra"
)

func newLearn(term *terminal.Terminal) *cobra.Command {
	var guide, listen, out string
	var open bool
	cmd := &cobra.Command{
		Use:     "learn",
		Short:   "Open an explorable guide to DP-SGD",
		Long:    helpOf("learn").long,
		Example: helpOf("learn").examples,
		Args:    noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "HOST:PORT of this machine; port 0 is any free port")
	f.StringVar(&guide, "guide", "", "the guide's modules, from the file dptrain_VERSION_guide.zip of a release")
	f.StringVar(&out, "out", "", "write the guide to this folder and do not serve it")
	f.BoolVar(&open, "open", true, "open the page in a browser")
	cmd.RunE = func(*cobra.Command, []string) error {
		if out != "" && (f.Changed("listen") || f.Changed("open")) {
			return exitcode.Usagef("--out writes the guide and does not serve it: drop --listen and --open")
		}
		files, err := guideFiles(guide)
		if err != nil {
			return err
		}
		if out != "" {
			return writeGuide(term, out, files)
		}
		return serveGuide(term, listen, open, files)
	}
	return cmd
}

// guideFiles returns the guide with the modules of a file, or with those that the program contains.
func guideFiles(guide string) (map[string][]byte, error) {
	if guide == "" {
		files, err := learn.Files()
		if errors.Is(err, learn.ErrNotBuilt) {
			return nil, withoutGuide(currentBuild().Version)
		}
		return files, err
	}
	archive, err := os.ReadFile(guide)
	if err != nil {
		return nil, exitcode.Usagef("--guide: %w", err)
	}
	files, err := learn.FilesOf(archive)
	if err != nil {
		return nil, exitcode.Usagef("--guide %s: %w; give the file dptrain_VERSION_guide.zip of a release", guide, err)
	}
	return files, nil
}

// withoutGuide is the error of a program without modules. It names the file of its release, if it is of one.
func withoutGuide(version string) error {
	file, place := "dptrain_VERSION_guide.zip", "a release"
	if releaseVersion.MatchString(version) {
		file, place = "dptrain_"+version[1:]+"_guide.zip", releasePage+version
	}
	return fmt.Errorf("this program does not contain the guide: download %s from %s and run dptrain learn --guide %[1]s, "+
		"or run `make learn` in dptrain's source folder and use the program that it builds", file, place)
}

const releasePage = "https://github.com/dptrain/dptrain/releases/tag/"

func writeGuide(term *terminal.Terminal, dir string, files map[string][]byte) error {
	if err := learn.Write(dir, files); err != nil {
		return exitcode.Usagef("--out: %w", err)
	}
	size := 0
	for _, text := range files {
		size += len(text)
	}
	answer := map[string]any{"out": dir, "files": len(files), "bytes": size}
	return term.Print(answer, dir, func(w io.Writer) {
		fmt.Fprintf(w, "wrote %d files (%.1f MB) to %s; serve the folder with any static web server, such as python3 -m http.server\n", len(files), float64(size)/1e6, dir)
	})
}

// serveGuide serves the guide until a signal ends it.
func serveGuide(term *terminal.Terminal, listen string, open bool, files map[string][]byte) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || !loopback.IsHost(host) {
		return exitcode.Usagef("--listen %s: give a HOST:PORT of this machine, such as 127.0.0.1:8090; for others, write the guide with --out and serve the folder", listen)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return exitcode.Usagef("--listen: %w", err)
	}
	ctx, stop := untilInterrupted()
	defer stop()
	s := &http.Server{Handler: learn.Handler(files), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	url := "http://" + listener.Addr().String() + "/"
	err = term.Print(map[string]any{"listening": url}, url, func(w io.Writer) { fmt.Fprintf(w, "the guide is at %s (end with Ctrl-C)\n", url) })
	if err == nil && open {
		if err := openBrowser(url); err != nil {
			term.Note("Open the address in a browser; none was started: %v", err)
		}
	}
	select {
	case <-ctx.Done():
	case failed := <-served:
		err = errors.Join(err, failed)
	}
	drain, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.Shutdown(drain) != nil {
		s.Close() // a browser keeps its connections
	}
	return err
}

// openBrowser asks the system to show a page.
func openBrowser(url string) error {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command[0] = "open"
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	return exec.Command(command[0], command[1:]...).Start()
}
