package server

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// problem is a kind of error response (RFC 9457). Its name is the reason in the metrics.
type problem struct {
	name   string
	status int
	title  string
}

// The problems. openapi.json lists them.
var (
	problemMalformedRequest = problem{"malformed-request", http.StatusBadRequest, "The request is malformed"}
	problemUnauthorized     = problem{"unauthorized", http.StatusUnauthorized, "A valid bearer token is required"}
	problemNotFound         = problem{"not-found", http.StatusNotFound, "There is no such resource"}
	problemMisdirected      = problem{"misdirected", http.StatusMisdirectedRequest, "The request names another host"}
	problemMethod           = problem{"method-not-allowed", http.StatusMethodNotAllowed, "The resource does not have this method"}
	problemTimeout          = problem{"timeout", http.StatusRequestTimeout, "The request took too long"}
	problemTicketMissing    = problem{"ticket-missing", http.StatusBadRequest, "The ticket is missing"}
	problemTicketInvalid    = problem{"ticket-invalid", http.StatusBadRequest, "The ticket is not valid"}
	problemTicketExpired    = problem{"ticket-expired", http.StatusGone, "The ticket has expired"}
	problemTicketUsed       = problem{"ticket-used", http.StatusConflict, "The ticket was used"}
	problemTicketRefused    = problem{"ticket-refused", http.StatusConflict, "The return of the ticket was refused"}
	problemTicketInUse      = problem{"ticket-in-use", http.StatusServiceUnavailable, "Another request uses the ticket"}
	problemTooLarge         = problem{"too-large", http.StatusRequestEntityTooLarge, "The body is too large"}
	problemMalformed        = problem{"malformed", http.StatusBadRequest, "The body is malformed"}
	problemShape            = problem{"shape", http.StatusUnprocessableEntity, "The tensors are not the model's"}
	problemNotFinite        = problem{"not-finite", http.StatusUnprocessableEntity, "A weight is not finite"}
	problemOutlier          = problem{"outlier", http.StatusUnprocessableEntity, "The model is too far from the instances"}
	problemFeatures         = problem{"features", http.StatusUnprocessableEntity, "The features are not those of the model"}
	problemRate             = problem{"rate-limited", http.StatusTooManyRequests, "There are too many requests"}
	problemBusy             = problem{"busy", http.StatusServiceUnavailable, "There are too many requests at once"}
	problemStorage          = problem{"storage", http.StatusServiceUnavailable, "The server cannot store the return"}
)

var problems = []problem{
	problemMalformedRequest, problemUnauthorized, problemNotFound, problemMisdirected, problemMethod, problemTimeout, problemTicketMissing,
	problemTicketInvalid, problemTicketExpired, problemTicketUsed, problemTicketRefused, problemTicketInUse,
	problemTooLarge, problemMalformed, problemShape,
	problemNotFinite, problemOutlier, problemFeatures, problemRate, problemBusy, problemStorage,
}

// typePrefix begins the type of a problem.
const typePrefix = "urn:dptrain:problem:"

// write sends the problem. Detail contains nothing about other requests.
func (p problem) write(w http.ResponseWriter, detail string) {
	body, _ := json.Marshal(map[string]any{"type": typePrefix + p.name, "title": p.title, "status": p.status, "detail": detail}) // strings and a number
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	switch p.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.status)
	w.Write(body)
}
