package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
)

// digests is the content of cuda/internal/kernels/DIGESTS: what the images of a release have, which the
// repository does not contain.
type digests struct {
	sources string
	order   []string          // names of images
	images  map[string]string // SHA-256 by name
}

func (b *build) digests() digests {
	d := digests{sources: b.sources, images: map[string]string{}}
	for _, i := range b.images {
		d.order = append(d.order, i.target.Image())
		d.images[i.target.Image()] = digestOf(i.code)
	}
	return d
}

func digestOf(code []byte) string { return fmt.Sprintf("%x", sha256.Sum256(code)) }

// text has a line for each image and one for the sources: a digest and a name, as sha256sum writes
// them.
func (d digests) text() []byte {
	text := []byte(d.sources + "  sources\n")
	for _, name := range d.order {
		text = fmt.Appendf(text, "%s  %s\n", d.images[name], name)
	}
	return text
}

func readDigests(file string) (d digests, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return d, err
	}
	d.images = map[string]string{}
	for line := range strings.Lines(string(text)) {
		digest, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		switch {
		case !ok || len(digest) != 2*sha256.Size:
			return d, fmt.Errorf("%s: %q is not a digest and a name", file, line)
		case name == "sources":
			d.sources = digest
		default:
			d.order = append(d.order, name)
			d.images[name] = digest
		}
	}
	return d, nil
}
