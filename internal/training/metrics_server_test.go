package training

import (
	"bytes"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/training/metricstest"
)

func TestMetricsServer(t *testing.T) {
	address := metricstest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	e, err := ServeMetrics(":" + port)
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
	if _, err := ServeMetrics(address); err == nil {
		t.Error("two servers listen on one address")
	}
	e.Close()
	if _, _, err := metricstest.Scrape(address); err == nil {
		t.Error("a closed server responds")
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
