package main

import (
	"strings"
	"time"
)

// headway tells how far a long answer has come.
type headway struct {
	screen      *screen
	bar         *bar // nil where there is no terminal, or answers go to it
	all         int
	began, told time.Time
}

// headway begins one; beside says whether the terminal is free for it.
func (s *screen) headway(all int, beside bool) *headway {
	p := &headway{screen: s, all: all, began: time.Now(), told: time.Now()}
	if _, shared := terminal(s.out); beside || !shared {
		p.bar = s.bar(all)
	}
	return p
}

// show is a bar's, or a line at a tenth where nothing was seen for long.
func (p *headway) show(done int) error {
	if p.bar == nil && done%max(1, p.all/10) == 0 && done < p.all && time.Since(p.told) >= patience {
		p.told = time.Now()
		p.screen.note("example %d/%d, %s", done, p.all, strings.Join(p.words(done), ", "))
	}
	return p.bar.show(done, func() []string { return p.words(done) })
}

// words are the time left and the speed.
func (p *headway) words(done int) []string {
	took := time.Since(p.began)
	return []string{timeLeft(took, done, p.all-done), speed(float64(done) / took.Seconds())}
}
