package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// registryKeys are the keys of the registry's schema (schemas/deployments-schema.yaml of
// deployments-registry-data, July 2026), by object. A key is required or optional (?); after a colon are the
// values that are allowed.
var registryKeys = map[string][]string{
	"":           {"url_slug", "status:Converted|Draft|Pending|Changes Required|Approved", "tier:1|2|3", "deployment"},
	"deployment": {"basic", "dp_variant?", "privacy_loss?", "deployment_model?", "accounting?", "implementation?", "administrative?"},
	"deployment.basic": {"name", "data_curators", "description", "intended_use",
		"data_product_type:Summary statistics|Machine learning model|Dataset|Synthetic data|Interactive API|SQL queries",
		"data_product_region", "publication_date", "data_product_sector?"},
	"deployment.dp_variant":                      {"variant_name?:Pure DP|Approximate DP|Zero-concentrated DP|Renyi DP|Custom", "data_domain?", "unprotected_quantities?"},
	"deployment.privacy_loss":                    {"privacy_unit?", "privacy_unit_details?", "privacy_parameters?", "privacy_parameters_details?"},
	"deployment.privacy_loss.privacy_parameters": {"epsilon?", "delta?", "rho?"},
	"deployment.deployment_model": {"model_name?:Local|Central|Shuffle|Federated|Varies", "model_name_details?", "actors?",
		"release_type?:One release|Many releases", "release_type_details?", "data_source_type?:Static|Dynamic",
		"data_source_type_details?", "access_type?:Interactive|Non-interactive", "access_type_details?"},
	"deployment.accounting":     {"post_processing?", "composition?"},
	"deployment.implementation": {"preprocessing_and_hyperparameter_tuning?", "mechanisms?", "justification?"},
	"deployment.administrative": {"sources?", "notes?", "registry_authors"},
}

// checkRegistryObject compares an object with the schema.
func checkRegistryObject(t *testing.T, path string, object map[string]any) {
	t.Helper()
	seen := map[string]bool{}
	for _, key := range registryKeys[path] {
		name, values, _ := strings.Cut(key, ":")
		name, optional := strings.CutSuffix(name, "?")
		seen[name] = true
		value, ok := object[name]
		if !ok {
			if !optional {
				t.Errorf("%s lacks the required key %s", path, name)
			}
			continue
		}
		if text, err := json.Marshal(value); values != "" && (err != nil || !slices.Contains(strings.Split(values, "|"), strings.Trim(string(text), `"`))) {
			t.Errorf("%s.%s is %s; allowed are %s", path, name, text, values)
		}
		if inner, ok := value.(map[string]any); ok {
			checkRegistryObject(t, strings.TrimPrefix(path+"."+name, "."), inner)
		}
	}
	for name := range object {
		if !seen[name] {
			t.Errorf("%s has the key %s, which the schema does not have", path, name)
		}
	}
}

func TestRegistry_FollowsSchema(t *testing.T) {
	run, err := Open(newShortFixture().write(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := run.Registry()
	if err != nil {
		t.Fatal(err)
	}
	var entry map[string]any
	if err := json.Unmarshal(text, &entry); err != nil {
		t.Fatal(err)
	}
	checkRegistryObject(t, "", entry)
	var e registryEntry
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	d := e.Deployment
	if p := d.Loss.Parameters; p.Epsilon != run.accounting.answer.Epsilon || p.Delta != 1e-5 {
		t.Errorf("the entry states %+v, and the ledger costs %v", p, run.accounting.answer)
	}
	if d.Basic.PublicationDate != "2026-03-01" || e.Slug != "digits-cnn-mnist" || d.Loss.Unit != "one training example" {
		t.Errorf("date %q, slug %q, unit %q", d.Basic.PublicationDate, e.Slug, d.Loss.Unit)
	}
	requireContains(t, "the details of the unit", d.Loss.UnitDetails, "adding or removing one training example")
	requireLacks(t, "the entry", string(text), "anna", "secret-study")
}

// Documents that state a guarantee are refused for runs that have none.
func TestDocuments_NeedGuarantee(t *testing.T) {
	for name, change := range map[string]func(*runFixture){
		"--non-private": func(s *runFixture) { s.summary["private"] = false },
		"seed":          func(s *runFixture) { s.header.Secure = false },
		"gdp": func(s *runFixture) {
			s.summary["accountant"] = "gdp"
		},
		"released nothing": func(s *runFixture) { s.lots = nil; s.summary["steps"] = 0 },
	} {
		s := newShortFixture()
		change(s)
		run, err := Open(s.write(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range []func() ([]byte, error){run.Registry, run.Safeguards} {
			if text, err := document(); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: error %v, text %.80s", name, err, text)
			}
		}
	}
}

func TestSafeguards_StateEachRequirement(t *testing.T) {
	s := newShortFixture()
	run, err := Open(s.write(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := run.Safeguards()
	if err != nil {
		t.Fatal(err)
	}
	requireContains(t, "the evidence", string(text), "| 12.3.1 ", "| 12.3.2 ", "| 12.3.3 ", "3 lots", s.head, "δ = 1e-5", "--accountant pld", "over the reals", run.Statement())
	exact := newShortFixture()
	for i := range exact.lots {
		q := &exact.lots[i].Lot.Queries[0]
		q.Mechanism, q.Lattice, q.Grid = ledger.RoundedGaussian, 1<<22, 14
	}
	if run, err = Open(exact.write(t)); err != nil {
		t.Fatal(err)
	}
	if text, err = run.Safeguards(); err != nil {
		t.Fatal(err)
	}
	requireContains(t, "the evidence", string(text), "for the released bits")
}

func TestMLflow_FilesOfRun(t *testing.T) {
	s := newShortFixture()
	s.metrics = `{"lot":1,"epsilon":0.5,"test_accuracy":0.9,"test_loss":null,"learning_rate":0.5,"seconds":2,"released":[{"metric":"loss","value":[0.25],"deviation":0.1}]}` + "\n" +
		`{"lot":3,"epsilon":"Infinity","test_accuracy":0.95,"test_loss":0.125,"learning_rate":0.5,"seconds":4}` + "\n"
	dir := s.write(t)
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(t.TempDir(), "mlruns")
	folder, err := run.WriteMLflow(dir, store)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "params", "stale"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := run.WriteMLflow(dir, store); err != nil || again != folder {
		t.Fatalf("a run that is written again: %s, %v; %s is wanted", again, err, folder)
	}
	// The run ended at 2026-03-01T10:00:00Z after 83.4 s, which is 1772359200000 ms.
	for name, want := range map[string]string{
		"params/model": "digits-cnn", "params/data": "mnist", "params/steps": "3", "params/expected_lot": "600", "params/delta": "0.00001",
		"metrics/test/accuracy": "1772359118600 0.9 1\n1772359120600 0.95 3\n", "metrics/test/loss": "1772359120600 0.125 3\n",
		"metrics/privacy/epsilon": "1772359118600 0.5 1\n1772359120600 +Inf 3\n", "metrics/released/loss": "1772359118600 0.25 1\n",
		"tags/dptrain.ledger_head": s.head, "tags/mlflow.runName": "digits-cnn mnist", "tags/mlflow.note.content": run.Statement(),
	} {
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		if err != nil || string(text) != want {
			t.Errorf("%s: %q, %v; %q is wanted", name, text, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "params", "stale")); err == nil {
		t.Error("a file of an earlier run is left")
	}
	for _, name := range []string{"meta.yaml", "artifacts/ledger.jsonl", "artifacts/run.json"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
