package terminal

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// ProgressBar is a line at the bottom of the terminal that shows progress. Each update is
// one write, so that the line does not flicker. Methods of a nil ProgressBar do nothing.
type ProgressBar struct {
	bar      *progressbar.ProgressBar
	terminal *os.File
	total    int
	drawn    time.Time
}

const (
	drawInterval  = 100 * time.Millisecond
	minBarColumns = 8 // the details leave this many columns to the bar itself
	marginColumns = 4 // a terminal prints ^C here without wrapping the line
)

// NewProgressBar returns a progress bar, or nil if standard error is not a terminal that
// can redraw a line.
func (t *Terminal) NewProgressBar(total int) *ProgressBar {
	f, ok := terminalFile(t.Err)
	if !ok || t.Quiet || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &ProgressBar{terminal: f, total: total, bar: progressbar.NewOptions(total,
		progressbar.OptionSetWriter(f), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionUseANSICodes(runtime.GOOS != "windows"))}
}

// Update draws the bar with as many of the details as fit, in order. It skips the update
// if the bar was drawn less than drawInterval ago and the work is not complete.
func (b *ProgressBar) Update(done int, details func() []string) error {
	if b == nil || done < b.total && time.Since(b.drawn) < drawInterval {
		return nil
	}
	b.drawn = time.Now()
	width, _, err := term.GetSize(int(b.terminal.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	width -= marginColumns + len(fmt.Sprintf(" 100%% || (%d/%d) ", b.total, b.total))
	text := joinFitting(details(), width-minBarColumns)
	progressbar.OptionSetDescription(text)(b.bar)
	progressbar.OptionSetWidth(max(1, width-utf8.RuneCountInString(text)))(b.bar)
	return b.bar.Set(done)
}

// Hide removes the bar, so that a line can be printed. The next update draws it again.
func (b *ProgressBar) Hide() {
	if b != nil {
		b.bar.Clear()
		b.drawn = time.Time{}
	}
}

// joinFitting joins the first details that fit into width columns.
func joinFitting(details []string, width int) string {
	for n := len(details); n > 0; n-- {
		if text := strings.Join(details[:n], ", "); utf8.RuneCountInString(text) <= width {
			return text
		}
	}
	return ""
}

// ExampleProgress reports how many examples of a long computation are done, how long the
// rest will take, and the speed.
type ExampleProgress struct {
	terminal *Terminal
	bar      *ProgressBar // nil without a terminal, or if the results go to the terminal
	prefix   string       // of a note: what is computed
	total    int
	tenth    int // of the last note
	started  time.Time
	noted    time.Time
}

// NewExampleProgress starts to report on total examples. activity begins its notes; it can be empty. resultsInFile
// states that the results are not printed on the terminal.
func (t *Terminal) NewExampleProgress(activity string, total int, resultsInFile bool) *ExampleProgress {
	if activity != "" {
		activity += ": "
	}
	p := &ExampleProgress{terminal: t, prefix: activity, total: total, started: time.Now(), noted: time.Now()}
	if _, shared := terminalFile(t.Out); resultsInFile || !shared {
		p.bar = t.NewProgressBar(total)
	}
	return p
}

// Update redraws the bar. Without a bar it prints a note at each tenth of the examples,
// but not more often than every NoteDelay.
func (p *ExampleProgress) Update(done int) error {
	if tenth := 10 * done / p.total; p.bar == nil && tenth > p.tenth && done < p.total && time.Since(p.noted) >= NoteDelay {
		p.noted, p.tenth = time.Now(), tenth
		p.terminal.Note("%sexample %d/%d, %s", p.prefix, done, p.total, strings.Join(p.details(done), ", "))
	}
	return p.bar.Update(done, func() []string {
		details := p.details(done)
		details[0] = p.prefix + details[0]
		return details
	})
}

// Close removes the bar.
func (p *ExampleProgress) Close() { p.bar.Hide() }

func (p *ExampleProgress) details(done int) []string {
	elapsed := time.Since(p.started)
	return []string{TimeLeft(elapsed, done, p.total-done), Speed(float64(done) / elapsed.Seconds())}
}

// TimeLeft estimates how long the remaining items take from the time that the done items
// took.
func TimeLeft(elapsed time.Duration, done, remaining int) string {
	return time.Duration(float64(elapsed)/float64(done)*float64(remaining)).Round(time.Second).String() + " left"
}

// Speed writes a rate in examples a second.
func Speed(examplesPerSecond float64) string {
	if examplesPerSecond < 9.95 {
		return fmt.Sprintf("%.2g examples/s", examplesPerSecond)
	}
	return fmt.Sprintf("%.0f examples/s", examplesPerSecond)
}
