package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An ONNX model answers the rows of a table as predict does: numbers outside the bounds, unknown
// words, and columns with the names of the model's outputs and tensors. DPTRAIN_PYTHON names a
// Python with onnx and onnxruntime.
func TestExport_ONNXReadsRows(t *testing.T) {
	check, err := filepath.Abs("testdata/onnx_rows.py")
	if err != nil {
		t.Fatal(err)
	}
	inWorkshop(t)
	var odd strings.Builder
	odd.WriteString("Gemm,class,fc1.weight,label\n")
	for i := range 300 {
		fmt.Fprintf(&odd, "%v,%s,%d,%d\n", float64(i)*1e6-5e7, []string{"a b", "é", "x", "", "class"}[i%5], i%7-3, i%3)
	}
	var holes strings.Builder
	holes.WriteString("day,income,debt,age,n,job,label\n")
	for i := range 300 {
		cells := []string{time.Date(1896+i/2, 1, 1+i*137%365, 0, 0, 0, 0, time.UTC).Format(time.DateOnly),
			fmt.Sprint(1 << (i % 40)), fmt.Sprint(1 - i*i), fmt.Sprint(i % 70), fmt.Sprint(i % 11), []string{"a", "b", "c"}[i%3], fmt.Sprint(i % 2)}
		if i%4 == 0 {
			cells[i/4%6] = []string{"", "NA"}[i/4%2]
		}
		holes.WriteString(strings.Join(cells, ",") + "\n")
	}
	for name, text := range map[string]string{
		"odd.csv":     odd.String(),
		"strange.csv": "age,colour\n-1e300,red\n1e300,blue\n0.1,green\n37.123456789,\n41,RED\n",
		"holes.csv":   holes.String(),
		"holes.yaml": "label: label\nclasses: 2\ndates: {day: [1900-01-01, 2026-12-31]}\nbounds: {income: [10, 1e6], debt: [-1e4, 1e3], age: [18, 60], n: [-3, 9]}\n" +
			"vocabulary: {job: [a, b]}\nscale: {income: log, debt: asinh}\nmissing: {income: indicator, n: zero, day: indicator}\n",
		"odd.yaml": "label: label\nclasses: 3\nbounds: {Gemm: [-1e7, 2e8], fc1.weight: [-3, 2]}\nvocabulary: {class: [a b, é, x]}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const short = " --accountant rdp --delta 1e-4 --noise 0.5 --lot 100 --seed 1 --lr 1"
	runJSON(t, baseline+" --steps 20 --seed 1 --out table")
	runJSON(t, "train --data odd.csv --schema odd.yaml --model mlp:5 --steps 10 --out odd"+short)
	runJSON(t, "train --data holes.csv --schema holes.yaml --model mlp:5 --steps 10 --out holes"+short)
	hours(t, "hours.csv", 400)
	hours(t, "more.csv", 50)
	runJSON(t, "train --model logistic --steps 10 --out target"+predicted+short)

	python := os.Getenv("DPTRAIN_PYTHON")
	if python == "" {
		python = "python3"
	}
	runtime := exec.Command(python, "-c", "import numpy, onnx, onnxruntime").Run() == nil
	for _, c := range []struct{ run, rows, scores, inputs, outputs string }{
		{"table", "test.csv", " --scores", "[age colour]", "[class probabilities output]"},
		{"table", "strange.csv", " --scores", "[age colour]", "[class probabilities output]"},
		{"odd", "odd.csv", " --scores", "[Gemm class fc1.weight]", "[class_1 probabilities output]"},
		{"holes", "holes.csv", " --scores", "[day income debt age n job]", "[class probabilities output]"},
		{"target", "more.csv", "", "[age colour]", "[output]"},
	} {
		got := runJSON(t, "export "+c.run+" --overwrite --out model.onnx")
		if fmt.Sprint(got["inputs"]) != c.inputs || fmt.Sprint(got["outputs"]) != c.outputs {
			t.Errorf("%s: inputs %v, outputs %v, want %s, %s", c.run, got["inputs"], got["outputs"], c.inputs, c.outputs)
		}
		runJSON(t, "predict "+c.run+" --data "+c.rows+" --out answers.csv"+c.scores)
		if !runtime {
			continue
		}
		if out, err := exec.Command(python, check, "model.onnx", c.rows, "answers.csv").CombinedOutput(); err != nil {
			t.Errorf("%s on %s: %v\n%s", c.run, c.rows, err, out)
		}
	}
	if !runtime {
		t.Skipf("%s has no numpy, onnx and onnxruntime: set DPTRAIN_PYTHON to one that does", python)
	}
}
