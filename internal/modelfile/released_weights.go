package modelfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// ErrWeights is wrapped by the error for a file of weights that the run did not release.
var ErrWeights = errors.New("is not the file that the run released")

// ledgerFile is the ledger of a run, next to its model.
const ledgerFile = "ledger.jsonl"

// VerifyWeights returns [ErrWeights] if the file of weights in a
// directory is not the one that the ledger next to it states as released. It accepts a directory
// without a ledger or without weights, and a ledger that states no weights: it is of a run that did
// not end, or of an older release.
func VerifyWeights(dir string) error {
	path := filepath.Join(dir, ledgerFile)
	summary, err := ledger.Verify(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		// A process that was killed leaves a last line that is cut short, which Read accepts.
		_, err = ledger.Read(path)
		return err
	case summary.Weights == "":
		return nil
	}
	file := filepath.Join(dir, WeightsFile)
	sum, err := hashFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case sum != summary.Weights:
		return fmt.Errorf("%s %w: its SHA-256 is %s, and the last line of %s states %s; restore it, or resume the run, which writes it again", file, ErrWeights, sum, path, summary.Weights)
	}
	return nil
}

// hashFile returns the SHA-256 of a file in hexadecimal.
func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
