// Package timing keeps which of several ways to compute something is the fastest on a GPU,
// as measured there, in memory and in a file.
package timing

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/dptrain/dptrain/internal/host/atomicfile"
)

// Identity is what timings depend on: a table measured with another identity is not used.
type Identity struct {
	Card    string `json:"card"`
	Driver  string `json:"driver"`
	Kernels string `json:"kernels"` // their hash
}

// Table maps the key of a computation to the name of the fastest way to do it. A choice
// never changes once it is made, so that equal computations of a process have equal bits
// where the ways differ by roundings. Several goroutines may use a table.
type Table struct {
	identity Identity
	path     string // "": no file
	mu       sync.Mutex
	choices  map[string]string
	seconds  map[string]map[string]float64 // for each key, those of each way that was measured
	unsaved  bool
}

// content is the content of a table's file. Seconds are for people.
type content struct {
	Identity
	Choices map[string]string             `json:"choices"`
	Seconds map[string]map[string]float64 `json:"seconds"`
}

// FileName returns the path of an identity's table in the user's cache folder, and "" if
// there is no such folder.
func FileName(of Identity) string {
	folder, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	text, _ := json.Marshal(of) // strings
	sum := sha256.Sum256(text)
	return filepath.Join(folder, "dptrain", "choices-"+hex.EncodeToString(sum[:8])+".json")
}

// Load returns the table in a file. The table is empty where the file does not exist, is
// damaged or has another identity.
func Load(path string, of Identity) *Table {
	c := read(path, of)
	return &Table{identity: of, path: path, choices: c.Choices, seconds: c.Seconds}
}

func read(path string, of Identity) (c content) {
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &c) != nil || c.Identity != of || c.Choices == nil {
		c = content{Choices: map[string]string{}}
	}
	if c.Seconds == nil {
		c.Seconds = map[string]map[string]float64{}
	}
	return c
}

// Find returns the index of the way that was chosen for a key, and -1 if none was.
func (t *Table) Find(key string, names []string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.choices[key]
	if !ok {
		return -1
	}
	return slices.Index(names, name) // the file can name a way that no longer exists
}

// Choose returns the index of the way that was chosen for a key. If none was, it measures
// all and chooses the fastest, of equal ones the first. measure returns the seconds that each
// way takes, infinity for a way that cannot be used.
func (t *Table) Choose(key string, names []string, measure func() ([]float64, error)) (int, error) {
	if i := t.Find(key, names); i >= 0 {
		return i, nil
	}
	seconds, err := measure()
	if err != nil {
		return 0, err
	}
	best, measured := 0, map[string]float64{}
	for i, name := range names {
		if seconds[i] < seconds[best] {
			best = i
		}
		if !math.IsInf(seconds[i], 1) {
			measured[name] = seconds[i]
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(names, t.choices[key]); i >= 0 { // of another goroutine, meanwhile
		return i, nil
	}
	t.choices[key], t.seconds[key], t.unsaved = names[best], measured, true
	return best, nil
}

// Save writes new choices to the file, together with those that other processes wrote to
// it.
func (t *Table) Save() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.unsaved || t.path == "" {
		return nil
	}
	all := read(t.path, t.identity)
	maps.Copy(all.Choices, t.choices)
	maps.Copy(all.Seconds, t.seconds)
	text, err := json.MarshalIndent(content{t.identity, all.Choices, all.Seconds}, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(t.path), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(t.path, append(text, '\n')); err != nil {
		return err
	}
	t.unsaved = false
	return nil
}
