// Package learn is the explorable guide to DP-SGD: a page whose curves are computed, and whose models
// are trained, by the accountant and the engine, compiled to WebAssembly.
//
//	page/        index.html (a template), chapters, modules, style: no build chain
//	accounting/  operations that compute costs; wasm/accounting is their module
//	training/    operations that train; wasm/engine is their module
//	operation/   requests and answers, and how they are divided among workers
//	built/       where `make learn` puts the compiled modules
//
// The modules are not in the repository. `make learn` compiles them and builds a program that contains
// them, through go build -overlay, as `make gpu` does with kernels. A release has them in a file of its own,
// because they would make a wheel too large.
package learn

import (
	"archive/zip"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

//go:embed page
var page embed.FS

//go:embed built
var built embed.FS

// ErrNotBuilt is returned where the program contains no modules.
var ErrNotBuilt = errors.New("this program was built without the guide's WebAssembly modules")

// modules are the files of the archive that `make learn` writes.
var modules = []string{"accounting.wasm", "engine.wasm", "wasm_exec.js"}

// Files returns the files of the guide, with their contents.
func Files() (map[string][]byte, error) {
	archive, err := built.ReadFile("built/learn.zip")
	if err != nil {
		return nil, ErrNotBuilt
	}
	return FilesOf(archive)
}

// FilesOf is Files with the modules of an archive.
func FilesOf(archive []byte) (map[string][]byte, error) {
	files, err := pageFiles()
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("archive of the guide's modules: %w", err)
	}
	for _, name := range modules {
		if files[name], err = fs.ReadFile(z, name); err != nil {
			return nil, fmt.Errorf("archive of the guide's modules: %w", err)
		}
	}
	return files, nil
}

// pageFiles returns the page without the modules. The chapters become parts of index.html.
func pageFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(page, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".html" {
			return err
		}
		text, err := page.ReadFile(name)
		files[strings.TrimPrefix(name, "page/")] = text
		return err
	})
	if err != nil {
		return nil, err
	}
	chapters, err := readChapters()
	if err != nil {
		return nil, err
	}
	t, err := template.ParseFS(page, "page/index.html")
	if err != nil {
		return nil, err
	}
	var index bytes.Buffer
	err = t.Execute(&index, chapters)
	files["index.html"] = index.Bytes()
	return files, err
}

type chapter struct {
	Number   int
	Name     string // in the address
	Title    string
	Body     template.HTML
	Previous *chapter
	Next     *chapter
}

// readChapters reads the chapters in the order of their numbers: NN-name.html, whose first line is the
// title.
func readChapters() (all []*chapter, err error) {
	entries, err := page.ReadDir("page/chapters")
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		text, err := page.ReadFile("page/chapters/" + e.Name())
		if err != nil {
			return nil, err
		}
		title, body, _ := strings.Cut(string(text), "\n")
		_, name, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".html"), "-")
		c := &chapter{Number: i + 1, Name: name, Title: title, Body: template.HTML(body)}
		if i > 0 {
			c.Previous, all[i-1].Next = all[i-1], c
		}
		all = append(all, c)
	}
	return all, nil
}

// Write writes the guide to a folder, which is created. It does not replace files of others: a folder
// that is not empty must contain a guide.
func Write(dir string, files map[string][]byte) error {
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case len(entries) > 0:
		if _, err := os.Stat(filepath.Join(dir, "accounting.wasm")); err != nil {
			return fmt.Errorf("%s is not empty and contains no guide; give another folder", dir)
		}
	}
	for name, text := range files {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// WriteArchive writes the archive of `make learn`. The same files give the same bytes.
func WriteArchive(w io.Writer, dir string) error {
	z := zip.NewWriter(w)
	for _, name := range modules {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		m, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Time{}})
		if err != nil {
			return err
		}
		if _, err := m.Write(text); err != nil {
			return err
		}
	}
	return z.Close()
}
