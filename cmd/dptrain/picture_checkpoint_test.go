package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// withPictureCheckpoint changes to a folder with the checkpoint ck and dark and light pictures of 12×8 pixels.
func withPictureCheckpoint(t *testing.T, name string) {
	t.Helper()
	changeToCheckpoint(t, name)
	writePictures(t, image.Pt(12, 8))
}

// writePictures writes 36 pictures for training and 12 for tests to the folder pictures.
func writePictures(t *testing.T, size image.Point) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 48 {
		class := []string{"dark", "light"}[i%2]
		folder := filepath.Join("pictures", []string{"train", "train", "train", "test"}[i/2%4], class)
		picture := image.NewNRGBA(image.Rectangle{Max: size})
		for y := range size.Y {
			for x := range size.X {
				c := func() uint8 { return uint8(128*(i%2) + r.IntN(128)) }
				picture.SetNRGBA(x, y, color.NRGBA{c(), c(), c(), 255})
			}
		}
		writePicture(t, filepath.Join(folder, fmt.Sprintf("%02d.png", i)), picture)
	}
}

// writePicture writes a PNG file, and makes its folder.
func writePicture(t *testing.T, name string, picture image.Image) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(png.Encode(file, picture), file.Close()); err != nil {
		t.Fatal(err)
	}
}

const onPictures = "train --data pictures --lot 12 --seed 3 --noise 1 "

// A checkpoint for pictures is trained as its options say.
func TestTrain_PictureCheckpoint(t *testing.T) {
	withPictureCheckpoint(t, "vit")
	for options, want := range map[string]string{
		"":            "40 trained parameters moved, 0 frozen parameters",
		",train=head": "2 trained parameters moved, 38 frozen parameters",
		",train=bias": "20 trained parameters moved, 20 frozen parameters",
		",lora=2":     "10 trained parameters moved, 38 frozen parameters",
	} {
		trainedAs(t, onPictures, options, want)
		if scored := runJSON(t, "eval run"); scored["examples"] != 12.0 {
			t.Errorf("%s: eval prints %v", options, scored)
		}
	}
	for line, want := range map[string]string{
		onPictures + "--steps 2 --out o --model hf:ck --crop 8x8":         "the checkpoint reads pictures [channels, height, width] of [3 8 12]; resize by bilinear interpolation before training",
		onPictures + "--steps 2 --out o --model hf:ck --standardize":      "exclude each other",
		"train --data x.csv --text t --label l --classes 2 --model hf:ck": "reads pictures, and --text t is a column of texts",
		onPictures + "--steps 2 --out o --model hf:ck,lora=2,targets=fc":  "choose from query, key, value",
	} {
		checkUsageError(t, line, want)
	}
}

// Pictures of another size become what the checkpoint's preprocessor makes of them, in training and for
// predictions: pictures of one color keep it at every size.
func TestTrain_ResizesForCheckpoint(t *testing.T) {
	withPictureCheckpoint(t, "vit")
	for name, size := range map[string]image.Point{"large": image.Pt(31, 17), "prepared": image.Pt(12, 8)} {
		for i, class := range []string{"dark", "light"} {
			for k := range 8 {
				picture := image.NewNRGBA(image.Rectangle{Max: size})
				draw.Draw(picture, picture.Rect, image.NewUniform(color.NRGBA{uint8(100*i + 9*k), uint8(50 + 40*i), uint8(200 - 11*k), 255}), image.Point{}, draw.Src)
				for _, part := range []string{"train", "test"} {
					writePicture(t, filepath.Join(name, part, class, fmt.Sprintf("%d.png", k)), picture)
				}
			}
		}
	}
	for _, name := range []string{"large", "prepared"} {
		if _, stderr, code := dptrain("train --data " + name + " --lot 4 --seed 3 --noise 1 --steps 3 --model hf:ck,train=head --out run-" + name); code != exitcode.Done {
			t.Fatal(stderr)
		}
		runJSON(t, "predict run-large --data "+name+"/test --out "+name+".jsonl --format jsonl")
	}
	for _, pair := range [][2]string{{"run-large/model.safetensors", "run-prepared/model.safetensors"}, {"large.jsonl", "prepared.jsonl"}} {
		if a, b := readFile(t, pair[0]), readFile(t, pair[1]); len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%s and %s differ", pair[0], pair[1])
		}
	}
	if large, prepared := runJSON(t, "eval run-large"), runJSON(t, "eval run-large --data prepared"); large["loss"] != prepared["loss"] || large["examples"] != 16.0 {
		t.Errorf("%v, and of prepared pictures %v", large, prepared)
	}
	if manifest := string(readFile(t, "run-large/model.json")); !strings.Contains(manifest, `"resampling"`) {
		t.Errorf("model.json does not state how pictures are resized:\n%s", manifest)
	}
}

// Transformers and peft compute with the exported folders what the run's network computes.
func TestExport_PictureCheckpoint(t *testing.T) {
	python := cmp.Or(os.Getenv("DPTRAIN_PYTHON"), "python3")
	hasPython := exec.Command(python, "-c", "import torch, transformers, peft, PIL").Run() == nil
	for _, c := range []struct{ name, flags string }{{"vit", ""}, {"deit-teacher", ""}, {"vit", "--crop 8x12 "}} {
		t.Run(c.name+c.flags, func(t *testing.T) { compareExportedPictures(t, c.name, c.flags, python, hasPython) })
	}
}

func compareExportedPictures(t *testing.T, name, flags, python string, hasPython bool) {
	changeToCheckpoint(t, name)
	size, adapters := image.Pt(12, 8), ",lora=2,targets=all-linear"
	if flags != "" {
		size, adapters = image.Pt(17, 11), ",lora=2"
	}
	writePictures(t, size)
	if _, stderr, code := dptrain(onPictures + flags + "--steps 2 --lr 0.1 --out run --model hf:ck" + adapters); code != exitcode.Done {
		t.Fatal(stderr)
	}
	runJSON(t, "export run --format hf --out hf")
	runJSON(t, "export run --format peft --out peft")
	runJSON(t, "predict run --data pictures/test --out predictions.jsonl --format jsonl")
	if text := string(readFile(t, "hf/preprocessor_config.json")); strings.Contains(text, `"do_resize": true`) != (flags == "") {
		t.Errorf("%s: the preprocessor is\n%s", flags, text)
	}
	if !hasPython {
		t.Skip("this Python does not have torch, transformers, peft and pillow")
	}
	out, err := exec.Command(python, "-c", loadPictureFolders).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var light map[string][]float64 // probabilities by transformers and peft, by the name of the file
	if err := json.Unmarshal(out[strings.LastIndex(string(out), "\n{")+1:], &light); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(readFile(t, "predictions.jsonl"))), "\n")
	if len(lines) != 12 || len(light) != 12 {
		t.Fatalf("%d predictions, %d by Python", len(lines), len(light))
	}
	i := 0
	for _, class := range []string{"dark", "light"} {
		files, err := filepath.Glob("pictures/test/" + class + "/*.png")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			var row struct {
				Class       string
				Probability float64
			}
			if err := json.Unmarshal([]byte(lines[i]), &row); err != nil {
				t.Fatal(err)
			}
			own := row.Probability
			if row.Class == "dark" {
				own = 1 - own
			}
			for k, p := range light[filepath.Base(file)] {
				if math.Abs(own-p) > 1e-5 {
					t.Fatalf("%s, %s: %v, and %v in Python (%d)", name, file, row, p, k)
				}
			}
			i++
		}
	}
}

// An ONNX model answers the bytes of pictures as predict does. It has no adapters: they are merged into their layers.
func TestExport_ONNXReadsPictures(t *testing.T) {
	check, err := filepath.Abs("testdata/onnx_pictures.py")
	if err != nil {
		t.Fatal(err)
	}
	python := cmp.Or(os.Getenv("DPTRAIN_PYTHON"), "python3")
	hasPython := exec.Command(python, "-c", "import numpy, onnx, onnxruntime").Run() == nil
	for _, name := range []string{"vit", "deit", "deit-teacher"} {
		t.Run(name, func(t *testing.T) {
			withPictureCheckpoint(t, name)
			writePixels(t, "pictures/test", "pixels")
			for _, options := range []string{"", ",train=head", ",train=bias", ",lora=2,targets=query|key|value"} {
				exportPicturesToONNX(t, options)
				if !hasPython {
					continue
				}
				if out, err := exec.Command(python, check, "model.onnx", "pixels", "answers.csv").CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", options, err, out)
				}
			}
		})
	}
	if !hasPython {
		t.Skipf("%s has no numpy, onnx and onnxruntime: set DPTRAIN_PYTHON to one that does", python)
	}
}

// exportPicturesToONNX trains the checkpoint ck, and writes model.onnx and the answers of predict.
func exportPicturesToONNX(t *testing.T, options string) {
	t.Helper()
	os.RemoveAll("run")
	if _, stderr, code := dptrain(onPictures + "--steps 2 --lr 0.1 --out run --model hf:ck" + options); code != exitcode.Done {
		t.Fatal(stderr)
	}
	got := runJSON(t, "export run --overwrite --out model.onnx")
	if names := fmt.Sprint(got["inputs"], got["outputs"]); names != "[features] [class probabilities output]" {
		t.Errorf("%s: inputs and outputs %s", options, names)
	}
	content := string(readFile(t, "model.onnx"))
	if strings.Contains(content, ".lora.") || !strings.Contains(content, `{"filter":"bi`) {
		t.Errorf("%s: the model has adapters, or does not state how pictures are resized", options)
	}
	runJSON(t, "predict run --data pictures/test --out answers.csv --scores")
}

// writePixels writes the bytes of the pictures in a folder as ONNX models read them, one channel after the other.
func writePixels(t *testing.T, folder, file string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*", "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	var pixels []byte
	for _, name := range names {
		picture, err := png.Decode(bytes.NewReader(readFile(t, name)))
		if err != nil {
			t.Fatal(err)
		}
		size := picture.Bounds()
		for channel := range 3 {
			for y := range size.Dy() {
				for x := range size.Dx() {
					c := color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)
					pixels = append(pixels, []byte{c.R, c.G, c.B}[channel])
				}
			}
		}
	}
	if err := os.WriteFile(file, pixels, 0o644); err != nil {
		t.Fatal(err)
	}
}

// loadPictureFolders prints the probabilities of light with both folders. A warning is an error.
const loadPictureFolders = `
import glob, json, os, warnings
import torch, transformers, peft
from PIL import Image
warnings.simplefilter("error", UserWarning)
config = json.load(open("hf/config.json"))
Auto = getattr(transformers, config["architectures"][0])
files = sorted(glob.glob("pictures/test/*/*.png"))
prepare = transformers.AutoImageProcessor.from_pretrained("hf")
x = prepare([Image.open(f).convert("RGB") for f in files], return_tensors="pt")["pixel_values"]
model, info = Auto.from_pretrained("hf", output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
assert model.config.id2label == {0: "dark", 1: "light"}, model.config.id2label
adapted = peft.PeftModel.from_pretrained(Auto.from_pretrained("ck", num_labels=2, ignore_mismatched_sizes=True), "peft")
with torch.no_grad():
    both = [m.eval()(pixel_values=x).logits.softmax(-1)[:, 1].tolist() for m in (model, adapted)]
print()
print(json.dumps({os.path.basename(f): [p[i] for p in both] for i, f in enumerate(files)}))
`
