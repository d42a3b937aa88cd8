package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/training"
	"github.com/dptrain/dptrain/engine"
	deviceplan "github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/spf13/cobra"
)

// cluster is what a plan assumes of the hosts.
type cluster struct {
	MaxRanks int           `json:"max_ranks"`
	Faster   float64       `json:"faster"`     // how many times as fast as this host a rank computes
	Link     float64       `json:"link_gbit"`  // Gbit/s that a rank sends
	Latency  time.Duration `json:"latency_ns"` // of a message
	Price    float64       `json:"price"`      // of a rank for an hour
}

// measuredLot is the time of a lot on this host, in one rank.
type measuredLot struct {
	Records float64 `json:"records_seconds"` // forward, backward, clipping
	Release float64 `json:"release_seconds"` // the rest: noise, update
}

// plannedLots are the public numbers of a run's lots.
type plannedLots struct {
	Steps    int     `json:"steps"`
	Lot      float64 `json:"expected_lot"`
	Weights  int     `json:"parameters"`
	Averaged bool    `json:"-"`
}

// rankPlan is the prediction for a number of ranks.
type rankPlan struct {
	Ranks        int     `json:"ranks"`
	StepSeconds  float64 `json:"step_seconds"`
	SentBytes    float64 `json:"sent_bytes"` // by a rank in a step
	Sending      float64 `json:"sending_share"`
	TotalSeconds float64 `json:"seconds"`
	Efficiency   float64 `json:"efficiency"` // speed over that of as many times one rank
	Cost         float64 `json:"cost,omitempty"`
}

func newPlan(term *terminal.Terminal) *cobra.Command {
	flags, c := &settings.Flags{}, cluster{}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Predict the duration of a run on several ranks",
		Long: `Measure some lots of blank examples on this host, and predict a run of train with the
same flags on 1, 2, 4, … ranks that MPI connects. It spends no privacy.`,
		Example: `  dptrain plan --model mlp:1024
  dptrain plan --data people.csv --schema people.yaml --ranks 64 --link 25 --price 0.4
  dptrain plan --preset tfp-mnist --faster 8 --latency 5us`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := flags.Resolve(); err != nil {
				return err
			}
			if c.MaxRanks < 1 || !(c.Faster > 0) || !(c.Link > 0) || c.Latency < 0 || !(c.Price >= 0) {
				return exitcode.Usagef("--ranks is at least 1, --faster and --link are above 0, --latency and --price are not negative")
			}
			return plan(term, flags, c)
		},
	}
	flags.Define(cmd.Flags())
	f := cmd.Flags()
	f.IntVar(&c.MaxRanks, "ranks", 1024, "the largest number of ranks")
	f.Float64Var(&c.Faster, "faster", 1, "how many times as fast as this host the host of a rank computes")
	f.Float64Var(&c.Link, "link", 10, "Gbit/s that a rank sends to others")
	f.DurationVar(&c.Latency, "latency", 20*time.Microsecond, "time of a message between ranks, as in 5us")
	f.Float64Var(&c.Price, "price", 0, "price of a rank for an hour")
	completeChoices(cmd, settings.Choices())
	return cmd
}

func plan(term *terminal.Terminal, flags *settings.Flags, c cluster) error {
	spec, err := newSpec(term, flags)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	config := spec.Config
	config.Ranks = ranks.NewGroup(1)[0] // it divides the time of a lot
	run, err := training.NewBlankRun(config)
	if err != nil {
		return err
	}
	defer run.Close()
	measured, err := terminal.Await(term, "Timing lots of blank examples", func() (measuredLot, error) { return measureLot(run.Run) })
	if err != nil {
		return err
	}
	d := run.Describe()
	lots := plannedLots{config.Steps, d.ExpectedLot, weightCount(d), flags.EMA > 0}
	var plans []rankPlan
	for n := 1; n <= c.MaxRanks; n *= 2 {
		plans = append(plans, c.predict(lots, measured, n))
	}
	result := struct {
		cluster
		plannedLots
		Device   string      `json:"device"`
		Measured measuredLot `json:"measured"`
		Plans    []rankPlan  `json:"plans"`
	}{c, lots, d.Device, measured, plans}
	return term.Print(result, fmt.Sprintf("%.0f", plans[0].TotalSeconds), func(w io.Writer) { printPlans(w, lots, measured, d.Device, plans) })
}

// measureLot runs lots for some seconds. The first one takes longer than the others and does not count.
func measureLot(run *engine.Run) (m measuredLot, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var began time.Time
	var before time.Duration
	lots := 0
	err = run.Train(ctx, func(*engine.Progress) error {
		if lots++; lots == 1 {
			began, before = time.Now(), run.RankDurations()[0]
		} else if time.Since(began) > timingDuration {
			cancel()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return m, err
	}
	if lots < 2 {
		return m, exitcode.Usagef("--steps %d: a plan measures at least 2 lots", lots)
	}
	m.Records = (run.RankDurations()[0] - before).Seconds() / float64(lots-1)
	m.Release = max(0, time.Since(began).Seconds()/float64(lots-1)-m.Records)
	return m, nil
}

// agreements are the calls of a lot in addition to those of pieces: sums of some numbers, with which the ranks agree.
const agreements = 7

// predict returns the times of a run on n ranks. A lot waits for the rank with the most records. Then each rank sends
// the others the sums of their parts, and they gather their parts of the weights: each sends (n−1)/n of both. A call
// of n ranks waits for 2·log2(n) messages, one after the other.
func (c cluster) predict(l plannedLots, m measuredLot, n int) rankPlan {
	share := float64(n-1) / float64(n)
	sum, gathered := deviceplan.SumBytes(int(math.Ceil(l.Lot/float64(n)*busiest(l.Lot, n)))), 4
	if l.Averaged {
		gathered *= 2
	}
	p := rankPlan{Ranks: n, SentBytes: share * float64(sum+gathered) * float64(l.Weights)}
	pieces := math.Ceil(float64(l.Weights) / float64(n*deviceplan.PieceElements(n)))
	messages := 2 * math.Log2(float64(n)) * (agreements + 2*pieces)
	sending := p.SentBytes*8/(c.Link*1e9) + messages*c.Latency.Seconds()
	p.StepSeconds = (m.Records/float64(n)*busiest(l.Lot, n)+m.Release/float64(n))/c.Faster + sending
	p.Sending = sending / p.StepSeconds
	p.TotalSeconds = p.StepSeconds * float64(l.Steps)
	p.Efficiency = (m.Records + m.Release) / c.Faster / p.StepSeconds / float64(n)
	p.Cost = p.TotalSeconds / 3600 * float64(n) * c.Price
	return p
}

// busiest estimates the largest of n ranks' parts of a lot over their mean. Each is nearly Poisson, of mean lot/n; the
// largest of n normal numbers is expected at about the quantile (n − 3/8)/(n + 1/4) (Blom 1958).
func busiest(lot float64, n int) float64 {
	if n == 1 {
		return 1
	}
	mean := lot / float64(n)
	quantile := (float64(n) - 0.375) / (float64(n) + 0.25)
	return math.Max(1, mean+math.Sqrt(2*mean)*math.Erfinv(2*quantile-1)) / mean
}

func printPlans(w io.Writer, l plannedLots, m measuredLot, device string, plans []rankPlan) {
	fmt.Fprintf(w, "measured\t%.3g s for the records of a lot of about %.0f and %.3g s for the rest, on %s\n\n", m.Records, l.Lot, m.Release, device)
	fmt.Fprintf(w, "ranks\tstep\tsent by a rank\tsending\t%s\tefficiency\tcost\n", number.Plural(l.Steps, "lot"))
	for _, p := range plans {
		cost := "-"
		if p.Cost > 0 {
			cost = fmt.Sprintf("%.2f", p.Cost)
		}
		fmt.Fprintf(w, "%d\t%.3g s\t%.3g MB\t%.0f%%\t%v\t%.0f%%\t%s\n", p.Ranks, p.StepSeconds, p.SentBytes/1e6, 100*p.Sending,
			time.Duration(p.TotalSeconds*float64(time.Second)).Round(time.Second), 100*p.Efficiency, cost)
	}
}
