package main

import (
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// free is an address of this machine that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skipf("no network here: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}

func scrape(address string) (status int, text string, err error) {
	got, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return 0, "", err
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	return got.StatusCode, string(b), err
}

func TestScrape(t *testing.T) {
	address := free(t)
	_, port, _ := net.SplitHostPort(address)
	e, err := answerScrapes(":" + port)
	if err != nil {
		t.Fatal(err)
	}
	e.set(gauges{lots: 3, planned: 10, epsilon: math.Inf(1), speed: 1500, learningRate: 0.25, testAccuracy: math.NaN()})
	status, text, err := scrape(address)
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
		t.Errorf("what is not known is shown:\n%s", text)
	}
	if _, err := answerScrapes(address); err == nil {
		t.Error("two listen on one address")
	}
	e.close()
	if _, _, err := scrape(address); err == nil {
		t.Error("a closed exporter answers")
	}
}

// A run answers scrapes with what it has shown, and stops when it ends.
func TestTrainIsScraped(t *testing.T) {
	t.Chdir(t.TempDir())
	address := free(t)
	ended := make(chan string)
	go func() {
		_, stderr, code := dptrain(drawn + " --steps 1000 --noise 4 --delta 1e-5 --out run --metrics-addr " + address)
		if code == exitDone {
			stderr = ""
		}
		ended <- stderr
	}()
	seen := ""
	for {
		select {
		case stderr := <-ended:
			if stderr != "" {
				t.Error(stderr)
			}
			for _, name := range []string{"dptrain_epsilon ", "dptrain_delta 1e-05", "dptrain_test_accuracy 0.", "dptrain_lots_planned 1000"} {
				if !strings.Contains(seen, name) {
					t.Errorf("%q is missing in the last scrape:\n%s", name, seen)
				}
			}
			if _, _, err := scrape(address); err == nil {
				t.Error("it answers after the end")
			}
			return
		case <-time.After(20 * time.Millisecond):
			if _, text, err := scrape(address); err == nil {
				seen = text
			}
		}
	}
}
