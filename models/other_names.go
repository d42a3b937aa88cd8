package models

import (
	"strings"

	"github.com/dptrain/dptrain/internal/nearest"
)

// otherNames are beginnings of names that other libraries give to networks, and the model of
// this package that is the most similar.
var otherNames = []struct{ beginning, model string }{
	{"resnet", "wrn16-4"}, {"wide", "wrn16-4"}, {"wrn", "wrn16-4"}, {"densenet", "wrn16-4"}, {"efficientnet", "wrn16-4"}, {"mobilenet", "wrn16-4"},
	{"cnn", "mnist-cnn"}, {"conv", "mnist-cnn"}, {"lenet", "mnist-cnn"}, {"vgg", "cifar-tanh"}, {"alexnet", "cifar-abadi"},
	{"bert", "transformer"}, {"distilbert", "transformer"}, {"roberta", "transformer"}, {"gpt", "transformer"}, {"llama", "transformer"}, {"attention", "transformer"},
	{"rnn", "lstm"}, {"bilstm", "lstm"}, {"bag", "bow"}, {"tfidf", "bow"}, {"ngram", "bow"}, {"fasttext", "embbag"}, {"embedding", "embbag"},
	{"linear", "logistic"}, {"logreg", "logistic"}, {"lr", "logistic"}, {"softmax", "logistic"}, {"regression", "logistic"}, {"svm", "logistic"}, {"rbf", "fourier"}, {"kernel", "fourier"}, {"gp", "fourier"}, {"perceptron", "logistic"},
	{"dense", "mlp"}, {"dnn", "mlp"}, {"fc", "mlp"}, {"feedforward", "mlp"}, {"nn", "mlp"}, {"neural", "mlp"},
}

// likelyModel returns the model that an unknown name probably means, or "".
func likelyModel(name string) string {
	if near := nearest.LikelyTypo(name, names()); near != "" {
		return near
	}
	name = strings.ToLower(name)
	for _, other := range otherNames {
		if strings.HasPrefix(name, other.beginning) {
			return other.model
		}
	}
	return ""
}
