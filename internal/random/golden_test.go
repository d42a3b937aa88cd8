package random

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"testing"
)

// Seed, stream and index give these bits on every processor, with and without assembly, and
// in later releases.
func TestStreams_GoldenBits(t *testing.T) {
	s, st := NewSeeded(2026), Stream{Purpose: Release, Lot: 1<<40 + 3, Vector: 9}
	const n = 10_000
	words, normals, wide := make([]uint64, n), make([]float32, n), make([]float64, n)
	laplaces, integers := make([]float64, n), make([]int64, n)
	rounded, discreteLaplaces := make([]int64, n), make([]int64, n)
	for i := range rounded {
		rounded[i] = int64(i-n/2) << 20
	}
	for _, err := range []error{
		s.Uint64s(words, st, 5), s.Normals(normals, st, 5), s.Normals64(wide, st, 5), s.Laplaces(laplaces, st, 5),
		s.DiscreteGaussians(integers, st, 5, big.NewRat(1000, 7)),
		RoundedGaussian{Sigma: 5e6}.Add(s, rounded, st, 5),
		s.DiscreteLaplaces(discreteLaplaces, st, 5, 1<<30),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		values any
		want   string
	}{
		{"Uint64s", words, "892b672ada7373203f577626"},
		{"Normals", normals, "ee94659f49b71ab8311b3f3d"},
		{"Normals64", wide, "1e8022a675d3a14b4030ec03"},
		{"Laplaces", laplaces, "13a221cfb8cd1a0e1e59ea19"},
		{"DiscreteGaussians", integers, "e8edc3e17c8d6cd7449dc248"},
		{"RoundedGaussian", rounded, "6e0d7a1f8fb94f4d26856acc"},
		{"DiscreteLaplaces", discreteLaplaces, "ae3fb3e936d5f709202d74a6"},
	} {
		h := sha256.New()
		if err := binary.Write(h, binary.LittleEndian, c.values); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(h.Sum(nil)[:12]); got != c.want {
			t.Errorf("%s: sum %s, want %s", c.name, got, c.want)
		}
	}
}
