package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// What fits in memory, and the room that an error states, follows from public numbers: texts of one
// letter and texts of the whole declared length give the same.
func TestTrain_RoomForProgramIsPublic(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector reserves more memory than the limit")
	}
	t.Chdir(t.TempDir())
	const line = "train --data texts.jsonl --text t --tokens bytes --length 9000 --next --model gru:6000 --lot 2 --steps 1 --noise 1 --microbatch 1 --out run"
	var rooms []float64
	for _, length := range []int{1, 9000} {
		text := strings.Repeat(fmt.Sprintf("{\"t\": %q}\n", strings.Repeat("a", length)), 4000)
		if err := os.WriteFile("texts.jsonl", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		child := exec.Command("sh", "-c", `ulimit -v 2600000; exec "$0"`, os.Args[0])
		child.Env = append(os.Environ(), "DPTRAIN_LINE="+line)
		output, _ := child.CombinedOutput()
		_, rest, found := strings.Cut(string(output), "(ulimit -v) has room for ")
		var room float64
		if _, err := fmt.Sscanf(rest, "%f GB;", &room); err != nil || !found || child.ProcessState.ExitCode() != exitcode.Usage {
			t.Fatalf("exit %d, %s", child.ProcessState.ExitCode(), output)
		}
		rooms = append(rooms, room)
	}
	if math.Abs(rooms[0]-rooms[1]) > 0.15 { // a process starts with slightly different mappings each time
		t.Errorf("room for %v GB with short texts, for %v GB with long ones", rooms[0], rooms[1])
	}
}
