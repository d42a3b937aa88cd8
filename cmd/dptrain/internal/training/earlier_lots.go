package training

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// observedLot is what a resumed run reads of a line of metrics.jsonl.
type observedLot struct {
	Lot          int             `json:"lot"`
	TestAccuracy *float64        `json:"test_accuracy"`
	TestLoss     json.RawMessage `json:"test_loss"` // null if it is not a number
	Released     []Metric        `json:"released"`
}

// earlierLots reads the lots before a resumed run. Of a lot that a crash lost and that was trained again
// it is the last one. Damaged is the first error of a line, which is left out; a last line that a crash
// cut short is none.
func (p *Progress) earlierLots() (lots []observedLot, damaged, err error) {
	text, err := os.ReadFile(filepath.Join(p.spec.Flags.Out, rundir.MetricsFile))
	if err != nil {
		return nil, nil, err
	}
	for line := range bytes.Lines(text) {
		var lot observedLot
		if err := json.Unmarshal(line, &lot); err != nil {
			if damaged == nil && bytes.HasSuffix(line, []byte("\n")) {
				damaged = err
			}
			continue
		}
		for len(lots) > 0 && lots[len(lots)-1].Lot >= lot.Lot {
			lots = lots[:len(lots)-1]
		}
		lots = append(lots, lot)
	}
	for len(lots) > 0 && lots[len(lots)-1].Lot > p.firstLot {
		lots = lots[:len(lots)-1]
	}
	return lots, damaged, nil
}
