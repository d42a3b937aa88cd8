package simulation

import "math/rand/v2"

// Purposes of the seed's streams.
const (
	rowsStream uint64 = 1 + iota
	orderStream
	serverStream
	noiseStream
	varianceStream
	lossStream
)

// stream returns the generator of one purpose and number.
func stream(seed, purpose, number uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, purpose<<32|number))
}

// drawRows draws n of the rows in random order. Client c owns n/clients in a row of the result.
func drawRows(rows []int, n int, seed uint64) []int {
	drawn := make([]int, n)
	for i, at := range stream(seed, rowsStream, 0).Perm(len(rows))[:n] {
		drawn[i] = rows[at]
	}
	return drawn
}

// clientOrder returns the order in which clients contribute in a pass. All methods share it.
func clientOrder(clients, pass int, seed uint64) []int {
	return stream(seed, orderStream, uint64(pass)).Perm(clients)
}
