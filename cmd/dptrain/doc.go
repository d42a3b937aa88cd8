// Command dptrain trains neural networks with differential privacy and accounts for the cost.
//
// # Structure
//
// One file has one command: its flags, its calls and its output, as text or as one JSON object.
// What a command does is in the packages below internal; the command connects them:
//
//	dptrain train      settings: flags ─▶ engine.Config with calibrated noise
//	                   rundir:   the folder of the run ─▶ config.yaml, ledger.jsonl, checkpoint, …
//	                   training: engine.Run with progress, metrics, validation, summary
//	                   report:   report.html and the model card
//
//	dptrain budget     budget and accountant: ε, noise, rate, steps or δ before a run
//	dptrain ledger     accountant/ledger: lots and checks of a file; ε of one or several ledgers
//	dptrain eval, predict, export     rundir: network and weights ─▶ engine.Evaluator, formats
//	dptrain tune, choose              selection and engine/choice: private choices
//	dptrain serve, contribute         engine/drawdiscard/server and client
//
// # Conventions
//
// Every command has --json and --quiet. An error is one line: what is wrong, where, and what to do
// (arguments.go). The exit status is that of package exitcode: 0 done, 1 the run failed, 2 invalid
// arguments or data, 3 the budget does not allow it, 4 a ledger or checkpoint fails verification,
// 130 interrupted.
//
// # Where each part lives
//
//   - main.go: the list of commands; help.go, man.go, completion.go: how they are described.
//   - train.go, dry_run.go, train_summary.go: a run from its announcement to its summary.
//   - budget.go, budget_local.go, budget_odometer.go, project_budget.go: planning.
//   - ledger.go, ledger_file.go, ledgers.go: ledgers. choose.go, tune.go, tune_private.go: choices.
package main
