package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/served"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"
)

// serveFlags are the values of the flags of serve.
type serveFlags struct {
	model                     server.Description
	inputs, config, init      string
	test, schema, dataDir     string
	listen, dir               string
	tlsCert, tlsKey, tokens   string
	options                   server.Options
	mechanism, level          string
	drain, lifetime, deadline time.Duration
}

// localMechanisms and localLevels are the choices of a client's noise.
var (
	localMechanisms = []string{string(drawdiscard.Laplace), string(drawdiscard.Gaussian)}
	localLevels     = []string{string(drawdiscard.ModelLevel), string(drawdiscard.FeatureLevel)}
)

// defineLocalFlags adds the flags that describe a client's noise.
func defineLocalFlags(cmd *cobra.Command, mechanism, level *string, epsilon, delta *float64) {
	f := cmd.Flags()
	f.StringVar(mechanism, "mechanism", localMechanisms[0], "the noise of a contribution: "+flags.Alternatives(localMechanisms))
	f.StringVar(level, "privacy", localLevels[0], "what ε is about: model, the whole returned model, or feature, each returned weight by itself (all m weights cost m times as much)")
	f.Float64Var(epsilon, "epsilon", 0, "the ε of one contribution")
	f.Float64Var(delta, "delta", 0, "the δ of one contribution with gaussian noise")
	flags.Complete(cmd, "mechanism", localMechanisms)
	flags.Complete(cmd, "privacy", localLevels)
}

func newServe(term *terminal.Terminal) *cobra.Command {
	s := &serveFlags{}
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve models that clients train by draw and discard",
		Long:    helpOf("serve").long,
		Example: helpOf("serve").examples,
		Args:    noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&s.model.Model, "model", "", "linear, logistic, multinomial, poisson, or NAME[:ARGS] as dptrain models lists them")
	f.StringVar(&s.inputs, "inputs", "", "the number of features, or their shape, such as 1x28x28")
	f.IntVar(&s.model.Classes, "classes", 0, "the number of classes; 0: the model predicts a target")
	f.IntVar(&s.model.Vocabulary, "indices", 0, "the number of indices, for a model that reads indices into a vocabulary")
	f.StringVar(&s.model.Name, "name", "model", "the model's name in URLs")
	f.IntVar(&s.model.Instances, "instances", server.DefaultInstances, "the number k of instances")
	f.Float64Var(&s.model.FalseAlarms, "false-alarms", 1e-3, "the largest share of honest returns that the spam filter may reject; 0: no filter")
	defineLocalFlags(cmd, &s.mechanism, &s.level, &s.model.Settings.Epsilon, &s.model.Settings.Delta)
	f.Float64Var(&s.model.Settings.Clip, "clip", 1, "each coordinate of a client's average gradient is clipped to this absolute value")
	f.Float64Var(&s.model.Settings.LearningRate, "lr", 0.1, "the learning rate of a client's step")
	f.StringVar(&s.model.Schedule, "schedule", "", "how the learning rate changes with the number of updates: linear:RATE@UPDATES, step:FACTOR@UPDATES,…, warmup:UPDATES[+SHAPE] (default: it is constant)")
	f.StringVar(&s.init, "init", "", "public weights that the instances start from: a run's directory, a safetensors file, or a model of another server (default: the model's own)")
	f.StringVar(&s.test, "test", "", "public test data, a file or the name of a data set: /metrics and the page at / show the averaged model's accuracy on them")
	f.StringVar(&s.schema, "schema", "", "with --test: YAML file with the columns, as clients use it")
	f.StringVar(&s.dataDir, "data-dir", "", "with --test: the folder with the files of a named data set")
	f.StringVar(&s.config, "config", "", "YAML file with a list of models, in place of the flags that describe one")
	f.StringVar(&s.listen, "listen", "127.0.0.1:8080", "HOST:PORT; port 0 is any free port")
	f.StringVar(&s.dir, "dir", "", "folder of the models' journals and snapshots; what it contains is continued")
	f.StringVar(&s.tlsCert, "tls-cert", "", "PEM file with the certificate")
	f.StringVar(&s.tlsKey, "tls-key", "", "PEM file with the certificate's key")
	f.StringVar(&s.tokens, "token-file", "", "file with bearer tokens, one a line, and comments after #; every request then needs one")
	f.IntVar(&s.options.MaxRate, "max-rate", server.DefaultMaxRate, "requests a second; no limit applies to /healthz")
	f.IntVar(&s.options.MaxInFlight, "max-in-flight", server.DefaultMaxInFlight, "requests at once")
	f.IntVar(&s.options.MaxConnections, "max-connections", server.DefaultMaxConnections, "connections at once")
	f.Float64Var(&s.options.MaxShare, "max-share", server.DefaultMaxShare, "the largest share of --max-rate, --max-in-flight and --max-connections for one address, and for one token; 1 behind a proxy, which is one address")
	f.StringSliceVar(&s.options.Hosts, "host", nil, "other values of the header Host to accept where only this machine reaches the server, for a proxy that keeps the header (repeatable)")
	f.DurationVar(&s.deadline, "timeout", server.DefaultTimeout, "time for a request to arrive")
	f.DurationVar(&s.lifetime, "ticket-lifetime", server.DefaultTicketLifetime, "time between a draw and its return")
	f.DurationVar(&s.drain, "drain", 10*time.Second, "time for requests in flight to finish after SIGTERM")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return serve(term, s, cmd.Flags().Changed) }
	cmd.AddCommand(newServeCheck(term))
	return cmd
}

// serve runs a server until a signal ends it.
func serve(term *terminal.Terminal, s *serveFlags, given func(string) bool) error {
	descriptions, err := s.descriptions(given)
	if err != nil {
		return err
	}
	if (s.tlsCert == "") != (s.tlsKey == "") {
		return exitcode.Usagef("--tls-cert and --tls-key belong together: give both or neither")
	}
	if s.options.MaxRate < 1 || s.options.MaxInFlight < 1 || s.options.MaxConnections < 1 ||
		s.deadline <= 0 || s.lifetime <= 0 || s.drain <= 0 {
		return exitcode.Usagef("--max-rate, --max-in-flight, --max-connections, --timeout, --ticket-lifetime and --drain must be above 0")
	}
	if !(s.options.MaxShare > 0 && s.options.MaxShare <= 1) {
		return exitcode.Usagef("--max-share %v: give a share above 0 and at most 1", s.options.MaxShare)
	}
	s.options.Folder, s.options.Timeout, s.options.TicketLifetime = s.dir, s.deadline, s.lifetime
	if s.tokens != "" {
		text, err := os.ReadFile(s.tokens)
		if err == nil {
			s.options.Tokens, err = server.ParseTokens(string(text))
		}
		if err != nil {
			return exitcode.Usagef("--token-file %s: %w", s.tokens, err)
		}
	}
	listener, err := server.Listen(s.listen, s.tlsCert != "", s.tokens != "")
	if err != nil {
		return exitcode.Usagef("--listen: %w", err)
	}
	defer listener.Close()
	running, err := terminal.Await(term, "Opening the models", func() (*server.Server, error) { return server.New(s.options, descriptions) })
	if err != nil {
		return exitcode.AsUsage(err)
	}
	for _, note := range running.Notes() {
		term.Note("%s", note)
	}
	if s.dir == "" {
		term.Note("The models are in memory only: give --dir to keep them.")
	}
	debug.SetGCPercent(400) // the live heap is the models; requests leave a few KB of garbage each
	ctx, stop := untilInterrupted()
	defer stop()
	url := "http://" + listener.Addr().String()
	if s.tlsCert != "" {
		url = "https" + strings.TrimPrefix(url, "http")
	}
	served := make(chan error, 1)
	go func() { served <- running.Serve(listener, s.tlsCert, s.tlsKey) }()
	names := make([]string, len(descriptions))
	for i, d := range descriptions {
		names[i] = d.Name
	}
	printed := term.Print(map[string]any{"listening": url, "models": names}, url, func(w io.Writer) { fmt.Fprintf(w, "listening on %s\n", url) })
	select {
	case err = <-served:
		if s.tlsCert != "" {
			err = exitcode.AsUsage(fmt.Errorf("--tls-cert, --tls-key: %w", err))
		}
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), s.drain)
	defer cancel()
	return errors.Join(err, printed, running.Shutdown(drain))
}

// modelFlags describe one model, which --config replaces.
var modelFlags = []string{"model", "inputs", "classes", "indices", "name", "instances", "false-alarms", "mechanism", "privacy", "epsilon", "delta", "clip", "lr", "schedule", "init", "test", "schema", "data-dir"}

// descriptions returns the models of the flags or of --config.
func (s *serveFlags) descriptions(given func(string) bool) ([]server.Description, error) {
	if s.config != "" {
		for _, name := range modelFlags {
			if given(name) {
				return nil, exitcode.Usagef("--%s describes one model, and --config lists them: write it there", name)
			}
		}
		return readModels(s.config)
	}
	if s.model.Model == "" || s.inputs == "" {
		return nil, exitcode.Usagef("give --model and --inputs, as in dptrain serve --model logistic --inputs 20 --classes 2 --epsilon 1, or --config")
	}
	if !given("epsilon") {
		return nil, exitcode.Usagef("give --epsilon, the ε of one contribution that the server expects, such as 1")
	}
	var err error
	if s.model.Inputs, err = drawdiscard.ParseShape(s.inputs); err != nil {
		return nil, exitcode.Usagef("--inputs: %w", err)
	}
	if s.model.Settings.Distribution, s.model.Settings.Level, err = localChoice(s.mechanism, s.level); err != nil {
		return nil, err
	}
	if err := loadInitial(&s.model, s.init, "--init"); err != nil {
		return nil, err
	}
	if err := loadTest(&s.model, s.test, s.schema, s.dataDir, "--test"); err != nil {
		return nil, err
	}
	return []server.Description{s.model}, nil
}

// loadInitial reads the weights that a model starts from, if there is a path.
func loadInitial(d *server.Description, path, setting string) (err error) {
	if path == "" {
		return nil
	}
	if d.Initial, err = served.InitialWeights(d.Spec, path); err != nil {
		return exitcode.Usagef("%s %s: %w", setting, path, err)
	}
	return nil
}

// loadTest reads the public test data of a model, if there is a name.
func loadTest(d *server.Description, name, schema, dir, setting string) error {
	if name == "" {
		if schema != "" || dir != "" {
			return exitcode.Usagef("%s is missing: name the public test data that the schema or the folder belongs to, or drop these", setting)
		}
		return nil
	}
	options := data.Options{Dir: dir, OnBadRow: data.FailOnBadRow}
	if len(d.Inputs) == 3 {
		options.Image = data.ImageShapeOf(d.Inputs)
	}
	var err error
	if schema != "" {
		if options.Schema, err = data.ReadSchema(schema); err != nil {
			return exitcode.Usagef("%s %s: schema: %w", setting, name, err)
		}
	}
	task, err := data.Open(name, options)
	if err == nil {
		if task.Test != nil {
			task.Train = task.Test
		}
		d.Test, err = drawdiscard.LoadRecords(task, d.Spec)
	}
	if err != nil {
		return exitcode.Usagef("%s %s: %w", setting, name, err)
	}
	return nil
}

// localChoice checks the values of --mechanism and --privacy.
func localChoice(mechanism, level string) (drawdiscard.Distribution, drawdiscard.Level, error) {
	err := exitcode.CheckChoice("mechanism", mechanism, localMechanisms)
	if err == nil {
		err = exitcode.CheckChoice("privacy", level, localLevels)
	}
	return drawdiscard.Distribution(mechanism), drawdiscard.Level(level), err
}

// configuredModel is an entry of the configuration file.
type configuredModel struct {
	server.Description `yaml:",inline"`
	Init               string `yaml:"init"` // this and the next ones as the flags
	Test               string `yaml:"test"`
	Schema             string `yaml:"schema"`
	DataDir            string `yaml:"data-dir"`
}

// readModels reads the list of models in a configuration file.
func readModels(path string) ([]server.Description, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, exitcode.Usagef("--config: %w", err)
	}
	var c struct {
		Models []yaml.Node `yaml:"models"`
	}
	in := yaml.NewDecoder(bytes.NewReader(text))
	in.KnownFields(true)
	if err := in.Decode(&c); err != nil {
		return nil, exitcode.Usagef("--config %s: %w", path, err)
	}
	all := make([]server.Description, len(c.Models))
	for i, node := range c.Models {
		d := configuredModel{Description: server.Description{
			Instances: server.DefaultInstances, FalseAlarms: 1e-3, Settings: drawdiscard.Settings{
				Distribution: drawdiscard.Laplace, Level: drawdiscard.ModelLevel, Clip: 1, LearningRate: 0.1,
			}}}
		one, err := yaml.Marshal(&node)
		if err != nil {
			return nil, exitcode.Usagef("--config %s: %w", path, err)
		}
		in := yaml.NewDecoder(bytes.NewReader(one))
		in.KnownFields(true)
		if err := in.Decode(&d); err != nil {
			return nil, exitcode.Usagef("--config %s, model %d: %w", path, i+1, err)
		}
		at := fmt.Sprintf("--config %s, model %d: ", path, i+1)
		if err := loadInitial(&d.Description, d.Init, at+"init"); err != nil {
			return nil, err
		}
		if err := loadTest(&d.Description, d.Test, d.Schema, d.DataDir, at+"test"); err != nil {
			return nil, err
		}
		all[i] = d.Description
	}
	return all, nil
}
