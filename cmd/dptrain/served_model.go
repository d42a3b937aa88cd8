package main

import (
	"errors"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/served"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
	"github.com/dptrain/dptrain/internal/modelfile"
)

// schemaUsage is the help of --schema of commands whose model may come from a server.
const schemaUsage = "model of dptrain serve: YAML file with the columns, which the server does not know; it has the key inputs, the order of the columns in the contributions"

// readServed reads the averaged model of a server; nil if the path is not one of a server.
func readServed(path string) (*server.Averaged, error) {
	averaged, err := server.ReadAveraged(path)
	if errors.Is(err, server.ErrNotServed) {
		return nil, nil
	}
	return averaged, exitcode.AsUsage(err)
}

// readModel reads the model of a run, or the averaged model of a server for the columns of a file.
func readModel(path, schemaFile string) (*modelfile.Model, error) {
	averaged, err := readServed(path)
	switch {
	case err != nil:
		return nil, err
	case averaged == nil && schemaFile != "":
		return nil, exitcode.Usagef("--schema %s is for a model of dptrain serve, and %s is not one: drop it, a run states its columns", schemaFile, path)
	case averaged == nil:
		model, err := modelfile.Read(path)
		return model, exitcode.AsUsage(err)
	}
	var schema data.Schema
	if schemaFile != "" {
		if schema, err = data.ReadSchema(schemaFile); err != nil {
			return nil, exitcode.Usagef("--schema: %w", err)
		}
		if columns := len(schema.Bounds) + len(schema.Vocabulary) + len(schema.Dates); columns > 1 && len(schema.Inputs) == 0 {
			return nil, exitcode.Usagef("--schema %s has no inputs: write inputs: [COLUMN, …], the columns in the order of the contributions, which is that of the clients' files", schemaFile)
		}
	}
	model, err := served.Model(averaged, schema)
	if err != nil {
		return nil, exitcode.Usagef("%s: %w", path, err)
	}
	return model, nil
}
