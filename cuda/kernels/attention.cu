// Self-attention of a sequence, without its [T, T] weights in memory.
//
// Reads queries, keys and values next to each other [B, T, 3D] and, optionally, the
// numbers that mark padding [B, T]. Writes the result [B, T, D]; backward, the gradient
// of queries, keys and values [B, T, 3D]. The method is that of Dao et al. 2022
// ("FlashAttention"): tiles of 64 × 64 scores, each computed from rows in shared memory,
// turned into weights by the running maximum and sum (online softmax), and used at once.
//
//  - attention: a block computes 64 queries of a head and loops over the keys.
//  - attention_queries: a block computes 64 queries. It loops over the keys once for the
//    maximum, the sum and the mean slope of each row of weights, which it stores for the
//    next kernel, and once more for the gradient of the queries.
//  - attention_keys: a block computes 64 keys and loops over the queries.
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

static const int tile = 64, columns = 32, apart = columns + 4, across = tile + 4;

// Block is a block's position: its example and head, the first of its steps and of its
// columns of the head.
struct Block {
	int example, head, first, column;

	template <int chunks> static __device__ __forceinline__ Block of(const Heads &h) {
		return {(int)blockIdx.x / h.heads, (int)blockIdx.x % h.heads, (int)blockIdx.y * tile, (int)blockIdx.z * chunks * columns};
	}
};

// fill loads a chunk: rows first to first+64 of a matrix with `count` rows, width apart,
// and 32 of its columns, of which `left` remain; the rest is zero.
template <class S>
__device__ __forceinline__ void fill(S &to, const float *from, int width, int first, int count, int left) {
	const int column = threadIdx.x % columns;
#pragma unroll
	for (int i = 0; i < tile / 8; i++) {
		int row = threadIdx.x / columns + 8 * i;
		to[row * apart + column] = first + row < count && column < left ? from[(first + row) * width + column] : 0.0f;
	}
}

// Thread (x, y) of 16 × 16 owns rows 4y+i and columns x+16j of a tile, and columns 2x+e
// of a chunk.
__device__ __forceinline__ int across_of() { return threadIdx.x % 16; }
__device__ __forceinline__ int down_of() { return threadIdx.x / 16; }

// scores computes the products of rows from first of a with rows from second of b over
// all size columns.
template <class W, class S>
__device__ __forceinline__ void scores(Exact, float (&score)[4][4], W &, S &left, S &right, const float *a, int a_width, int first, const float *b, int b_width, int second, const Heads &h) {
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) score[i][j] = 0;
	const bool idle = first + 4 * down_of() >= h.steps;
	for (int base = 0; base < h.size; base += columns) {
		__syncthreads();
		fill(left, a + base, a_width, first, h.steps, h.size - base);
		fill(right, b + base, b_width, second, h.steps, h.size - base);
		__syncthreads();
		const int end = idle ? 0 : min(columns, h.size - base);
#pragma unroll 1
		for (int d = 0; d < end; d += 4) {
			float4 l[4], r[4];
#pragma unroll
			for (int i = 0; i < 4; i++) l[i] = load4(left, (4 * down_of() + i) * apart + d);
#pragma unroll
			for (int j = 0; j < 4; j++) r[j] = load4(right, (across_of() + 16 * j) * apart + d);
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
template <class W, class S> __device__ __forceinline__ void add(Exact, float (&sum)[4][2], W &weights, S &rows, int end) {
#pragma unroll 2
	for (int u = 0; u < end; u += 4) {
		float4 w[4];
		float2 v[4];
#pragma unroll
		for (int i = 0; i < 4; i++) w[i] = load4(weights, (4 * down_of() + i) * across + u);
#pragma unroll
		for (int k = 0; k < 4; k++) v[k] = load2(rows, (u + k) * apart + 2 * across_of());
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

// word_of returns word w of an instruction's eight words, for a row whose elements start
// at place and are stride apart: one TF32 number or two bfloat16 numbers.
template <class S> __device__ __forceinline__ float word_of(TF32, S &s, int place, int stride, int w) {
	float v = s[place + w * stride];
	return to_tf32(v);
}
template <class S> __device__ __forceinline__ float word_of(BF16, S &s, int place, int stride, int w) {
	float low = s[place + 2 * w * stride], high = s[place + (2 * w + 1) * stride];
	return pair(low, high);
}

// step_of is the number of elements in eight words.
__device__ __forceinline__ constexpr int step_of(TF32) { return 8; }
__device__ __forceinline__ constexpr int step_of(BF16) { return 16; }

// fragment loads 16 rows, apart from each other, from an element on.
template <class Math, class S> __device__ __forceinline__ Fragment fragment(Math m, S &s, int row, int apart, int k) {
	const int lane = threadIdx.x % 32, top = (row + lane / 4) * apart + k, bottom = top + 8 * apart, w = lane % 4;
	return {word_of(m, s, top, 1, w), word_of(m, s, bottom, 1, w), word_of(m, s, top, 1, w + 4), word_of(m, s, bottom, 1, w + 4)};
}

// Tensor cores: a warp computes rows from 16·(warp/2) of a tile, and half of the
// columns. The result goes to its threads through the shared memory of weights, which no
// thread reads any more: the barrier before the first fill has passed.
template <class Math, class W, class S>
__device__ __forceinline__ void scores(Math m, float (&score)[4][4], W &weights, S &left, S &right, const float *a, int a_width, int first, const float *b, int b_width, int second, const Heads &h) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 16, half = warp % 2 * 32;
	float sum[4][4] = {};
	for (int base = 0; base < h.size; base += columns) {
		__syncthreads();
		fill(left, a + base, a_width, first, h.steps, h.size - base);
		fill(right, b + base, b_width, second, h.steps, h.size - base);
		__syncthreads();
#pragma unroll
		for (int k = 0; k < columns; k += step_of(m)) {
			const Fragment f = fragment(m, left, row, apart, k);
#pragma unroll
			for (int j = 0; j < 4; j++) {
				const int place = (half + 8 * j + lane / 4) * apart + k;
				mma(m, sum[j], f, Columns{word_of(m, right, place, 1, lane % 4), word_of(m, right, place, 1, lane % 4 + 4)});
			}
		}
	}
#pragma unroll
	for (int j = 0; j < 4; j++) {
		const int place = (row + lane / 4) * across + half + 8 * j + lane % 4 * 2;
		store2(weights, place, make_float2(sum[j][0], sum[j][1]));
		store2(weights, place + 8 * across, make_float2(sum[j][2], sum[j][3]));
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) score[i][j] = weights[(4 * down_of() + i) * across + across_of() + 16 * j];
}

template <class Math, class W, class S> __device__ __forceinline__ void add(Math m, float (&sum)[4][2], W &weights, S &rows, int end) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 16, half = warp % 2 * 16;
	float made[2][4] = {};
#pragma unroll 2
	for (int k = 0; k < end; k += step_of(m)) {
		const Fragment f = fragment(m, weights, row, across, k);
#pragma unroll
		for (int j = 0; j < 2; j++) {
			const int place = k * apart + half + 8 * j + lane / 4;
			mma(m, made[j], f, Columns{word_of(m, rows, place, apart, lane % 4), word_of(m, rows, place, apart, lane % 4 + 4)});
		}
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < 2; j++) {
		const int place = (row + lane / 4) * apart + half + 8 * j + lane % 4 * 2;
		store2(rows, place, make_float2(made[j][0], made[j][1]));
		store2(rows, place + 8 * apart, make_float2(made[j][2], made[j][3]));
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float2 v = load2(rows, (4 * down_of() + i) * apart + 2 * across_of());
		sum[i][0] += v.x, sum[i][1] += v.y;
	}
}

#endif

// spend adds weights times rows from first of b to sum: columns from b on, of which left
// remain.
template <int chunks, class Math, class W, class S>
__device__ __forceinline__ void spend(Math m, float (&sum)[chunks][4][2], const float (&weight)[4][4], W &weights, S &rows, const float *b, int width, int first, int left, const Heads &h) {
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) weights[(4 * down_of() + i) * across + across_of() + 16 * j] = weight[i][j];
#pragma unroll
	for (int c = 0; c < chunks; c++) {
		if (c > 0) __syncthreads();
		fill(rows, b + c * columns, width, first, h.steps, left - c * columns);
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

// put writes rows from first of a result, each multiplied by factor.
template <int chunks>
__device__ __forceinline__ void put(float *to, int width, int first, int left, const float (&sum)[chunks][4][2], const float (&factor)[4], const Heads &h) {
#pragma unroll
	for (int c = 0; c < chunks; c++)
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				int row = first + 4 * down_of() + i, column = c * columns + 2 * across_of() + e;
				if (row < h.steps && column < left) to[row * width + column] = sum[c][i][e] * factor[i];
			}
}

// sees reports whether a query attends to a key.
__device__ __forceinline__ bool sees(const Heads &h, int example, int query, int key, const float *padding) {
	return key < h.steps && !(h.causal && key > query) && !(padding && padding[example * h.steps + key] < 0);
}

// Row is the running state of a row of weights: the largest score (0 before the first
// visible key), this thread's part of the sum of weights relative to it, and its part of
// the sum of weights times slope.
struct Row {
	float top, sum, slope;
};

__device__ __forceinline__ float origin(float top) { return top == -INFINITY ? 0.0f : top; }

// weigh turns the scores of a tile into weights relative to the rows' largest scores;
// factor rescales earlier weights.
__device__ __forceinline__ void weigh(float (&score)[4][4], Row (&row)[4], float (&factor)[4], const Heads &h, const Block &at, int keys, const float *padding) {
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float top = -INFINITY;
#pragma unroll
		for (int j = 0; j < 4; j++) {
			bool seen = sees(h, at.example, at.first + 4 * down_of() + i, keys + across_of() + 16 * j, padding);
			score[i][j] = seen ? score[i][j] * h.scale : -INFINITY;
			top = maximum(top, score[i][j]);
		}
		top = maximum(row[i].top, warp_max<16>(top));
		factor[i] = expf(row[i].top - origin(top));
		row[i].top = top;
		row[i].sum *= factor[i];
#pragma unroll
		for (int j = 0; j < 4; j++) {
			score[i][j] = expf(score[i][j] - origin(top));
			row[i].sum += score[i][j];
		}
	}
}

// keys_of is an upper bound on the number of keys that the queries of a block attend to.
__device__ __forceinline__ int keys_of(const Heads &h, const Block &at) { return h.causal ? min(h.steps, at.first + tile) : h.steps; }

template <int chunks, class Math, class W, class S>
__device__ __forceinline__ void forward(Math m, W &weights, S &left, S &right, float *out, const float *x, const float *padding, const Heads &h) {
	const Block at = Block::of<chunks>(h);
	const int width = h.heads * h.size, packed = 3 * width;
	const float *query = x + at.example * h.steps * packed + at.head * h.size;
	float sum[chunks][4][2], factor[4], score[4][4];
	Row row[4];
	clear(sum);
#pragma unroll
	for (int i = 0; i < 4; i++) row[i] = {-INFINITY, 0, 0};
	for (int keys = 0; keys < keys_of(h, at); keys += tile) {
		scores(m, score, weights, left, right, query, packed, at.first, query + width, packed, keys, h);
		weigh(score, row, factor, h, at, keys, padding);
#pragma unroll
		for (int c = 0; c < chunks; c++)
#pragma unroll
			for (int i = 0; i < 4; i++) sum[c][i][0] *= factor[i], sum[c][i][1] *= factor[i];
		spend(m, sum, score, weights, right, query + 2 * width + at.column, packed, keys, h.size - at.column, h);
	}
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float total = warp_sum<16>(row[i].sum);
		factor[i] = total == 0 ? 0.0f : 1 / total;
	}
	put(out + at.example * h.steps * width + at.head * h.size + at.column, width, at.first, h.size - at.column, sum, factor, h);
}

// With weights P and the gradient dO of the result: dV = PᵀdO, dP = dO·Vᵀ, dS = P⊙(dP −
// rowsum(P⊙dP)), dQ = dS·K and dK = dSᵀ·Q, the last two scaled. A weight of 0 has no
// gradient, for every value of dP.
__device__ __forceinline__ float slope(float weight, float gradient, float mean, float scale) {
	return weight == 0 ? 0.0f : weight * (gradient - mean) * scale;
}

// known [3, B·heads, T] contains, for every row of weights, the origin of its scores,
// the reciprocal of the sum of its weights, and rowsum(P⊙dP).

template <int chunks, class Math, class W, class S>
__device__ __forceinline__ void queries(Math m, W &weights, S &left, S &right, float *out, float *known, const float *x, const float *gradient, const float *padding, const Heads &h) {
	const Block at = Block::of<chunks>(h);
	const int width = h.heads * h.size, packed = 3 * width, many = keys_of(h, at);
	const int from = at.example * h.steps * packed + at.head * h.size;
	const float *query = x + from, *key = query + width, *value = key + width;
	const float *back = gradient + at.example * h.steps * width + at.head * h.size;
	float score[4][4], dp[4][4], factor[4];
	Row row[4];
#pragma unroll
	for (int i = 0; i < 4; i++) row[i] = {-INFINITY, 0, 0};
	for (int keys = 0; keys < many; keys += tile) {
		scores(m, dp, weights, left, right, back, width, at.first, value, packed, keys, h);
		scores(m, score, weights, left, right, query, packed, at.first, key, packed, keys, h);
		weigh(score, row, factor, h, at, keys, padding);
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
		row[i].top = origin(row[i].top);
		row[i].sum = total == 0 ? 0.0f : 1 / total;
		row[i].slope = warp_sum<16>(row[i].slope) * row[i].sum;
		int t = at.first + 4 * down_of() + i;
		if (at.column == 0 && across_of() == 0 && t < h.steps) {
			float *to = known + blockIdx.x * h.steps + t;
			to[0] = row[i].top, to[all] = row[i].sum, to[2 * all] = row[i].slope;
		}
	}
	float sum[chunks][4][2];
	clear(sum);
	for (int keys = 0; keys < many; keys += tile) {
		if (many > tile) { // otherwise the only tile is still in shared memory
			scores(m, dp, weights, left, right, back, width, at.first, value, packed, keys, h);
			scores(m, score, weights, left, right, query, packed, at.first, key, packed, keys, h);
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int j = 0; j < 4; j++) {
				float p = score[i][j];
				if (many > tile) {
					bool seen = sees(h, at.example, at.first + 4 * down_of() + i, keys + across_of() + 16 * j, padding);
					p = seen ? expf(p * h.scale - row[i].top) : 0.0f;
				}
				score[i][j] = slope(p * row[i].sum, dp[i][j], row[i].slope, h.scale);
			}
		spend(m, sum, score, weights, right, key + at.column, packed, keys, h.size - at.column, h);
	}
	const float one[4] = {1, 1, 1, 1};
	put(out + from + at.column, packed, at.first, h.size - at.column, sum, one, h);
}

template <int chunks, class Math, class W, class S>
__device__ __forceinline__ void keys(Math m, W &weights, S &left, S &right, float *out, const float *known, const float *x, const float *gradient, const float *padding, const Heads &h) {
	const Block at = Block::of<chunks>(h);
	const int width = h.heads * h.size, packed = 3 * width, all = gridDim.x * h.steps;
	const int from = at.example * h.steps * packed + at.head * h.size;
	const float *query = x + from, *key = query + width, *value = key + width;
	const float *back = gradient + at.example * h.steps * width + at.head * h.size;
	float dk[chunks][4][2], dv[chunks][4][2], score[4][4], dp[4][4];
	clear(dk);
	clear(dv);
	for (int first = h.causal ? at.first : 0; first < h.steps; first += tile) {
		scores(m, dp, weights, left, right, value, packed, at.first, back, width, first, h);
		scores(m, score, weights, left, right, key, packed, at.first, query, packed, first, h);
#pragma unroll
		for (int j = 0; j < 4; j++) {
			int t = first + across_of() + 16 * j;
			const float *row = known + blockIdx.x * h.steps + min(t, h.steps - 1);
			float top = row[0], inverse = row[all], mean = row[2 * all];
#pragma unroll
			for (int i = 0; i < 4; i++) {
				bool seen = t < h.steps && sees(h, at.example, t, at.first + 4 * down_of() + i, padding);
				float p = seen ? expf(score[i][j] * h.scale - top) * inverse : 0.0f;
				score[i][j] = p;
				dp[i][j] = slope(p, dp[i][j], mean, h.scale);
			}
		}
		spend(m, dv, score, weights, right, back + at.column, width, first, h.size - at.column, h);
		spend(m, dk, dp, weights, right, query + at.column, packed, first, h.size - at.column, h);
	}
	const float one[4] = {1, 1, 1, 1};
	put(out + from + width + at.column, packed, at.first, h.size - at.column, dk, one, h);
	put(out + from + 2 * width + at.column, packed, at.first, h.size - at.column, dv, one, h);
}

// Device is how a device computes: sm_75's tensor cores have neither precision.
#if defined(EMULATED) || __CUDA_ARCH__ >= 800
template <class Math> using Device = Math;
#else
template <class Math> using Device = Exact;
#endif

// The kernels for each number of column chunks per block; these are the launch bounds.
#define ATTENTION(suffix, chunks, Math, ...)                                                                                             \
	KERNEL LAUNCH_BOUNDS(__VA_ARGS__) attention_##suffix(float *out, const float *x, const float *padding, Heads h) {                    \
		SHARED(float, weights, tile * across);                                                                                           \
		SHARED(float, left, tile * apart);                                                                                               \
		SHARED(float, right, tile * apart);                                                                                              \
		forward<chunks>(Device<Math>{}, weights, left, right, out, x, padding, h);                                                       \
	}                                                                                                                                    \
	KERNEL LAUNCH_BOUNDS(256, 1) attention_queries_##suffix(float *out, float *known, const float *x, const float *gradient,             \
	                                                     const float *padding, Heads h) {                                                \
		SHARED(float, weights, tile * across);                                                                                           \
		SHARED(float, left, tile * apart);                                                                                               \
		SHARED(float, right, tile * apart);                                                                                              \
		queries<chunks>(Device<Math>{}, weights, left, right, out, known, x, gradient, padding, h);                                      \
	}                                                                                                                                    \
	KERNEL LAUNCH_BOUNDS(256, 1) attention_keys_##suffix(float *out, const float *known, const float *x, const float *gradient,          \
	                                                  const float *padding, Heads h) {                                                   \
		SHARED(float, weights, tile * across);                                                                                           \
		SHARED(float, left, tile * apart);                                                                                               \
		SHARED(float, right, tile * apart);                                                                                              \
		keys<chunks>(Device<Math>{}, weights, left, right, out, known, x, gradient, padding, h);                                         \
	}

ATTENTION(1, 1, Exact, 256)
ATTENTION(2, 2, Exact, 256)
ATTENTION(4, 4, Exact, 256)
ATTENTION(1_tf32, 1, TF32, 256)
ATTENTION(2_tf32, 2, TF32, 256)
ATTENTION(4_tf32, 4, TF32, 256, 1)
ATTENTION(1_bf16, 1, BF16, 256)
ATTENTION(2_bf16, 2, BF16, 256)
ATTENTION(4_bf16, 4, BF16, 256, 1)
