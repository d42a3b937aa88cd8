package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/dptrain/dptrain/engine/data"
)

// maxFingerprintValue is the longest value that a fingerprint quotes; of a longer one it
// has a digest.
const maxFingerprintValue = 200

// dataFingerprint returns, by name, the settings that change which numbers are read from
// the same files. They are public. A run is resumed only with the same fingerprint.
func dataFingerprint(f *Flags, task *data.Task) (map[string]string, error) {
	s := task.Schema
	s.Ignore = nil
	if len(s.Words) > 0 {
		s.Tokens = "" // the file with the words may have moved
	}
	if s.Vectors != nil {
		moved := *s.Vectors
		moved.File = "" // the digest determines the content
		s.Vectors = &moved
	}
	if s.Tokenizer != nil {
		moved := *s.Tokenizer
		moved.File = ""
		s.Tokenizer = &moved
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	fingerprint := map[string]string{}
	for name, value := range fields {
		quoted := string(value)
		if len(quoted) > maxFingerprintValue {
			sum := sha256.Sum256(value)
			quoted = fmt.Sprintf("of digest %s", hex.EncodeToString(sum[:8]))
		}
		fingerprint["data: "+name] = quoted
	}
	if e := featureElements(task); e != "" && len(fields) > 0 { // images without a schema are bytes
		fingerprint["data: elements"] = string(e)
	}
	if f.Standardize {
		fingerprint["data: standardize"] = "true"
	}
	fingerprint["data: on-bad-row"] = f.OnBadRow
	if s := task.Split; s != nil {
		fingerprint["data: split"] = fmt.Sprintf("%v of %d rows with the seed %d, digest %s", s.Share, s.Rows, s.Seed, s.Digest)
	}
	if f.given["crop"] {
		fingerprint["data: crop"] = f.Crop
	}
	if r := task.Resampling; r != nil {
		fingerprint["data: resampling"] = r.String()
	}
	if f.NoiseSchedule != "" {
		fingerprint["noise-schedule"] = f.NoiseSchedule
	}
	if f.given["augment"] {
		fingerprint["augment"] = f.Augment
	}
	return fingerprint, nil
}

// featureElements returns what the features were read from.
func featureElements(task *data.Task) data.ElementType { return task.Train.Columns()[0].ElementType }
