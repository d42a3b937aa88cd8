package server

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
)

// The description has every endpoint and every problem, and each problem's status is a response
// of some endpoint.
func TestOpenAPI_DescribesEndpointsAndProblems(t *testing.T) {
	var d struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas struct {
				Problem struct {
					Properties struct{ Type struct{ Enum []string } }
				}
			}
		}
	}
	if err := json.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	for path, method := range map[string]string{
		"/v1/models": "get", "/v1/models/{name}": "get", "/v1/models/{name}/draw": "post", "/v1/models/{name}/return": "post", "/v1/models/{name}/predict": "post",
		"/healthz": "get", "/metrics": "get", "/": "get", "/openapi.json": "get",
	} {
		if d.Paths[path][method] == nil {
			t.Errorf("%s %s is not described", method, path)
		}
	}
	var operation struct{ Responses map[string]any }
	if err := json.Unmarshal(d.Paths["/v1/models/{name}/return"]["post"], &operation); err != nil {
		t.Fatal(err)
	}
	described := d.Components.Schemas.Problem.Properties.Type.Enum
	for _, p := range problems {
		if !slices.Contains(described, typePrefix+p.name) {
			t.Errorf("problem %s is not described", p.name)
		}
		status := strconv.Itoa(p.status)
		if operation.Responses[status] == nil {
			t.Errorf("problem %s: status %s is no response of a return", p.name, status)
		}
	}
	if len(described) != len(problems) {
		t.Errorf("%d problems are described, and there are %d", len(described), len(problems))
	}
}
