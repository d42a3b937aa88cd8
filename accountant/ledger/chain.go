package ledger

import "fmt"

// chain is the state of a ledger after its lines so far. Reader and writer share it, so
// both derive the same state from the same lines.
type chain struct {
	history  History
	head     digest // hash of the last line
	lines    int
	lots     int
	runs     int
	runLots  int    // lots stated and not returned by the current run, which it may return
	reserved int    // lots of the last line if it is a spend or torn line, otherwise 0
	ended    bool   // the last line is an end line
	version  int    // of the lines from here on
	weights  string // of the last line if it is an end line
	complete bool   // of the last line if it is an end line
	process  string // the identifier of the last header or resume line
}

// checkNext returns why e cannot be the next line, or "".
func (c *chain) checkNext(e entry) string {
	switch {
	case c.lines == 0 && e.kind != headerLine:
		return "the header line is missing"
	case c.lines > 0 && e.kind == headerLine:
		return "it is a second header line"
	case c.ended && e.kind != resumeLine:
		return "it follows an end line but is not a resume line"
	}
	switch e.kind {
	case spendLine, tornLine:
		if e.count < 1 {
			return "its lot count is below 1"
		}
		if e.count > MaxLots-c.lots {
			return fmt.Sprintf("the ledger has more than %d lots", MaxLots)
		}
	case returnLine:
		if e.count < 1 || e.count > c.runLots {
			return fmt.Sprintf("it returns %d lots, but this run has stated only %d", e.count, c.runLots)
		}
	case resumeLine:
		if e.count != c.runs+1 {
			return fmt.Sprintf("it begins run %d, but the next run is %d", e.count, c.runs+1)
		}
		if v := e.header.Version; v != 0 && (v <= c.version || v > formatVersion) {
			return fmt.Sprintf("it changes the format version from %d to %d, but this program supports versions up to %d: use a newer dptrain", c.version, v, formatVersion)
		}
	case endLine:
		if e.count != c.lots {
			return fmt.Sprintf("it states %d lots in total, but the lines before it state %d", e.count, c.lots)
		}
		if e.complete && c.version < firstBudgeted {
			return fmt.Sprintf("key \"complete\" is unknown in format version %d", c.version)
		}
	case budgetLine:
		if c.version < firstBudgeted {
			return fmt.Sprintf("key \"budget\" is unknown in format version %d", c.version)
		}
		if c.history.Budget != "" {
			return "it names a second project budget"
		}
	}
	return ""
}

// nextRun returns the line that begins the next run, in the current format version.
func (c *chain) nextRun() entry {
	e := entry{kind: resumeLine, count: c.runs + 1, header: Header{Run: newRunID()}}
	if c.version < formatVersion {
		e.header.Version = formatVersion
	}
	return e
}

// apply adds a line that checkNext accepts.
func (c *chain) apply(e entry, hash digest) {
	c.lines++
	c.head = hash
	c.reserved = 0
	c.ended, c.weights, c.complete = e.kind == endLine, e.weights, e.complete
	c.version = max(c.version, e.header.Version)
	switch e.kind {
	case headerLine:
		c.history.Header = e.header
		c.runs = 1
		c.process = e.header.Run
	case resumeLine:
		c.runs++
		c.runLots = 0
		c.process = e.header.Run
	case budgetLine:
		c.history.Budget = e.budget
	case insecureLine:
		c.history.Header.Secure = false
	case spendLine, tornLine:
		c.reserved = e.count
		c.lots += e.count
		c.runLots += e.count
		spent := c.history.Lots
		if n := len(spent); n > 0 && sameLot(spent[n-1].Lot, e.lot) {
			spent[n-1].Count += e.count
		} else {
			c.history.Lots = append(spent, RepeatedLot{e.lot, e.count})
		}
	case returnLine:
		c.lots -= e.count
		c.runLots -= e.count
		for remaining := e.count; remaining > 0; {
			last := &c.history.Lots[len(c.history.Lots)-1]
			returned := min(remaining, last.Count)
			remaining -= returned
			if last.Count -= returned; last.Count == 0 {
				c.history.Lots = c.history.Lots[:len(c.history.Lots)-1]
			}
		}
	}
}
