// Squared norms of records' gradients of a convolution's weight, in double: what is
// clipped is the exact gradient, and where its terms cancel, float would find far
// less than its norm. A product of two floats is exact in double, and a bound on the
// roundings is added, so that no norm is found too small.
//
// convolution_gram finds ‖Σ_t a_t ⊗ δ_t‖² as ⟨AAᵀ, ΔΔᵀ⟩ (Goodfellow 2015, "Efficient
// per-example gradient computations"), the rows of A being the patches of a record's
// pictures. A block takes 16 by 16 pairs of rows, on and below the diagonal, and runs
// over all elements of the rows, of A, then of Δ, in slabs of 64. Its 256 threads are
// four teams with a quarter of each slab; a thread has 2 by 2 pairs, so that the two
// rows that it reads come in one access. No Gram matrix is written.
//
// Predicted for wrn16-4-16's last stage (64 rows of 2304 + 256, 16 records): 105 M
// multiplications in double, 7.3 µs at 14.4 T/s on an H100, and about 20 µs as 160
// blocks share 132 multiprocessors and wait for shared memory; a card with a
// sixty-fourth of that rate, as of Ada, takes 0.3 ms.
//
// convolution_exact builds the gradient itself, 32 by 32 elements a block, and writes
// it or adds its squares up. Plans ask for it where a weight has several uses.
#include "device.h"
#include "patch.h"
#include "reduce.h"

namespace {

constexpr int edge = 16, slab = 64, teams = 4;

// PatchRow and SignalRow give the elements of a row of A and of Δ.
struct PatchRow {
	const Reach *taps;
	const float *corner;
	unsigned sides;
	__device__ float operator()(int k) const { return tap_at(corner, sides, taps[k].bytes, taps[k].sides); }
};

struct SignalRow {
	const float *data;
	int area;
	bool valid;
	__device__ float operator()(int k) const { return valid ? data[k * area] : 0.0f; }
};

// Rows are the patches and signals of one group of a record's pictures.
struct Rows {
	Planes planes;
	const Reach *taps, *corners;
	const float *delta;
	Divider area; // from a row to its picture
	int rows;     // of a record
	int width;    // elements of a patch
	int outputs;  // of a group

	// There is a row `row` of a record, or it is one of zeros.
	__device__ __forceinline__ void find(int record, int row, PatchRow &patch, SignalRow &signal) const {
		int group = blockIdx.z, groups = gridDim.z;
		bool valid = row < rows;
		int place, picture = divide(area, record * rows + (valid ? row : 0), place);
		Reach corner = corners[place];
		patch = {taps, planes.data + picture * planes.picture + group * planes.group + corner.bytes / 4, valid ? corner.sides : 0};
		signal = {delta + (picture * groups + group) * outputs * (int)area.by + place, (int)area.by, valid};
	}
};

// gram gives each thread one of the products of two times 16 rows of width elements:
// that of row threadIdx.x/16 of the first and threadIdx.x%16 of the second. Lane l
// of 16 reads row l of each.
template <class S, class Row>
__device__ __forceinline__ double gram(S &first, S &second, const Row &row, const Row &other, int width) {
	int lane = threadIdx.x % edge, start = threadIdx.x / edge;
	int team = threadIdx.x / 64, i = threadIdx.x % 64 / 8 * 2, j = threadIdx.x % 8 * 2;
	double sum[2][2] = {};
	for (int k0 = 0; k0 < width; k0 += slab) {
#pragma unroll
		for (int k = start; k < slab; k += 256 / edge) {
			bool inside = k0 + k < width;
			first[k * edge + lane] = inside ? row(k0 + k) : 0.0f;
			second[k * edge + lane] = inside ? other(k0 + k) : 0.0f;
		}
		__syncthreads();
#pragma unroll 4
		for (int k = team * (slab / teams); k < (team + 1) * (slab / teams); k++) {
			double a[2], b[2];
#pragma unroll
			for (int n = 0; n < 2; n++) {
				a[n] = first[k * edge + i + n];
				b[n] = second[k * edge + j + n];
			}
#pragma unroll
			for (int n = 0; n < 4; n++)
				sum[n / 2][n % 2] = fma(a[n / 2], b[n % 2], sum[n / 2][n % 2]);
		}
		__syncthreads();
	}
#pragma unroll
	for (int n = 0; n < 4; n++)
		first[team * edge * edge + (i + n / 2) * edge + j + n % 2] = sum[n / 2][n % 2];
	__syncthreads();
	double total = 0;
#pragma unroll
	for (int n = 0; n < teams; n++)
		total += first[n * edge * edge + threadIdx.x];
	__syncthreads();
	return total;
}

} // namespace

// Partial takes ⟨AAᵀ, ΔΔᵀ⟩ and Σ_t ‖a_t‖‖δ_t‖ of every record, group and pair of tiles.
KERNEL LAUNCH_BOUNDS(256) convolution_gram(double *partial, Rows all) {
	SHARED(double, first, slab * edge);
	SHARED(double, second, slab * edge);
	int lane = threadIdx.x % edge, record = blockIdx.y;
	int s = 0, t = blockIdx.x;
	while (t > s)
		t -= ++s;
	PatchRow row, other;
	SignalRow signal, other_signal;
	all.find(record, s * edge + lane, row, signal);
	all.find(record, t * edge + lane, other, other_signal);
	double a = gram(first, second, row, other, all.width);
	double d = gram(first, second, signal, other_signal, all.outputs);
	int i = threadIdx.x / edge, j = threadIdx.x % edge;
	double weight = s != t || j < i ? 2 : j == i ? 1 : 0;
	double total = block_sum(second, weight == 0 ? 0 : weight * a * d);
	double length = block_sum(second, weight == 1 ? sqrt(a * d) : 0);
	if (threadIdx.x == 0) {
		double *out = partial + 2 * ((long long)(record * gridDim.z + blockIdx.z) * gridDim.x + blockIdx.x);
		out[0] = total;
		out[1] = length;
	}
}

// convolution_gram_norms adds up what the pairs gave, a warp a record, and what
// roundings may have taken: error times (Σ_t ‖a_t‖‖δ_t‖)².
KERNEL LAUNCH_BOUNDS(256) convolution_gram_norms(float *out, const double *partial, int records, int groups, int pairs, double error) {
	int lane = threadIdx.x % 32, record = blockIdx.x * 8 + threadIdx.x / 32;
	if (record >= records)
		return;
	double norm = 0;
	for (int group = 0; group < groups; group++) {
		const double *from = partial + 2 * (long long)(record * groups + group) * pairs;
		double total = 0, length = 0;
		for (int pair = lane; pair < pairs; pair += 32) {
			total += from[2 * pair];
			length += from[2 * pair + 1];
		}
		total = warp_sum(total);
		length = warp_sum(length);
		norm += (total < 0 ? 0 : total) + error * length * length;
	}
	if (lane == 0)
		out[record] = (float)norm;
}

// convolution_exact: the blocks of x are tiles of 32 outputs by 32 elements of the
// patches, tiles along the patches counted by across. Gradient takes the records'
// gradients, or is null; squares takes the sum of squares of every record, group and
// tile, or is null.
KERNEL LAUNCH_BOUNDS(256) convolution_exact(double *gradient, double *squares, Rows all, int across) {
	constexpr int tile = 32, stride = tile + 1;
	SHARED(double, patches, tile * stride);
	SHARED(double, signals, tile * stride);
	int record = blockIdx.y, group = blockIdx.z, groups = gridDim.z;
	int first = blockIdx.x / across * tile, left = blockIdx.x % across * tile;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int i = threadIdx.x / 16, j = threadIdx.x % 16;
	int outputs = all.outputs, width = all.width;
	double sum[2][2] = {};
	for (int r0 = 0; r0 < all.rows; r0 += tile) {
		PatchRow patch;
		SignalRow signal;
		all.find(record, r0 + lane, patch, signal);
#pragma unroll
		for (int n = warp; n < tile; n += 8) {
			signals[lane * stride + n] = first + n < outputs ? signal(first + n) : 0.0f;
			patches[lane * stride + n] = left + n < width ? patch(left + n) : 0.0f;
		}
		__syncthreads();
#pragma unroll 4
		for (int r = 0; r < tile; r++) {
			double a[2], b[2];
#pragma unroll
			for (int n = 0; n < 2; n++) {
				a[n] = signals[r * stride + i + 16 * n];
				b[n] = patches[r * stride + j + 16 * n];
			}
#pragma unroll
			for (int n = 0; n < 4; n++)
				sum[n / 2][n % 2] = fma(a[n / 2], b[n % 2], sum[n / 2][n % 2]);
		}
		__syncthreads();
	}
	double total = 0;
#pragma unroll
	for (int n = 0; n < 4; n++) {
		int o = first + i + n / 2 * 16, k = left + j + n % 2 * 16;
		total += sum[n / 2][n % 2] * sum[n / 2][n % 2];
		if (gradient && o < outputs && k < width)
			gradient[((long long)(record * groups + group) * outputs + o) * width + k] = sum[n / 2][n % 2];
	}
	if (!squares)
		return;
	total = block_sum(signals, total);
	if (threadIdx.x == 0)
		squares[(long long)(record * groups + group) * gridDim.x + blockIdx.x] = total;
}

// convolution_exact_norms adds up the squares of a record, a block each, and makes the
// norm longer by what roundings may have taken: error times ‖A‖‖Δ‖.
KERNEL LAUNCH_BOUNDS(256) convolution_exact_norms(float *out, const double *squares, int tiles, const float *x, int pictures, const float *delta, int signals, double error) {
	SHARED(double, partial, 32);
	long long record = blockIdx.x;
	double total = 0, a = 0, d = 0;
	for (int i = threadIdx.x; i < tiles; i += 256)
		total += squares[record * tiles + i];
	for (int i = threadIdx.x; i < pictures; i += 256) {
		double v = x[record * pictures + i];
		a += v * v;
	}
	for (int i = threadIdx.x; i < signals; i += 256) {
		double v = delta[record * signals + i];
		d += v * v;
	}
	total = block_sum(partial, total);
	a = block_sum(partial, a);
	d = block_sum(partial, d);
	if (threadIdx.x == 0) {
		double norm = sqrt(total) + error * sqrt(a * d);
		out[record] = (float)(norm * norm);
	}
}
