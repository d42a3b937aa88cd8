// Self-attention of a sequence, without its [T, T] weights in memory.
//
// Reads queries, keys and values next to each other [B, T, 3D] and, optionally, the
// numbers that mark padding [B, T] and the first step of each step's block [B, T]. Writes
// the result [B, T, D]; backward, the gradient of queries, keys and values [B, T, 3D]. The
// method is that of Dao et al. 2022 ("FlashAttention"): tiles of 64 × 64 scores, each
// computed from rows in shared memory, turned into weights by the running maximum and sum
// (online softmax), and used at once.
//
//  - attention: a block computes 64 queries of a head and loops over the keys.
//  - attention_queries: a block computes 64 queries. It loops over the keys once for the
//    maximum, the sum and the mean slope of each row of weights, which it stores for the
//    next kernel, and once more for the gradient of the queries.
//  - attention_keys: a block computes 64 keys and loops over the queries.
// A block skips the tiles outside of a window, and those in front of its steps' blocks.
// So every sum has one owner and one order: no atomics, and an example has the same bits
// in every position.
//
// 256 threads compute a tile, 4 × 4 scores each, in chunks of 32 columns of the head: 8
// reads of four floats from shared memory for 64 multiplications, so that
// multiplications and not shared memory are the limit. Rows of a chunk are 36 floats
// apart, those of weights 68, so that threads have no bank conflicts. A block computes
// up to 128 columns of the result; a wider head is divided among blocks that each
// compute the weights.
//
// On tensor cores (--precision) a warp computes 16 × 32 scores, or 16 × 16 of a chunk of
// the result, from the same rows in shared memory, rounded when they are read; rows 36
// and 68 floats apart have few bank conflicts there too. The results go through shared
// memory to the threads that own them in the other layout, and the rest is the same, in
// float32. The 1024 cycles of multiplications for a chunk of scores become 384 cycles of
// reads, 12 words per thread for four TF32 instructions.
//
// Predicted for transformer-32 (128 heads of examples, T = 64, 32 columns): forward 67
// MFLOP, 1 µs, and 4.2 MB, 1.3 µs; a block does 2 × 1024 cycles of multiplications and
// waits three times for memory, ≈3.5 k cycles: ≈3 µs with the launch. Backward 3 and 4
// products of 34 MFLOP: ≈5 k and ≈6 k cycles, ≈4 and ≈5 µs.
#include "device.h"
#include "reduce.h"
#include "tensor.h"

struct Heads {
	int steps, heads, size, causal;
	float scale;
};

// General is attention with a window, capped scores or blocks, each optional: window and cap
// are 0 without them, and begins [B, T] has the first step of each step's block. It has
// kernels of its own, because these need more registers.
struct General : Heads {
	int window;
	float cap;
	const int *begins;
};

static const int tile = 64, columns = 32, row_stride = columns + 4, weight_stride = tile + 4;

// Block is a block's position: its example and head, the first of its steps and of its
// columns of the head.
struct Block {
	int example, head, first, column;

	template <int chunks> static __device__ __forceinline__ Block of(const Heads &h) {
		return {(int)blockIdx.x / h.heads, (int)blockIdx.x % h.heads, (int)blockIdx.y * tile, (int)blockIdx.z * chunks * columns};
	}
};

// load_chunk loads a chunk: rows first to first+64 of a matrix with `count` rows, width
// apart, and 32 of its columns, of which `left` exist; the rest is zero.
template <class S>
__device__ __forceinline__ void load_chunk(S &to, const float *from, int width, int first, int count, int left) {
	const int column = threadIdx.x % columns;
#pragma unroll
	for (int i = 0; i < tile / 8; i++) {
		int row = threadIdx.x / columns + 8 * i;
		to[row * row_stride + column] = first + row < count && column < left ? from[(first + row) * width + column] : 0.0f;
	}
}

// Thread (x, y) of 16 × 16 owns rows 4y+i and columns x+16j of a tile, and columns 2x+e
// of a chunk.
__device__ __forceinline__ int thread_column() { return threadIdx.x % 16; }
__device__ __forceinline__ int thread_row() { return threadIdx.x / 16; }

// scores computes the products of rows from first of a with rows from second of b over
// all size columns.
template <class W, class S>
__device__ __forceinline__ void scores(FP32, float (&score)[4][4], W &, S &left, S &right, const float *a, int a_width, int first, const float *b, int b_width, int second, const Heads &h) {
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) score[i][j] = 0;
	const bool idle = first + 4 * thread_row() >= h.steps;
	for (int base = 0; base < h.size; base += columns) {
		__syncthreads();
		load_chunk(left, a + base, a_width, first, h.steps, h.size - base);
		load_chunk(right, b + base, b_width, second, h.steps, h.size - base);
		__syncthreads();
		const int end = idle ? 0 : min(columns, h.size - base);
#pragma unroll 1
		for (int d = 0; d < end; d += 4) {
			float4 l[4], r[4];
#pragma unroll
			for (int i = 0; i < 4; i++) l[i] = load4(left, (4 * thread_row() + i) * row_stride + d);
#pragma unroll
			for (int j = 0; j < 4; j++) r[j] = load4(right, (thread_column() + 16 * j) * row_stride + d);
#pragma unroll
			for (int i = 0; i < 4; i++)
#pragma unroll
				for (int j = 0; j < 4; j++) {
					score[i][j] = fmaf(l[i].x, r[j].x, score[i][j]);
					score[i][j] = fmaf(l[i].y, r[j].y, score[i][j]);
					score[i][j] = fmaf(l[i].z, r[j].z, score[i][j]);
					score[i][j] = fmaf(l[i].w, r[j].w, score[i][j]);
				}
		}
	}
}

// add adds weights times a chunk of rows to sum; there are end rows.
template <class W, class S> __device__ __forceinline__ void add(FP32, float (&sum)[4][2], W &weights, S &rows, int end) {
#pragma unroll 2
	for (int u = 0; u < end; u += 4) {
		float4 w[4];
		float2 v[4];
#pragma unroll
		for (int i = 0; i < 4; i++) w[i] = load4(weights, (4 * thread_row() + i) * weight_stride + u);
#pragma unroll
		for (int k = 0; k < 4; k++) v[k] = load2(rows, (u + k) * row_stride + 2 * thread_column());
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float2 s = make_float2(sum[i][0], sum[i][1]);
			s.x = fmaf(w[i].x, v[0].x, s.x), s.y = fmaf(w[i].x, v[0].y, s.y);
			s.x = fmaf(w[i].y, v[1].x, s.x), s.y = fmaf(w[i].y, v[1].y, s.y);
			s.x = fmaf(w[i].z, v[2].x, s.x), s.y = fmaf(w[i].z, v[2].y, s.y);
			s.x = fmaf(w[i].w, v[3].x, s.x), s.y = fmaf(w[i].w, v[3].y, s.y);
			sum[i][0] = s.x, sum[i][1] = s.y;
		}
	}
}

#if defined(EMULATED) || __CUDA_ARCH__ >= 800

// load_word returns word w of an instruction's eight words, for a row whose elements
// start at place and are stride apart: one TF32 number or two bfloat16 numbers.
template <class S> __device__ __forceinline__ float load_word(TF32, S &s, int place, int stride, int w) {
	float v = s[place + w * stride];
	return to_tf32(v);
}
template <class S> __device__ __forceinline__ float load_word(BF16, S &s, int place, int stride, int w) {
	float low = s[place + 2 * w * stride], high = s[place + (2 * w + 1) * stride];
	return pack_bf16(low, high);
}

// elements_per_step is the number of elements in eight words.
__device__ __forceinline__ constexpr int elements_per_step(TF32) { return 8; }
__device__ __forceinline__ constexpr int elements_per_step(BF16) { return 16; }

// fragment loads 16 rows of a matrix with this row stride, from element k on.
template <class Math, class S> __device__ __forceinline__ FragmentA fragment(Math m, S &s, int row, int row_stride, int k) {
	const int lane = threadIdx.x % 32, top = (row + lane / 4) * row_stride + k, bottom = top + 8 * row_stride, w = lane % 4;
	return {load_word(m, s, top, 1, w), load_word(m, s, bottom, 1, w), load_word(m, s, top, 1, w + 4), load_word(m, s, bottom, 1, w + 4)};
}

// Tensor cores: a warp computes rows from 16·(warp/2) of a tile, and half of the
// columns. The result goes to its threads through the shared memory of weights, which no
// thread reads any more: all threads have passed the barrier before the first load_chunk.
template <class Math, class W, class S>
__device__ __forceinline__ void scores(Math m, float (&score)[4][4], W &weights, S &left, S &right, const float *a, int a_width, int first, const float *b, int b_width, int second, const Heads &h) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 16, half = warp % 2 * 32;
	float sum[4][4] = {};
	for (int base = 0; base < h.size; base += columns) {
		__syncthreads();
		load_chunk(left, a + base, a_width, first, h.steps, h.size - base);
		load_chunk(right, b + base, b_width, second, h.steps, h.size - base);
		__syncthreads();
#pragma unroll
		for (int k = 0; k < columns; k += elements_per_step(m)) {
			const FragmentA f = fragment(m, left, row, row_stride, k);
#pragma unroll
			for (int j = 0; j < 4; j++) {
				const int place = (half + 8 * j + lane / 4) * row_stride + k;
				mma(m, sum[j], f, FragmentB{load_word(m, right, place, 1, lane % 4), load_word(m, right, place, 1, lane % 4 + 4)});
			}
		}
	}
#pragma unroll
	for (int j = 0; j < 4; j++) {
		const int place = (row + lane / 4) * weight_stride + half + 8 * j + lane % 4 * 2;
		store2(weights, place, make_float2(sum[j][0], sum[j][1]));
		store2(weights, place + 8 * weight_stride, make_float2(sum[j][2], sum[j][3]));
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) score[i][j] = weights[(4 * thread_row() + i) * weight_stride + thread_column() + 16 * j];
}

template <class Math, class W, class S> __device__ __forceinline__ void add(Math m, float (&sum)[4][2], W &weights, S &rows, int end) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 16, half = warp % 2 * 16;
	float product[2][4] = {};
#pragma unroll 2
	for (int k = 0; k < end; k += elements_per_step(m)) {
		const FragmentA f = fragment(m, weights, row, weight_stride, k);
#pragma unroll
		for (int j = 0; j < 2; j++) {
			const int place = k * row_stride + half + 8 * j + lane / 4;
			mma(m, product[j], f, FragmentB{load_word(m, rows, place, row_stride, lane % 4), load_word(m, rows, place, row_stride, lane % 4 + 4)});
		}
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < 2; j++) {
		const int place = (row + lane / 4) * row_stride + half + 8 * j + lane % 4 * 2;
		store2(rows, place, make_float2(product[j][0], product[j][1]));
		store2(rows, place + 8 * row_stride, make_float2(product[j][2], product[j][3]));
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float2 v = load2(rows, (4 * thread_row() + i) * row_stride + 2 * thread_column());
		sum[i][0] += v.x, sum[i][1] += v.y;
	}
}

#endif

// accumulate adds weights times rows from first of b to sum: `left` columns from b on.
template <int chunks, class Math, class W, class S>
__device__ __forceinline__ void accumulate(Math m, float (&sum)[chunks][4][2], const float (&weight)[4][4], W &weights, S &rows, const float *b, int width, int first, int left, const Heads &h) {
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) weights[(4 * thread_row() + i) * weight_stride + thread_column() + 16 * j] = weight[i][j];
#pragma unroll
	for (int c = 0; c < chunks; c++) {
		if (c > 0) __syncthreads();
		load_chunk(rows, b + c * columns, width, first, h.steps, left - c * columns);
		__syncthreads();
		add(m, sum[c], weights, rows, min(tile, h.steps - first));
	}
}

template <int chunks> __device__ __forceinline__ void clear(float (&sum)[chunks][4][2]) {
#pragma unroll
	for (int c = 0; c < chunks; c++)
#pragma unroll
		for (int i = 0; i < 4; i++) sum[c][i][0] = sum[c][i][1] = 0;
}

// store_rows writes rows from first of a result, each multiplied by factor.
template <int chunks>
__device__ __forceinline__ void store_rows(float *to, int width, int first, int left, const float (&sum)[chunks][4][2], const float (&factor)[4], const Heads &h) {
#pragma unroll
	for (int c = 0; c < chunks; c++)
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				int row = first + 4 * thread_row() + i, column = c * columns + 2 * thread_column() + e;
				if (row < h.steps && column < left) to[row * width + column] = sum[c][i][e] * factor[i];
			}
}

// is_visible reports whether a query attends to a key.
__device__ __forceinline__ bool is_visible(const Heads &h, int example, int query, int key, const float *padding) {
	return key < h.steps && !(h.causal && key > query) && !(padding && padding[example * h.steps + key] < 0);
}
__device__ __forceinline__ bool is_visible(const General &h, int example, int query, int key, const float *padding) {
	if (!is_visible((const Heads &)h, example, query, key, padding) || (h.window && key + h.window <= query)) return false;
	const int from = example * h.steps;
	return !h.begins || (query < h.steps && h.begins[from + query] == h.begins[from + key]);
}

// score_of turns a product of a query and a key into a score, and score_slope is the
// derivative of this score in the product.
__device__ __forceinline__ float score_of(const Heads &h, float product) { return product * h.scale; }
__device__ __forceinline__ float score_slope(const Heads &h, float) { return h.scale; }
__device__ __forceinline__ float score_of(const General &h, float product) {
	float s = product * h.scale;
	return h.cap > 0 ? h.cap * tanhf(s / h.cap) : s;
}
__device__ __forceinline__ float score_slope(const General &h, float score) {
	float y = h.cap > 0 ? score / h.cap : 0.0f;
	return h.scale * (1 - y * y);
}

// keeps_weights reports whether weights that were computed from scores are enough for the gradient.
__device__ __forceinline__ bool keeps_weights(const Heads &) { return true; }
__device__ __forceinline__ bool keeps_weights(const General &h) { return h.cap == 0; }

// first_key is the first tile of keys that the queries of a block attend to, and key_end is
// behind the last key.
__device__ __forceinline__ int first_key(const Heads &, const Block &) { return 0; }
__device__ __forceinline__ int first_key(const General &h, const Block &at) {
	int first = h.window ? max(0, at.first - h.window + 1) : 0;
	if (h.begins) first = max(first, h.begins[at.example * h.steps + at.first]);
	return first / tile * tile;
}
__device__ __forceinline__ int key_end(const Heads &h, const Block &at) { return h.causal ? min(h.steps, at.first + tile) : h.steps; }

// is_behind reports whether no query from a tile on attends to the keys of a block.
__device__ __forceinline__ bool is_behind(const Heads &, const Block &, int) { return false; }
__device__ __forceinline__ bool is_behind(const General &h, const Block &at, int query) {
	const int last = at.first + tile - 1; // key
	return (h.window && query >= last + h.window) || (h.begins && h.begins[at.example * h.steps + query] > last);
}

// Row is the running state of a row of weights: the largest score (0 before the first
// visible key), this thread's part of the sum of weights relative to it, and its part of
// the sum of weights times slope.
struct Row {
	float top, sum, slope;
};

__device__ __forceinline__ float score_origin(float top) { return top == -INFINITY ? 0.0f : top; }

// update_softmax turns the scores of a tile into weights relative to the rows' largest
// scores; factor rescales earlier weights.
template <class H>
__device__ __forceinline__ void update_softmax(float (&score)[4][4], Row (&row)[4], float (&factor)[4], const H &h, const Block &at, int keys, const float *padding) {
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float top = -INFINITY;
#pragma unroll
		for (int j = 0; j < 4; j++) {
			bool seen = is_visible(h, at.example, at.first + 4 * thread_row() + i, keys + thread_column() + 16 * j, padding);
			score[i][j] = seen ? score_of(h, score[i][j]) : -INFINITY;
			top = maximum(top, score[i][j]);
		}
		top = maximum(row[i].top, warp_max<16>(top));
		factor[i] = expf(row[i].top - score_origin(top));
		row[i].top = top;
		row[i].sum *= factor[i];
#pragma unroll
		for (int j = 0; j < 4; j++) {
			score[i][j] = expf(score[i][j] - score_origin(top));
			row[i].sum += score[i][j];
		}
	}
}

template <int chunks, class Math, class W, class S, class H>
__device__ __forceinline__ void forward(Math m, W &weights, S &left, S &right, float *out, const float *x, const float *padding, const H &h) {
	const Block at = Block::of<chunks>(h);
	const int width = h.heads * h.size, packed = 3 * width;
	const float *query = x + at.example * h.steps * packed + at.head * h.size;
	float sum[chunks][4][2], factor[4], score[4][4];
	Row row[4];
	clear(sum);
#pragma unroll
	for (int i = 0; i < 4; i++) row[i] = {-INFINITY, 0, 0};
	for (int keys = first_key(h, at), end = key_end(h, at); keys < end; keys += tile) {
		scores(m, score, weights, left, right, query, packed, at.first, query + width, packed, keys, h);
		update_softmax(score, row, factor, h, at, keys, padding);
#pragma unroll
		for (int c = 0; c < chunks; c++)
#pragma unroll
			for (int i = 0; i < 4; i++) sum[c][i][0] *= factor[i], sum[c][i][1] *= factor[i];
		accumulate(m, sum, score, weights, right, query + 2 * width + at.column, packed, keys, h.size - at.column, h);
	}
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float total = warp_sum<16>(row[i].sum);
		factor[i] = total == 0 ? 0.0f : 1 / total;
	}
	store_rows(out + at.example * h.steps * width + at.head * h.size + at.column, width, at.first, h.size - at.column, sum, factor, h);
}

// With weights P and the gradient dO of the result: dV = PᵀdO, dP = dO·Vᵀ, dS = P⊙(dP −
// rowsum(P⊙dP)), dQ = dS·K and dK = dSᵀ·Q, where dS has the slope of the score as a
// factor. A weight of 0 has no gradient, for every value of dP.
__device__ __forceinline__ float score_gradient(float weight, float gradient, float mean, float slope) {
	return weight == 0 ? 0.0f : weight * (gradient - mean) * slope;
}

// row_stats [3, B·heads, T] contains, for every row of weights, the origin of its scores,
// the reciprocal of the sum of its weights, and rowsum(P⊙dP).

template <int chunks, class Math, class W, class S, class H>
__device__ __forceinline__ void queries(Math m, W &weights, S &left, S &right, float *out, float *row_stats, const float *x, const float *gradient, const float *padding, const H &h) {
	const Block at = Block::of<chunks>(h);
	const int width = h.heads * h.size, packed = 3 * width, key_from = first_key(h, at), end = key_end(h, at);
	const int from = at.example * h.steps * packed + at.head * h.size;
	const float *query = x + from, *key = query + width, *value = key + width;
	const float *delta = gradient + at.example * h.steps * width + at.head * h.size;
	float score[4][4], dp[4][4], factor[4];
	Row row[4];
#pragma unroll
	for (int i = 0; i < 4; i++) row[i] = {-INFINITY, 0, 0};
	for (int keys = key_from; keys < end; keys += tile) {
		scores(m, dp, weights, left, right, delta, width, at.first, value, packed, keys, h);
		scores(m, score, weights, left, right, query, packed, at.first, key, packed, keys, h);
		update_softmax(score, row, factor, h, at, keys, padding);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			row[i].slope *= factor[i];
#pragma unroll
			for (int j = 0; j < 4; j++) row[i].slope += score[i][j] == 0 ? 0.0f : score[i][j] * dp[i][j];
		}
	}
	const int all = gridDim.x * h.steps;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float total = warp_sum<16>(row[i].sum);
		row[i].top = score_origin(row[i].top);
		row[i].sum = total == 0 ? 0.0f : 1 / total;
		row[i].slope = warp_sum<16>(row[i].slope) * row[i].sum;
		int t = at.first + 4 * thread_row() + i;
		if (at.column == 0 && thread_column() == 0 && t < h.steps) {
			float *to = row_stats + blockIdx.x * h.steps + t;
			to[0] = row[i].top, to[all] = row[i].sum, to[2 * all] = row[i].slope;
		}
	}
	float sum[chunks][4][2];
	clear(sum);
	const bool again = key_from + tile < end || !keeps_weights(h); // otherwise the weights of the only tile are in score
	for (int keys = key_from; keys < end; keys += tile) {
		if (again) {
			scores(m, dp, weights, left, right, delta, width, at.first, value, packed, keys, h);
			scores(m, score, weights, left, right, query, packed, at.first, key, packed, keys, h);
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int j = 0; j < 4; j++) {
				float p = score[i][j], slope = h.scale;
				if (again) {
					bool seen = is_visible(h, at.example, at.first + 4 * thread_row() + i, keys + thread_column() + 16 * j, padding);
					const float s = score_of(h, p);
					slope = score_slope(h, s);
					p = seen ? expf(s - row[i].top) : 0.0f;
				}
				score[i][j] = score_gradient(p * row[i].sum, dp[i][j], row[i].slope, slope);
			}
		accumulate(m, sum, score, weights, right, key + at.column, packed, keys, h.size - at.column, h);
	}
	const float ones[4] = {1, 1, 1, 1};
	store_rows(out + from + at.column, packed, at.first, h.size - at.column, sum, ones, h);
}

template <int chunks, class Math, class W, class S, class H>
__device__ __forceinline__ void keys(Math m, W &weights, S &left, S &right, float *out, const float *row_stats, const float *x, const float *gradient, const float *padding, const H &h) {
	const Block at = Block::of<chunks>(h);
	const int width = h.heads * h.size, packed = 3 * width, all = gridDim.x * h.steps;
	const int from = at.example * h.steps * packed + at.head * h.size;
	const float *query = x + from, *key = query + width, *value = key + width;
	const float *delta = gradient + at.example * h.steps * width + at.head * h.size;
	float dk[chunks][4][2], dv[chunks][4][2], score[4][4], dp[4][4];
	clear(dk);
	clear(dv);
	for (int first = h.causal ? at.first : 0; first < h.steps; first += tile) {
		if (is_behind(h, at, first)) break;
		scores(m, dp, weights, left, right, value, packed, at.first, delta, width, first, h);
		scores(m, score, weights, left, right, key, packed, at.first, query, packed, first, h);
#pragma unroll
		for (int j = 0; j < 4; j++) {
			int t = first + thread_column() + 16 * j;
			const float *row = row_stats + blockIdx.x * h.steps + min(t, h.steps - 1);
			float top = row[0], inverse = row[all], mean = row[2 * all];
#pragma unroll
			for (int i = 0; i < 4; i++) {
				bool seen = t < h.steps && is_visible(h, at.example, t, at.first + 4 * thread_row() + i, padding);
				const float s = score_of(h, score[i][j]);
				float p = seen ? expf(s - top) * inverse : 0.0f;
				score[i][j] = p;
				dp[i][j] = score_gradient(p, dp[i][j], mean, score_slope(h, s));
			}
		}
		accumulate(m, dv, score, weights, right, delta + at.column, width, first, h.size - at.column, h);
		accumulate(m, dk, dp, weights, right, query + at.column, packed, first, h.size - at.column, h);
	}
	const float ones[4] = {1, 1, 1, 1};
	store_rows(out + from + width + at.column, packed, at.first, h.size - at.column, dk, ones, h);
	store_rows(out + from + 2 * width + at.column, packed, at.first, h.size - at.column, dv, ones, h);
}

// Device selects how products are computed: the tensor cores of sm_75 have neither
// precision.
#if defined(EMULATED) || __CUDA_ARCH__ >= 800
template <class Math> using Device = Math;
#else
template <class Math> using Device = FP32;
#endif

// The kernels for each number of column chunks per block; the last arguments are the
// launch bounds.
#define KERNELS_OF(prefix, suffix, H, chunks, Math, ...)                                                                                 \
	KERNEL LAUNCH_BOUNDS(__VA_ARGS__) prefix##_##suffix(float *out, const float *x, const float *padding, H h) {                          \
		SHARED(float, weights, tile * weight_stride);                                                                                    \
		SHARED(float, left, tile * row_stride);                                                                                          \
		SHARED(float, right, tile * row_stride);                                                                                         \
		forward<chunks>(Device<Math>{}, weights, left, right, out, x, padding, h);                                                       \
	}                                                                                                                                    \
	KERNEL LAUNCH_BOUNDS(256, 1) prefix##_queries_##suffix(float *out, float *row_stats, const float *x, const float *gradient,           \
	                                                       const float *padding, H h) {                                                  \
		SHARED(float, weights, tile * weight_stride);                                                                                    \
		SHARED(float, left, tile * row_stride);                                                                                          \
		SHARED(float, right, tile * row_stride);                                                                                         \
		queries<chunks>(Device<Math>{}, weights, left, right, out, row_stats, x, gradient, padding, h);                                  \
	}                                                                                                                                    \
	KERNEL LAUNCH_BOUNDS(256, 1) prefix##_keys_##suffix(float *out, const float *row_stats, const float *x, const float *gradient,        \
	                                                    const float *padding, H h) {                                                     \
		SHARED(float, weights, tile * weight_stride);                                                                                    \
		SHARED(float, left, tile * row_stride);                                                                                          \
		SHARED(float, right, tile * row_stride);                                                                                         \
		keys<chunks>(Device<Math>{}, weights, left, right, out, row_stats, x, gradient, padding, h);                                     \
	}

#define ATTENTION(suffix, chunks, Math, ...)                                                                                             \
	KERNELS_OF(attention, suffix, Heads, chunks, Math, __VA_ARGS__)                                                                      \
	KERNELS_OF(general_attention, suffix, General, chunks, Math, 256, 1)

ATTENTION(1, 1, FP32, 256)
ATTENTION(2, 2, FP32, 256)
ATTENTION(4, 4, FP32, 256)
ATTENTION(1_tf32, 1, TF32, 256)
ATTENTION(2_tf32, 2, TF32, 256)
ATTENTION(4_tf32, 4, TF32, 256, 1)
ATTENTION(1_bf16, 1, BF16, 256)
ATTENTION(2_bf16, 2, BF16, 256)
ATTENTION(4_bf16, 4, BF16, 256, 1)
