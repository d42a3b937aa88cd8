package op

import (
	"fmt"
	"math"
	"math/bits"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Dropout sets each element of x [B, …] to zero with probability Rate and divides
// the others by 1−Rate (Srivastava et al. 2014), so that means stay. It reads its
// masks off a public generator; a ticket [B, TicketWidth] says which masks: what
// WriteTicket makes of a number drawn for the example and of the step.
//
// Why a private step may use it: clipping bounds what a record adds to a sum as
// long as the record's gradient does not depend on other records. The mask depends
// on Rate, Seed and Layer, which are public, and on the example's own ticket. Tickets
// come from the run's cryptographic generator, each independent of all others and of
// the data. With a record more or less the other examples' tickets are as likely as
// they were, whichever rows they are in then, so the two runs may be compared for
// tickets that are the same, and differ in that record's gradient alone. No privacy is
// claimed for masks.
//
// Evaluation leaves the operation out.
type Dropout struct {
	Rate  float64 // at least 0, less than 1
	Seed  uint64
	Layer uint32 // tells layers of one network apart
}

// MaskSeedWidth is how many numbers name an example's masks: the one drawn and the step,
// each in two halves of 24 bits, the lower first, which float32 holds exactly.
const MaskSeedWidth = 4

const maskSeedHalf = 1 << 24

// WriteMaskSeed names the masks of the example for which a number was drawn at a step,
// both below 2^48.
func WriteMaskSeed(ticket []float32, drawn uint64, step int) {
	ticket[0], ticket[1] = float32(drawn%maskSeedHalf), float32(drawn/maskSeedHalf)
	ticket[2], ticket[3] = float32(step%maskSeedHalf), float32(step/maskSeedHalf)
}

// MaskCounter is where an example's masks begin in the generator: element i has word
// i%4 of counter (i/4, c1, c2, c3). It is not ok for what WriteTicket never writes.
func MaskCounter(ticket []float32) (c1, c2, c3 uint32, ok bool) {
	var halves [MaskSeedWidth]uint64
	for i, v := range ticket {
		if !(v >= 0 && v < maskSeedHalf) {
			return 0, 0, 0, false
		}
		halves[i] = uint64(v)
	}
	drawn, step := halves[0]|halves[1]<<24, halves[2]|halves[3]<<24
	return uint32(drawn), uint32(step), uint32(drawn>>32 | step>>32<<16), true
}

// Key is the generator's: the seed, its upper half with the layer.
func (d Dropout) Key() (k0, k1 uint32) { return uint32(d.Seed), uint32(d.Seed>>32) ^ d.Layer }

// Threshold is the smallest word whose element stays: Rate to within 2^-32.
func (d Dropout) Threshold() uint32 { return uint32(d.Rate * (1 << 32)) }

// Scale is what elements that stay are multiplied by.
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
		return nil, fmt.Errorf("tickets %v for shape %v: [batch, %d] is needed", in[1], in[0], MaskSeedWidth)
	}
	return in[0].Clone(), nil
}

// Do gives NaN where there is no ticket.
func (d Dropout) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	n := len(out) / shapes[0][0]
	k0, k1 := d.Key()
	for e := range shapes[0][0] {
		var ticket [MaskSeedWidth]float32
		for i := range ticket {
			ticket[i] = float32(in[1][e*MaskSeedWidth+i])
		}
		c1, c2, c3, ok := MaskCounter(ticket[:])
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

// Diff gives the gradient the same mask: the operation is its own derivative.
func (d Dropout) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	dx, err := Apply(d, grad, in[1])
	return G.Nodes{dx, nil}, err
}

// Philox is the counter-based generator Philox-4x32-10 of Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3" (SC 2011), section 3: four words of 32 bits
// for each counter and key, the same wherever and in whatever order they are
// computed. It is no cipher: it serves what is public, never noise or sampling.
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
