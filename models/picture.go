package models

import (
	"fmt"

	"github.com/dptrain/dptrain/models/layer"
	G "gorgonia.org/gorgonia"
)

// head flattens the picture and adds a hidden layer and the output layer.
func head(b *layer.Builder, x *G.Node, units int, act layer.Activation, outputs int) *G.Node {
	x = layer.Dense(b, layer.Flatten(b, x), "fc1", units, act)
	return layer.Dense(b, x, "fc2", outputs, layer.Identity)
}

// convolve is a convolution, its normalization, if any, and its activation. Group normalization has
// groups of four channels.
func convolve(b *layer.Builder, x *G.Node, name string, channels int, w layer.Window, act layer.Activation, norm string) *G.Node {
	switch norm {
	case "batch":
		x = layer.BatchNorm(b, layer.Conv2D(b, x, name, channels, w, layer.Identity), name+".norm")
	case "group":
		x = layer.GroupNorm(b, layer.Conv2D(b, x, name, channels, w, layer.Identity), name+".norm", channels/4)
	default:
		return layer.Conv2D(b, x, name, channels, w, act)
	}
	return layer.Activate(b, x, act)
}

var halve = layer.Window{Size: 2, Stride: 2}

// digitsCNN takes 0.1 million multiplications and has 6,346 parameters for 28×28
// pictures. Bounded activations keep gradients small, so clipping changes them little
// (Papernot et al. 2021).
func digitsCNN(b *layer.Builder, x *G.Node, data DataSpec, a args) *G.Node {
	x = convolve(b, x, "conv1", 8, layer.Window{Size: 5, Stride: 2, Pad: 2}, layer.Tanh, a.norm)
	x = layer.MaxPool(b, x, halve)
	x = convolve(b, x, "conv2", 16, layer.Window{Size: 3, Pad: 1}, layer.Tanh, a.norm)
	x = layer.MaxPool(b, x, halve)
	return head(b, x, 32, layer.Tanh, data.outputs())
}

// mnistCNN pads its first convolution like TensorFlow's "same" for 28×28 pictures, and
// initializes its weights like Keras.
func mnistCNN(b *layer.Builder, x *G.Node, data DataSpec, a args) *G.Node {
	b.UseKerasInitialization()
	overlap := layer.Window{Size: 2}
	x = convolve(b, x, "conv1", 16, layer.Window{Size: 8, Stride: 2, Pad: 3}, a.act, a.norm)
	x = layer.MaxPool(b, x, overlap)
	x = convolve(b, x, "conv2", 32, layer.Window{Size: 4, Stride: 2}, a.act, a.norm)
	x = layer.MaxPool(b, x, overlap)
	return head(b, x, 32, a.act, data.outputs())
}

func cifarAbadi(b *layer.Builder, x *G.Node, data DataSpec, a args) *G.Node {
	for _, name := range []string{"conv1", "conv2"} {
		x = convolve(b, x, name, 64, layer.Window{Size: 5, Pad: 2}, layer.ReLU, a.norm)
		x = layer.MaxPool(b, x, halve)
	}
	return head(b, x, 384, layer.ReLU, data.outputs())
}

func cifarTanh(b *layer.Builder, x *G.Node, data DataSpec, a args) *G.Node {
	for i, channels := range []int{32, 32, 64, 64, 128, 128} {
		x = convolve(b, x, fmt.Sprintf("conv%d", i+1), channels, layer.Window{Size: 3, Pad: 1}, layer.Tanh, a.norm)
		if i%2 == 1 {
			x = layer.MaxPool(b, x, halve)
		}
	}
	return head(b, x, 128, layer.Tanh, data.outputs())
}

// groups is the number of groups of channels in the normalization of De et al. (2022).
const groups = 16

// wideResNet has three stages of two blocks, with 64, 128 and 256 channels. The second and
// the third stage halve the picture. De et al. (2022) also standardize the weights of the
// convolutions.
func wideResNet(b *layer.Builder, x *G.Node, data DataSpec, a args) *G.Node {
	if a.standardized {
		b.StandardizeConvWeights()
	}
	x = layer.Conv2D(b, x, "conv1", 16, layer.Window{Size: 3, Pad: 1}, layer.Identity)
	for stage, channels := range []int{64, 128, 256} {
		for i := range 2 {
			stride := 1
			if stage > 0 && i == 0 {
				stride = 2
			}
			x = residualBlock(b, x, fmt.Sprintf("block%d.%d", stage+1, i), channels, stride)
		}
	}
	x = layer.Activate(b, layer.GroupNorm(b, x, "norm", groups), layer.ReLU)
	return layer.Dense(b, layer.GlobalAvgPool(b, x), "fc", data.outputs(), layer.Identity)
}

// residualBlock applies normalization and activation before each of its convolutions. If
// the shape changes, the shortcut is a 1×1 convolution of the first activation.
func residualBlock(b *layer.Builder, x *G.Node, name string, channels, stride int) *G.Node {
	h := layer.Activate(b, layer.GroupNorm(b, x, name+".norm1", groups), layer.ReLU)
	if x != nil && x.Shape()[1] != channels {
		x = layer.Conv2D(b, h, name+".shortcut", channels, layer.Window{Size: 1, Stride: stride}, layer.Identity)
	}
	h = layer.Conv2D(b, h, name+".conv1", channels, layer.Window{Size: 3, Stride: stride, Pad: 1}, layer.Identity)
	h = layer.Activate(b, layer.GroupNorm(b, h, name+".norm2", groups), layer.ReLU)
	h = layer.Conv2D(b, h, name+".conv2", channels, layer.Window{Size: 3, Pad: 1}, layer.Identity)
	return layer.Add(b, x, h)
}
