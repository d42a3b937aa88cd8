package data

import "github.com/dptrain/dptrain/internal/setting"

// packing joins the texts of each user into examples of at most length steps. A step is an index and the next one of the
// same text; the index at the begin of a text, or of a part of one, has a mark.
//
// Texts are taken in the order of the file. A text that does not fit behind the texts before it begins an example. Of a
// text of more than length steps, each part but the last fills an example; no step is lost.
type packing struct {
	length, count int
	indices       []float32
	ends          []int
	users         []int32
	blank         []bool

	used int // steps of the last example
	open bool
}

// checkPacked refuses packing where a record is one text.
func (s Schema) checkPacked() error {
	switch {
	case !s.Pack:
		return nil
	case !s.PredictNext:
		return setting.Errorf("pack", "%v joins texts for the prediction of the next index; write %v, or leave it out", setting.Named("pack"), setting.Named("next"))
	case s.Tokens != byTokenizer:
		return setting.Errorf("pack", "%v: only a public checkpoint keeps the texts of an example apart; give one as network", setting.Named("pack"))
	case s.User == "":
		return setting.Errorf("pack", "%v joins the texts of a record, and without users each text is a record of its own; write %v, where COLUMN names the user or the document of a text",
			setting.Named("pack"), setting.Named("Records.Users"))
	case s.Weight != "":
		return setting.Errorf("pack", "%v: the weight of an example of several texts is not defined; leave out %v", setting.Named("pack"), setting.Named("weight"))
	}
	return nil
}

// packed returns the examples of the texts that were read. Users keep their numbers. A user without a text that can be
// read has one blank example.
func (r *exampleReader) packed() *packing {
	p := &packing{length: r.tokens.length, count: r.tokens.count}
	texts := make([][]int, len(r.userNumbers)) // rows of each user
	for row, user := range r.users {
		texts[user] = append(texts[user], row)
	}
	all := r.features.joined()
	for user, rows := range texts {
		p.open = false
		empty := true
		for _, row := range rows {
			if r.blank[row] {
				continue
			}
			from := 0
			if row > 0 {
				from = r.ends[row-1]
			}
			p.add(all[from:r.ends[row]])
			empty = empty && !p.open
		}
		p.close()
		if empty {
			p.ends, p.blank = append(p.ends, len(p.indices)), append(p.blank, true)
		}
		for len(p.users) < len(p.ends) {
			p.users = append(p.users, int32(user))
		}
	}
	return p
}

// add appends the steps of a text.
func (p *packing) add(text []float32) {
	for len(text) > 1 {
		steps := min(len(text)-1, p.length)
		if p.open && steps > p.length-p.used {
			p.close()
		}
		part := text[:steps+1]
		p.indices = append(p.indices, part[0]+float32(p.count))
		p.indices = append(p.indices, part[1:]...)
		p.used, p.open = p.used+steps, true
		text = text[steps:]
	}
}

// close ends the last example.
func (p *packing) close() {
	if p.open {
		p.ends, p.blank = append(p.ends, len(p.indices)), append(p.blank, false)
	}
	p.used, p.open = 0, false
}

// readPacked writes the steps of an example of several texts.
func readPacked(features, labels, indices []float32, count int) {
	n := 0
	for i := 0; i+1 < len(indices); i++ {
		if next := indices[i+1]; next < float32(count) { // else it begins another text
			features[n], labels[n] = indices[i], next
			n++
		}
	}
	pad(features[n:], nil)
	pad(labels[n:], nil)
}
