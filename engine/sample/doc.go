// Package sample draws lots: the records that contribute to the next sum.
//
// Each policy draws exactly the distribution that its [Event] describes, from the
// cryptographic generator: no probability is rounded down, and bounded integers are not
// biased. Lot t of a source has the same records each time it is drawn. Lots with
// different numbers are independent (for [Shuffle], different passes are).
//
// The members of a lot are private. With Poisson sampling their number is private too.
package sample
