package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/dptrain/dptrain/engine/data"
)

// longestTold is how much of what was said of the data is told as it is; of more, a digest.
const longestTold = 200

// reading is all that makes other numbers of the same files, by its names: all of it is
// public, and a run goes on only with the same.
func (j *job) reading() (map[string]string, error) {
	s := j.task.Schema
	s.Ignore = nil
	if len(s.Words) > 0 {
		s.Tokens = "" // the words' file may have moved
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var said map[string]json.RawMessage
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for name, value := range said {
		told := string(value)
		if len(told) > longestTold {
			sum := sha256.Sum256(value)
			told = fmt.Sprintf("of digest %s", hex.EncodeToString(sum[:8]))
		}
		all["data: "+name] = told
	}
	if e := j.elements(); e != "" && len(said) > 0 { // pictures, of which nothing is said, are bytes
		all["data: elements"] = string(e)
	}
	if j.set.standardize {
		all["data: standardize"] = "true"
	}
	if a := j.augmented(); a != nil {
		all["augment"] = a.Change
	}
	return all, nil
}

// elements are what the features were read from.
func (j *job) elements() data.ElementType { return j.task.Train.Columns()[0].ElementType }
