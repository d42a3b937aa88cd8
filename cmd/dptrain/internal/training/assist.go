package training

import (
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Ranks that compute on CPUs evaluate the test data together. After each lot the others wait for commands of rank 0,
// of a byte each: they evaluate, any number of times, and then go on with the next lot.
const (
	goOn byte = iota
	evaluate
)

// assistants returns the connection to the ranks that evaluate with this one. It is nil if no other rank does.
func assistants(spec *settings.Spec) ranks.Communicator {
	if spec.Flags.Ranks < 2 || spec.Task.Test == nil {
		return nil
	}
	return spec.Config.Ranks
}

// command sends a command to the other ranks. of may be nil.
func command(of ranks.Communicator, what byte) error {
	if of == nil {
		return nil
	}
	return of.Broadcast([]byte{what})
}

// Assist returns the observer of a run on a rank other than 0, and a function that frees its memory.
func Assist(spec *settings.Spec, run *engine.Run) (observe func(*engine.Progress) error, free func()) {
	c := assistants(spec)
	if c == nil {
		return nil, func() {}
	}
	var evaluator *engine.Evaluator
	observe = func(*engine.Progress) error {
		for {
			var what [1]byte
			if err := c.Broadcast(what[:]); err != nil || what[0] == goOn {
				return err
			}
			if err := assistOnce(c, &evaluator, spec, run); err != nil {
				return err
			}
		}
	}
	return observe, func() {
		if evaluator != nil {
			evaluator.Close()
		}
	}
}

// assistOnce evaluates a part of the test data. An error that the ranks have agreed on is that of all.
func assistOnce(c ranks.Communicator, evaluator **engine.Evaluator, spec *settings.Spec, run *engine.Run) error {
	parameters, err := run.BorrowParameters()
	if err == nil && *evaluator == nil {
		*evaluator, err = engine.NewEvaluator(run.Network(), spec.Config.Device)
	}
	if err := ranks.Agree(c, err); err != nil {
		return err
	}
	_, err = (*evaluator).ScoreTogether(c, engine.Values(parameters), spec.Task.Test, nil)
	return err
}
