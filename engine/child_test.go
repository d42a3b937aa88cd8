package engine

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// childProcess is a test that runs in its own process.
type childProcess struct {
	command   *exec.Cmd
	stdout    io.Reader
	killTimer *time.Timer
}

func startChild(t *testing.T, test string, env ...string) *childProcess {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	command.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // a killed child does not clean up
	command.Env = append(command.Env, env...)
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Process.Kill(); command.Wait() }) // if the test failed
	return &childProcess{command: command, stdout: stdout}
}

func (c *childProcess) killAfter(wait time.Duration) {
	c.killTimer = time.AfterFunc(wait, func() { c.command.Process.Kill() })
}

// readLines passes the words of each line of the child's output to a function, until the child
// ends or is killed.
func (c *childProcess) readLines(t *testing.T, line func(word []string)) {
	t.Helper()
	for lines := bufio.NewReader(c.stdout); ; {
		text, err := lines.ReadString('\n')
		if err != nil { // an incomplete line does not count
			break
		}
		word := strings.Fields(text)
		if len(word) > 0 && word[0] == "error" {
			t.Fatal(text)
		}
		if len(word) > 0 {
			line(word)
		}
	}
	var killed *exec.ExitError
	if err := c.command.Wait(); err != nil && !errors.As(err, &killed) {
		t.Fatal(err)
	}
	if c.killTimer != nil {
		c.killTimer.Stop()
	}
}
