// Package half has floating-point numbers of 16 bits, as checkpoints store weights. Each of them is also a float32, so both
// conversions are exact.
package half

import "math"

// Format is the meaning of 16 bits.
type Format uint8

// The formats.
const (
	None     Format = iota // not a number of 16 bits
	BFloat16               // the upper half of a float32
	Float16                // binary16 of IEEE 754: a sign, 5 bits of an exponent, 10 bits of a fraction
)

// Numbers are numbers of one format.
type Numbers struct {
	Format Format
	Bits   []uint16
}

// From returns the numbers from one of them on.
func (n Numbers) From(first int) Numbers { return Numbers{n.Format, n.Bits[first:]} }

// Value returns the number that some bits stand for.
func (f Format) Value(bits uint16) float32 {
	if f == BFloat16 {
		return math.Float32frombits(uint32(bits) << 16)
	}
	sign, exponent, fraction := uint32(bits>>15)<<31, uint32(bits>>10&31), uint32(bits&1023)
	switch exponent {
	case 0:
		size := float32(fraction) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(size))
	case 31:
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// BitsOf returns the bits that stand for a number, which must be one of the format.
func (f Format) BitsOf(x float32) uint16 {
	b := math.Float32bits(x)
	if f == BFloat16 {
		return uint16(b >> 16)
	}
	sign, exponent, fraction := uint16(b>>16)&(1<<15), uint16(b>>23&255), uint16(b>>13&1023)
	switch {
	case exponent == 255:
		return sign | 31<<10 | fraction
	case exponent > 127-15:
		return sign | (exponent-(127-15))<<10 | fraction
	}
	return sign | uint16(math.Abs(float64(x))*0x1p24)
}
