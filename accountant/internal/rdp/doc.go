// Package rdp computes Rényi divergences of privacy events and converts their sums to
// (ε, δ): Rényi differential privacy and the moments accountant. Every answer is an upper
// bound, except those of PublishedDivergence and AsymptoticMomentsEpsilon.
package rdp
