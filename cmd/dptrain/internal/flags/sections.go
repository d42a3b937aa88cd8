package flags

import (
	"strings"

	"github.com/spf13/pflag"
)

const sectionKey = "section" // annotation of a flag with the title of its section

// Section adds the flags of define to f. Help lists them under the title.
func Section(f *pflag.FlagSet, title string, define func(*pflag.FlagSet)) {
	part := pflag.NewFlagSet("", pflag.ContinueOnError)
	part.SortFlags = false
	define(part)
	part.VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		flag.Annotations[sectionKey] = []string{title}
	})
	f.AddFlagSet(part)
}

// Usages describes flags for help, in sections and in lines of about this many columns. Flags
// without a section come last, under the title.
func Usages(f *pflag.FlagSet, title string, columns int) string {
	var titles []string
	parts := map[string]*pflag.FlagSet{}
	f.VisitAll(func(flag *pflag.Flag) {
		section := strings.Join(flag.Annotations[sectionKey], "")
		if parts[section] == nil {
			parts[section] = pflag.NewFlagSet("", pflag.ContinueOnError)
			parts[section].SortFlags = f.SortFlags
			if section != "" {
				titles = append(titles, section)
			}
		}
		parts[section].AddFlag(flag)
	})
	if len(titles) > 0 {
		title = "Other flags"
	}
	parts[title] = parts[""]
	var text []string
	for _, title := range append(titles, title) {
		if part := parts[title]; part != nil && part.HasAvailableFlags() {
			text = append(text, title+":\n"+strings.TrimRight(part.FlagUsagesWrapped(columns), "\n"))
		}
	}
	return strings.Join(text, "\n\n")
}
