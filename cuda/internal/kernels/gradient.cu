// Weight gradients of records that are products, Σ_t a_t ⊗ δ_t over the rows t of a
// record. In float32 (tile.h), or from split operands on tensor cores (split.h).
//
// clipped_product reads A, Δ and a clip factor per record, and writes Aᵀ·diag(c)·Δ, the
// sum of the clipped gradients. A row of Δ is multiplied by the factor when it is read.
// The rows of a record of factor 0 are not read, so a NaN or Inf in them cannot reach
// the sum. The sum is long and the result may be small, so rows are split into slices
// for separate blocks, and add_slices adds the slices in their order. It costs the same
// as the ordinary gradient: 784×1000 from 1024 rows is 1.6 GFLOP, 30 µs at 80% of 67
// TFLOP/s.
//
// record_product reads A and Δ, and writes every record's gradient: programs use it
// where the gradient is not larger than the rows it comes from. It is bound by writing:
// 32 records of 128×128 are 2 MB, 0.6 µs at 3.35 TB/s, in addition to 67 MFLOP, 1.5 µs.
#include "batch.h"
#include "divide.h"
#include "matrix.h"
#include "tensor.h"

// FactoredRows is a matrix whose rows in memory, one for each k, belong to records. The
// rows of a record of factor 0 read as zeros; if scaled, the others are multiplied by
// their factor.
template <bool scaled> struct FactoredRows {
	static constexpr Access access = Access::across_rows;
	const float *data, *factors;
	Divider record;  // divides a row into its record
	int rows, depth;

	using Row = int;
	__device__ __forceinline__ Row row(int i) const { return i < rows ? i : -1; }
	__device__ __forceinline__ float element(Row r, int k) const {
		if (r < 0 || k >= depth) return 0;
		float factor = factors[quotient(record, k)];
		if (factor == 0) return 0;
		float v = data[r + k * rows];
		return scaled ? factor * v : v;
	}
	__device__ __forceinline__ float4 quad(Row r, int k) const {
		return make_float4(element(r, k), element(r, k + 1), element(r, k + 2), element(r, k + 3));
	}
};

struct ClippedProduct {
	const float *a, *delta, *factors;
	float *out;
	Divider record;
	int rows, columns, depth, slice;
	int add, aligned;
};

// multiply_clipped computes a tile of a slice, or of all slices if there is one.
template <class T, class Math = FP32> __device__ __forceinline__ void multiply_clipped(const ClippedProduct &p, unsigned tile, unsigned slice, unsigned slices) {
	int m, n, from = 0, to = p.depth;
	tile_position<T>(tile, p.rows, p.columns, m, n);
	if (slices > 1) {
		from = slice * p.slice;
		to = min(to, from + p.slice);
	}
	Result out = {p.out + slice * ((long long)p.rows * p.columns), nullptr, p.rows, p.columns, 0, p.add != 0, p.aligned != 0};
	product_as<T>(Math{}, FactoredRows<false>{p.a, p.factors, p.record, p.rows, p.depth}, FactoredRows<true>{p.delta, p.factors, p.record, p.columns, p.depth},
		out, m, n, from, to, p.slice);
}

template <class T, class Math = FP32> __device__ __forceinline__ void multiply_clipped(const Batch<ClippedProduct> &batch) {
	const BatchBlock block(batch);
	multiply_clipped<T, Math>(batch.arguments[block.part], block.x, block.z, block.grid_z);
}

// Products in tiles of 128 fill a GPU, and their registers leave no room for the place in a
// batch.
KERNEL LAUNCH_BOUNDS(256, 2) clipped_product_128(ClippedProduct p) { multiply_clipped<Tile128x128>(p, blockIdx.x, blockIdx.z, gridDim.z); }
KERNEL LAUNCH_BOUNDS(128, 4) clipped_product_64(Batch<ClippedProduct> batch) { multiply_clipped<Tile64x64>(batch); }
KERNEL VARIED_BOUNDS(64, 16) clipped_product_32(Batch<ClippedProduct> batch) { multiply_clipped<Tile32x32>(batch); }
KERNEL VARIED_BOUNDS(64, 12) clipped_product_16(Batch<ClippedProduct> batch) { multiply_clipped<Tile64x16>(batch); }

KERNEL LAUNCH_BOUNDS(256, 1) clipped_product_64x128_split(Batch<ClippedProduct> batch) { multiply_clipped<TensorTile64x128, SplitTF32>(batch); }
KERNEL LAUNCH_BOUNDS(128, 2) clipped_product_64_split(Batch<ClippedProduct> batch) { multiply_clipped<Tile64x64, SplitTF32>(batch); }
KERNEL LAUNCH_BOUNDS(64) clipped_product_32_split(Batch<ClippedProduct> batch) { multiply_clipped<Tile32x32, SplitTF32>(batch); }

struct RecordProduct {
	const float *a, *delta;
	float *out;
	int rows, columns, depth, aligned;  // of one record; depth is its number of rows
};

template <class T, class Math = FP32> __device__ __forceinline__ void multiply_record(const RecordProduct &p, unsigned tile, long long record) {
	int m, n;
	tile_position<T>(tile, p.rows, p.columns, m, n);
	Result out = {p.out + record * p.rows * p.columns, nullptr, p.rows, p.columns, 0, false, p.aligned != 0};
	product_as<T>(Math{}, ColumnMajor{p.a + record * p.depth * p.rows, p.rows, p.depth, p.rows},
		ColumnMajor{p.delta + record * p.depth * p.columns, p.columns, p.depth, p.columns}, out, m, n, 0, p.depth, 1 << 30);
}

template <class T, class Math = FP32> __device__ __forceinline__ void multiply_record(const Batch<RecordProduct> &batch) {
	const BatchBlock block(batch);
	multiply_record<T, Math>(batch.arguments[block.part], block.x, block.y);
}

KERNEL LAUNCH_BOUNDS(256, 2) record_product_128(RecordProduct p) { multiply_record<Tile128x128>(p, blockIdx.x, blockIdx.y); }
KERNEL LAUNCH_BOUNDS(128, 4) record_product_64(Batch<RecordProduct> batch) { multiply_record<Tile64x64>(batch); }
KERNEL VARIED_BOUNDS(64, 16) record_product_32(Batch<RecordProduct> batch) { multiply_record<Tile32x32>(batch); }
KERNEL VARIED_BOUNDS(64, 12) record_product_16(Batch<RecordProduct> batch) { multiply_record<Tile64x16>(batch); }

KERNEL LAUNCH_BOUNDS(256, 1) record_product_64x128_split(Batch<RecordProduct> batch) { multiply_record<TensorTile64x128, SplitTF32>(batch); }
KERNEL LAUNCH_BOUNDS(128, 2) record_product_64_split(Batch<RecordProduct> batch) { multiply_record<Tile64x64, SplitTF32>(batch); }
KERNEL LAUNCH_BOUNDS(64) record_product_32_split(Batch<RecordProduct> batch) { multiply_record<Tile32x32, SplitTF32>(batch); }
