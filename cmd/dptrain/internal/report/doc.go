// Package report writes the documents that describe a training run: the page report.html, the model
// card and the privacy statement. It also writes the page of a simulation.
//
// # The idea
//
// A report can leak what training protects. The package reads only public files, and of these only
// the keys that its types list; a key that another program added is never shown. Its statements
// about privacy come from the ledger and an accountant, not from numbers that another program wrote:
//
//	run.json ──────▶ summary (run.go) ──────┐
//	metrics.jsonl ─▶ metricPoint (run.go) ──┼─▶ Run ─▶ Page: sections ─▶ page.html, charts as SVG
//	ledger.jsonl ──▶ accounting.go ─────────┘      └─▶ Card ─▶ model_card.md
//	                 accountant: ε, δ, trade-off, share of each group
//
// What the templates show is escaped: names of columns and classes come from data files.
//
// # Where each part lives
//
//   - run.go: [Open] and the keys that are read; accounting.go: what the ledger states.
//   - page.go: the page, from sections: privacy.go (the guarantee), detection.go (how many records an
//     attack finds), quality.go, confusion_matrix.go and linear_model.go (public test data),
//     released.go (private statistics), data_section.go, settings.go.
//   - chart.go: charts without scripts. format.go: numbers and names.
//   - statement.go: [Statement], the guarantee in sentences, for commands and documents alike.
//   - model_card.go: the model card. simulation.go: the page of dptrain simulate.
package report
