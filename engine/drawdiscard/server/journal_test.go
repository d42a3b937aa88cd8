package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/engine"
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

// contentOf reads all files of a folder.
func contentOf(t testing.TB, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == lockName {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A file that is cut after any byte of a record gives whole instances and all complete updates before
// it. The header was synced before the snapshot that names it, so a cut there is damage.
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
		if size < journalHeader {
			if !errors.Is(err, engine.ErrDamaged) {
				t.Errorf("%d bytes: %v", size, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if want := uint64((size - journalHeader) / j.recordSize()); s.updates != want || (s.dropped > 0) != ((size-journalHeader)%j.recordSize() > 0) {
			t.Errorf("%d bytes: %d updates, want %d; %d bytes dropped", size, s.updates, want, s.dropped)
		}
		if err := checkWhole(s.instances); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A process that is killed again while it restarts, between the new file and its snapshot, leaves no
// damage, whatever the first crash left.
func TestJournal_CrashDuringRestart(t *testing.T) {
	folder := t.TempDir()
	j := newJournal(folder, [32]byte{1}, 3, patternWeights)
	for _, rotated := range []bool{false, true} {
		writePattern(t, folder, 3)
		path, want := j.path(0), uint64(0)
		all, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		first := journalHeader
		if rotated { // the last file is one that no snapshot names
			path, want, first = j.path(1), 3, 0
			all = append(j.header(1), j.encode(0, &drawdiscard.Instance{Weights: patterned(patternWeights, 4), Update: 4})...)
		}
		for size := first; size <= len(all); size++ {
			if err := os.WriteFile(path, all[:size], 0o644); err != nil {
				t.Fatal(err)
			}
			updates := want + uint64(max(0, size-journalHeader)/j.recordSize())
			for restart := range 3 {
				next := newJournal(folder, [32]byte{1}, 3, patternWeights)
				s, err := next.recover()
				if err != nil || s.updates != updates {
					t.Fatalf("%d bytes, restart %d: %+v %v", size, restart, s, err)
				}
				if err := errors.Join(next.removeTorn(s), next.create(next.number)); err != nil {
					t.Fatal(err)
				}
				next.file.Close()
			}
			for n := fileNumber(path) + 1; os.Remove(j.path(n)) == nil; n++ {
			}
		}
	}
}

// fileNumber is the number of a journal file.
func fileNumber(path string) (n uint64) {
	fmt.Sscanf(filepath.Base(path), journalPrefix+"%d", &n)
	return n
}

// A power failure can leave zeros in the place of records that were not synced.
func TestJournal_ZerosAtTheEndAreACrash(t *testing.T) {
	folder := t.TempDir()
	writePattern(t, folder, 4)
	j := newJournal(folder, [32]byte{1}, 3, patternWeights)
	all, err := os.ReadFile(j.path(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, zeros := range []int{1, j.recordSize(), j.recordSize() + 1, 1 << 17} {
		if err := os.WriteFile(j.path(0), append(slices.Clone(all), make([]byte, zeros)...), 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err := recoverPattern(folder); err != nil || s.updates != 4 || s.dropped != int64(zeros) {
			t.Errorf("%d zeros: %+v %v", zeros, s, err)
		}
		changed := append(slices.Clone(all), make([]byte, zeros)...)
		changed[len(changed)-1] = 1
		if err := os.WriteFile(j.path(0), changed, 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err := recoverPattern(folder); (err == nil) != (zeros < j.recordSize()) {
			t.Errorf("%d zeros and a one: %+v %v", zeros, s, err)
		}
	}
}

// Every flipped bit of a journal and of a snapshot is damage, also in the last record. So is every byte
// that becomes 0 or 255. Recovering changes no file.
func TestJournal_DetectsFlippedBits(t *testing.T) {
	folder := t.TempDir()
	writePattern(t, folder, 2)
	j := newJournal(folder, [32]byte{1}, 3, patternWeights)
	for _, path := range []string{j.path(0), filepath.Join(folder, snapshotName)} {
		all, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for i, good := range all {
			values := []byte{0, 0xff}
			for bit := range 8 {
				values = append(values, good^1<<bit)
			}
			for _, value := range values {
				if value == good {
					continue
				}
				file.WriteAt([]byte{value}, int64(i))
				if s, err := recoverPattern(folder); !errors.Is(err, engine.ErrDamaged) {
					t.Fatalf("byte %d of %s is %x and not %x: %+v, error %v", i, filepath.Base(path), value, good, s, err)
				}
			}
			broken, now := slices.Clone(all), make([]byte, len(all))
			broken[i] = values[len(values)-1]
			if n, err := file.ReadAt(now, 0); n != len(all) || err != nil || !bytes.Equal(now, broken) {
				t.Fatalf("byte %d of %s: the file was changed", i, filepath.Base(path))
			}
			file.WriteAt([]byte{good}, int64(i))
		}
	}
	if s, err := recoverPattern(folder); err != nil || s.updates != 2 {
		t.Errorf("the files as they were: %+v, error %v", s, err)
	}
}

// Records that are removed, repeated or moved are damage, although each is whole. So are files that are
// missing or incomplete before another one.
func TestJournal_DetectsMissingMovedAndRepeatedRecords(t *testing.T) {
	folder := t.TempDir()
	j := newJournal(folder, [32]byte{1}, 3, patternWeights)
	record := func(all []byte, n int) []byte { return all[journalHeader+(n-1)*j.recordSize():][:j.recordSize()] }
	for name, c := range map[string]struct {
		change  func(t *testing.T, all, next []byte)
		updates uint64 // without damage
	}{
		"two files":                             {func(*testing.T, []byte, []byte) {}, 6},
		"the second file is missing":            {func(t *testing.T, _, _ []byte) { os.Remove(j.path(1)) }, 4},
		"the header of the second file is cut":  {func(t *testing.T, _, next []byte) { os.WriteFile(j.path(1), next[:journalHeader-1], 0o644) }, 4},
		"the second file is empty":              {func(t *testing.T, _, _ []byte) { os.WriteFile(j.path(1), nil, 0o644) }, 4},
		"the first file is missing":             {func(t *testing.T, _, _ []byte) { os.Remove(j.path(0)) }, 0},
		"the first file is cut within a record": {func(t *testing.T, all, _ []byte) { os.WriteFile(j.path(0), all[:len(all)-1], 0o644) }, 0},
		"the first file is cut after a record": {func(t *testing.T, all, _ []byte) {
			os.WriteFile(j.path(0), all[:len(all)-j.recordSize()], 0o644)
		}, 0},
		"a file between is missing":   {func(t *testing.T, _, next []byte) { os.Rename(j.path(1), j.path(2)) }, 0},
		"a name that is not a number": {func(t *testing.T, _, next []byte) { os.Rename(j.path(1), j.path(1)+"x") }, 0},
		"a record is missing": {func(t *testing.T, all, _ []byte) {
			os.WriteFile(j.path(0), append(slices.Clone(all[:journalHeader+j.recordSize()]), all[journalHeader+2*j.recordSize():]...), 0o644)
		}, 0},
		"a record is repeated": {func(t *testing.T, all, _ []byte) {
			os.WriteFile(j.path(0), append(slices.Clone(all), record(all, 4)...), 0o644)
		}, 0},
		"records change places": {func(t *testing.T, all, _ []byte) {
			changed := slices.Clone(all)
			copy(record(changed, 2), record(all, 3))
			copy(record(changed, 3), record(all, 2))
			os.WriteFile(j.path(0), changed, 0o644)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			os.RemoveAll(folder)
			os.Mkdir(folder, 0o755)
			writePattern(t, folder, 4)
			all, _ := os.ReadFile(j.path(0))
			next := j.header(1)
			for n := uint64(5); n <= 6; n++ { // as a rotation leaves it before its snapshot
				next = append(next, j.encode(0, &drawdiscard.Instance{Weights: patterned(patternWeights, float32(n)), Update: n})...)
			}
			if err := os.WriteFile(j.path(1), next, 0o644); err != nil {
				t.Fatal(err)
			}
			c.change(t, all, next)
			before := contentOf(t, folder)
			s, err := recoverPattern(folder)
			switch {
			case c.updates == 0 && !errors.Is(err, engine.ErrDamaged):
				t.Errorf("%+v, error %v", s, err)
			case c.updates > 0 && (err != nil || s.updates != c.updates):
				t.Errorf("%+v, error %v, want %d updates", s, err, c.updates)
			}
			if !maps.Equal(before, contentOf(t, folder)) {
				t.Error("the files changed")
			}
		})
	}
}

// updatedFolder is a folder with a model that has updates, as a killed server leaves it.
func updatedFolder(t *testing.T, d Description, updates int) string {
	t.Helper()
	folder := t.TempDir()
	m, err := openModel(d, modelOptions{folder, time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for n := range updates {
		if _, err := m.replace(patterned(m.mechanism.Weights(), float32(n+1)), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	m.journal.file.Close()
	m.folderLock.Close()
	return folder
}

// A model whose snapshot is missing does not start at update 0, before and after a stop, and its files
// stay as they are. A server that was killed at its first start does start.
func TestModel_MissingSnapshotIsDamage(t *testing.T) {
	d := described("ads", 10)
	d.FalseAlarms = 0
	for _, updates := range []int{0, 3} {
		folder := updatedFolder(t, d, updates)
		ads := filepath.Join(folder, "ads")
		os.Remove(filepath.Join(ads, snapshotName))
		before := contentOf(t, folder)
		if _, err := openModel(d, modelOptions{folder, time.Minute}); !errors.Is(err, engine.ErrDamaged) || !strings.Contains(err.Error(), "serve check") {
			t.Errorf("%d updates: %v", updates, err)
		}
		os.Remove(filepath.Join(ads, fmt.Sprintf("%s%020d", journalPrefix, 0)))
		if _, err := openModel(d, modelOptions{folder, time.Minute}); !errors.Is(err, engine.ErrDamaged) {
			t.Errorf("%d updates, no journal: %v", updates, err)
		}
		delete(before, filepath.Join(ads, fmt.Sprintf("%s%020d", journalPrefix, 0)))
		if !maps.Equal(before, contentOf(t, folder)) {
			t.Error("the files changed")
		}
	}
	for _, size := range []int{0, 10, journalHeader} {
		folder := updatedFolder(t, d, 0)
		ads := filepath.Join(folder, "ads")
		os.Remove(filepath.Join(ads, snapshotName))
		os.Remove(filepath.Join(ads, descriptionName))
		os.Truncate(filepath.Join(ads, fmt.Sprintf("%s%020d", journalPrefix, 0)), int64(size))
		m, err := openModel(d, modelOptions{folder, time.Minute})
		if err != nil {
			t.Errorf("killed at the first start, %d bytes of the journal: %v", size, err)
			continue
		}
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}
	folder := updatedFolder(t, d, 3)
	path := filepath.Join(folder, "ads", descriptionName)
	text, _ := os.ReadFile(path)
	text[20] ^= 1
	os.WriteFile(path, text, 0o644)
	if _, err := openModel(d, modelOptions{folder, time.Minute}); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("a changed description: %v", err)
	}
}

// No return is acknowledged after the folder, or the journal, is gone from its place. Where it comes
// back, the next return is stored again, and nothing between is in it.
func TestModel_FolderGone(t *testing.T) {
	d := described("ads", 10)
	d.FalseAlarms = 0
	root := t.TempDir()
	folder, away := filepath.Join(root, "served"), filepath.Join(root, "away")
	r := start(t, Options{Folder: folder}, d)
	m := r.models["ads"]
	file, ticket := r.draw(t, "ads")
	path := m.journal.path(0)
	content := func() string { b, _ := os.ReadFile(path); return string(b) }
	for name, c := range map[string]struct{ leave, back func() error }{
		"moved":    {func() error { return os.Rename(folder, away) }, func() error { return os.Rename(away, folder) }},
		"replaced": {func() error { os.Rename(path, away); return os.WriteFile(path, []byte(content()), 0o644) }, func() error { return os.Rename(away, path) }},
	} {
		before := content()
		if err := c.leave(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			response, text := r.do(t, "POST", "/v1/models/ads/return", map[string]string{TicketHeader: ticket}, file)
			wantProblem(t, response, text, problemStorage)
		}
		if err := c.back(); err != nil {
			t.Fatal(err)
		}
		if content() != before {
			t.Errorf("%s: the journal has what was not acknowledged", name)
		}
	}
	if response := r.give(t, "ads", ticket, file); response.StatusCode != 204 || m.updates.Load() != 1 {
		t.Errorf("after the folder came back: %s, %d updates", response.Status, m.updates.Load())
	}
	_, ticket = r.draw(t, "ads")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	response, text := r.do(t, "POST", "/v1/models/ads/return", map[string]string{TicketHeader: ticket}, file)
	wantProblem(t, response, text, problemStorage)
	if err := r.stop(); err == nil {
		t.Error("the server stopped without an error, and its state is gone")
	}
	r.stop = func() error { return nil }
}

// Check changes nothing, finds damage, and Save writes a folder that a server continues, with every
// update that can be read.
func TestCheck_FindsAndSaves(t *testing.T) {
	d := described("ads", 10)
	d.FalseAlarms = 0
	const updates = 6
	size := int64(newJournal("", [32]byte{}, 5, 10).recordSize())
	for name, c := range map[string]struct {
		change        func(journal, ads string) error
		ok            bool
		updates, lost uint64
		incomplete    int64
	}{
		"whole":                 {func(string, string) error { return nil }, true, updates, 0, 0},
		"cut":                   {func(j, _ string) error { return os.Truncate(j, int64(journalHeader)+3*size+5) }, true, 3, 0, 5},
		"flipped in the middle": {func(j, _ string) error { return flipByte(j, int64(journalHeader)+2*size+30) }, false, updates, 1, 0},
		"flipped at the end":    {func(j, _ string) error { return flipByte(j, int64(journalHeader)+6*size-1) }, false, updates - 1, 1, 0},
		"flipped header":        {func(j, _ string) error { return flipByte(j, 20) }, false, updates, 0, 0},
		"flipped snapshot":      {func(_, ads string) error { return flipByte(filepath.Join(ads, snapshotName), 100) }, false, 0, 0, 0},
		"missing snapshot":      {func(_, ads string) error { return os.Remove(filepath.Join(ads, snapshotName)) }, false, 0, 0, 0},
		"missing journal":       {func(j, _ string) error { return os.Remove(j) }, false, 0, 0, 0},
		"changed description":   {func(_, ads string) error { return flipByte(filepath.Join(ads, descriptionName), 20) }, false, updates, 0, 0},
	} {
		folder := updatedFolder(t, d, updates)
		ads := filepath.Join(folder, "ads")
		if err := c.change(filepath.Join(ads, fmt.Sprintf("%s%020d", journalPrefix, 0)), ads); err != nil {
			t.Fatal(err)
		}
		before := contentOf(t, folder)
		for _, path := range []string{folder, ads} {
			all, err := Check(path)
			if err != nil || len(all) != 1 {
				t.Fatalf("%s: %v", name, err)
			}
			r := all[0]
			if r.OK != c.ok || r.Name != "ads" || r.Updates != c.updates || r.Lost != c.lost || r.Incomplete != c.incomplete || (r.Damage == "") != c.ok {
				t.Errorf("%s: %+v", name, r)
			}
		}
		all, _ := Check(folder)
		saved := filepath.Join(t.TempDir(), "saved")
		if err := all[0].Save(saved); strings.HasSuffix(name, "snapshot") {
			if err == nil || !strings.Contains(err.Error(), "snapshot") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		} else if err != nil {
			t.Fatal(name, err)
		}
		if !maps.Equal(before, contentOf(t, folder)) {
			t.Errorf("%s: the files changed", name)
		}
		m, err := openModel(d, modelOptions{saved, time.Minute})
		if err != nil {
			t.Fatal(name, err)
		}
		if m.updates.Load() != c.updates {
			t.Errorf("%s: a server continues after update %d", name, m.updates.Load())
		}
		for _, i := range m.state().instances {
			if i.Update > 0 {
				if err := checkWhole([]*drawdiscard.Instance{i}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if _, err := Check(saved); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s: a folder in use: %v", name, err)
		}
		if err := m.close(); err != nil {
			t.Error(err)
		}
		if err := all[0].Save(saved); err == nil {
			t.Errorf("%s: it was saved over another model", name)
		}
	}
	if _, err := Check(t.TempDir()); err == nil {
		t.Error("a folder without models: no error")
	}
}

func flipByte(path string, at int64) error {
	all, err := os.ReadFile(path)
	if err == nil {
		all[at] ^= 1
		err = os.WriteFile(path, all, 0o644)
	}
	return err
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
// it acknowledged. A round ends some updates and microseconds after its first one, so a slow machine
// makes as many updates as a fast one.
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
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := last
		for lines, kill := bufio.NewReader(out), last+3+uint64(7*round); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				break // the process ended
			}
			fmt.Sscanf(line, "acknowledged %d", &acknowledged)
			if acknowledged == kill {
				time.Sleep(time.Duration(137*round) * time.Microsecond)
				child.Process.Kill()
			}
		}
		child.Wait()
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
	if last < uint64(3*rounds) {
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
	file, ticket, _ := m.draw(nil, time.Now())
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
