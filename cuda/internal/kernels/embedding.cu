// Table lookups, and sums added to the rows of a table.
//
// Lookups. embed reads indices and the table rows that they name, and writes these rows:
// one thread per element. lstm-64: 1.6 MB written, 1 µs; a launch is 2 µs. embed_bag
// writes the sum of the rows of a bag: one block per bag, whose threads divide columns
// and steps. embbag-256: 2.1 MB from L2, two dependent reads, 16 rows per thread: ≈2 µs.
//
// Sums. The other kernels read indices and Δ, and add the rows of Δ that share an index:
// index t belongs to row t/bag of Δ. Equal indices are found by sorting keys (index, t).
// The sorted list is divided evenly among the threads of a block, in groups whose
// threads divide the columns. Each group adds its piece run by run, and the group where
// a run begins joins the pieces of a run that was cut. So no float is added atomically,
// the order of a sum is the order of t, and the whole block adds an index that all rows
// share.
//
// gather_sum (clipped sums, and the ordinary gradient) adds to the table's gradient. A
// block owns the rows of the table whose number modulo the number of blocks is its own:
// frequent rows, which vocabularies list first, are then spread over the blocks. The
// block scans all indices and lists its own; when the list is full, it sorts the list
// and adds it to its rows, which no other block accesses. Rows of records with factor 0
// are not listed, and their values are not read. Two blocks per multiprocessor read all
// indices: for embbag-256 (32768 indices) 264 × 128 KiB from L2, 6 µs at 5.5 TB/s;
// sorting a block's own ≈124 is 28 passes of ≈80 cycles, 1.3 µs; adding two entries per
// group, three dependent reads, 1 µs; the table's rows, read and written, are 2.6 MB,
// 0.8 µs. Together ≈9 µs; lstm-64 (4096 indices, 100 wide) ≈5 µs. The worst case is one
// index everywhere: its block then computes all sums, 4096 at a time in ≈10 µs, 80 µs
// for embbag-256.
//
// gather_norms and gather_records write squared norms and gradients of single records.
// They assign a block to each record and sort its indices. Norms are added in double and
// include a bound on the rounding error of gather_sum, which adds the n rows in float,
// (n+1)·2⁻²⁴·‖Σ|δ|‖: they satisfy the bound of clip.Float32Accuracy where rows cancel.
// embbag-256: 128 keys, 28 passes, 1.3 µs; four entries per group, 1 µs; two blocks per
// multiprocessor at the same time: ≈4 µs, lstm-64 ≈4 µs. Up to 4096 steps, a record is
// sorted in shared memory, above in scratch memory, through L2, ≈50 µs at 8192.
//
// Contributions of an exact program (see contributions.cu). round_gathered rounds a record's rows
// of Δ to integers, determines the squared norm of what they add to the table, with integer sums of
// the rows of equal index, and writes the integers. add_gathered adds them to the table: integers
// have the same sum in every order, so atomic additions are exact. If the rows of a record do not fit,
// round_gathered itself adds up the rows of equal index in double and adds the rounded sums.
#include "device.h"
#include "each.h"
#include "half.h"
#include "lattice.h"
#include "reduce.h"
#include "table.h"

typedef unsigned long long Key; // index in the upper half, t in the lower

static const int list_capacity = 4096; // keys in shared memory
static const int thread_columns = 2;   // columns of a thread
static const int warps_of_sum = 16, warps_of_record = 8;

KERNEL embed(float *out, const float *table, const float *index, int n, int vocabulary, int dim, int format) {
	EACH(i, n) {
		int t = (int)i / dim, row = table_row(index[t], vocabulary);
		out[i] = row < 0 ? 0.0f : weight(table, row * dim + (int)i - t * dim, format);
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
			int row = table_row(from[t], vocabulary);
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
// every sum to into.add, once. carried has room for thread_columns numbers of each
// thread: the sums of runs that began in an earlier group.
template <class Into, class Keys, class Carried, class Element>
__device__ __forceinline__ void add_runs(Into &into, Keys &keys, Carried &carried, int count, const Element *delta, int dim, int bag) {
	typedef typename Into::Number Number;
	int lanes = 1;
	while (lanes < 32 && lanes * thread_columns < dim) lanes *= 2;
	const int lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = blockDim.x / lanes;
	const int each = (count + groups - 1) / groups;
	const int from = min(group * each, count), to = min(from + each, count);
	const int slot = group * lanes * thread_columns + lane;

	for (int base = lane; base - lane < dim; base += lanes * thread_columns) {
		Number sum[thread_columns];
#pragma unroll
		for (int w = 0; w < thread_columns; w++) sum[w] = 0;
		int row = from < to ? row_of(keys[from]) : -1;
		bool cut = from > 0 && from < to && row_of(keys[from - 1]) == row;
		auto end = [&] {
#pragma unroll
			for (int w = 0; w < thread_columns; w++) {
				int d = base + lanes * w;
				if (d < dim) {
					if (cut)
						carried[slot + lanes * w] = sum[w];
					else
						into.add(row, d, sum[w]);
				}
				sum[w] = 0;
			}
			cut = false;
		};
		for (int first = from; first < to; first += 4) {
			Element v[4][thread_columns];
			float factor[4];
			int rows[4];
#pragma unroll
			for (int i = 0; i < 4; i++) {
				Key k = keys[min(first + i, to - 1)];
				rows[i] = row_of(k);
				factor[i] = into.factor(step_of(k));
				const Element *x = delta + step_of(k) / bag * dim;
#pragma unroll
				for (int w = 0; w < thread_columns; w++) v[i][w] = base + lanes * w < dim ? x[base + lanes * w] : Element(0);
			}
#pragma unroll
			for (int i = 0; i < 4; i++) {
				if (first + i >= to) break;
				if (rows[i] != row) end();
				row = rows[i];
#pragma unroll
				for (int w = 0; w < thread_columns; w++)
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
				for (int w = 0; w < thread_columns; w++)
					if (base + lanes * w < dim) sum[w] += Number(carried[slot + lanes * (thread_columns * next + w)]);
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
	const float *factors; // of records, each of `each` steps; null: 1
	int each;

	__device__ __forceinline__ float factor(int t) const { return factors ? factors[t / each] : 1.0f; }
	__device__ __forceinline__ void add(int row, int d, float sum) { out[row * dim + d] += sum; }
};

// SumAndSize is a sum, and the sum of its terms' magnitudes.
struct SumAndSize {
	double value, size;

	SumAndSize() = default;
	__device__ __forceinline__ SumAndSize(double v) : value(v), size(fabs(v)) {}
	__device__ __forceinline__ SumAndSize &operator+=(const SumAndSize &x) {
		value += x.value;
		size += x.size;
		return *this;
	}
};
__device__ __forceinline__ SumAndSize operator*(const SumAndSize &a, const SumAndSize &b) { return SumAndSize(a.value * b.value); }

// Norm adds up the squares of sums and of their magnitudes.
struct Norm {
	typedef SumAndSize Number;
	double total, sizes;

	__device__ __forceinline__ float factor(int) const { return 1.0f; }
	__device__ __forceinline__ void add(int, int, const SumAndSize &sum) {
		total += sum.value * sum.value;
		sizes += sum.size * sum.size;
	}
};

// append_keys adds the keys of the rows that threads pass (count rows each, −1 for none)
// to a list, in a fixed order, and returns the list's new length. Row i of a thread
// belongs to step t + i·blockDim.
template <int count, class Keys, class Counts>
__device__ __forceinline__ int append_keys(Keys &keys, Counts &counts, int length, const int (&rows)[count], int t) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	unsigned votes[count];
	int slot = 0;
#pragma unroll
	for (int i = 0; i < count; i++) {
		votes[i] = __ballot_sync(0xffffffff, rows[i] >= 0);
		slot += __popc(votes[i]);
	}
	if (lane == 0) counts[warp] = slot;
	__syncthreads();
	int at = length;
	for (int w = 0; w < warps; w++) {
		if (w == warp) at = length;
		length += counts[w];
	}
#pragma unroll
	for (int i = 0; i < count; i++) {
		if (rows[i] >= 0) keys[at + __popc(votes[i] & ((1u << lane) - 1))] = key(rows[i], t + i * blockDim.x);
		at += __popc(votes[i]);
	}
	__syncthreads();
	return length;
}

KERNEL LAUNCH_BOUNDS(512, 2) gather_sum(float *out, const float *index, const float *delta, const float *factors, int n, int each, int vocabulary, int dim, int bag) {
	SHARED(Key, keys, list_capacity);
	SHARED(float, carried, warps_of_sum * 32 * thread_columns);
	SHARED(int, counts, warps_of_sum);
	const int per_thread = 4, tile = per_thread * blockDim.x;
	Table into = {out, dim, factors, each};
	float next[per_thread];
	auto read = [&](int t) {
#pragma unroll
		for (int i = 0; i < per_thread; i++, t += blockDim.x) next[i] = t < n ? index[t] : -1.0f;
	};
	read(threadIdx.x);
	int length = 0;
	for (int t = threadIdx.x; t - (int)threadIdx.x < n; t += tile) {
		int rows[per_thread];
#pragma unroll
		for (int i = 0; i < per_thread; i++) {
			rows[i] = table_row(next[i], vocabulary);
			if (rows[i] >= 0 && (rows[i] % gridDim.x != blockIdx.x || into.factor(t + i * blockDim.x) == 0)) rows[i] = -1;
		}
		read(t + tile);
		length = append_keys(keys, counts, length, rows, t);
		if (length > 0 && (length > list_capacity - tile || t - (int)threadIdx.x + tile >= n)) {
			sort(keys, length);
			add_runs(into, keys, carried, length, delta, dim, bag);
			length = 0;
		}
	}
}

// sort_record lists the indices of a record and sorts them.
template <class Keys, class Counts>
__device__ __forceinline__ int sort_record(Keys &keys, Counts &counts, const float *index, int rows, int vocabulary) {
	int length = 0;
	for (int first = 0; first < rows; first += blockDim.x) {
		int t = first + threadIdx.x;
		const int row[1] = {t < rows ? table_row(index[t], vocabulary) : -1};
		length = append_keys(keys, counts, length, row, t);
	}
	sort(keys, length);
	return length;
}

// add_record adds up a record's contributions to each table row.
template <class Into, class Keys, class Carried, class Counts>
__device__ __forceinline__ void add_record(Into &into, Keys &keys, Carried &carried, Counts &counts, const float *index, const float *delta, int rows, int vocabulary, int dim, int bag) {
	const int r = blockIdx.x;
	int length = sort_record(keys, counts, index + r * rows, rows, vocabulary);
	add_runs(into, keys, carried, length, delta + r * (rows / bag) * dim, dim, bag);
}

// The keys of records with more than list_capacity steps are in scratch memory.

KERNEL LAUNCH_BOUNDS(256, 1) gather_records(float *out, const float *index, const float *delta, Key *scratch, int rows, int slots, int vocabulary, int dim, int bag) {
	SHARED(Key, keys, list_capacity);
	SHARED(float, carried, warps_of_record * 32 * thread_columns);
	SHARED(int, counts, warps_of_record);
	Table into = {out + blockIdx.x * vocabulary * dim, dim, 0, 1};
	Key *scratch_keys = scratch + (long long)blockIdx.x * slots;
	if (slots <= list_capacity)
		add_record(into, keys, carried, counts, index, delta, rows, vocabulary, dim, bag);
	else
		add_record(into, scratch_keys, carried, counts, index, delta, rows, vocabulary, dim, bag);
}

KERNEL LAUNCH_BOUNDS(256, 1) gather_norms(float *out, const float *index, const float *delta, Key *scratch, int rows, int slots, int vocabulary, int dim, int bag) {
	SHARED(Key, keys, list_capacity);
	SHARED(SumAndSize, carried, warps_of_record * 32 * thread_columns);
	SHARED(int, counts, warps_of_record);
	SHARED(double, partial, 32);
	Norm into = {0, 0};
	Key *scratch_keys = scratch + (long long)blockIdx.x * slots;
	if (slots <= list_capacity)
		add_record(into, keys, carried, counts, index, delta, rows, vocabulary, dim, bag);
	else
		add_record(into, scratch_keys, carried, counts, index, delta, rows, vocabulary, dim, bag);
	double total = block_sum(partial, into.total), sizes = block_sum(partial, into.sizes);
	double norm = sqrt(total) + (rows + 1) * 0x1p-24 * sqrt(sizes);
	if (threadIdx.x == 0) out[blockIdx.x] = (float)(norm * norm);
}

// LatticeNorm adds up the squares of integer sums. It stays at too_long once it is above the largest
// norm; a sum beyond the bound is not squared.
struct LatticeNorm {
	typedef int64_t Number;
	uint64_t total;

	__device__ __forceinline__ float factor(int) const { return 1.0f; }
	__device__ __forceinline__ void add(int, int, int64_t sum) {
		bool outside = sum < -lattice_bound || sum > lattice_bound;
		total += outside ? too_long : (uint64_t)(sum * sum);
		if (total > too_long) total = too_long;
	}
};

// names_row reports whether one of n indices is that of a row of the table. Others add nothing, and their
// gradient can be large: a normalization magnifies it where its input is padding.
__device__ __forceinline__ bool names_row(const float *index, int n, int vocabulary) {
	for (int i = 0; i < n; i++)
		if (table_row(index[i], vocabulary) >= 0) return true;
	return false;
}

// each_merged calls use with the elements of the rounding of a record's sums of rows of equal index,
// before they are converted to integers. The order of a sum and the words are those of internal/device/cpu. A
// warp handles a row of the table.
template <class Keys, class Use>
__device__ __forceinline__ void each_merged(Keys &keys, int length, const float *delta, int dim, int bag, float scale, uint64_t seed, Use use) {
	for (int first = threadIdx.x / 32; first < length; first += blockDim.x / 32) {
		const int row = row_of(keys[first]);
		if (first > 0 && row_of(keys[first - 1]) == row) continue;
		const RoundingWords words(row_key(seed, 0, step_of(keys[first])));
		for (int d = threadIdx.x % 32; d < dim; d += 32) {
			double sum = 0;
			for (int i = first; i < length && row_of(keys[i]) == row; i++) sum += (double)delta[(long long)(step_of(keys[i]) / bag) * dim + d];
			use(row * dim + d, dither((float)sum, scale, words.of(d)));
		}
	}
}

// add_merged chooses the rounding of a record's sums of rows of equal index, and adds it.
template <class Keys, class S>
__device__ __forceinline__ void add_merged(Keys &keys, S &partial, const Contribution &c, int r, int length, const float *delta, int dim, int bag, int64_t *sums, const int *at) {
	const bool adds = choose_rounding(c, r, [&](double scale, uint64_t seed) {
		uint64_t sum = 0;
		if ((float)scale != 0) each_merged(keys, length, delta, dim, bag, (float)scale, seed, [&](int, float dithered) { add_square(sum, dithered); });
		return within(block_sum(partial, sum));
	});
	__syncthreads();
	const RecordRounding how = c.roundings[r];
	if (adds && how.scale != 0)
		each_merged(keys, length, delta, dim, bag, how.scale, how.seed, [&](int e, float dithered) {
			const int to = at ? at[e] : e;
			if (to >= 0) add_steps(sums + to, __float2int_rn(dithered));
		});
	__syncthreads();
	if (threadIdx.x == 0) c.roundings[r].adds = 0;  // add_gathered must not add the rows
}

KERNEL LAUNCH_BOUNDS(256, 1) round_gathered(Contribution c, int *rounded, const float *index, const float *delta, Key *scratch, int lookups, int slots, int vocabulary, int dim, int bag, int64_t *sums, const int *at) {
	SHARED(Key, keys, list_capacity);
	SHARED(int64_t, carried, warps_of_record * 32 * thread_columns);
	SHARED(int, counts, warps_of_record);
	SHARED(uint64_t, partial, 32);
	const int r = blockIdx.x, rows = lookups / bag;
	Key *scratch_keys = scratch + (long long)r * slots;
	index += (long long)r * lookups;
	delta += (long long)r * rows * dim;
	rounded += (long long)r * rows * dim;
	int length = 0;
	if (c.factors[r] > 0)
		length = slots <= list_capacity ? sort_record(keys, counts, index, lookups, vocabulary) : sort_record(scratch_keys, counts, index, lookups, vocabulary);
	const int64_t left = c.budget(r)->norm;
	bool cancels = false;
	choose_rounding(c, r, [&](double scale, uint64_t seed) -> int64_t {
		uint64_t refused = 0;
		for (int t = threadIdx.x / 32; t < rows; t += blockDim.x / 32) {
			const float of_row = names_row(index + t * bag, bag, vocabulary) ? (float)scale : 0;
			if (round_table_row(rounded + t * dim, delta + t * dim, dim, of_row, row_key(seed, 0, t)) > (uint64_t)lattice_bound_squared) refused = 1;
		}
		int64_t taken = out_of_range;
		if (block_sum(partial, refused) == 0) {
			LatticeNorm norm = {0};
			const int *steps = rounded;
			if (slots <= list_capacity)
				add_runs(norm, keys, carried, length, steps, dim, bag);
			else
				add_runs(norm, scratch_keys, carried, length, steps, dim, bag);
			taken = within(block_sum(partial, norm.total));
		}
		cancels = lookups > 1 && (taken < 0 || taken > left);
		return cancels ? other_rounding : taken;
	});
	if (!cancels) return;
	if (slots <= list_capacity)
		add_merged(keys, partial, c, r, length, delta, dim, bag, sums, at);
	else
		add_merged(scratch_keys, partial, c, r, length, delta, dim, bag, sums, at);
}

// add_gathered adds n rounded numbers, those of each lookup.
KERNEL add_gathered(int64_t *sums, const int *at, const RecordRounding *roundings, const int *rounded, const float *index, long long n, int lookups, int vocabulary, int dim, int bag) {
	EACH(i, n) {
		const long long t = i / dim;
		const int j = (int)(i - t * dim), row = table_row(index[t], vocabulary);
		if (row < 0 || !roundings[t / lookups].adds) continue;
		const int e = row * dim + j, to = at ? at[e] : e;
		if (to >= 0) add_steps(sums + to, rounded[t / bag * dim + j]);
	}
}
