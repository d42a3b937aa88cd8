package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dptrain/dptrain/internal/ranks"
)

// Started by a launcher, a program that cannot connect to the other processes refuses: it would otherwise
// train alone, and every process would write a run. Rank 0 prints this once.
func TestTrain_RefusesLaunchWithoutMPI(t *testing.T) {
	if ranks.Built {
		t.Skip("this build opens MPI")
	}
	for _, test := range []struct{ rankName, rank, sizeName, size, want string }{
		{"PMI_RANK", "0", "PMI_SIZE", "2", "dptrain: train: this build has no MPI; build dptrain with `make gpu`"},
		{"PMI_RANK", "1", "PMI_SIZE", "2", ""},
		{"OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "4", "this build has no MPI"},
		{"RANK", "0", "WORLD_SIZE", "2", "NCCL connects 2 processes with a GPU each: this build has no CUDA"},
		{"RANK", "1", "WORLD_SIZE", "2", ""},
		{"PMI_RANK", "2", "PMI_SIZE", "2", "PMI_RANK=2 and PMI_SIZE=2"},
	} {
		t.Run(test.rankName+test.rank, func(t *testing.T) {
			t.Setenv(test.rankName, test.rank)
			t.Setenv(test.sizeName, test.size)
			for name, value := range map[string]string{"LOCAL_RANK": test.rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"} {
				t.Setenv(name, value) // as torchrun does
			}
			out := filepath.Join(t.TempDir(), "run")
			var stdout, stderr bytes.Buffer
			code := run([]string{"train", "--steps", "1", "--out", out}, nil, &stdout, &stderr)
			if text := stderr.String(); code != 2 || !strings.Contains(text, test.want) || test.want == "" && text != "" || strings.Count(text, "\n") > 1 {
				t.Errorf("exit code %d, %q; want 2, %q", code, text, test.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("there is a run")
			}
		})
	}
}

// The other ranks get a copy of what rank 0 has of a run to resume, and its removal leaves rank 0's files.
func TestShareRun_CopiesFiles(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"config.yaml": "steps: 3\n", "ledger.jsonl": "{}\n", "checkpoint/lot-000000000003.checkpoint": "\x00\x01"}
	if err := os.Mkdir(filepath.Join(dir, "checkpoint"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var failed [3]error
	var done sync.WaitGroup
	for rank, c := range ranks.NewGroup(3) {
		done.Go(func() {
			of := "/only/on/rank/0"
			if rank == 0 {
				of = dir
			}
			remove, err := shareRun(c, &of)
			for name, content := range files {
				got, readErr := os.ReadFile(filepath.Join(of, name))
				if readErr != nil || string(got) != content {
					err = errors.Join(err, readErr, errors.New(name+" differs"))
				}
			}
			remove()
			if _, statErr := os.Stat(of); (statErr == nil) != (rank == 0) {
				err = errors.Join(err, errors.New("the copy is still there, or the original is not"))
			}
			failed[rank] = err
		})
	}
	done.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		t.Error(err)
	}
}
