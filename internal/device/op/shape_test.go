package op

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"gorgonia.org/tensor"
)

// Shapes and attributes that do not fit are refused with a reason in one line.
func TestShape_RefusesBadShapes(t *testing.T) {
	s := func(dims ...int) tensor.Shape { return dims }
	k3 := Window{3, 3, 1, 1, 1, 1, 1, 1}
	conv := Conv2D{Window: k3, Groups: 1}
	form := ConvWeight{Window: k3, Groups: 1, C: 2, H: 5, W: 5, O: 4}
	alter := func(change func(*Window)) Window {
		w := k3
		change(&w)
		return w
	}
	for _, c := range []struct {
		spec     Operation
		in       []tensor.Shape
		contains string
	}{
		{Linear{ReLU}, []tensor.Shape{s(2, 3), s(4, 5), s(5)}, "do not fit"},
		{Linear{ReLU}, []tensor.Shape{s(2, 3), s(3, 5), s(4)}, "bias"},
		{Linear{ReLU}, []tensor.Shape{s(2, 3), s(3, 5)}, "2 inputs given, 3 needed"},
		{Linear{GELU}, []tensor.Shape{s(2, 3), s(3, 5), s(5)}, "cannot be fused"},
		{MatMul{}, []tensor.Shape{s(2, 3), s(3)}, "two matrices"},
		{MatMul{TransB: true}, []tensor.Shape{s(2, 3), s(3, 2)}, "do not fit"},
		{Activate{ReLU}, nil, "0 inputs"},
		{ActivationGrad{ReLU}, []tensor.Shape{s(2), s(3)}, "differ in shape"},

		{conv, []tensor.Shape{s(2, 3, 3), s(4, 2, 3, 3), s(4)}, "[batch, channels, height, width]"},
		{conv, []tensor.Shape{s(1, 2, 5, 5), s(4, 3, 3, 3), s(4)}, "2 channels in 1 groups"},
		{conv, []tensor.Shape{s(1, 2, 5, 5), s(4, 2, 3, 2), s(4)}, "kernel of 3 by 3"},
		{conv, []tensor.Shape{s(1, 2, 5, 5), s(4, 2, 3, 3), s(3)}, "bias"},
		{Conv2D{k3, 1, GELU}, []tensor.Shape{s(1, 2, 5, 5), s(4, 2, 3, 3), s(4)}, "cannot be fused"},
		{Conv2D{k3, 0, ReLU}, []tensor.Shape{s(1, 2, 5, 5), s(4, 2, 3, 3), s(4)}, "0 groups"},
		{Conv2D{k3, 2, ReLU}, []tensor.Shape{s(1, 2, 5, 5), s(3, 1, 3, 3), s(3)}, "2 groups"},
		{Conv2D{alter(func(w *Window) { w.StrideH = 0 }), 1, ReLU}, []tensor.Shape{s(1, 2, 5, 5), s(4, 2, 3, 3), s(4)}, "rows: kernel 3, stride 0"},
		{Conv2D{alter(func(w *Window) { w.PadW = -1 }), 1, ReLU}, []tensor.Shape{s(1, 2, 5, 5), s(4, 2, 3, 3), s(4)}, "columns: kernel 3, stride 1, padding -1"},
		{Conv2D{alter(func(w *Window) { w.DilationH = 0 }), 1, ReLU}, []tensor.Shape{s(1, 2, 5, 5), s(4, 2, 3, 3), s(4)}, "dilation 0"},
		{Conv2D{alter(func(w *Window) { w.DilationH = 4 }), 1, ReLU}, []tensor.Shape{s(1, 2, 5, 5), s(4, 2, 3, 3), s(4)}, "larger than size 5"},
		{ConvGradInput(form), []tensor.Shape{s(1, 4, 5, 4), s(4, 2, 3, 3)}, "[batch, 4, 5, 5]"},
		{ConvGradInput(form), []tensor.Shape{s(1, 4, 5, 5), s(4, 3, 3, 3)}, "weight"},
		{ConvGradInput(form), []tensor.Shape{s(1, 4, 5, 5), s(2, 2, 3, 3)}, "4 channels of the result"},
		{ConvGradWeight(form), []tensor.Shape{s(2, 2, 5, 5), s(1, 4, 5, 5)}, "pictures"},
		{ConvGradWeight(form), []tensor.Shape{s(2, 2, 5, 5), s(5, 5)}, "gradient"},
		{ConvGradWeight(ConvWeight{Window: k3, C: 2, H: 5, W: 5, O: 4}), []tensor.Shape{s(2, 2, 5, 5), s(2, 4, 5, 5)}, "0 groups"},

		{MaxPool2D{k3}, []tensor.Shape{s(2, 9)}, "[batch, channels, height, width]"},
		{MaxPool2D{alter(func(w *Window) { w.PadH = 3 })}, []tensor.Shape{s(1, 1, 5, 5)}, "covers only padding"},
		{MaxPool2D{Window{2, 1, 1, 1, 2, 0, 2, 1}}, []tensor.Shape{s(1, 1, 1, 1)}, "covers only padding"}, // in the middle
		{MaxPool2D{Window{2, 2, 1, 1, 2, 2, 4, 4}}, []tensor.Shape{s(1, 1, 1, 1)}, "covers only padding"},
		{AvgPool2D{Window{6, 6, 1, 1, 0, 0, 1, 1}}, []tensor.Shape{s(1, 1, 5, 5)}, "larger than size 5"},
		{MaxPoolGrad{k3}, []tensor.Shape{s(1, 1, 5, 5), s(1, 1, 4, 5)}, "gradient"},
		{AvgPoolGrad{k3, 5, 5}, []tensor.Shape{s(1, 1, 4, 5)}, "gradient"},
		{AvgPoolGrad{k3, 5, 5}, []tensor.Shape{s(5)}, "[batch, channels, height, width]"},

		{Normalize{3, 1e-5, true}, []tensor.Shape{s(3, 4)}, "chunks of 3"}, // 3 divides 12, but not a row
		{Normalize{0, 1e-5, true}, []tensor.Shape{s(3, 4)}, "chunks of 0"},
		{Normalize{4, 0, true}, []tensor.Shape{s(3, 4)}, "epsilon 0"},
		{Normalize{4, math.NaN(), true}, []tensor.Shape{s(3, 4)}, "epsilon NaN"},
		{Normalize{1, 1e-5, true}, []tensor.Shape{s()}, "chunks"},
		{NormalizeGrad{4, 1e-5, true}, []tensor.Shape{s(3, 4), s(4, 3)}, "differ in shape"},
		{ScaleShift{4, 1}, []tensor.Shape{s(3, 4), s(4), s(3)}, "4 channels"},
		{ScaleShift{3, 1}, []tensor.Shape{s(3, 4), s(3), s(3)}, "a row of shape"}, // 3 divides 12, but not a row
		{ChannelScale{3, 1}, []tensor.Shape{s(4), s(3)}, "not a stack of 3 channels"},
		{ChannelSum{0, 1}, []tensor.Shape{s(4)}, "0 channels"},
		{ChannelSum{3, 2}, []tensor.Shape{s(4, 2)}, "not a stack of 3 channels of 2"},
		{ChannelDot{2, 2}, []tensor.Shape{s(4), s(2, 2)}, "differ in shape"},

		{CrossEntropy{}, []tensor.Shape{s(3, 4), s(4)}, "labels"},
		{CrossEntropy{}, []tensor.Shape{s(3, 4), s(3, 1)}, "labels"},
		{CrossEntropyGrad{}, []tensor.Shape{s(3, 4), s(3), s(4)}, "differ in shape"},
		{CrossEntropy{Smoothing: 1}, []tensor.Shape{s(3, 4), s(3)}, "smoothing 1"},
		{CrossEntropy{Smoothing: math.NaN()}, []tensor.Shape{s(3, 4), s(3)}, "smoothing NaN"},
		{VocabularyLoss{Trans: true}, []tensor.Shape{s(3, 4), s(4, 9), s(3)}, "do not fit"},
		{VocabularyLoss{Bias: true}, []tensor.Shape{s(3, 4), s(4, 9), s(4), s(3)}, "bias of shape (4)"},
		{VocabularyLoss{Trans: true, Bias: true}, []tensor.Shape{s(3, 4), s(9, 4), s(9), s(3)}, "no bias"},
		{VocabularyLoss{}, []tensor.Shape{s(3, 4), s(4, 9), s(4)}, "labels"},
		{VocabularyLossGrad{}, []tensor.Shape{s(3, 4), s(4, 9), s(3), s(4)}, "differ in shape"},
		{ElementLosses{Kind: AbsoluteError}, []tensor.Shape{s(3, 4), s(3)}, "one shape"},
		{ElementLosses{Kind: HuberError}, []tensor.Shape{s(3, 4), s(3, 4)}, "width 0"},
		{ElementLossesGrad{Kind: HingeLoss}, []tensor.Shape{s(3, 4), s(3, 4), s(4)}, "gradient"},
		{SigmoidCrossEntropy{}, []tensor.Shape{s(3, 1), s(3)}, "one shape"},
		{SigmoidCrossEntropyGrad{}, []tensor.Shape{s(3, 1), s(3, 1), s(1)}, "gradient"},
		{SquaredError{}, []tensor.Shape{s(), s()}, "batch first"},
		{SquaredErrorGrad{}, []tensor.Shape{s(3), s(4), s(3)}, "one shape"},
		{Total{}, []tensor.Shape{s(3)}, "scale 0"},
		{Total{math.Inf(1)}, []tensor.Shape{s(3)}, "scale +Inf"},
		{Total{1}, []tensor.Shape{s(1, 1, 1, 1, 1, 1, 1, 1, 1)}, "at most 8 axes"},
		{Spread{AxesOf(3), 1}, []tensor.Shape{s(3)}, "not a scalar"},

		{Embed{}, []tensor.Shape{s(3), s(3)}, "[vocabulary, dim]"},
		{Embed{}, []tensor.Shape{s(3, 2), s(1, 1, 1)}, "[batch, time]"},
		{EmbedGrad{3, 2, 1}, []tensor.Shape{s(4), s(4, 3)}, "gradient"},
		{EmbedBag{1}, []tensor.Shape{s(3, 2), s(4)}, "[batch, time]"},
		{Add{}, []tensor.Shape{s(3), s(3, 1)}, "differ in shape"},
		{Dropout{Rate: 1}, []tensor.Shape{s(3, 2), s(3, 4)}, "rate 1"},
		{Dropout{Rate: math.NaN()}, []tensor.Shape{s(3, 2), s(3, 4)}, "rate NaN"},
		{Dropout{}, []tensor.Shape{s(6, 2), s(3, 4)}, "[batch, 4]"},
		{Dropout{}, []tensor.Shape{s(), s(1, 4)}, "[batch, 4]"},
		{Reshape{AxesOf(3, 2)}, []tensor.Shape{s(5)}, "does not fit"},
		{Permute{AxesOf(1, 0)}, []tensor.Shape{s(5)}, "order"},
		{Permute{AxesOf(1, 1)}, []tensor.Shape{s(5, 5)}, "order"},
		{Repeat{1, 2}, []tensor.Shape{s(5)}, "axis 1"},
		{Repeat{0, 0}, []tensor.Shape{s(5)}, "0 copies"},
		{Slice{0, 3, 3, 1}, []tensor.Shape{s(5)}, "empty or exceeds shape"},
		{Slice{0, 0, 0, 1}, []tensor.Shape{s(5)}, "empty or exceeds shape"},
		{Slice{1, 0, 1, 1}, []tensor.Shape{s(5)}, "empty or exceeds shape"},
		{SliceGrad{Slice{0, 1, 3, 1}}, []tensor.Shape{s(5, 2), s(2, 2)}, "(3, 2) is needed"},
		{Concat{0}, []tensor.Shape{s(5, 2), s(5, 3)}, "cannot be concatenated"},
		{Concat{2}, []tensor.Shape{s(5, 2), s(5, 2)}, "cannot be concatenated"},
		{Concat{0}, nil, "no tensors to concatenate"},
		{Im2Col{k3}, []tensor.Shape{s(5, 5)}, "[batch, channels, height, width]"},
		{Col2Im{k3, 2, 5, 5}, []tensor.Shape{s(1, 5, 5, 9)}, "(1, 5, 5, 18) is needed"},
		{Col2Im{k3, 2, 5, 5}, []tensor.Shape{s(5)}, "[batch, height, width, cells]"},
		{Softmax{2, false}, []tensor.Shape{s(5, 5)}, "no axis 2"},
		{SoftmaxGrad{-1, false}, []tensor.Shape{s(5), s(5)}, "no axis -1"},
		{SoftmaxGrad{0, false}, []tensor.Shape{s(5), s(5, 1)}, "differ in shape"},
	} {
		shape, err := c.spec.Shape(c.in)
		if err == nil {
			t.Errorf("%v%v gives %v and no error", c.spec, c.in, shape)
		} else if !strings.Contains(err.Error(), c.contains) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v%v: %q does not contain %q in one line", c.spec, c.in, err, c.contains)
		}
	}
}

// Gorgonia makes one node of two operations with the same String and inputs, so String
// must contain every attribute.
func TestString_ContainsEveryAttribute(t *testing.T) {
	form, parts := Product{2, 3}, []MappedForm{{Form: Product{2, 3}}}
	for _, s := range []fmt.Stringer{
		Activate{}, ActivationGrad{}, Attention{}, AttentionGrad{}, ScaleShift{}, ChannelScale{}, ChannelShift{}, ChannelSum{}, ChannelDot{},
		Conv2D{}, ConvWeight{}, ConvGradInput{}, ConvGradWeight{}, Dropout{}, ElementLosses{}, ElementLossesGrad{}, Replace{},
		Binary{}, Unary{}, EmbedBag{}, EmbedGrad{}, Product{}, Shift{}, Scale{}, Gather{}, GRU{}, GRUTrace{}, GRUGrad{}, Im2Col{}, Col2Im{},
		Linear{}, CrossEntropy{}, CrossEntropyGrad{}, VocabularyLoss{}, VocabularyLossGrad{}, Total{}, Spread{}, LSTM{}, LSTMTrace{}, LSTMGrad{}, MatMul{}, MatVec{},
		Reshape{}, Permute{}, Repeat{}, Slice{}, SliceGrad{}, Concat{}, SumAxes{}, Normalize{}, NormalizeGrad{},
		MaxPool2D{}, MaxPoolGrad{}, AvgPool2D{}, AvgPoolGrad{}, Rotary{}, RepeatHeads{}, SumHeads{}, LastStep{}, Delay{}, Softmax{}, SoftmaxGrad{}, StackRows{},
		RecordGradients{Form: form}, SquaredNorms{Form: form}, ClippedSum{Form: form}, MultiUseNorms{Uses: &parts}, Scatter{At: NewMap([]int32{0})},
	} {
		v := reflect.New(reflect.TypeOf(s)).Elem()
		v.Set(reflect.ValueOf(s))
		say := func() string { return v.Interface().(fmt.Stringer).String() }
		before := say()
		var vary func(x reflect.Value, path string)
		vary = func(x reflect.Value, path string) {
			was := reflect.New(x.Type()).Elem()
			was.Set(x)
			switch value := x.Interface().(type) {
			case Axes:
				x.Set(reflect.ValueOf(AxesOf(0)))
			case *Map:
				x.Set(reflect.ValueOf(NewMap([]int32{1})))
			case *[]MappedForm:
				x.Set(reflect.ValueOf(&[]MappedForm{{Form: form, Map: NewMap([]int32{1})}}))
			case Form:
				if x.Kind() == reflect.Struct { // all of an Operation that is a form
					for i := range x.NumField() {
						vary(x.Field(i), path+"."+x.Type().Field(i).Name)
					}
					return
				}
				x.Set(reflect.ValueOf(Form(Scale{2, 3})))
			case bool:
				x.SetBool(!value)
			case string:
				x.SetString("other")
			default:
				switch x.Kind() {
				case reflect.Struct:
					for i := range x.NumField() {
						vary(x.Field(i), path+"."+x.Type().Field(i).Name)
					}
					return
				case reflect.Int:
					x.SetInt(x.Int() + 1)
				case reflect.Uint8, reflect.Uint32, reflect.Uint64:
					x.SetUint(x.Uint() + 1)
				case reflect.Float64:
					x.SetFloat(0.1)
				default:
					t.Fatalf("%T%s is of kind %v, which the test does not vary", s, path, x.Kind())
				}
			}
			if say() == before {
				t.Errorf("%T%s: %s for every value", s, path, before)
			}
			x.Set(was)
		}
		vary(v, "")
	}
}

func TestApply_NamesMissingInput(t *testing.T) {
	if _, err := Apply(Add{}, nil, nil); err == nil || !strings.Contains(err.Error(), "input 0 is missing") {
		t.Errorf("got %v", err)
	}
}
