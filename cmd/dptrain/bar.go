package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// bar is the line at the bottom of a terminal while a run goes on. It is drawn in
// one write, so that nothing flickers, and leaves nothing behind. A nil one is not seen.
type bar struct {
	*progressbar.ProgressBar
	terminal *os.File
	lots     int
	drawn    time.Time
}

const (
	drawEvery   = 100 * time.Millisecond
	leastSaucer = 8 // columns that words leave to the bar itself
	margin      = 4 // columns for the ^C of a terminal, so that it does not wrap
)

// bar is nil where there is no terminal that a line can be drawn again on.
func (s *screen) bar(lots int) *bar {
	f, ok := terminal(s.err)
	if !ok || s.quiet || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &bar{terminal: f, lots: lots, ProgressBar: progressbar.NewOptions(lots,
		progressbar.OptionSetWriter(f), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionUseANSICodes(runtime.GOOS != "windows"))}
}

// terminal is the one that is written to, if it is one.
func terminal(w io.Writer) (f *os.File, ok bool) {
	f, ok = w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// show draws the bar after a lot, with as many of the words as fit, the first ones
// first, unless it was drawn a moment ago.
func (b *bar) show(lot int, words func() []string) error {
	if b == nil || lot < b.lots && time.Since(b.drawn) < drawEvery {
		return nil
	}
	b.drawn = time.Now()
	width, _, err := term.GetSize(int(b.terminal.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	width -= margin + len(fmt.Sprintf(" 100%% || (%d/%d) ", b.lots, b.lots))
	text := fitting(words(), width-leastSaucer)
	progressbar.OptionSetDescription(text)(b.ProgressBar)
	progressbar.OptionSetWidth(max(1, width-utf8.RuneCountInString(text)))(b.ProgressBar)
	return b.Set(lot)
}

// fitting joins the first of some words that fit into a width.
func fitting(words []string, width int) string {
	for n := len(words); n > 0; n-- {
		if text := strings.Join(words[:n], ", "); utf8.RuneCountInString(text) <= width {
			return text
		}
	}
	return ""
}

// hide makes room for a line; the next lot draws the bar below it.
func (b *bar) hide() {
	if b != nil {
		b.Clear()
		b.drawn = time.Time{}
	}
}
