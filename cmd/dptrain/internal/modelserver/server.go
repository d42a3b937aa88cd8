// Package modelserver answers predictions of one trained model over HTTP.
//
// Requests are read and converted at the same time. One goroutine computes: it joins the rows of all
// requests that wait, up to a limit, into one batch. So a request that is alone does not wait for
// others, and many requests share the cost of a batch. An answer does not depend on the other rows of
// its batch, because the network mixes no examples.
//
// Nothing about a request is logged, and the metrics contain counts and times only.
package modelserver

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/host/loopback"
)

// Limits of a request.
const (
	MaxRows     = 10_000
	maxBody     = 16 << 20
	maxWaiting  = 64 // requests that wait for the one that computes
	readTimeout = 10 * time.Second
)

// ArrowType is the media type of an Arrow file.
const ArrowType = "application/vnd.apache.arrow.file"

// Read converts the rows of a request.
type Read func(content io.Reader) (data.Unlabeled, error)

// Model is what a server serves.
type Model struct {
	JSON, Arrow Read // of JSON objects, one after the other, and of an Arrow or a Parquet file
	// Predict passes the answer for each row to a function. It is not called concurrently.
	Predict func(rows data.Set, to func(row int, answer any) error) error
}

// Server serves a model.
type Server struct {
	model   Model
	http    *http.Server
	queue   chan *request
	metrics metrics
}

// New returns a server that answers requests to local host names only if local.
func New(model Model, local bool) *Server {
	s := &Server{model: model, queue: make(chan *request, maxWaiting)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/predict", s.predict)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /metrics", s.metrics.serve)
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(openAPI)
	})
	handler := http.Handler(mux)
	if local {
		handler = loopback.Handler(mux, s.refuse)
	}
	s.http = &http.Server{Handler: handler, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: 6 * readTimeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 14}
	return s
}

//go:embed openapi.json
var openAPI []byte

// Serve answers requests until the context ends; then requests in flight get time to finish.
func (s *Server) Serve(ctx context.Context, listener net.Listener, drain time.Duration) error {
	computing := make(chan struct{})
	go func() {
		defer close(computing)
		s.compute()
	}()
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(listener) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		if err = s.http.Shutdown(end); err != nil {
			s.http.Close()
		}
	}
	s.queue <- nil // handlers that Close left behind are not waited for
	<-computing
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// predict answers a request.
func (s *Server) predict(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		s.refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes; send fewer rows", maxBody))
		return
	case err != nil:
		s.refuse(w, http.StatusRequestTimeout, "the body did not arrive in time")
		return
	}
	rows, single, err := s.read(r.Header.Get("Content-Type"), body)
	if err == nil && rows.Len() > MaxRows {
		err = tooManyRows(rows.Len())
	}
	var tooMany tooManyRows
	switch {
	case errors.As(err, &tooMany):
		s.refuse(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	case err != nil:
		s.refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	q := &request{rows: rows.Set, done: make(chan struct{})}
	select {
	case s.queue <- q:
	default:
		w.Header().Set("Retry-After", "1")
		s.refuse(w, http.StatusServiceUnavailable, "too many requests wait; try again later")
		return
	}
	select {
	case <-q.done:
	case <-r.Context().Done():
		return // the client is gone
	}
	if q.err != nil {
		s.refuse(w, http.StatusUnprocessableEntity, q.err.Error())
		return
	}
	var answer any = map[string]any{"predictions": q.answers}
	if single {
		answer = q.answers[0]
	}
	s.write(w, answer, http.StatusOK, "application/json")
	s.metrics.observe(rows.Len(), time.Since(began))
}

// tooManyRows is the number of rows of a request that has more than MaxRows.
type tooManyRows int

func (n tooManyRows) Error() string {
	return fmt.Sprintf("the request has %d rows, and at most %d are answered at once", int(n), MaxRows)
}

// read converts the body of a request. single reports that it is one JSON object, which is a row.
func (s *Server) read(contentType string, body []byte) (rows data.Unlabeled, single bool, err error) {
	if contentType == ArrowType || data.IsColumnar(body) {
		rows, err = s.model.Arrow(bytes.NewReader(body))
		return rows, false, err
	}
	var many struct {
		Rows []json.RawMessage `json:"rows"`
	}
	if err := json.Unmarshal(body, &many); err != nil {
		return rows, false, errors.New(`the body is not a JSON object; send {"rows": [{"age": 39}]}, or one row`)
	}
	if many.Rows == nil {
		rows, err = s.model.JSON(bytes.NewReader(body))
		return rows, true, err
	}
	if len(many.Rows) == 0 {
		return rows, false, errors.New("the request has no rows")
	}
	if len(many.Rows) > MaxRows {
		return rows, false, tooManyRows(len(many.Rows))
	}
	var lines bytes.Buffer
	for _, row := range many.Rows {
		lines.Write(row)
		lines.WriteByte('\n')
	}
	rows, err = s.model.JSON(&lines)
	return rows, false, err
}

// refuse answers with a problem (RFC 9457).
func (s *Server) refuse(w http.ResponseWriter, status int, detail string) {
	s.metrics.refused(status)
	problem := map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail}
	s.write(w, problem, status, "application/problem+json")
}

func (s *Server) write(w http.ResponseWriter, value any, status int, mediaType string) {
	content, err := json.Marshal(value)
	if err != nil {
		status, content = http.StatusInternalServerError, []byte(`{"status":500,"title":"Internal Server Error"}`)
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)+1))
	w.WriteHeader(status)
	w.Write(append(content, '\n'))
}
