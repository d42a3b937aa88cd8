package report

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// probe shows the page at several widths. It reports how far each can be scrolled sideways, how
// many resources it loaded, and whether its style was applied.
const probe = `<!doctype html><title>probe</title><link rel="icon" href="data:,"><body><pre id="found"></pre>
<script>
const widths = [360, 768, 1280];
let left = widths.length;
for (const width of widths) {
  const frame = document.createElement('iframe');
  frame.style.cssText = 'border:0;height:900px;width:' + width + 'px';
  frame.onload = () => {
    const page = frame.contentDocument, root = page.documentElement;
    const font = frame.contentWindow.getComputedStyle(page.querySelector('h1')).fontWeight;
    document.getElementById('found').textContent += 'width ' + width + ' scrolls ' + (root.scrollWidth - root.clientWidth) +
      ' loads ' + frame.contentWindow.performance.getEntriesByType('resource').length + ' weight ' + font + '\n';
    if (--left === 0) document.getElementById('found').textContent += 'done';
  };
  frame.src = '/report.html';
  document.body.append(frame);
}
</script>`

// A real browser shows the pages without an error, requests nothing else, and does not scroll
// sideways.
func TestPage_InChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("starting a browser takes seconds")
	}
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no Chromium is installed: the page was not tested in a browser")
	}
	s := newFixture()
	s.summary["class_names"] = []string{strings.Repeat("a very long name ", 20), strings.Repeat("W", 200)}
	s.summary["preset"] = strings.Repeat("x", 300)
	page, _ := s.render(t)
	showInBrowser(t, browser, page)
	showInBrowser(t, browser, renderSimulation(t, simulationFixture()))
}

// showInBrowser checks a page in a browser.
func showInBrowser(t *testing.T, browser, page string) {
	t.Helper()
	// The server is also the browser's proxy, so that no request leaves this machine.
	var requested atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested.Store(requested.Load() || r.URL.Path == "/report.html")
		text := map[string]string{"/report.html": page, "/probe.html": probe}[r.URL.Path]
		if text == "" || r.URL.IsAbs() {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, text)
	}))
	defer server.Close()

	ctx, stop := context.WithTimeout(context.Background(), 60*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--proxy-server="+server.URL, "--enable-logging=stderr", "--virtual-time-budget=10000", "--window-size=1400,1000", "--dump-dom", server.URL+"/probe.html")
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	dom, err := cmd.Output()
	if ctx.Err() != nil {
		t.Skip("the browser did not answer within a minute: the page was not tested")
	}
	if !requested.Load() {
		t.Skipf("the browser does not run here: the page was not tested: %v\n%s", err, stderr.Bytes())
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	for _, width := range []int{360, 768, 1280} {
		if want := fmt.Sprintf("width %d scrolls 0 loads 0 weight 600\n", width); !strings.Contains(string(dom), want) {
			t.Errorf("want %q in\n%s", want, dom)
		}
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, ":CONSOLE") {
			t.Errorf("the browser reports: %s", line)
		}
	}
}
