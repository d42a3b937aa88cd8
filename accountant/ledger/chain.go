package ledger

import "fmt"

// chain is what the lines of a ledger add up to so far. Reader and writer share
// it, so that what a writer believes is what a reader will find.
type chain struct {
	history  History
	head     digest // hash of the last line
	lines    int
	lots     int
	runs     int
	runLots  int  // lots stated by the run that is writing: as many can be returned
	reserved int  // lots of the last line, if it spends
	ended    bool // the last line is an end
}

// fault says in words why e cannot come next; "" is sound.
func (c *chain) fault(e entry) string {
	switch {
	case c.lines == 0 && e.kind != headerLine:
		return "the header is missing"
	case c.lines > 0 && e.kind == headerLine:
		return "a second header"
	case c.ended && e.kind != resumeLine:
		return "something follows the end of a run without a resume"
	}
	switch e.kind {
	case spendLine, tornLine:
		if e.count < 1 {
			return "it spends no lot"
		}
		if e.count > MaxLots-c.lots {
			return "the ledger has more lots than can be counted"
		}
	case returnLine:
		if e.count < 1 || e.count > c.runLots {
			return fmt.Sprintf("it returns %d lots of the %d that this run stated", e.count, c.runLots)
		}
	case resumeLine:
		if e.count != c.runs+1 {
			return fmt.Sprintf("it begins run %d where run %d is next", e.count, c.runs+1)
		}
	case endLine:
		if e.count != c.lots {
			return fmt.Sprintf("it ends with %d lots where the lines before add up to %d", e.count, c.lots)
		}
	}
	return ""
}

// apply adds a line without fault.
func (c *chain) apply(e entry, hash digest) {
	c.lines++
	c.head = hash
	c.reserved = 0
	c.ended = e.kind == endLine
	switch e.kind {
	case headerLine:
		c.history.Header = e.header
		c.runs = 1
	case resumeLine:
		c.runs++
		c.runLots = 0
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
		for left := e.count; left > 0; {
			last := &c.history.Lots[len(c.history.Lots)-1]
			taken := min(left, last.Count)
			left -= taken
			if last.Count -= taken; last.Count == 0 {
				c.history.Lots = c.history.Lots[:len(c.history.Lots)-1]
			}
		}
	}
}
