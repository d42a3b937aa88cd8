package report

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/quality"
)

// probe shows every page at several widths. It reports how far each can be scrolled sideways, how
// many resources it loaded, whether its style was applied, and the smallest contrast of a text with the
// background of the page.
const probe = `<!doctype html><meta name="color-scheme" content="light dark"><title>probe</title><link rel="icon" href="data:,"><body><pre id="found"></pre>
<script>
const widths = [360, 768, 1280], pages = PAGES;
const luminance = color => {
  const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
let left = widths.length * pages.length;
for (const name of pages) for (const width of widths) {
  const frame = document.createElement('iframe');
  frame.style.cssText = 'border:0;height:900px;width:' + width + 'px';
  frame.onload = () => {
    const page = frame.contentDocument, root = page.documentElement, style = e => frame.contentWindow.getComputedStyle(e);
    const paper = luminance(style(page.body).backgroundColor);
    const texts = [...page.querySelectorAll('p, dd, dt, th, td:not(.hit):not(.miss), h1, h2, h3, summary')].filter(e => !e.closest('.warning'));
    const contrasts = texts.map(e => luminance(style(e).color)).concat([...page.querySelectorAll('svg text')].map(e => luminance(style(e).fill)))
      .map(l => (Math.max(l, paper) + 0.05) / (Math.min(l, paper) + 0.05));
    document.getElementById('found').textContent += name + ' width ' + width + ' scrolls ' + (root.scrollWidth - root.clientWidth) +
      ' loads ' + frame.contentWindow.performance.getEntriesByType('resource').length + ' weight ' + style(page.querySelector('h1')).fontWeight +
      ' dark ' + (paper < 0.2) + ' readable ' + (Math.min(...contrasts) >= 4.5) + '\n';
    if (--left === 0) document.getElementById('found').textContent += 'done';
  };
  frame.src = '/' + name;
  document.body.append(frame);
}
</script>`

// phone shows a page at the width of a phone, which is less than a browser's smallest window.
const phone = `<!doctype html><meta name="color-scheme" content="light dark"><style>body{margin:0}iframe{border:0;width:360px;height:2000px}</style><iframe src="/PAGE"></iframe>`

// browserPages are reports with every section, with long names and with many classes.
func browserPages(t *testing.T) map[string]string {
	long := newShortFixture()
	withMeasures(long)
	long.summary["private"] = true
	long.summary["class_names"] = []string{strings.Repeat("a very long name ", 20), strings.Repeat("W", 200)}
	long.summary["preset"] = strings.Repeat("x", 300)
	long.summary["columns"] = []map[string]any{{"name": strings.Repeat("W", 200), "use": "words", "words": []string{strings.Repeat("V", 300)}, "count": 9}}
	long.summary["linear"] = map[string]any{"weights": []map[string]any{{"feature": strings.Repeat("W", 200), "value": -123456.789}}, "noise": map[string]any{"all": 0.25, "last": 0.01}}

	many := newShortFixture()
	many.summary["private"] = false
	var names []string
	var classes []map[string]any
	confusion := make([][]int, 100)
	tpr := make([]float64, len(quality.FalsePositiveRates))
	for i := range confusion {
		names = append(names, fmt.Sprintf("%d %s", i, strings.Repeat("long", i%9)))
		confusion[i] = make([]int, 100)
		confusion[i][i], confusion[i][(i*i+7)%100] = 90, 10
		classes = append(classes, map[string]any{"class": i, "auc": 0.9, "tpr": tpr})
	}
	many.summary["confusion"], many.summary["class_names"] = confusion, names
	many.summary["roc"] = map[string]any{"examples": 100, "classes": classes, "average": classes[0]}

	twelve := newShortFixture()
	twelve.summary["private"] = false
	matrix := make([][]int, maxMatrixClasses)
	for i := range matrix {
		matrix[i] = slices.Repeat([]int{12345}, maxMatrixClasses)
	}
	twelve.summary["confusion"], twelve.summary["class_names"] = matrix, names

	regression := newRegressionFixture()
	regression.header.Adjacency = ledger.ZeroOut
	regression.summary["baseline"] = 1234567.0
	regression.summary["residuals"] = map[string]any{"examples": 900, "points": [][2]float64{{-1e6, 2e6}, {0, -5}, {3e6, 31}}}

	pages := map[string]string{"simulation.html": renderSimulation(t, simulationFixture())}
	for name, s := range map[string]*runFixture{"long.html": long, "many.html": many, "twelve.html": twelve, "regression.html": regression} {
		pages[name], _ = s.render(t)
	}
	return pages
}

// A real browser shows the pages without an error, requests nothing else, and does not scroll
// sideways on a phone, a tablet and a desktop, in light and in dark mode, where all text has the
// contrast that WCAG 2.1 requires (4.5). It prints them.
func TestPage_InChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("starting a browser takes seconds")
	}
	b := openBrowser(t, browserPages(t))
	for _, dark := range []bool{false, true} {
		b.checkLayout(t, dark)
		b.checkScreenshot(t, dark)
	}
	printed := filepath.Join(b.folder, "report.pdf")
	b.run(t, false, "--print-to-pdf="+printed, "--no-pdf-header-footer", b.server.URL+"/long.html")
	text, err := os.ReadFile(printed)
	if err != nil || !bytes.HasPrefix(text, []byte("%PDF-")) || len(text) < 20_000 {
		t.Errorf("the printed report has %d bytes: %v", len(text), err)
	}
}

// browser is a headless browser with a server for its pages.
type browser struct {
	path, folder string
	server       *httptest.Server
	requested    atomic.Bool
	pages        []string
}

// openBrowser skips the test where no browser is installed.
func openBrowser(t *testing.T, pages map[string]string) *browser {
	t.Helper()
	b := &browser{folder: t.TempDir()}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			b.path = path
			break
		}
	}
	if b.path == "" {
		t.Skip("no Chromium is installed, so the pages were not tested in a browser: apt-get install chromium")
	}
	var quoted []string
	for name := range pages {
		b.pages, quoted = append(b.pages, name), append(quoted, fmt.Sprintf("%q", name))
	}
	served := map[string]string{
		"/probe.html": strings.Replace(probe, "PAGES", "["+strings.Join(quoted, ",")+"]", 1),
		"/phone.html": strings.Replace(phone, "PAGE", "long.html", 1),
	}
	for name, page := range pages {
		served["/"+name] = page
	}
	// The server is also the browser's proxy, so that no request leaves this machine.
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := served[r.URL.Path]
		if text == "" || r.URL.IsAbs() {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		b.requested.Store(true)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, text)
	}))
	t.Cleanup(b.server.Close)
	return b
}

// run starts the browser and returns what it printed. It skips the test where the browser does not run.
func (b *browser) run(t *testing.T, dark bool, arguments ...string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 60*time.Second)
	defer stop()
	all := []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir=" + filepath.Join(b.folder, "profile"),
		"--proxy-server=" + b.server.URL, "--enable-logging=stderr", "--virtual-time-budget=10000"}
	if dark {
		all = append(all, "--blink-settings=preferredColorScheme=0")
	}
	cmd := exec.CommandContext(ctx, b.path, append(all, arguments...)...)
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		t.Skip("the browser did not answer within a minute: the pages were not tested")
	}
	if !b.requested.Load() {
		t.Skipf("the browser does not run here: the pages were not tested: %v\n%s", err, stderr.Bytes())
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, ":CONSOLE") {
			t.Errorf("the browser reports: %s", line)
		}
	}
	return string(out)
}

// checkLayout checks every page at every width.
func (b *browser) checkLayout(t *testing.T, dark bool) {
	t.Helper()
	dom := b.run(t, dark, "--window-size=1400,1000", "--dump-dom", b.server.URL+"/probe.html")
	_, found, _ := strings.Cut(dom, `<pre id="found">`)
	found, _, _ = strings.Cut(found, "</pre>")
	for _, page := range b.pages {
		for _, width := range []int{360, 768, 1280} {
			want := fmt.Sprintf("%s width %d scrolls 0 loads 0 weight 600 dark %v readable true\n", page, width, dark)
			if !strings.Contains(found, want) {
				t.Errorf("want %q in\n%s", want, found)
			}
		}
	}
}

// checkScreenshot checks that a picture of the phone's page is mostly paper, with some ink.
func (b *browser) checkScreenshot(t *testing.T, dark bool) {
	t.Helper()
	file := filepath.Join(b.folder, fmt.Sprintf("phone-%v.png", dark))
	b.run(t, dark, "--window-size=500,2000", "--screenshot="+file, b.server.URL+"/phone.html")
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	light, pixels := 0, 0
	for y := range picture.Bounds().Dy() {
		for x := range min(360, picture.Bounds().Dx()) {
			r, g, blue, _ := picture.At(x, y).RGBA()
			if pixels++; r+g+blue > 3*0x8000 {
				light++
			}
		}
	}
	share := float64(light) / float64(pixels)
	if dark {
		share = 1 - share
	}
	if share < 0.75 || share > 0.995 {
		t.Errorf("dark %v: %.1f%% of the picture is paper", dark, 100*share)
	}
}
