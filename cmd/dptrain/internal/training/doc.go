// Package training runs a training: it starts or resumes the run of a specification, reports its progress, and
// writes its files.
//
//	Start ──▶ run ──▶ Train ──▶ after each lot: Progress.Observe ──▶ Finish ──▶ run.json
//	                   │           │
//	                   │           ├─ the progress bar, on a terminal
//	                   │           ├─ a line of metrics.jsonl and events of TensorBoard, at a tenth of the run
//	                   │           ├─ test data: loss, accuracy, predictions
//	                   │           └─ the conditions of --stop-when: engine.ErrStop ends the run
//	Follow ─▶ run ──▶ Train ──▶ after each lot: the observer of Assist, on ranks other than 0
//
// Start writes config.yaml before the run exists, because a run without its settings cannot be resumed. A [Progress]
// is the observer of the run. All that it reports is public: settings, the ledger, releases and results on test data,
// which the user has declared public. Durations and speeds depend on the realised sizes of lots, so they have two
// significant digits. Only --show-private prints what no noise protects, in lines that begin with PRIVATE.
//
// The test data are evaluated after the last lot. Before, they are evaluated at a tenth of the run if the lots since the
// last evaluation have as many examples as the test data, in expectation. On several ranks that compute on CPUs all ranks
// evaluate: rank 0 sends a command, each rank computes some batches, and rank 0 adds up the losses in order.
//
// Metrics that a run releases with noise are values of their lot. The conditions of a resumed run read the earlier
// lots in metrics.jsonl, so that the run ends where one without an interruption ends.
//
// Finish computes ε from the ledger, and collects the settings and the results, which run.json contains. With
// --budget the run draws its ε from a budget that several runs share, before its first lot: a [BudgetDraw] locks
// the file of the budget, and Settle returns what the run did not spend.
//
// The files of this package are named after what they do: progress.go reports, stop.go has the conditions,
// metric.go the released metrics, schema_release.go the shares of the states of cells, metrics_server.go the page that
// Prometheus reads, estimate.go the duration of a run from lots of blank examples, linear_model.go the standard errors of
// a linear model, summary.go the content of run.json, and assist.go the evaluation on several ranks.
package training
