// Matrices in memory as operands and results of tile.h.
#pragma once
#include "activation.h"
#include "half.h"
#include "tile.h"

// load_quad returns the elements k to k+3 of a row of depth elements; null is a row of
// zeros.
__device__ __forceinline__ float4 load_quad(const float *row, int k, int depth, bool aligned) {
	if (!row || k >= depth) return make_float4(0, 0, 0, 0);
	if (aligned && k + 4 <= depth) return *reinterpret_cast<const float4 *>(row + k);
	return make_float4(row[k], k + 1 < depth ? row[k + 1] : 0, k + 2 < depth ? row[k + 2] : 0, k + 3 < depth ? row[k + 3] : 0);
}

// RowMajor is a matrix whose row i is depth floats from data + i·stride on. aligned means
// that every row starts at a multiple of 16 bytes.
struct RowMajor {
	static constexpr Access access = Access::along_rows;
	const float *data;
	int rows, depth, stride;
	bool aligned;

	struct Row {
		int first;  // -1: outside
	};
	__device__ __forceinline__ Row row(int i) const { return {i < rows ? i * stride : -1}; }
	__device__ __forceinline__ float4 quad(const Row &r, int k) const {
		return load_quad(r.first < 0 ? nullptr : data + r.first, k, depth, aligned);
	}
};

// ColumnMajorOf is a matrix in transposed storage: element k of row i is data[k·stride +
// i]. Numbers is a pointer to floats, or Halves.
template <class Numbers> struct ColumnMajorOf {
	static constexpr Access access = Access::across_rows;
	Numbers data;
	int rows, depth, stride;

	struct Row {
		int first;  // -1: outside
	};
	__device__ __forceinline__ Row row(int i) const { return {i < rows ? i : -1}; }
	__device__ __forceinline__ float element(const Row &r, int k) const {
		return r.first >= 0 && k < depth ? data[r.first + k * stride] : 0;
	}
	__device__ __forceinline__ float4 quad(const Row &r, int k) const {
		return make_float4(element(r, k), element(r, k + 1), element(r, k + 2), element(r, k + 3));
	}
};

using ColumnMajor = ColumnMajorOf<const float *>;

// HalfRows is RowMajor for numbers of 16 bits. aligned means that every row starts at a multiple of 8 bytes.
struct HalfRows {
	static constexpr Access access = Access::along_rows;
	Halves numbers;
	int rows, depth;
	bool aligned;

	struct Row {
		int first;  // -1: outside
	};
	__device__ __forceinline__ Row row(int i) const { return {i < rows ? i * depth : -1}; }
	__device__ __forceinline__ float element(const Row &r, int k) const { return k < depth ? numbers[r.first + k] : 0; }
	__device__ __forceinline__ float4 quad(const Row &r, int k) const {
		if (r.first < 0) return make_float4(0, 0, 0, 0);
		if (aligned && k + 4 <= depth) {
			const uint2 v = *reinterpret_cast<const uint2 *>(numbers.data + r.first + k);
			const int format = numbers.format;
			return make_float4(widen(v.x & 0xffff, format), widen(v.x >> 16, format), widen(v.y & 0xffff, format), widen(v.y >> 16, format));
		}
		return make_float4(element(r, k), element(r, k + 1), element(r, k + 2), element(r, k + 3));
	}
};

// load_row and store_row move W neighbours; those from `count` on are outside. aligned
// means that none is outside and that the address is a multiple of their size.
template <int W> __device__ __forceinline__ void load_row(float (&v)[W], const float *at, int count, bool aligned) {
	if (aligned && W == 4) {
		float4 w = *reinterpret_cast<const float4 *>(at);
		v[0] = w.x, v[1] = w.y, v[W - 2] = w.z, v[W - 1] = w.w;
		return;
	}
#pragma unroll
	for (int c = 0; c < W; c++)
		v[c] = c < count ? at[c] : 0;
}

template <int W> __device__ __forceinline__ void store_row(float *at, const float (&v)[W], int count, bool aligned) {
	if (aligned && W == 4) {
		*reinterpret_cast<float4 *>(at) = make_float4(v[0], v[1], v[W - 2], v[W - 1]);
		return;
	}
	if (aligned && W == 2) {
		*reinterpret_cast<float2 *>(at) = make_float2(v[0], v[1]);
		return;
	}
#pragma unroll
	for (int c = 0; c < W; c++)
		if (c < count) at[c] = v[c];
}

// Result is a matrix to which a product is written or added. aligned means that rows start
// and end at multiples of 16 bytes.
struct Result {
	float *data;
	const float *bias;  // one per column, or null
	int rows, columns, act;
	bool add, aligned;

	template <int W> __device__ __forceinline__ void store(int m, int n, const float (&v)[W], bool first, bool last) const {
		if (m >= rows || n >= columns) return;
		float *at = data + (m * columns + n);
		float w[W] = {};
		if (add || !first) load_row(w, at, columns - n, aligned);
#pragma unroll
		for (int c = 0; c < W; c++)
			w[c] += v[c];
		if (last && bias) {
			float b[W];
			load_row(b, bias + n, columns - n, aligned);
#pragma unroll
			for (int c = 0; c < W; c++)
				w[c] += b[c];
		}
		if (last && act == 1)
#pragma unroll
			for (int c = 0; c < W; c++)
				w[c] = activate(1, w[c]);
		store_row(at, w, columns - n, aligned);
	}

	__device__ __forceinline__ bool needs_finish() const { return act > 1; }
	template <int W> __device__ __forceinline__ void finish(int m, int n) const {
		if (m >= rows) return;
		for (int c = n; c < n + W && c < columns; c++) {
			float *at = data + (m * columns + c);
			*at = activate(act, *at);
		}
	}
};
