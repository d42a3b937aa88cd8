// EACH(i, n) goes over the elements, neighbouring threads at neighbours, and strides
// by the grid, so that any grid covers any size.
#pragma once

#define EACH(i, n) \
	for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (long long)blockDim.x)
