package settings

import (
	"embed"
	"strings"
)

//go:embed usage/*.txt
var usages embed.FS

// usage returns the help text of a flag that has a file of its own: a text of more than 200 characters.
func usage(flag string) string {
	text, err := usages.ReadFile("usage/" + flag + ".txt")
	if err != nil {
		panic(err) // the name of a file that the program contains is wrong
	}
	return strings.TrimSuffix(string(text), "\n")
}
