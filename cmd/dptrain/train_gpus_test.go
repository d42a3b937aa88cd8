package main

import (
	"os/exec"
	"testing"
	"time"
)

// The exit code is that of the first process that fails, and the others do not outlive it for long.
func TestRunTogether(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs sh")
	}
	shell := func(scripts ...string) (processes []*exec.Cmd) {
		for _, s := range scripts {
			processes = append(processes, exec.Command("sh", "-c", s))
		}
		return processes
	}
	defer func(before time.Duration) { lastWords = before }(lastWords)
	lastWords = 100 * time.Millisecond
	for _, test := range []struct {
		scripts []string
		want    int
	}{
		{[]string{"true", "true", "true"}, 0},
		{[]string{"sleep 0.2; exit 1", "exit 2", "true"}, 2},
		{[]string{"exec sleep 60", "exit 3"}, 3},
		{[]string{"kill -9 $$", "exec sleep 60"}, 1},
	} {
		began := time.Now()
		if code, err := runTogether(shell(test.scripts...)); code != test.want || err != nil {
			t.Errorf("%q: exit code %d, %v, want %d", test.scripts, code, err, test.want)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%q took %v", test.scripts, took)
		}
	}
	processes := append(shell("exec sleep 60"), exec.Command("/does/not/exist"))
	if _, err := runTogether(processes); err == nil {
		t.Error("a program that does not exist is started")
	}
}
