package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/engine/drawdiscard/client"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
	"github.com/spf13/cobra"
)

// contributeFlags are the values of the flags of contribute.
type contributeFlags struct {
	data             settings.DataFlags
	server, model    string
	tokens, ca       string
	settings         drawdiscard.Settings
	mechanism, level string
	total            client.Budget
	totalLevel       string // of total; "": that of a contribution
	client           string // the name of the account
	ledger           string
	contributions    int
}

// contributeResult is the JSON output of contribute.
type contributeResult struct {
	Server        string       `json:"server"`
	Model         string       `json:"model"`
	Contributions int          `json:"contributions"`
	Mechanism     string       `json:"mechanism"`
	Privacy       string       `json:"privacy"`
	Epsilon       float64      `json:"epsilon"` // of each contribution, at the level of privacy
	Delta         float64      `json:"delta"`
	ModelEpsilon  number.Float `json:"model_epsilon"` // of each contribution, of the whole returned model
	Weights       int          `json:"weights"`
	NoiseScale    float64      `json:"noise_scale"`
	AllModels     number.Float `json:"models_epsilon"` // of all contributions of the command, of the whole returned models, at TotalDelta
	TotalLevel    string       `json:"total_level"`    // what the budget and the ledger count
	TotalEpsilon  float64      `json:"total_epsilon"`  // the budget
	TotalDelta    float64      `json:"total_delta"`
	EpsilonSpent  number.Float `json:"epsilon_spent"`
	PureEpsilon   number.Float `json:"pure_epsilon"`
	EpsilonLeft   number.Float `json:"epsilon_left"`
	Accountant    string       `json:"accountant"`
	Client        string       `json:"client,omitempty"` // the name of the account, without --ledger
	Ledger        string       `json:"ledger"`
}

func newContribute(term *terminal.Terminal) *cobra.Command {
	c := &contributeFlags{}
	cmd := &cobra.Command{
		Use:     "contribute",
		Short:   "Contribute to a model of dptrain serve, from data that stay here",
		Long:    helpOf("contribute").long,
		Example: helpOf("contribute").examples,
		Args:    noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&c.server, "server", "", "URL of the server, such as http://127.0.0.1:8080")
	f.StringVar(&c.model, "model", "", "name of the server's model (default: its only model)")
	f.StringVar(&c.data.Data, "data", "", "the client's records: a file, a folder or the name of a data set")
	c.data.Define(f)
	defineLocalFlags(cmd, &c.mechanism, &c.level, &c.settings.Epsilon, &c.settings.Delta)
	f.Float64Var(&c.total.Epsilon, "total-epsilon", 0, "the ε of all contributions of the client (default: --epsilon)")
	f.Float64Var(&c.total.Delta, "total-delta", 0, "the δ of all contributions of the client (default: --delta)")
	f.StringVar(&c.totalLevel, "total-level", "", "what the total and the ledger count: model (whole returned models) or feature (each weight by itself); contributions of both levels count (default: --privacy)")
	f.StringVar(&c.total.Accountant, "accountant", accountant.Default, "computes the ε of all contributions at --total-delta")
	f.StringVar(&c.client, "client", client.DefaultName, "name of the person or device whose data these are: all data of one name share one account in your folder for settings, wherever the files are")
	f.StringVar(&c.ledger, "ledger", "", "file that counts the contributions, in place of the account of --client")
	f.IntVar(&c.contributions, "contributions", 1, "number of contributions, each from a new draw")
	f.StringVar(&c.tokens, "token-file", "", "file with the bearer token")
	f.StringVar(&c.ca, "ca", "", "PEM file with the certificates to trust (default: those of the system)")
	flags.Complete(cmd, "accountant", accountant.Names())
	flags.Complete(cmd, "total-level", localLevels)
	cmd.RunE = func(*cobra.Command, []string) error { return contribute(term, c) }
	return cmd
}

func contribute(term *terminal.Terminal, c *contributeFlags) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	remote, err := c.connect()
	if err != nil {
		return err
	}
	defer remote.Close()
	ctx, stop := untilInterrupted()
	defer stop()
	model, err := remote.FindModel(ctx, c.model)
	if err != nil {
		return err
	}
	if err := c.compare(term, model); err != nil {
		return err
	}
	records, err := c.read(term, model)
	if err != nil {
		return err
	}
	account, err := client.OpenAccount(c.ledger, drawdiscard.Level(c.totalLevel), c.total)
	if err != nil {
		return exitcode.AsUsage(fmt.Errorf("--ledger %s: %w", c.ledger, err))
	}
	defer func() {
		if closed := account.Close(); err == nil {
			err = closed
		}
		if discarded := client.Discard(c.ledger); err == nil {
			err = discarded
		}
	}()
	contributor, err := client.NewContributor(remote, model, c.settings, records, account)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer contributor.Close()
	var cost client.Cost
	made := 0
	for ; made < c.contributions; made++ {
		spent, err := contributor.Contribute(ctx)
		if err != nil {
			return c.stopped(ctx, made, err)
		}
		cost = spent
	}
	m := contributor.Mechanism()
	models, err := client.WholeModels(m, made, c.total)
	if err != nil {
		return err
	}
	result := contributeResult{
		Server: c.server, Model: model.Name, Contributions: made, Mechanism: c.mechanism, Privacy: c.level,
		Epsilon: c.settings.Epsilon, Delta: c.settings.Delta, ModelEpsilon: number.Float(modelEpsilon(m)),
		Weights: m.Weights(), NoiseScale: m.NoiseScale(),
		AllModels: number.Float(models.Epsilon), TotalLevel: c.totalLevel,
		TotalEpsilon: c.total.Epsilon, TotalDelta: c.total.Delta, EpsilonSpent: number.Float(cost.Epsilon),
		PureEpsilon: number.Float(cost.Pure),
		EpsilonLeft: number.Float(max(0, c.total.Epsilon-cost.Epsilon)), Accountant: c.total.Accountant, Client: c.client, Ledger: c.ledger,
	}
	return term.Print(result, fmt.Sprintf("%.6g", cost.Epsilon), func(w io.Writer) {
		fmt.Fprintf(w, "contributed\t%s to %s\nprivacy\tε = %v, δ = %v of each, level %s, %s noise\n", number.Plural(made, "time"), model.Name, c.settings.Epsilon, c.settings.Delta, c.level, c.mechanism)
		if c.settings.Level == drawdiscard.FeatureLevel {
			fmt.Fprintf(w, "\teach weight by itself; all %d weights of a return: %s\n", m.Weights(), describeModelEpsilon(m))
			fmt.Fprintf(w, "\tall weights of all %s together: %s\n", number.Plural(made, "return"), describeTotal(models))
		}
		fmt.Fprintf(w, "spent\tε = %.4g of %v, δ = %v, for %s\nledger\t%s\n", cost.Epsilon, c.total.Epsilon, c.total.Delta, countedBy[drawdiscard.Level(c.totalLevel)], c.ledger)
	})
}

// modelEpsilon is the ε of a whole returned model. With Gaussian noise at the level of features it
// has none at the δ of a feature: NaN.
func modelEpsilon(m *drawdiscard.Mechanism) float64 {
	s := m.Settings()
	switch {
	case s.Level == drawdiscard.ModelLevel:
		return s.Epsilon
	case s.Distribution == drawdiscard.Laplace:
		return s.Epsilon * float64(m.Weights())
	}
	return math.NaN()
}

func describeModelEpsilon(m *drawdiscard.Mechanism) string {
	if e := modelEpsilon(m); !math.IsNaN(e) {
		return fmt.Sprintf("ε = %v", e)
	}
	return "not bounded at this δ"
}

// countedBy describes what a ledger counts.
var countedBy = map[drawdiscard.Level]string{drawdiscard.ModelLevel: "whole models", drawdiscard.FeatureLevel: "each weight by itself"}

func describeTotal(c client.Cost) string {
	if math.IsInf(c.Epsilon, 1) {
		return "no ε at δ = 0"
	}
	return fmt.Sprintf("ε = %.4g at δ = %v", c.Epsilon, c.Delta)
}

// check completes the flags and reports what is missing.
func (c *contributeFlags) check() (err error) {
	switch {
	case c.server == "" || c.data.Data == "":
		return exitcode.Usagef("give --server and --data, as in dptrain contribute --server http://127.0.0.1:8080 --data mine.csv --epsilon 1")
	case !(c.settings.Epsilon > 0):
		return exitcode.Usagef("give --epsilon, the ε of one contribution, above 0")
	case c.contributions < 1:
		return exitcode.Usagef("--contributions must be at least 1")
	}
	if c.settings.Distribution, c.settings.Level, err = localChoice(c.mechanism, c.level); err != nil {
		return err
	}
	if c.totalLevel = cmp.Or(c.totalLevel, c.level); c.totalLevel != c.level {
		if err := exitcode.CheckChoice("total-level", c.totalLevel, localLevels); err != nil {
			return err
		}
		if c.total.Epsilon == 0 {
			return exitcode.Usagef("--total-level %s with --privacy %s: give --total-epsilon, because the ε of a contribution is about something else", c.totalLevel, c.level)
		}
	}
	if err := exitcode.CheckChoice("accountant", c.total.Accountant, accountant.Names()); err != nil {
		return err
	}
	switch gaussian := c.settings.Distribution == drawdiscard.Gaussian; {
	case gaussian && !(c.settings.Delta > 0 && c.settings.Delta < 1):
		return exitcode.Usagef("gaussian noise needs --delta between 0 and 1, such as 1e-6")
	case !gaussian && c.settings.Delta != 0:
		return exitcode.Usagef("laplace noise has δ = 0: drop --delta, or use --total-delta for all contributions")
	}
	c.total.Epsilon = cmp.Or(c.total.Epsilon, c.settings.Epsilon)
	c.total.Delta = cmp.Or(c.total.Delta, c.settings.Delta)
	return c.findAccount()
}

// findAccount sets the ledger of the client.
func (c *contributeFlags) findAccount() (err error) {
	if c.ledger != "" {
		if c.client != client.DefaultName {
			return exitcode.Usagef("--client and --ledger name two accounts: give one of them")
		}
		c.client = ""
		return nil
	}
	if c.ledger, err = client.AccountPath(c.client); err != nil {
		return exitcode.Usagef("--client: %w; or give --ledger FILE", err)
	}
	return nil
}

// connect makes the client.
func (c *contributeFlags) connect() (*client.Client, error) {
	var o client.Options
	if c.tokens != "" {
		text, err := os.ReadFile(c.tokens)
		if err != nil {
			return nil, exitcode.Usagef("--token-file: %w", err)
		}
		tokens, err := server.ParseTokens(string(text))
		if err == nil && len(tokens) > 1 {
			err = fmt.Errorf("it has %d tokens; write one", len(tokens))
		}
		if err != nil {
			return nil, exitcode.Usagef("--token-file %s: %w", c.tokens, err)
		}
		o.Token = tokens[0]
	}
	if c.ca != "" {
		text, err := os.ReadFile(c.ca)
		if err != nil {
			return nil, exitcode.Usagef("--ca: %w", err)
		}
		o.Roots = x509.NewCertPool()
		if !o.Roots.AppendCertsFromPEM(text) {
			return nil, exitcode.Usagef("--ca %s: there is no PEM certificate", c.ca)
		}
	}
	remote, err := client.New(c.server, o)
	if err != nil {
		return nil, exitcode.Usagef("--server: %w", err)
	}
	return remote, nil
}

// compare reports where the user's settings differ from those that the server expects.
func (c *contributeFlags) compare(term *terminal.Terminal, m client.Model) error {
	expected := m.Settings
	if expected.Level != c.settings.Level {
		return exitcode.Usagef("model %q expects contributions at the level --privacy %s, and this one has %s: the server's filter would not fit; see contribute --help for what each protects", m.Name, expected.Level, c.settings.Level)
	}
	if expected.Distribution != c.settings.Distribution || expected.Epsilon != c.settings.Epsilon || expected.Delta != c.settings.Delta {
		term.Note("The server expects %s noise with ε = %v and δ = %v. With more noise its spam filter may refuse the return.", expected.Distribution, expected.Epsilon, expected.Delta)
	}
	return nil
}

// read reads the client's records.
func (c *contributeFlags) read(term *terminal.Terminal, m client.Model) (drawdiscard.Records, error) {
	options := data.Options{Dir: c.data.DataDir}
	var err error
	if options.Image, err = c.data.ImageShape(); err != nil {
		return drawdiscard.Records{}, err
	}
	if c.data.Test != "" || c.data.Standardize {
		return drawdiscard.Records{}, exitcode.Usagef("contribute has no test data and scales pixels to [0, 1]: drop --test and --standardize")
	}
	if options.Schema, err = c.data.ReadSchema(data.Schema{}); err != nil {
		return drawdiscard.Records{}, exitcode.AsUsage(err)
	}
	task, err := readData(term, c.data.Data, options)
	if err != nil {
		return drawdiscard.Records{}, exitcode.AsUsage(err)
	}
	records, err := drawdiscard.LoadRecords(task, m.Spec)
	if err != nil {
		return records, exitcode.Usagef("--data %s: %w", c.data.Data, err)
	}
	return records, nil
}

// stopped explains a contribution that failed after others were made.
func (c *contributeFlags) stopped(ctx context.Context, made int, err error) error {
	if ctx.Err() != nil {
		return &exitcode.Error{Code: exitcode.Interrupted, Err: fmt.Errorf("interrupted after %s; the ledger %s states all of them", number.Plural(made, "contribution"), c.ledger)}
	}
	if made > 0 {
		return fmt.Errorf("after %s: %w", number.Plural(made, "contribution"), err)
	}
	return err
}
