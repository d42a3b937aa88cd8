package models

import "github.com/dptrain/dptrain/internal/nearest"

// Preset has the settings of a published training run as flags of `dptrain train`, the published
// result, and the result of these flags.
type Preset struct {
	Name      string
	Summary   string
	Source    string // paper or program that published the run
	Flags     []Flag
	Records   int // in the training part of the data set
	Published Result
	Reached   Result
	ByPLD     float64 // upper bound of ε of the flags by the pld accountant
}

// Result is the accuracy on the test data of a run, and its cost at δ = 1e-5.
type Result struct {
	Accuracy   string // of one run, or of several
	Epsilon    float64
	Accountant string
	Remark     string // what differs from the other result; "" if nothing is known
}

// Flag is the name of a flag, without dashes, and its value.
type Flag struct{ Name, Value string }

// FindPreset returns the preset with the given name.
func FindPreset(name string) (Preset, error) {
	known := make([]string, len(presets))
	for i, p := range presets {
		if p.Name == name {
			return p.clone(), nil
		}
		known[i] = p.Name
	}
	return Preset{}, unknown("preset", name, nearest.LikelyTypo(name, known), known)
}

// Presets lists all presets.
func Presets() []Preset {
	list := make([]Preset, len(presets))
	for i, p := range presets {
		list[i] = p.clone()
	}
	return list
}

func (p Preset) clone() Preset {
	p.Flags = append([]Flag(nil), p.Flags...)
	return p
}

const (
	tfPrivacy  = "TensorFlow Privacy, tutorials/mnist_dpsgd_tutorial.py, and the table in tutorials/README.md of 2019"
	tramer     = "Tramèr and Boneh, Differentially Private Learning Needs Better Features (or Much More Data), ICLR 2021, and the README of its code"
	abadi      = "Abadi et al., Deep Learning with Differential Privacy, CCS 2016, section 5.2 and figure 3"
	abadiCIFAR = "Abadi et al., Deep Learning with Differential Privacy, CCS 2016, section 5.3 and figure 6"
)

var presets = []Preset{
	tutorial("tfp-mnist-low", "0.25", "1.3", "1.5", "15", Result{"95.0%", 1.19, "moments", ""}, Result{"94.9% to 95.1%", 0.9545, "rdp", ""}, 0.8647),
	tutorial("tfp-mnist", "0.15", "1.1", "1.0", "60", Result{"96.6%", 3.01, "moments", ""}, Result{"96.1% to 96.7%", 2.597, "rdp", ""}, 2.382),
	tutorial("tfp-mnist-high", "0.25", "0.7", "1.5", "45", Result{"97.0%", 7.10, "moments", "orders that are not integers"}, Result{"97.0%", 6.318, "rdp", ""}, 5.641),
	bounded("tramer-mnist", "the small convolutional network on MNIST, with tanh activations", mnistRecords,
		Result{"98.1%", 3, "moments", "rounded"}, Result{"97.8% to 98.2%", 2.582, "rdp", ""}, 2.364,
		[]Flag{{"data", "mnist"}, {"model", "mnist-cnn:act=tanh"}, {"lot", "512"}, {"epochs", "40"}, {"noise", "1.23"}, {"lr", "0.5"}}),
	bounded("tramer-cifar10", "six tanh convolutions on CIFAR-10", cifarRecords,
		Result{"59.2%", 3, "moments", "rounded"}, Result{"57.0%", 2.610, "rdp", "on images that were encoded again as JPEG"}, 2.388,
		[]Flag{{"data", "cifar10"}, {"standardize", "true"}, {"model", "cifar-tanh"}, {"lot", "1024"}, {"epochs", "30"}, {"noise", "1.54"}, {"lr", "1"}}),
	moments("abadi-mnist-low", "5.656854", "16", "0.5", "22", Result{"90%", 0.5, "moments", ""}, Result{"90.9% to 91.1%", 0.5, "moments", ""}, 0.3516),
	moments("abadi-mnist", "2.828427", "7", "2", "110", Result{"95%", 2, "moments", ""}, Result{"94.4% to 94.7%", 2, "moments", ""}, 1.553),
	moments("abadi-mnist-high", "1.414214", "4", "8", "320", Result{"97%", 8, "moments", ""}, Result{"96.6% to 96.7%", 8, "moments", ""}, 6.723),
	{"abadi-cifar10", "a head of 384 hidden units on public convolutions, which are its starting weights, on CIFAR-10", abadiCIFAR, []Flag{
		{"data", "cifar10"}, {"standardize", "true"}, {"crop", "24x24"}, {"model", "cifar-abadi"}, {"freeze", "conv1,conv2"}, {"fresh", "fc1,fc2"},
		{"lot", "2000"}, {"epochs", "200"}, {"stop-at-epsilon", "2"},
		{"clip", "3"}, {"noise", "6"}, {"delta", "1e-5"}, {"accountant", "moments"},
		{"optimizer", "sgd"}, {"lr", "0.1"},
	}, cifarRecords, Result{"67%", 2, "moments", "with convolutions that were trained on CIFAR-100"},
		Result{"50.1%", 2, "moments", "without crop, with convolutions that were trained on the data set shapes, because CIFAR-100 was not available, on images that were encoded again as JPEG: the published accuracy is not reached"}, 1.553},
}

// Records in the training parts of data sets.
const (
	mnistRecords = 60000
	cifarRecords = 50000
)

func tutorial(name, lr, noise, clip, epochs string, published, reached Result, byPLD float64) Preset {
	return Preset{name, "the small convolutional network on MNIST", tfPrivacy, []Flag{
		{"data", "mnist"}, {"model", "mnist-cnn"}, {"lot", "256"}, {"epochs", epochs},
		{"clip", clip}, {"noise", noise}, {"delta", "1e-5"}, {"accountant", "rdp"},
		{"optimizer", "sgd"}, {"lr", lr},
	}, mnistRecords, published, reached, byPLD}
}

func bounded(name, about string, records int, published, reached Result, byPLD float64, flags []Flag) Preset {
	return Preset{name, about, tramer, append(flags,
		Flag{"clip", "0.1"}, Flag{"delta", "1e-5"}, Flag{"accountant", "rdp"}, Flag{"optimizer", "momentum"}), records, published, reached, byPLD}
}

// moments clips the gradient of each layer at 4, as the code of the authors does, and adds noise of noise times
// 4·√2, the norm of both layers together, to each: 8, 4 and 2 times 4 in the paper. It stops when its
// budget is spent. The number of epochs is an upper limit.
func moments(name, noise, projection, epsilon, epochs string, published, reached Result, byPLD float64) Preset {
	return Preset{name, "1000 hidden units on 60 principal directions of MNIST, trained until the privacy budget is spent", abadi, []Flag{
		{"data", "mnist"}, {"model", "abadi-mlp"}, {"project", "60"}, {"project-noise", projection},
		{"lot", "600"}, {"epochs", epochs}, {"stop-at-epsilon", epsilon},
		{"group", "fc1=fc1"}, {"group", "fc2=fc2"}, {"clip", "5.656854"}, {"noise", noise},
		{"delta", "1e-5"}, {"accountant", "moments"},
		{"optimizer", "sgd"}, {"lr", "0.1"}, {"schedule", "linear:0.052@10"},
	}, mnistRecords, published, reached, byPLD}
}
