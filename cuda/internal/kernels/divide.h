// Division by a number that the host knows: the upper half of a product, a sum and a
// shift (Granlund & Montgomery 1994, "Division by invariant integers using
// multiplication", figure 4.1). It is exact for every n from 0 to 2^31 - 1.
#pragma once

struct Divider {
	unsigned multiplier, shift, by;
};

__device__ __forceinline__ int quotient(Divider d, int n) {
	unsigned high = (unsigned)((unsigned long long)(unsigned)n * d.multiplier >> 32);
	return (int)((high + (unsigned)n) >> d.shift);
}

// divide returns the quotient and stores the remainder in rest.
__device__ __forceinline__ int divide(Divider d, int n, int &rest) {
	int q = quotient(d, n);
	rest = n - q * (int)d.by;
	return q;
}
