// Package numerics contains the numerical methods of the accountants: where a monotone function of
// one variable crosses a target, and a Gauss–Legendre rule.
package numerics
