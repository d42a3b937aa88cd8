package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// For any summary and metrics, the page and the card are written, or Open returns an error.
// Nothing in the files becomes markup.
func FuzzRun(f *testing.F) {
	summary, err := json.Marshal(newFixture().summary)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(strings.Replace(string(summary), `"private":true`, `"private":false`, 1)), []byte(newFixture().metrics))
	f.Add([]byte(`{"model":"<script>x</script>","confusion":[[1,0],[0,1]],"test_labels":2,"test_accuracy":1,"class_names":["<script>"]}`), []byte(`{"lot":1,"test_accuracy":1}`))
	f.Add([]byte(`{"steps":3,"records":0,"seconds":1e308,"test_labels":1,"test_accuracy":0.5}`), []byte("{\"lot\":1,\"test_accuracy\":0.5}\n{\"lot\":1"))
	measures, err := json.Marshal(withMeasures(newFixture()).summary)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(measures, []byte(newFixture().metrics))
	f.Add([]byte(`{"model":"m","target":"y","test_examples":3,"residuals":{"examples":3,"points":[[1e308,-1e308],[0,1]]},"linear":{"weights":[{"feature":"<script>","value":-1e308,"class":7}],"noise":{"all":1e308}}}`), []byte{})
	f.Fuzz(func(t *testing.T, summary, metrics []byte) {
		dir := t.TempDir()
		for name, text := range map[string][]byte{"run.json": summary, "metrics.jsonl": metrics} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run, err := Open(dir)
		if err != nil {
			return // a private run has no ledger here
		}
		page, err := run.Page()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Card(); err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(page), "<script") > 0 {
			t.Error("the page has a script")
		}
	})
}
