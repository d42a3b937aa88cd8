package op

import (
	"fmt"
	"math"
	"math/bits"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Dropout sets each element of x [B, …] to zero with probability Rate and divides the
// others by 1−Rate (Srivastava et al. 2014), which preserves the mean. A public generator
// computes the masks. The mask seeds [B, MaskSeedWidth] select each example's mask:
// WriteMaskSeed makes a seed from a number drawn for the example and from the step.
//
// Why a private step may use it: clipping bounds a record's contribution to a sum as long
// as the record's gradient does not depend on other records. The mask depends on Rate,
// Seed and Layer, which are public, and on the example's own mask seed. Mask seeds come
// from the run's cryptographic generator. Each is independent of all others and of the
// data. With a record more or less, the other examples' mask seeds have the same
// distribution, in any rows. The two runs can therefore be compared for equal mask seeds,
// and then differ in that record's gradient only. The masks themselves are not claimed to
// be private.
//
// Evaluation leaves the operation out.
type Dropout struct {
	Rate  float64 // at least 0, less than 1
	Seed  uint64
	Layer uint32 // distinguishes the layers of one network
}

// MaskSeedWidth is the length of an example's mask seed: the number drawn and the step,
// each as two halves of 24 bits, the lower half first. Float32 represents 24 bits
// exactly.
const MaskSeedWidth = 4

const maskSeedHalf = 1 << 24

// WriteMaskSeed writes the mask seed of an example, from the number drawn for it and the
// step. Both must be below 2^48.
func WriteMaskSeed(seed []float32, drawn uint64, step int) {
	seed[0], seed[1] = float32(drawn%maskSeedHalf), float32(drawn/maskSeedHalf)
	seed[2], seed[3] = float32(step%maskSeedHalf), float32(step/maskSeedHalf)
}

// MaskCounter is the generator's counter for an example's mask: element i takes word i%4
// of counter (i/4, c1, c2, c3). It is not ok for numbers that WriteMaskSeed never writes.
func MaskCounter(seed []float32) (c1, c2, c3 uint32, ok bool) {
	var halves [MaskSeedWidth]uint64
	for i, v := range seed {
		if !(v >= 0 && v < maskSeedHalf) {
			return 0, 0, 0, false
		}
		halves[i] = uint64(v)
	}
	drawn, step := halves[0]|halves[1]<<24, halves[2]|halves[3]<<24
	return uint32(drawn), uint32(step), uint32(drawn>>32 | step>>32<<16), true
}

// Key is the generator's key: the seed, its upper half combined with the layer.
func (d Dropout) Key() (k0, k1 uint32) { return uint32(d.Seed), uint32(d.Seed>>32) ^ d.Layer }

// Threshold is the smallest word whose element is kept: Rate to within 2^-32.
func (d Dropout) Threshold() uint32 { return uint32(d.Rate * (1 << 32)) }

// Scale is the factor of elements that are kept.
func (d Dropout) Scale() float64 { return 1 / (1 - d.Rate) }

func (d Dropout) String() string { return fmt.Sprintf("dropout{%v,%d,%d}", d.Rate, d.Seed, d.Layer) }

func (d Dropout) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if !(d.Rate >= 0 && d.Rate < 1) {
		return nil, fmt.Errorf("rate %v: it must be at least 0 and less than 1", d.Rate)
	}
	if in[0].Dims() == 0 || !in[1].Eq(tensor.Shape{in[0][0], MaskSeedWidth}) {
		return nil, fmt.Errorf("mask seeds %v for shape %v: [batch, %d] is needed", in[1], in[0], MaskSeedWidth)
	}
	return in[0].Clone(), nil
}

// Do gives NaN for an invalid mask seed.
func (d Dropout) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	n := len(out) / shapes[0][0]
	k0, k1 := d.Key()
	for e := range shapes[0][0] {
		var seed [MaskSeedWidth]float32
		for i := range seed {
			seed[i] = float32(in[1][e*MaskSeedWidth+i])
		}
		c1, c2, c3, ok := MaskCounter(seed[:])
		var words [4]uint32
		for i := range n {
			if i%4 == 0 {
				words[0], words[1], words[2], words[3] = Philox(uint32(i/4), c1, c2, c3, k0, k1)
			}
			y := 0.0
			if words[i%4] >= d.Threshold() {
				y = in[0][e*n+i] * d.Scale()
			}
			if !ok {
				y = math.NaN()
			}
			out[e*n+i] = y
		}
	}
}

func (d Dropout) Rows(int) []bool { return allTrue(2) }
func (d Dropout) Wrt(int) []bool  { return []bool{true, false} }

// Diff applies the same mask to the gradient: the operation is its own derivative.
func (d Dropout) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	dx, err := Apply(d, grad, in[1])
	return G.Nodes{dx, nil}, err
}

// Philox is the counter-based generator Philox-4x32-10 of Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011), section 3. It returns four words of 32 bits for
// each counter and key, on every device and in any order. It is not cryptographic: use it
// for public values only, never for noise or sampling.
func Philox(c0, c1, c2, c3, k0, k1 uint32) (w0, w1, w2, w3 uint32) {
	for range 10 {
		high0, low0 := bits.Mul32(0xD2511F53, c0)
		high1, low1 := bits.Mul32(0xCD9E8D57, c2)
		c0, c1, c2, c3 = high1^c1^k0, low1, high0^c3^k1, low0
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return c0, c1, c2, c3
}
