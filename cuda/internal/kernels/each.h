// EACH(i, n) loops over n elements. Neighbouring threads process neighbouring elements,
// and the loop strides by the grid, so any grid covers any size.
#pragma once

#define EACH(i, n) \
	for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (long long)blockDim.x)
