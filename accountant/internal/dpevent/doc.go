// Package dpevent converts a ledger's history to privacy events: how likely the record in
// which two neighbouring data sets differ takes part in a lot, and how far it moves each
// noised sum. Every accountant computes from these events.
package dpevent
