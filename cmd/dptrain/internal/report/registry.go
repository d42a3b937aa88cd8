package report

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// registryEntry describes a run for the Differential Privacy Deployments Registry, in its schema of 2026
// (registry.opendp.org; Nanayakkara, Ghazi and Vadhan 2025, arXiv:2509.13509). The registry's files are
// YAML; JSON is valid YAML.
type registryEntry struct {
	Slug       string             `json:"url_slug"`
	Status     string             `json:"status"`
	Tier       int                `json:"tier"`
	Deployment registryDeployment `json:"deployment"`
}

type registryDeployment struct {
	Basic struct {
		Name            string   `json:"name"`
		Curators        []string `json:"data_curators"`
		IntendedUse     string   `json:"intended_use"`
		ProductType     string   `json:"data_product_type"`
		Region          string   `json:"data_product_region"`
		Description     string   `json:"description"`
		PublicationDate string   `json:"publication_date"`
	} `json:"basic"`
	Variant struct {
		Name        string `json:"variant_name"`
		Domain      string `json:"data_domain"`
		Unprotected string `json:"unprotected_quantities"`
	} `json:"dp_variant"`
	Loss struct {
		Unit              string             `json:"privacy_unit"`
		UnitDetails       string             `json:"privacy_unit_details"`
		Parameters        registryParameters `json:"privacy_parameters"`
		ParametersDetails string             `json:"privacy_parameters_details"`
	} `json:"privacy_loss"`
	Model struct {
		Name        string `json:"model_name"`
		Actors      string `json:"actors"`
		ReleaseType string `json:"release_type"`
		SourceType  string `json:"data_source_type"`
		AccessType  string `json:"access_type"`
	} `json:"deployment_model"`
	Accounting struct {
		PostProcessing string `json:"post_processing"`
		Composition    string `json:"composition"`
	} `json:"accounting"`
	Implementation struct {
		Tuning        string `json:"preprocessing_and_hyperparameter_tuning"`
		Mechanisms    string `json:"mechanisms"`
		Justification string `json:"justification"`
	} `json:"implementation"`
	Administrative struct {
		Notes   string   `json:"notes"`
		Authors []string `json:"registry_authors"`
	} `json:"administrative"`
}

type registryParameters struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

// completedByPublisher stands where the run does not know what the registry asks.
const completedByPublisher = "To be completed by the publisher"

// Registry writes the entry of the run. It fails without a guarantee that an entry could state.
func (r *Run) Registry() ([]byte, error) {
	if err := r.requireGuarantee("an entry of the registry"); err != nil {
		return nil, err
	}
	s, a := &r.summary, r.accounting
	unit := DescribeUnit(a.history.Header.Unit)
	training, _ := splitTraining(a.history)
	e := registryEntry{Slug: registrySlug(s.Model + " " + s.dataName()), Status: "Draft", Tier: 3}
	d := &e.Deployment
	d.Basic.Name, d.Basic.Description = s.Model+" trained on "+s.dataName(), r.summaryLine()
	d.Basic.Curators, d.Basic.IntendedUse, d.Basic.Region = []string{completedByPublisher}, completedByPublisher, completedByPublisher
	d.Basic.ProductType = "Machine learning model"
	d.Basic.PublicationDate = s.Finished.Format(time.DateOnly)
	d.Variant.Name = "Approximate DP"
	d.Variant.Domain = fmt.Sprintf("Data sets of %d records; a record is %s.", max(s.Lots.Records, a.history.Header.Records), unit)
	d.Variant.Unprotected = "The number of records, the schema of the data, all settings, and the results on public test data."
	d.Loss.Unit = unit
	d.Loss.UnitDetails = "Neighbouring data sets differ by " + describeDifference(a.answer.Adjacency, unit) + "."
	if assumed := explainAdjacency(a.answer.Adjacency, training); assumed != "" {
		d.Loss.UnitDetails += " " + assumed
	}
	d.Loss.Parameters = registryParameters{a.answer.Epsilon, a.answer.Delta}
	d.Loss.ParametersDetails = fmt.Sprintf("Computed %s from the ledger, whose last line has the SHA-256 %s.", describeAccountant(a.answer.Accountant), a.seal.Head)
	d.Model.Name = "Central"
	d.Model.Actors = "The curator is trusted with the records. Readers of the model, of every intermediate model and of the ledger are not."
	d.Model.ReleaseType, d.Model.SourceType, d.Model.AccessType = "One release", "Static", "Non-interactive"
	d.Accounting.PostProcessing = "Optimizer steps, averages of weights and predictions are computed from the releases and cost nothing."
	d.Accounting.Composition = r.Statement()
	d.Implementation.Tuning = "Not covered by ε, unless the ledger has a private selection. " + completedByPublisher + "."
	d.Implementation.Mechanisms = fmt.Sprintf("DP-SGD with %s, by dptrain %s. %s", describeNoise(a.history), s.Version, describeArithmetic(a.history))
	d.Implementation.Justification = completedByPublisher
	d.Administrative.Notes = "Written by dptrain report from the verified ledger of the run."
	d.Administrative.Authors = []string{completedByPublisher}
	text, err := json.MarshalIndent(e, "", "  ")
	return append(text, '\n'), err
}

// requireGuarantee fails if the run has no guarantee that holds against everybody.
func (r *Run) requireGuarantee(what string) error {
	switch {
	case r.accounting == nil:
		return fmt.Errorf("the run has no privacy guarantee (it was trained with --non-private), so %s would be empty", what)
	case !r.isSecure():
		return fmt.Errorf("the run drew its noise from a seed, so %s would state a guarantee that anyone who knows the seed can break; train without --seed", what)
	case len(r.accounting.history.Lots) == 0:
		return fmt.Errorf("the run released nothing, so %s would be empty", what)
	case math.IsInf(r.accounting.answer.Epsilon, 1):
		return fmt.Errorf("the run spent ε = ∞, so %s would state nothing", what)
	case r.accounting.answer.Approximate:
		return fmt.Errorf("the %s accountant is an approximation and no bound, so %s must not state its ε; train with --accountant pld", r.accounting.answer.Accountant, what)
	}
	return nil
}

var notInSlug = regexp.MustCompile(`[^a-z0-9]+`)

// registrySlug writes words as a part of an address.
func registrySlug(words string) string {
	return strings.Trim(notInSlug.ReplaceAllString(strings.ToLower(words), "-"), "-")
}
