package models

import "testing"

func TestLikelyModel(t *testing.T) {
	for name, want := range map[string]string{
		"resnet18": "wrn16-4", "ResNet-50": "wrn16-4", "bert-base-uncased": "transformer", "LinearRegression": "logistic",
		"cnn": "mnist-cnn", "mpl": "mlp", "lsmt": "lstm", "logistc": "logistic", "quite another thing": "",
	} {
		if got := likelyModel(name); got != want {
			t.Errorf("likelyModel(%q) is %q, want %q", name, got, want)
		}
	}
	for _, other := range otherNames {
		if _, ok := find(other.model); !ok {
			t.Errorf("%s is compared with %s, which is no model", other.beginning, other.model)
		}
	}
}
