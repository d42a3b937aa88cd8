package modelserver

import (
	"errors"

	"github.com/dptrain/dptrain/engine/data"
)

// maxBatchRows limits the rows that are joined. One request may have more.
const maxBatchRows = 1024

// request is a request that waits for its answers.
type request struct {
	rows    data.Set
	answers []any
	err     error
	done    chan struct{} // closed when the answers are there
}

// compute answers requests until one is nil.
func (s *Server) compute() {
	for first := range s.queue {
		if first == nil {
			return
		}
		batch, ended := s.collect(first)
		s.metrics.batch(len(batch))
		if err := s.answer(batch); err != nil && len(batch) > 1 {
			for _, q := range batch { // one request must not spoil the others
				q.answers = nil
				q.err = s.answer([]*request{q})
			}
		} else {
			batch[0].err = err
		}
		for _, q := range batch {
			close(q.done)
		}
		if ended {
			return
		}
	}
}

// collect returns the requests that wait. ended reports that the server ends.
func (s *Server) collect(first *request) (batch []*request, ended bool) {
	batch = []*request{first}
	for rows := first.rows.Len(); rows < maxBatchRows; {
		select {
		case q := <-s.queue:
			if q == nil {
				return batch, true
			}
			batch, rows = append(batch, q), rows+q.rows.Len()
		default:
			return batch, false
		}
	}
	return batch, false
}

// answer computes the answers of several requests together.
func (s *Server) answer(batch []*request) error {
	sets := make([]data.Set, len(batch))
	for i, q := range batch {
		sets[i] = q.rows
	}
	rows := sets[0]
	if len(sets) > 1 {
		var err error
		if rows, err = data.Concat(sets...); err != nil {
			return err
		}
	}
	at := 0
	return s.model.Predict(rows, func(_ int, answer any) error {
		for at < len(batch) && len(batch[at].answers) == batch[at].rows.Len() {
			at++
		}
		if at == len(batch) {
			return errors.New("there are more answers than rows")
		}
		batch[at].answers = append(batch[at].answers, answer)
		return nil
	})
}
