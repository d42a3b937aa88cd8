package learn

import (
	"archive/zip"
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testArchive has short modules.
func testArchive(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	for _, name := range modules {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(name, 100)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var first, second bytes.Buffer
	if err := WriteArchive(&first, dir); err != nil {
		t.Fatal(err)
	}
	if err := WriteArchive(&second, dir); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same modules give two archives")
	}
	return first.Bytes()
}

// Every file that the page names is among its files, and none is of another host.
func TestFiles_AreComplete(t *testing.T) {
	files, err := FilesOf(testArchive(t))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?:src|href)="([^"#]+)"|from '([^']+)'|new Worker\('([^']+)'\)|importScripts\('([^']+)'\)`)
	checked := 0
	for name, text := range files {
		if filepath.Ext(name) == ".wasm" {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			to := strings.Join(m[1:], "")
			if strings.HasPrefix(to, "data:") {
				continue
			}
			to = filepath.ToSlash(filepath.Join(filepath.Dir(name), to))
			if files[to] == nil {
				t.Errorf("%s names %s, which is not in the guide", name, to)
			}
			checked++
		}
		if name != "wasm_exec.js" && bytes.Contains(bytes.ReplaceAll(text, []byte("http://www.w3.org/2000/svg"), nil), []byte("://")) {
			t.Errorf("%s names an address", name)
		}
	}
	if checked < 20 {
		t.Errorf("only %d names were checked", checked)
	}
	if n := strings.Count(string(files["index.html"]), `<section class="chapter"`); n != 13 {
		t.Errorf("the page has %d sections; a start and 12 chapters are wanted", n)
	}
}

func TestFilesOf_DamagedArchive(t *testing.T) {
	var empty bytes.Buffer
	if err := zip.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	for _, archive := range [][]byte{nil, []byte("no zip"), empty.Bytes()} {
		if _, err := FilesOf(archive); err == nil {
			t.Errorf("an archive of %d bytes is accepted", len(archive))
		}
	}
}

func TestWrite_KeepsFilesOfOthers(t *testing.T) {
	files, err := FilesOf(testArchive(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "guide")
	for range 2 { // the second time it replaces a guide
		if err := Write(dir, files); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "experiments", "index.js")); err != nil || !bytes.Equal(text, files["experiments/index.js"]) {
		t.Errorf("experiments/index.js: %v", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "index.html"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(other, files); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a folder with other files: %v", err)
	}
}

func TestHandler_ServesTypes(t *testing.T) {
	files, err := FilesOf(testArchive(t))
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(files)
	for path, want := range map[string]string{"/": "text/html; charset=utf-8", "/app.js": "text/javascript; charset=utf-8", "/engine.wasm": "application/wasm"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); w.Code != 200 || got != want {
			t.Errorf("%s: status %d, type %q, and %q is wanted", path, w.Code, got, want)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/../../etc/passwd", nil))
	if w.Code != 404 {
		t.Errorf("a path out of the guide: status %d", w.Code)
	}
}
