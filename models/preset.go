package models

import "github.com/dptrain/dptrain/internal/nearest"

// Preset is a published training run: the flags of `dptrain train` that repeat it, and the
// published result.
type Preset struct {
	Name    string
	Summary string
	Source  string // paper or program that published the run
	Flags   []Flag
	Result  string // accuracy and privacy, as published
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
	tutorial("tfp-mnist-low", "0.25", "1.3", "1.5", "15", "95.0% at ε = 1.19, δ = 1e-5"),
	tutorial("tfp-mnist", "0.15", "1.1", "1.0", "60", "96.6% at ε = 3.01, δ = 1e-5; today's Rényi accountants give 2.6"),
	tutorial("tfp-mnist-high", "0.25", "0.7", "1.5", "45", "97.0% at ε = 7.10, δ = 1e-5"),
	bounded("tramer-mnist", "the small convolutional network on MNIST, with tanh activations", "98.1% at ε = 3, δ = 1e-5; today's Rényi accountants give 2.6",
		[]Flag{{"data", "mnist"}, {"model", "mnist-cnn:act=tanh"}, {"lot", "512"}, {"epochs", "40"}, {"noise", "1.23"}, {"lr", "0.5"}}),
	bounded("tramer-cifar10", "six tanh convolutions on CIFAR-10", "59.2% at ε = 3, δ = 1e-5; today's Rényi accountants give 2.6",
		[]Flag{{"data", "cifar10"}, {"standardize", "true"}, {"model", "cifar-tanh"}, {"lot", "1024"}, {"epochs", "30"}, {"noise", "1.54"}, {"lr", "1"}}),
	moments("abadi-mnist-low", "5.656854", "16", "0.5", "22", "90% at ε = 0.5, δ = 1e-5"),
	moments("abadi-mnist", "2.828427", "7", "2", "110", "95% at ε = 2, δ = 1e-5"),
	moments("abadi-mnist-high", "1.414214", "4", "8", "320", "97% at ε = 8, δ = 1e-5"),
	{"abadi-cifar10", "a head of 384 hidden units on the public convolutions of --init, on CIFAR-10", abadiCIFAR, []Flag{
		{"data", "cifar10"}, {"standardize", "true"}, {"model", "cifar-abadi"}, {"freeze", "conv1,conv2"}, {"fresh", "fc1,fc2"},
		{"lot", "2000"}, {"epochs", "200"}, {"stop-at-epsilon", "2"},
		{"clip", "3"}, {"noise", "6"}, {"delta", "1e-5"}, {"accountant", "moments"},
		{"optimizer", "sgd"}, {"lr", "0.1"},
	}, "67% at ε = 2, δ = 1e-5, with convolutions that were trained on CIFAR-100"},
}

func tutorial(name, lr, noise, clip, epochs, result string) Preset {
	return Preset{name, "the small convolutional network on MNIST", tfPrivacy, []Flag{
		{"data", "mnist"}, {"model", "mnist-cnn"}, {"lot", "256"}, {"epochs", epochs},
		{"clip", clip}, {"noise", noise}, {"delta", "1e-5"}, {"accountant", "rdp"},
		{"optimizer", "sgd"}, {"lr", lr},
	}, result}
}

func bounded(name, about, result string, flags []Flag) Preset {
	return Preset{name, about, tramer, append(flags, Flag{"clip", "0.1"}, Flag{"delta", "1e-5"}, Flag{"accountant", "rdp"}, Flag{"optimizer", "momentum"}), result}
}

// moments clips the gradient of each layer at 4, as the code of the authors does, and adds noise of noise times
// 4·√2, the norm of both layers together, to each: 8, 4 and 2 times 4 in the paper. It stops when its
// budget is spent. The number of epochs is an upper limit.
func moments(name, noise, projection, epsilon, epochs, result string) Preset {
	return Preset{name, "1000 hidden units on 60 principal directions of MNIST, trained until the privacy budget is spent", abadi, []Flag{
		{"data", "mnist"}, {"model", "abadi-mlp"}, {"project", "60"}, {"project-noise", projection},
		{"lot", "600"}, {"epochs", epochs}, {"stop-at-epsilon", epsilon},
		{"group", "fc1=fc1"}, {"group", "fc2=fc2"}, {"clip", "5.656854"}, {"noise", noise},
		{"delta", "1e-5"}, {"accountant", "moments"},
		{"optimizer", "sgd"}, {"lr", "0.1"}, {"schedule", "linear:0.052@10"},
	}, result}
}
