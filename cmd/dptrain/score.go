package main

import "github.com/dptrain/dptrain/engine"

// score measures weights on the test set.
func score(j *job, parameters []engine.Parameter) (engine.Evaluation, error) {
	e, err := engine.NewEvaluator(j.config.Network, j.set.place())
	if err != nil {
		return engine.Evaluation{}, err
	}
	defer e.Close()
	return e.Score(engine.Values(parameters), j.task.Test)
}
