package training

import (
	"bytes"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/training/metricstest"
)

func TestMetricsServer(t *testing.T) {
	address := metricstest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	e, err := ServeMetrics(":"+port, false)
	if err != nil {
		t.Fatal(err)
	}
	if status, text, err := metricstest.Scrape(address); err != nil || status != http.StatusOK || text != "" {
		t.Errorf("before the first lot: %v, %v\n%s", status, err, text)
	}
	e.set(metrics{lots: 3, plannedLots: 10, epsilon: math.Inf(1), examplesPerSecond: 1500, learningRate: 0.25, testAccuracy: math.NaN()})
	status, text, err := metricstest.Scrape(address)
	if err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	for _, line := range []string{"dptrain_lots 3", "dptrain_lots_planned 10", "dptrain_epsilon +Inf", "dptrain_examples_per_second 1500",
		"dptrain_learning_rate 0.25", "# TYPE dptrain_epsilon gauge"} {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
	if strings.Contains(text, "accuracy") || strings.Contains(text, "delta") {
		t.Errorf("unknown values are shown:\n%s", text)
	}
	if _, err := ServeMetrics(address, false); err == nil {
		t.Error("two servers listen on one address")
	}
	e.Close()
	if _, _, err := metricstest.Scrape(address); err == nil {
		t.Error("a closed server responds")
	}
}

// Metrics leave this machine only if a flag permits it, and a page of another site cannot read them under
// a name of its own.
func TestMetricsServer_StaysOnThisMachine(t *testing.T) {
	address := metricstest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	for _, open := range []string{"0.0.0.0:" + port, "[::]:" + port, "192.0.2.1:" + port, "example.org:" + port} {
		if e, err := ServeMetrics(open, false); err == nil || !strings.Contains(err.Error(), "--metrics-remote") {
			e.Close()
			t.Errorf("%s: %v", open, err)
		}
	}
	for _, c := range []struct {
		address string
		remote  bool
		foreign int // the status of a request with another Host
	}{{":" + port, false, http.StatusMisdirectedRequest}, {"localhost:" + port, false, http.StatusMisdirectedRequest}, {"0.0.0.0:" + port, true, http.StatusOK}} {
		e, err := ServeMetrics(c.address, c.remote)
		if err != nil {
			t.Fatal(err)
		}
		for host, want := range map[string]int{"localhost:" + port: http.StatusOK, "attacker.example.org:" + port: c.foreign} {
			request, _ := http.NewRequest("GET", "http://"+address+"/metrics", nil)
			request.Host, request.Close = host, true
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s, host %s: %s", c.address, host, response.Status)
			}
		}
		e.Close()
	}
}

// The metrics contain the RMSE of a regression.
func TestMetrics_Regression(t *testing.T) {
	var b bytes.Buffer
	metrics{testAccuracy: math.NaN(), regression: &rundir.RegressionMetrics{RMSE: 2.5}}.write(&b)
	if !strings.Contains(b.String(), "\ndptrain_test_rmse 2.5\n") || strings.Contains(b.String(), "accuracy") {
		t.Errorf("scraped: %s", b.String())
	}
}
