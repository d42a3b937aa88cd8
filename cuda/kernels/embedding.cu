// Table lookups, and sums added to the rows of a table.
//
// embed reads indices and the rows that they name, and writes these: one thread per
// element. lstm-64: 1.6 MB written, 1 µs; a launch is 2 µs. embed_bag writes the sum of
// the rows of a bag: one block per bag, whose threads divide columns and steps.
// embbag-256: 2.1 MB from L2, two dependent reads, 16 rows per thread: ≈2 µs.
//
// The other kernels add rows of Δ that share an index: index t belongs to row t/bag of
// Δ. Equal indices are found by sorting keys (index, t). The sorted list is divided
// evenly among the threads of a block, in groups whose threads divide the columns. Each
// group adds its piece run by run, and the group where a run begins joins the pieces of
// a run that was cut. So no float is added atomically, the order of a sum is the order
// of t, and the whole block adds an index that all rows share.
//
// gather_sum (clipped sums, and the ordinary gradient): a block owns the rows of the
// table whose number modulo the number of blocks is its own, so that frequent rows,
// which vocabularies list first, are spread. It scans all indices, lists its own, and
// when the list is full sorts it and adds it to its rows, which no other block accesses.
// Rows of records with factor 0 are not listed, and their values are not read. Two
// blocks per multiprocessor read all indices: for embbag-256 (32768 indices) 264 × 128
// KiB from L2, 6 µs at 5.5 TB/s; sorting a block's own ≈124 is 28 passes of ≈80 cycles,
// 1.3 µs; adding two entries per group, three dependent reads, 1 µs; the table's rows,
// read and written, are 2.6 MB, 0.8 µs. Together ≈9 µs; lstm-64 (4096 indices, 100 wide)
// ≈5 µs. The worst case is one index everywhere: its block then computes all sums, 4096
// at a time in ≈10 µs, 80 µs for embbag-256.
//
// gather_norms and gather_records assign a block to each record and sort its indices.
// Norms are added in double and include a bound on the rounding error of gather_sum,
// which adds the n rows in float, (n+1)·2⁻²⁴·‖Σ|δ|‖: they satisfy the bound of
// clip.Single where rows cancel. embbag-256: 128 keys, 28 passes, 1.3 µs; four entries
// per group, 1 µs; two blocks per multiprocessor at the same time: ≈4 µs, lstm-64 ≈4 µs.
// Up to 4096 steps, a record is sorted in shared memory, above in scratch memory,
// through L2, ≈50 µs at 8192.
#include "device.h"
#include "each.h"
#include "reduce.h"

typedef unsigned long long Key; // index in the upper half, t in the lower

static const int room = 4096; // keys of a list in shared memory
static const int wide = 2;    // columns of a thread
static const int warps_of_sum = 16, warps_of_record = 8;

// entry converts a number to one of n entries; −1 if it is not one.
__device__ __forceinline__ int entry(float v, int n) {
	if (!(v >= 0 && v < (float)n)) return -1;
	int i = (int)v;
	return (float)i == v && i < n ? i : -1;
}

KERNEL embed(float *out, const float *table, const float *index, int n, int vocabulary, int dim) {
	EACH(i, n) {
		int t = (int)i / dim, row = entry(index[t], vocabulary);
		out[i] = row < 0 ? 0.0f : table[row * dim + (int)i - t * dim];
	}
}

// Neighbouring threads process neighbouring columns, a power of two of them; the other
// threads divide the steps, and their sums are added in pairs.
KERNEL LAUNCH_BOUNDS(256) embed_bag(float *out, const float *table, const float *index, int bag, int vocabulary, int dim, int columns, float scale) {
	SHARED(float, part, 256);
	const int slices = blockDim.x / columns, slice = threadIdx.x / columns;
	const int d = blockIdx.y * columns + threadIdx.x % columns;
	const float *from = index + blockIdx.x * bag;
	float sum = 0;
	if (d < dim) {
#pragma unroll 4
		for (int t = slice; t < bag; t += slices) {
			int row = entry(from[t], vocabulary);
			sum += row < 0 ? 0.0f : table[row * dim + d];
		}
	}
	part[threadIdx.x] = sum;
	for (int half = slices / 2; half > 0; half /= 2) {
		__syncthreads();
		if (slice < half) part[threadIdx.x] += part[threadIdx.x + half * columns];
	}
	if (slice == 0 && d < dim) out[blockIdx.x * dim + d] = scale * part[threadIdx.x];
}

__device__ __forceinline__ Key key(int row, int t) { return (Key)row << 32 | (unsigned)t; }
__device__ __forceinline__ int row_of(Key k) { return (int)(k >> 32); }
__device__ __forceinline__ int step_of(Key k) { return (int)(unsigned)k; }

// sort sorts the first count keys (Batcher 1968: bitonic). It overwrites the keys after
// them, up to a power of two.
template <class Keys> __device__ __forceinline__ void sort(Keys &keys, int count) {
	int n = 1;
	while (n < count) n *= 2;
	for (int i = count + threadIdx.x; i < n; i += blockDim.x) keys[i] = ~0ull;
	for (int size = 2; size <= n; size *= 2)
		for (int apart = size / 2; apart > 0; apart /= 2) {
			__syncthreads();
			for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
				int low = 2 * i - (i & (apart - 1)), high = low + apart;
				Key a = keys[low], b = keys[high];
				if ((a > b) == ((low & size) == 0)) {
					keys[low] = b;
					keys[high] = a;
				}
			}
		}
	__syncthreads();
}

// add_runs adds up the rows of each index in a sorted list, and passes every column of
// every sum to into.take, once. heads has room for `wide` numbers of each thread.
template <class Into, class Keys, class Heads>
__device__ __forceinline__ void add_runs(Into &into, Keys &keys, Heads &heads, int count, const float *delta, int dim, int bag) {
	typedef typename Into::Number Number;
	int lanes = 1;
	while (lanes < 32 && lanes * wide < dim) lanes *= 2;
	const int lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = blockDim.x / lanes;
	const int each = (count + groups - 1) / groups;
	const int from = min(group * each, count), to = min(from + each, count);
	const int mine = group * lanes * wide + lane;

	for (int base = lane; base - lane < dim; base += lanes * wide) {
		Number sum[wide];
#pragma unroll
		for (int w = 0; w < wide; w++) sum[w] = 0;
		int row = from < to ? row_of(keys[from]) : -1;
		bool cut = from > 0 && from < to && row_of(keys[from - 1]) == row;
		auto end = [&] {
#pragma unroll
			for (int w = 0; w < wide; w++) {
				int d = base + lanes * w;
				if (d < dim) {
					if (cut)
						heads[mine + lanes * w] = sum[w];
					else
						into.take(row, d, sum[w]);
				}
				sum[w] = 0;
			}
			cut = false;
		};
		for (int first = from; first < to; first += 4) {
			float v[4][wide], factor[4];
			int rows[4];
#pragma unroll
			for (int i = 0; i < 4; i++) {
				Key k = keys[min(first + i, to - 1)];
				rows[i] = row_of(k);
				factor[i] = into.factor(step_of(k));
				const float *x = delta + step_of(k) / bag * dim;
#pragma unroll
				for (int w = 0; w < wide; w++) v[i][w] = base + lanes * w < dim ? x[base + lanes * w] : 0.0f;
			}
#pragma unroll
			for (int i = 0; i < 4; i++) {
				if (first + i >= to) break;
				if (rows[i] != row) end();
				row = rows[i];
#pragma unroll
				for (int w = 0; w < wide; w++)
					sum[w] += (Number)factor[i] * (Number)v[i][w];
			}
		}
		// The last run may continue in the next groups; if it began earlier, it belongs
		// to another group.
		bool open = from < to && !cut;
		if (cut) end();
		__syncthreads();
		if (open) {
			for (int next = 1; (group + next) * each < count && row_of(keys[(group + next) * each]) == row; next++)
#pragma unroll
				for (int w = 0; w < wide; w++)
					if (base + lanes * w < dim) sum[w] += Number(heads[mine + lanes * (wide * next + w)]);
			end();
		}
		__syncthreads();
	}
}

// Table adds sums to the rows of a table.
struct Table {
	typedef float Number;
	float *out;
	int dim;
	const float *factors; // of records, one for each this many steps; null: 1
	int each;

	__device__ __forceinline__ float factor(int t) const { return factors ? factors[t / each] : 1.0f; }
	__device__ __forceinline__ void take(int row, int d, float sum) { out[row * dim + d] += sum; }
};

// Sized is a sum, and the sum of its terms' magnitudes.
struct Sized {
	double value, size;

	Sized() = default;
	__device__ __forceinline__ Sized(double v) : value(v), size(fabs(v)) {}
	__device__ __forceinline__ Sized &operator+=(const Sized &x) {
		value += x.value;
		size += x.size;
		return *this;
	}
};
__device__ __forceinline__ Sized operator*(const Sized &a, const Sized &b) { return Sized(a.value * b.value); }

// Norm adds up the squares of sums and of their magnitudes.
struct Norm {
	typedef Sized Number;
	double total, sizes;

	__device__ __forceinline__ float factor(int) const { return 1.0f; }
	__device__ __forceinline__ void take(int, int, const Sized &sum) {
		total += sum.value * sum.value;
		sizes += sum.size * sum.size;
	}
};

// list adds the keys of the rows that threads offer (count rows each, −1 for none) to a
// list, in an order that is always the same, and returns the list's new length. Row i of
// a thread belongs to step t + i·blockDim.
template <int count, class Keys, class Counts>
__device__ __forceinline__ int list(Keys &keys, Counts &counts, int have, const int (&rows)[count], int t) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	unsigned votes[count];
	int mine = 0;
#pragma unroll
	for (int i = 0; i < count; i++) {
		votes[i] = __ballot_sync(0xffffffff, rows[i] >= 0);
		mine += __popc(votes[i]);
	}
	if (lane == 0) counts[warp] = mine;
	__syncthreads();
	int at = have;
	for (int w = 0; w < warps; w++) {
		if (w == warp) at = have;
		have += counts[w];
	}
#pragma unroll
	for (int i = 0; i < count; i++) {
		if (rows[i] >= 0) keys[at + __popc(votes[i] & ((1u << lane) - 1))] = key(rows[i], t + i * blockDim.x);
		at += __popc(votes[i]);
	}
	__syncthreads();
	return have;
}

KERNEL LAUNCH_BOUNDS(512, 2) gather_sum(float *out, const float *index, const float *delta, const float *factors, int n, int each, int vocabulary, int dim, int bag) {
	SHARED(Key, keys, room);
	SHARED(float, heads, warps_of_sum * 32 * wide);
	SHARED(int, counts, warps_of_sum);
	const int many = 4, tile = many * blockDim.x;
	Table into = {out, dim, factors, each};
	float next[many];
	auto read = [&](int t) {
#pragma unroll
		for (int i = 0; i < many; i++, t += blockDim.x) next[i] = t < n ? index[t] : -1.0f;
	};
	read(threadIdx.x);
	int have = 0;
	for (int t = threadIdx.x; t - (int)threadIdx.x < n; t += tile) {
		int rows[many];
#pragma unroll
		for (int i = 0; i < many; i++) {
			rows[i] = entry(next[i], vocabulary);
			if (rows[i] >= 0 && (rows[i] % gridDim.x != blockIdx.x || into.factor(t + i * blockDim.x) == 0)) rows[i] = -1;
		}
		read(t + tile);
		have = list(keys, counts, have, rows, t);
		if (have > 0 && (have > room - tile || t - (int)threadIdx.x + tile >= n)) {
			sort(keys, have);
			add_runs(into, keys, heads, have, delta, dim, bag);
			have = 0;
		}
	}
}

// sorted lists the indices of a record and sorts them.
template <class Keys, class Counts>
__device__ __forceinline__ int sorted(Keys &keys, Counts &counts, const float *index, int rows, int vocabulary) {
	int have = 0;
	for (int first = 0; first < rows; first += blockDim.x) {
		int t = first + threadIdx.x;
		const int row[1] = {t < rows ? entry(index[t], vocabulary) : -1};
		have = list(keys, counts, have, row, t);
	}
	sort(keys, have);
	return have;
}

// record adds up a record's contributions to each row.
template <class Into, class Keys, class Heads, class Counts>
__device__ __forceinline__ void record(Into &into, Keys &keys, Heads &heads, Counts &counts, const float *index, const float *delta, int rows, int vocabulary, int dim, int bag) {
	const int r = blockIdx.x;
	int have = sorted(keys, counts, index + r * rows, rows, vocabulary);
	add_runs(into, keys, heads, have, delta + r * (rows / bag) * dim, dim, bag);
}

// Records with more steps than a list in shared memory has room for have slots in
// scratch memory.

KERNEL LAUNCH_BOUNDS(256, 1) gather_records(float *out, const float *index, const float *delta, Key *scratch, int rows, int slots, int vocabulary, int dim, int bag) {
	SHARED(Key, keys, room);
	SHARED(float, heads, warps_of_record * 32 * wide);
	SHARED(int, counts, warps_of_record);
	Table into = {out + blockIdx.x * vocabulary * dim, dim, 0, 1};
	Key *far = scratch + (long long)blockIdx.x * slots;
	if (slots <= room)
		record(into, keys, heads, counts, index, delta, rows, vocabulary, dim, bag);
	else
		record(into, far, heads, counts, index, delta, rows, vocabulary, dim, bag);
}

KERNEL LAUNCH_BOUNDS(256, 1) gather_norms(float *out, const float *index, const float *delta, Key *scratch, int rows, int slots, int vocabulary, int dim, int bag) {
	SHARED(Key, keys, room);
	SHARED(Sized, heads, warps_of_record * 32 * wide);
	SHARED(int, counts, warps_of_record);
	SHARED(double, partial, 32);
	Norm into = {0, 0};
	Key *far = scratch + (long long)blockIdx.x * slots;
	if (slots <= room)
		record(into, keys, heads, counts, index, delta, rows, vocabulary, dim, bag);
	else
		record(into, far, heads, counts, index, delta, rows, vocabulary, dim, bag);
	double total = block_sum(partial, into.total), sizes = block_sum(partial, into.sizes);
	double norm = sqrt(total) + (rows + 1) * 0x1p-24 * sqrt(sizes);
	if (threadIdx.x == 0) out[blockIdx.x] = (float)(norm * norm);
}
