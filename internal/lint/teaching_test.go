package lint

import (
	"bytes"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// goFile is a file of a package that people write: neither a test nor generated.
type goFile struct {
	path string
	text []byte
}

// packageFiles returns the files of each folder that are neither tests nor generated.
func packageFiles(t *testing.T) map[string][]goFile {
	t.Helper()
	packages := map[string][]goFile{}
	walkText(t, func(path, text string) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(text, "// Code generated ") {
			return
		}
		folder := filepath.Dir(path)
		packages[folder] = append(packages[folder], goFile{path, []byte(text)})
	})
	return packages
}

// A package of more than 1,500 lines has a comment that teaches how it works: at least 25 lines, with
// a drawing or a formula.
func TestDoc_TeachesLargePackages(t *testing.T) {
	const largePackage, leastLines = 1500, 25
	checked := 0
	for folder, files := range packageFiles(t) {
		lines := 0
		for _, f := range files {
			lines += bytes.Count(f.text, []byte("\n"))
		}
		if lines <= largePackage {
			continue
		}
		checked++
		comment := packageComment(t, files)
		switch {
		case strings.Count(comment, "\n") < leastLines:
			t.Errorf("%s: the package has %d lines and its comment %d: explain in at least %d lines how it works",
				folder, lines, strings.Count(comment, "\n"), leastLines)
		case !strings.Contains(comment, "\n\t"):
			t.Errorf("%s: the package has %d lines, and its comment has no drawing or formula: indent one", folder, lines)
		}
	}
	if checked < 10 {
		t.Errorf("only %d packages were checked", checked)
	}
}

// packageComment returns the longest package comment of files.
func packageComment(t *testing.T, files []goFile) (longest string) {
	t.Helper()
	for _, f := range files {
		file, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if comment := file.Doc.Text(); len(comment) > len(longest) {
			longest = comment
		}
	}
	return longest
}
