package projectbudget

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// newIdentity returns the identity of a budget: random and public, so that a ledger can name it.
func newIdentity() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// absolutePath returns the path under which a budget is found again.
func absolutePath(path string) (string, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(whole)
}

// locate states in the file where it is now. It refuses a copy, which would not have the draws of the
// other file: a copy has the identity of a budget that is still in its former place.
func (w *Writer) locate() error {
	here, err := absolutePath(w.path)
	if err != nil || w.place == here {
		return err
	}
	if err := w.checkCopy(); err != nil {
		return err
	}
	return w.write(line{Kind: kindPlace, File: here})
}

// checkCopy refuses the file if the budget is also in its former place.
func (w *Writer) checkCopy() error {
	there, err := os.Stat(w.place)
	if err != nil {
		return nil // it was moved
	}
	here, err := w.file.Stat()
	if err != nil || os.SameFile(here, there) {
		return err
	}
	former, err := Read(w.place)
	switch {
	case errors.Is(err, ErrDamaged):
		return fmt.Errorf("this is a copy of the project budget %s, which is damaged: move that file away if this one has all draws", w.place)
	case err == nil && former.Identity == w.Identity:
		return fmt.Errorf("this is a copy of the project budget %s, and lacks the draws that the other file gets: draw from that file, or move it away if this one replaces it", w.place)
	}
	return nil
}
