package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// runPiped runs the program with an input.
func runPiped(input []byte, line string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = run(strings.Fields(line), bytes.NewReader(input), &out, &err)
	return out.String(), err.String(), code
}

// A table that is piped in trains the same weights as the file, predicts the same answers, and is not
// copied to the run's directory.
func TestStandardInput_IsTheTable(t *testing.T) {
	t.Chdir(t.TempDir())
	var rows [][]string
	for i := range 300 {
		rows = append(rows, []string{fmt.Sprint(i % 100), []string{"Female", "Male", "Sekretwort"}[i%3], fmt.Sprint(i % 2)})
	}
	const settings = " --label label --classes 2 --bounds age=0:100 --vocabulary sex=Female|Male --model logistic --lot 50 --epochs 1 --seed 1 --quiet"
	for _, format := range []string{"feather", "parquet"} {
		content := columnarBytes(t, format, []string{"age", "sex", "label"}, rows)
		name := "table." + format
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, piped := "file-"+format, "piped-"+format
		if _, stderr, code := dptrain("train --data " + name + settings + " --out " + file); code != 0 {
			t.Fatal(stderr)
		}
		if _, stderr, code := runPiped(content, "train --data -"+settings+" --out "+piped); code != 0 {
			t.Fatal(stderr)
		}
		if !bytes.Equal(readFile(t, file+"/model.safetensors"), readFile(t, piped+"/model.safetensors")) {
			t.Error(format, ": the weights differ")
		}
		entries, err := os.ReadDir(piped)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.IsDir() && bytes.Contains(readFile(t, piped+"/"+e.Name()), []byte("Sekretwort")) {
				t.Errorf("%s contains a private word", e.Name())
			}
		}
		want, stderr, code := dptrain("predict " + file + " --scores --data " + name)
		if code != 0 {
			t.Fatal(stderr)
		}
		got, stderr, code := runPiped(content, "predict "+piped+" --scores --data -")
		if code != 0 || got != want {
			t.Errorf("%s: predict prints %.60q, not %.60q: %s", format, got, want, stderr)
		}
	}
}

func TestStandardInput_RefusesOtherContent(t *testing.T) {
	t.Chdir(t.TempDir())
	const line = "train --data - --label label --classes 2 --bounds age=0:100 --model logistic --out run"
	for _, c := range []struct{ input, want string }{
		{"", "neither an Arrow file nor a Parquet file"},
		{"age,label\n1,0\n", "neither an Arrow file nor a Parquet file"},
		{"ARROW1\x00\x00 damaged", "standard input: the file is damaged"},
	} {
		_, stderr, code := runPiped([]byte(c.input), line)
		if code != 2 || !strings.Contains(stderr, c.want) || strings.Count(strings.TrimSpace(stderr), "\n") > 0 {
			t.Errorf("%.10q: exit %d: %s", c.input, code, stderr)
		}
	}
}
