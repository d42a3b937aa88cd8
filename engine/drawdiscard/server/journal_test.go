package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// patterned returns weights that show whether an instance is whole: all are the same number.
func patterned(n int, value float32) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = value
	}
	return w
}

// checkWhole returns an error if an instance has weights of two updates.
func checkWhole(instances []*drawdiscard.Instance) error {
	for i, instance := range instances {
		for _, w := range instance.Weights {
			if w != instance.Weights[0] || w != float32(instance.Update) {
				return fmt.Errorf("instance %d of update %d has weights %v and %v", i, instance.Update, instance.Weights[0], w)
			}
		}
	}
	return nil
}

const patternWeights = 7

// writePattern opens a journal and appends updates, whose weights are their number.
func writePattern(t testing.TB, folder string, updates int) []*drawdiscard.Instance {
	t.Helper()
	j := newJournal(folder, [32]byte{1}, 3, patternWeights)
	s := &state{}
	for range 3 {
		s.instances = append(s.instances, &drawdiscard.Instance{Weights: patterned(patternWeights, 0), Born: time.Unix(5, 0)})
	}
	if err := j.start(s); err != nil {
		t.Fatal(err)
	}
	current := slices.Clone(s.instances)
	for n := 1; n <= updates; n++ {
		i := &drawdiscard.Instance{Weights: patterned(patternWeights, float32(n)), Update: uint64(n), Born: time.Unix(int64(n), 7)}
		if err := j.append(n%3, i); err != nil {
			t.Fatal(err)
		}
		current[n%3] = i
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	return current
}

func recoverPattern(folder string) (*state, error) {
	return newJournal(folder, [32]byte{1}, 3, patternWeights).recover()
}

func TestJournal_RecoversAllUpdates(t *testing.T) {
	folder := t.TempDir()
	want := writePattern(t, folder, 10)
	s, err := recoverPattern(folder)
	if err != nil {
		t.Fatal(err)
	}
	if s.updates != 10 || s.dropped != 0 {
		t.Errorf("%d updates, %d bytes dropped", s.updates, s.dropped)
	}
	for i := range want {
		if got := s.instances[i]; got.Update != want[i].Update || !got.Born.Equal(want[i].Born) || !slices.Equal(got.Weights, want[i].Weights) {
			t.Errorf("instance %d: %+v, want %+v", i, got, want[i])
		}
	}
}

// A file that is cut after any byte gives whole instances and all complete updates before it.
func TestJournal_CutAnywhereGivesWholeInstances(t *testing.T) {
	folder := t.TempDir()
	const updates = 6
	writePattern(t, folder, updates)
	j := newJournal(folder, [32]byte{1}, 3, patternWeights)
	path := j.path(0)
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := range all {
		if err := os.WriteFile(path, all[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := recoverPattern(folder)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if want := uint64(max(0, size-journalHeader) / j.recordSize()); s.updates != want {
			t.Errorf("%d bytes: %d updates, want %d", size, s.updates, want)
		}
		if err := checkWhole(s.instances); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A flipped bit in a record ends the recovery before it; one in a header or in the snapshot is
// an error.
func TestJournal_DetectsFlippedBits(t *testing.T) {
	folder := t.TempDir()
	writePattern(t, folder, 4)
	j := newJournal(folder, [32]byte{1}, 3, patternWeights)
	for _, path := range []string{j.path(0), filepath.Join(folder, snapshotName)} {
		all, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			broken := slices.Clone(all)
			broken[i] ^= 1 << (i % 8)
			if err := os.WriteFile(path, broken, 0o644); err != nil {
				t.Fatal(err)
			}
			s, err := recoverPattern(folder)
			var damaged *DamagedError
			inRecord := path == j.path(0) && i >= journalHeader
			switch {
			case inRecord && err != nil:
				t.Errorf("byte %d of the journal: %v", i, err)
			case inRecord:
				if want := uint64((i - journalHeader) / j.recordSize()); s.updates != want {
					t.Errorf("byte %d of the journal: %d updates, want %d", i, s.updates, want)
				}
				if err := checkWhole(s.instances); err != nil {
					t.Errorf("byte %d of the journal: %v", i, err)
				}
			case !errors.As(err, &damaged):
				t.Errorf("byte %d of %s: error %v", i, filepath.Base(path), err)
			}
		}
		if err := os.WriteFile(path, all, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Updates continue after a rotation, and files that a snapshot replaced are removed.
func TestModel_RotatesJournal(t *testing.T) {
	folder := t.TempDir()
	d := described("ads", 10)
	d.FalseAlarms = 0
	m, err := openModel(d, modelOptions{folder, time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m.journal.limit = 500
	for n := range 200 {
		if _, err := m.replace(patterned(10, float32(n+1)), time.Now()); err != nil {
			t.Fatal(err)
		}
		if n%20 == 0 {
			m.snapshots.Wait()
		}
	}
	m.snapshots.Wait()
	want := m.state()
	if m.journal.number < 3 {
		t.Errorf("journal file %d after 200 updates", m.journal.number)
	}
	m.journal.file.Close() // as a crash leaves it
	m.folderLock.Close()
	again, err := openModel(d, modelOptions{folder, time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	got := again.state()
	if got.updates != 200 {
		t.Errorf("%d updates after the restart", got.updates)
	}
	for i := range want.instances {
		if !slices.Equal(want.instances[i].Weights, got.instances[i].Weights) {
			t.Errorf("instance %d differs after the restart", i)
		}
	}
	if err := again.close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(folder, "ads", journalPrefix+"*"))
	if len(files) != 1 {
		t.Errorf("journal files: %v", files)
	}
}

func TestModel_RefusesOtherSettingsAndSecondServer(t *testing.T) {
	folder := t.TempDir()
	d := described("ads", 10)
	m, err := openModel(d, modelOptions{folder, time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openModel(d, modelOptions{folder, time.Minute}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second server: %v", err)
	}
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	d.Settings.Epsilon = 2
	if _, err := openModel(d, modelOptions{folder, time.Minute}); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("other settings: %v", err)
	}
}

// TestServerKilled_Child is the child of TestServer_KilledKeepsWholeInstances: it serves updates whose
// weights are their number until it is killed, and prints each number after the update was
// acknowledged.
func TestServerKilled_Child(t *testing.T) {
	folder := os.Getenv("DPTRAIN_KILLED_FOLDER")
	if folder == "" {
		t.Skip("runs as a child process")
	}
	d := described("ads", 5000)
	d.FalseAlarms, d.Instances = 0, 4
	m, err := openModel(d, modelOptions{folder, time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m.journal.limit = 200_000 // a snapshot every ten updates
	for {
		n := m.updates.Load() + 1
		if _, err := m.replace(patterned(5000, float32(n)), time.Now()); err != nil {
			t.Fatal(err)
		}
		fmt.Println("acknowledged", n)
	}
}

// A server that is killed at any moment restarts with whole instances and with every update that
// it acknowledged.
func TestServer_KilledKeepsWholeInstances(t *testing.T) {
	folder := t.TempDir()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	d := described("ads", 5000)
	d.FalseAlarms, d.Instances = 0, 4
	last := uint64(0)
	for round := range rounds {
		child := exec.Command(os.Args[0], "-test.run", "^TestServerKilled_Child$", "-test.v")
		child.Env = append(os.Environ(), "DPTRAIN_KILLED_FOLDER="+folder)
		var out bytes.Buffer
		child.Stdout = &out
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(60+17*round) * time.Millisecond)
		child.Process.Kill()
		child.Wait()
		acknowledged := last
		for line := range strings.Lines(out.String()) {
			if n := uint64(0); strings.HasSuffix(line, "\n") {
				if _, err := fmt.Sscanf(line, "acknowledged %d", &n); err == nil {
					acknowledged = n
				}
			}
		}
		m, err := openModel(d, modelOptions{folder, time.Minute})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		s := m.state()
		if s.updates < acknowledged {
			t.Errorf("round %d: %d updates, and %d were acknowledged", round, s.updates, acknowledged)
		}
		for _, i := range s.instances {
			if i.Update > 0 {
				if err := checkWhole([]*drawdiscard.Instance{i}); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			}
		}
		last = s.updates
		m.journal.file.Close() // not closed, so the next child starts from the journal
		m.folderLock.Close()
	}
	if last < 20 {
		t.Errorf("only %d updates in all rounds", last)
	}
	t.Logf("%d updates in %d rounds", last, rounds)
}

// A full disk, or a file that can no longer be written, refuses returns and keeps the old state.
func TestModel_FailedWriteKeepsState(t *testing.T) {
	d := described("ads", 10)
	d.FalseAlarms = 0
	m, err := openModel(d, modelOptions{t.TempDir(), time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	before := m.state()
	file, ticket := m.draw(nil, time.Now())
	weights, err := m.codec.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := m.tickets.parse(ticket, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	m.journal.file.Close()
	if p, err := m.accept(parsed, weights, time.Now()); err == nil || p.name != problemStorage.name {
		t.Errorf("problem %v, error %v", p, err)
	}
	after := m.state()
	for i := range before.instances {
		if before.instances[i] != after.instances[i] {
			t.Errorf("instance %d changed", i)
		}
	}
	m.journal.file, err = os.OpenFile(m.journal.path(m.journal.number), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := m.accept(parsed, weights, time.Now()); err != nil {
		t.Errorf("the file is there again: %v %v", p, err)
	}
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
}
