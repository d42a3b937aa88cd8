package drawdiscard

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/internal/random"
	"github.com/dptrain/dptrain/noise"
)

// NoiseBank gives noise vectors to simulations, several times faster than a fresh draw of each
// value. It gives no privacy.
//
// It keeps a ring of values of the cryptographic generator. A vector is a random window of the
// ring with a random sign, so each coordinate of a vector has the distribution of the noise
// (which is symmetric), and is uncorrelated with its other coordinates. After each vector the bank
// replaces the oldest values, a bankRefresh-th of a vector, so each value serves in about
// bankRefresh vectors, each time at another coordinate.
//
// A bank serves one goroutine.
type NoiseBank struct {
	distribution Distribution
	values       []float32 // the ring, and its first width values again
	ring         int
	width        int
	oldest       int
	normals      [2 * bankBlock]float32
	src          *noise.Source
	lot          uint64
	random       *rand.Rand
	debt         int // values given since the last replacement
}

const (
	bankBlock   = random.NormalBatch // values replaced together
	bankRefresh = 64
	minRing     = 1 << 16
)

// NewNoiseBank returns a bank of noise of scale 1 for vectors of the given width. A seed makes it
// reproducible.
func NewNoiseBank(distribution Distribution, width int, seed uint64) (*NoiseBank, error) {
	if width < 1 {
		return nil, fmt.Errorf("drawdiscard: noise vectors of %d values; at least 1 is needed", width)
	}
	switch distribution {
	case Laplace, Gaussian, NoNoise:
	default:
		return nil, fmt.Errorf("drawdiscard: noise %q is unknown; use %s, %s or %s", distribution, Laplace, Gaussian, NoNoise)
	}
	b := &NoiseBank{distribution: distribution, width: width, src: noise.NewSeeded(seed),
		random: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
	if distribution == NoNoise {
		return b, nil
	}
	b.ring = max(minRing, (4*width+bankBlock-1)/bankBlock*bankBlock)
	b.values = make([]float32, b.ring+width)
	for range b.ring / bankBlock {
		b.replaceOldest()
	}
	return b, nil
}

// replaceOldest draws a block. A Laplace value of scale 1 is (x² + y²)/2 with the sign of x, for
// normals x and y: half a squared radius is exponential, and independent of the angle.
func (b *NoiseBank) replaceOldest() {
	block := b.values[b.oldest:][:bankBlock]
	st := noise.Stream{Purpose: noise.Release, Lot: b.lot}
	b.lot = (b.lot + 1) % noise.MaxLots
	if b.distribution == Gaussian {
		_ = b.src.Normals(block, st, 0) // the stream is in range
	} else {
		_ = b.src.Normals(b.normals[:], st, 0)
		x, y := b.normals[:bankBlock], b.normals[bankBlock:]
		for i := range block {
			e := (x[i]*x[i] + y[i]*y[i]) / 2
			block[i] = math.Float32frombits(math.Float32bits(e) | math.Float32bits(x[i])&(1<<31))
		}
	}
	if b.oldest < b.width { // the copy after the ring
		copy(b.values[b.ring+b.oldest:], block)
	}
	b.oldest = (b.oldest + bankBlock) % b.ring
}

// AddTo adds scale times the next noise vector to dst, which has the bank's width.
func (b *NoiseBank) AddTo(dst []float32, scale float32) {
	if b.distribution == NoNoise {
		return
	}
	r := b.random.Uint64()
	if r>>63 == 1 {
		scale = -scale
	}
	start := int(r & 0xffffffff * uint64(b.ring) >> 32)
	simd.Axpy(dst, b.values[start:][:len(dst)], scale)
	for b.debt += len(dst); b.debt >= bankRefresh*bankBlock; b.debt -= bankRefresh * bankBlock {
		b.replaceOldest()
	}
}

// Simulate writes a step from the drawn weights to dst, with noise from a bank of the mechanism's
// distribution. The gradient must lie in the box; see [ClipToBox]. It gives no privacy. It
// does not round to the lattice. Dst must not overlap the other slices.
func (m *Mechanism) Simulate(dst, drawn, gradient []float32, bank *NoiseBank) {
	copy(dst, drawn)
	simd.Axpy(dst, gradient, float32(-m.settings.LearningRate))
	bank.AddTo(dst, float32(m.settings.LearningRate*m.NoiseScale()))
}
