package drawdiscard

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/device/simd"
)

// Family is a generalised linear model (Pihur et al. 2018, section 3.1).
type Family string

const (
	Linear      Family = "linear"      // a target, squared error halved
	Logistic    Family = "logistic"    // two classes, one weight vector, cross-entropy
	Multinomial Family = "multinomial" // two or more classes, a weight vector for each, cross-entropy
	Poisson     Family = "poisson"     // a count, mean exp(z), negative log-likelihood
)

// Records are the examples of one client. Features are in [0, 1].
type Records struct {
	Features []float32 // one row for each record
	Labels   []float32 // the class or the target of each record
}

// GLM computes gradients of a generalised linear model with an intercept. Its weights are one
// row of weights for each output, and then one intercept for each output. It serves one
// goroutine.
//
// The gradient of a record is the outer product of a residual for each output and the features,
// 1 included. For logistic and multinomial models the residuals are in [-1, 1], so with
// features in [0, 1] all gradients lie in the box [-1, 1] of a clip bound of 1.
type GLM struct {
	family    Family
	inputs    int
	outputs   int
	residuals []float32
}

// NewGLM returns a model for the given number of features and of classes. Linear and Poisson
// models have 0 classes.
func NewGLM(family Family, inputs, classes int) (*GLM, error) {
	outputs, err := family.outputs(inputs, classes)
	if err != nil {
		return nil, err
	}
	return &GLM{family, inputs, outputs, make([]float32, outputs)}, nil
}

// WeightsOfDense returns the weights of a GLM that computes what a dense layer does, whose weights are [in, out]: a
// row for each output, then the intercepts. A logistic model has one output, the difference of those of its
// classes.
func (family Family) WeightsOfDense(w, bias []float32) []float32 {
	outputs := len(bias)
	inputs := len(w) / outputs
	all := make([]float32, 0, len(w)+outputs)
	if family == Logistic {
		for i := range inputs {
			all = append(all, w[2*i+1]-w[2*i])
		}
		return append(all, bias[1]-bias[0])
	}
	for o := range outputs {
		for i := range inputs {
			all = append(all, w[i*outputs+o])
		}
	}
	return append(all, bias...)
}

// outputs is the number of outputs of a model for the given number of features and of classes.
func (family Family) outputs(inputs, classes int) (int, error) {
	outputs := 1
	switch family {
	case Linear, Poisson:
		if classes != 0 {
			return 0, fmt.Errorf("model %s predicts a target; omit the %d classes", family, classes)
		}
	case Logistic:
		if classes != 2 {
			return 0, fmt.Errorf("model logistic separates 2 classes, not %d; use multinomial", classes)
		}
	case Multinomial:
		if classes < 2 {
			return 0, fmt.Errorf("model multinomial needs at least 2 classes, not %d", classes)
		}
		outputs = classes
	default:
		return 0, fmt.Errorf("model %q is not a generalised linear model; use %s, %s, %s or %s", family, Linear, Logistic, Multinomial, Poisson)
	}
	if inputs < 1 {
		return 0, fmt.Errorf("model %s: %d inputs; at least 1 is needed", family, inputs)
	}
	return outputs, nil
}

// Weights is the number of weights.
func (g *GLM) Weights() int { return g.outputs * (g.inputs + 1) }

// Initial returns the initial weights: zeros.
func (g *GLM) Initial() []float32 { return make([]float32, g.Weights()) }

// Tensors describes the weights as torch.nn.Linear names and shapes them.
func (g *GLM) Tensors() []TensorShape { return glmTensors(g.inputs, g.outputs) }

func glmTensors(inputs, outputs int) []TensorShape {
	return []TensorShape{{"fc.weight", []int{outputs, inputs}}, {"fc.bias", []int{outputs}}}
}

// row returns the weights of an output.
func (g *GLM) row(weights []float32, output int) []float32 {
	return weights[output*g.inputs:][:g.inputs]
}

// biases returns the intercepts.
func (g *GLM) biases(weights []float32) []float32 { return weights[g.outputs*g.inputs:] }

// Predict writes the prediction for each record: the probability of each class, or for linear and
// Poisson models the mean. A logistic model writes the probability of class 1.
func (g *GLM) Predict(dst, weights, features []float32) {
	for r := range len(features) / g.inputs {
		g.means(dst[r*g.outputs:][:g.outputs], weights, features[r*g.inputs:][:g.inputs])
	}
}

// means computes the prediction for one record.
func (g *GLM) means(dst, weights, x []float32) {
	biases := g.biases(weights)
	for o := range dst {
		dst[o] = biases[o] + float32(simd.Dot(g.row(weights, o), x))
	}
	switch g.family {
	case Logistic:
		dst[0] = float32(1 / (1 + math.Exp(-float64(dst[0]))))
	case Multinomial:
		simd.Softmax(dst, dst)
	case Poisson:
		dst[0] = float32(math.Exp(float64(dst[0])))
	}
}

// AverageGradient writes the mean gradient of the records' losses.
func (g *GLM) AverageGradient(dst, weights []float32, records Records) error {
	n := len(records.Labels)
	if len(dst) != g.Weights() || len(weights) != g.Weights() || n == 0 || len(records.Features) != n*g.inputs {
		return fmt.Errorf("drawdiscard: %d features and %d labels for a model of %d inputs, %d and %d values for %d weights", len(records.Features), n, g.inputs, len(dst), len(weights), g.Weights())
	}
	biases := g.biases(dst)
	clear(biases)
	for r, label := range records.Labels {
		x := records.Features[r*g.inputs:][:g.inputs]
		g.means(g.residuals, weights, x)
		if g.family == Multinomial {
			c := int(label)
			if c < 0 || c >= g.outputs {
				return fmt.Errorf("drawdiscard: a record has a class outside 0 to %d", g.outputs-1)
			}
			g.residuals[c]--
		} else {
			g.residuals[0] -= label
		}
		for o, residual := range g.residuals {
			residual /= float32(n)
			if r == 0 {
				simd.Scale(g.row(dst, o), x, residual)
			} else {
				simd.Axpy(g.row(dst, o), x, residual)
			}
			biases[o] += residual
		}
	}
	return nil
}

// Evaluation is how well a model predicts records.
type Evaluation struct {
	Loss     float64 // mean; of a Poisson model half its deviance, which has the same gradient
	Accuracy float64 // share of records whose class is the most probable one; 0 without classes
	RMSE     float64 // of a target or a count; 0 with classes
}

// Evaluate computes the mean loss and the errors of predictions, in float64.
func (g *GLM) Evaluate(weights []float32, records Records) (Evaluation, error) {
	n := len(records.Labels)
	if len(weights) != g.Weights() || n == 0 || len(records.Features) != n*g.inputs {
		return Evaluation{}, fmt.Errorf("drawdiscard: %d features, %d labels and %d weights for a model of %d inputs and %d weights", len(records.Features), n, len(weights), g.inputs, g.Weights())
	}
	var e Evaluation
	scores, biases := make([]float64, g.outputs), g.biases(weights)
	squares := 0.0
	for r, label := range records.Labels {
		x := records.Features[r*g.inputs:][:g.inputs]
		for o := range scores {
			scores[o] = float64(biases[o]) + simd.Dot(g.row(weights, o), x)
		}
		loss, right, residual := g.lossOf(scores, float64(label))
		e.Loss += loss / float64(n)
		squares += residual * residual / float64(n)
		if right {
			e.Accuracy += 1 / float64(n)
		}
	}
	if g.family == Linear || g.family == Poisson {
		e.RMSE = math.Sqrt(squares)
	}
	return e, nil
}

// lossOf returns the loss of a record, whether its class is the most probable one, and the error of the
// predicted mean of a target.
func (g *GLM) lossOf(scores []float64, label float64) (loss float64, right bool, residual float64) {
	z := scores[0]
	switch g.family {
	case Linear:
		return (z - label) * (z - label) / 2, false, z - label
	case Poisson:
		mean := math.Exp(z)
		loss = mean - label
		if label > 0 {
			loss += label * (math.Log(label) - z)
		}
		return loss, false, mean - label
	case Logistic: // class 0 has the score 0
		return math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) - label*z, (z > 0) == (label == 1), 0
	}
	best, total := 0, 0.0
	for c, s := range scores {
		if s > scores[best] {
			best = c
		}
	}
	for _, s := range scores {
		total += math.Exp(s - scores[best])
	}
	return math.Log(total) + scores[best] - scores[int(label)], best == int(label), 0
}
