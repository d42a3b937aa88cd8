package flags

import (
	"strings"

	"github.com/spf13/pflag"
)

// equivalents are flags, arguments and settings of Opacus, TensorFlow Privacy, JAX-Privacy,
// diffprivlib, Hugging Face's trainer, Keras and scikit-learn, and the flags with the same
// meaning. Text after a flag is its value.
var equivalents = map[string]string{
	"batch-size": "lot", "batchsize": "lot", "bs": "lot", "expected-batch-size": "lot", "lot-size": "lot",
	"per-device-train-batch-size": "lot", "train-batch-size": "lot",
	"max-physical-batch-size": "microbatch", "micro-batch-size": "microbatch", "microbatch-size": "microbatch", "physical-batch-size": "microbatch",
	"num-microbatches": "record microbatch:K", "microbatches": "record microbatch:K",
	"sample-rate": "rate", "sampling-prob": "rate", "sampling-probability": "rate", "sampling-rate": "rate",
	"dataset-size": "records", "n-samples": "records", "num-examples": "records", "num-samples": "records", "sample-size": "records",
	"max-train-epochs": "epochs", "max-epochs": "epochs", "n-epochs": "epochs", "num-epochs": "epochs", "num-train-epochs": "epochs",
	"iterations": "steps", "max-iter": "steps", "max-steps": "steps", "n-steps": "steps", "num-iterations": "steps", "num-steps": "steps", "train-steps": "steps",

	"clip-norm": "clip", "clipping-norm": "clip", "data-norm": "clip", "l2-clip": "clip", "l2-norm-clip": "clip", "max-grad-norm": "clip",
	"max-per-sample-grad-norm": "clip", "grad-clip": "clip", "gradient-clip": "clip",
	"clipping-mode": "clipping", "clipping-method": "clipping",
	"noise-multiplier": "noise", "noise-scale": "noise", "sigma": "noise", "z": "noise",
	"eps": "epsilon", "max-epsilon": "epsilon", "privacy-budget": "epsilon", "target-epsilon": "epsilon",
	"target-delta": "delta", "accounting": "accountant", "secure-mode": "arithmetic exact", "secure-rng": "arithmetic exact",
	"poisson-sampling":  "sampling",
	"max-contributions": "user-examples", "user-id": "record user:COLUMN", "user": "record user:COLUMN", "group-by": "record user:COLUMN",
	"disable-dp": "non-private", "no-dp": "non-private",

	"learning-rate": "lr", "eta": "lr", "step-size": "lr", "lr-scheduler": "schedule", "lr-scheduler-type": "schedule", "lr-schedule": "schedule", "scheduler": "schedule",
	"optim": "optimizer", "solver": "optimizer", "momentum": "optimizer momentum:beta=0.9", "weight-decay": "optimizer adamw:weight-decay=0.01",
	"warmup-steps": "schedule warmup:STEPS", "ema-decay": "ema",

	"architecture": "model", "arch": "model", "model-name": "model", "net": "model", "network": "model",
	"hidden-layer-sizes": "model mlp:HIDDEN,…", "hidden-units": "model mlp:HIDDEN,…", "hidden": "model mlp:HIDDEN,…", "dropout": "model mlp:dropout=RATE",
	"weights": "init", "pretrained": "init", "checkpoint": "resume", "restore": "resume", "resume-from-checkpoint": "resume",

	"dataset": "data", "data-loader": "data", "data-root": "data-dir", "data-path": "data", "input": "data", "train": "data", "train-data": "data", "train-file": "data",
	"eval-file": "test", "test-data": "test", "test-file": "test", "val-file": "test", "validation-file": "test",
	"label-column": "label", "labels": "label", "target-column": "target", "y": "label", "class-names": "classes",
	"range": "bounds", "ranges": "bounds", "categories": "vocabulary", "max-length": "length", "max-seq-length": "length", "max-sequence-length": "length",
	"val-split": "validation-split", "validation-fraction": "validation-split",

	"cuda": "device cuda:0", "gpu": "device cuda:0", "no-cuda": "device cpu", "fp16": "precision bf16", "bf16": "precision bf16",
	"n-jobs": "threads", "num-threads": "threads", "num-workers": "threads", "workers": "threads",
	"manual-seed": "seed", "noise-generator": "seed", "random-seed": "seed", "random-state": "seed",
	"config-file": "config", "log-dir": "out", "logdir": "out", "output": "out", "output-dir": "out", "save-dir": "out",
	"silent": "quiet",
}

// shorthands are the letters that other programs use for flags.
var shorthands = map[string]string{"b": "lot", "c": "config", "d": "data", "e": "epochs", "m": "model", "o": "out", "q": "quiet", "v": "version"}

// Equivalent returns the flag, with its value if it needs a certain one, that has the meaning of
// a name in other programs, or "" if f has no such flag. The name is a letter, or words with the
// sign - or _ between them.
func Equivalent(f *pflag.FlagSet, name string) string {
	ours := equivalents[strings.ReplaceAll(strings.ToLower(name), "_", "-")]
	if len(name) == 1 && ours == "" {
		ours = shorthands[name]
	}
	flag, _, _ := strings.Cut(ours, " ")
	if flag == "" || f.Lookup(flag) == nil {
		return ""
	}
	return ours
}
