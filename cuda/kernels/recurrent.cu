// Recurrent layers: every step multiplies the hidden states of the previous step by a
// weight; then each hidden unit is computed separately.
//
// Reads the input's part of the gates [B, T, G·H] and the weight [H, G·H]; backward the
// transposed weight [G·H, H], the trace and the gradient. Writes the trace of all steps;
// backward the signals, the gradients at the gates. A block computes a record from its
// first step to its last, so a record's bits do not depend on its position, nor on R,
// the number of records of a block.
//
// Shape, for LSTM 128 over 64 steps of 64 records (lstm-64), where the weight is 256 KiB
// and a step 8.4 MFLOP:
//  - one launch per step, even inside a graph, takes ≈2.5 µs: 160 µs per direction;
//  - a block that computes all steps and streams the weight from L2 in each step needs
//    256 KiB / 64 B a cycle = 4096 cycles = 2.3 µs: 150 µs, for up to 8 records, where
//    the multiplications take as long;
//  - so a block keeps as much of the weight as it can: a thread owns two columns of the
//    weight and keeps their first 80 rows in registers for all steps (160 KiB per block),
//    and the other 96 KiB stay in the L1 cache, 128 B a cycle: 768 cycles. With 256 cycles
//    of reading hidden states and ≈500 for two barriers and the gates: ≈1500 cycles,
//    0.85 µs per step, 55 µs per direction. The 512 cycles of multiplications overlap.
// This is used up to 128 hidden units. Above, the weight does not fit (1 MiB at 256) and
// one block would leave the GPU idle. There the same kernel computes one step per
// launch, with the units divided among blocks of 64: ≈4 µs per step at 256 units, ≈8 µs
// at 512. R is the smallest of 1, 2, 4, 8 for which every block finds a free
// multiprocessor. Memory moves 17 MiB forward and 20 MiB backward: 5 and 6 µs, which
// overlap.
#include "device.h"
#include "activation.h"
#include "each.h"

// Walk is the range of a sequence's steps to compute, from, …, to−1 in reading order.
struct Walk {
	int records, steps, hidden, reverse, from, to;
};

__device__ __forceinline__ int step_at(Walk q, int i) { return q.reverse ? q.steps - 1 - i : i; }

// A Cell computes one unit at one step. Forward: from the inputs of the gates it
// computes the trace y and, from memory, the hidden state. Backward: from the trace, the
// memory before the step and the gradient v of the hidden state it computes the signals
// d at x and s at the product, and updates the gradient of the memory.
struct Lstm {
	static const int gates = 4, trace = 5;

	static __device__ __forceinline__ float forward(const float (&a)[4], float &cell, float (&y)[5]) {
		y[0] = sigmoid(a[0]), y[1] = sigmoid(a[1]), y[2] = tanhf(a[2]), y[3] = sigmoid(a[3]);
		y[4] = cell = fmaf(y[1], cell, y[0] * y[2]);
		return y[3] * tanhf(cell);
	}

	static __device__ __forceinline__ void backward(const float (&y)[5], float before, float v, float &cell, float (&d)[4], float (&s)[4]) {
		float t = tanhf(y[4]);
		float dc = cell + v * y[3] * (1 - t * t);
		s[0] = d[0] = dc * y[2] * y[0] * (1 - y[0]);
		s[1] = d[1] = dc * before * y[1] * (1 - y[1]);
		s[2] = d[2] = dc * y[0] * (1 - y[2] * y[2]);
		s[3] = d[3] = v * t * y[3] * (1 - y[3]);
		cell = dc * y[1];
	}

	// carried is the part of the hidden state's gradient that comes through memory.
	static __device__ __forceinline__ float carried(float) { return 0; }

	// signal computes s of a gate from d and the reset gate.
	static __device__ __forceinline__ float signal(int, float d, const float *) { return d; }
};

// The third gate of a GRU receives only the product; the input's part of the candidate
// is the fourth number.
struct Gru {
	static const int gates = 3, trace = 4;

	static __device__ __forceinline__ float forward(const float (&a)[4], float &hidden, float (&y)[4]) {
		y[0] = sigmoid(a[0]), y[1] = sigmoid(a[1]), y[2] = a[2];
		y[3] = tanhf(fmaf(y[0], y[2], a[3]));
		return hidden = fmaf(y[1], hidden, (1 - y[1]) * y[3]);
	}

	static __device__ __forceinline__ void backward(const float (&y)[4], float before, float v, float &carry, float (&d)[3], float (&s)[3]) {
		float slope = v * (1 - y[1]) * (1 - y[3] * y[3]);
		s[0] = d[0] = slope * y[2] * y[0] * (1 - y[0]);
		s[1] = d[1] = v * (before - y[3]) * y[1] * (1 - y[1]);
		d[2] = slope, s[2] = slope * y[0];
		carry = v * y[1];
	}

	static __device__ __forceinline__ float carried(float carry) { return carry; }

	static __device__ __forceinline__ float signal(int gate, float d, const float *reset) { return gate == 2 ? d * *reset : d; }
};

// A block stores chunk numbers of a record's state at a time. A thread owns two columns
// of the weight, of one gate and of units half a block apart, so that every number of a
// state that it reads is used twice. It keeps their first rows in registers and loads
// the others ahead of their use, as many as R records leave room for.
static const int chunk = 128;

template <int R> struct Rows {
	static const int held = R == 1 ? 80 : R == 2 ? 64 : R == 4 ? 56 : 40, ahead = R < 4 ? 16 : 8;
	static_assert((chunk - held) % ahead == 0, "what is read ahead ends with the chunk");
};

// Columns are a thread's two columns of a weight: row k is first[k·stride] and
// second[k·stride].
template <int held> struct Columns {
	const float *first, *second;
	int stride, rows;
	float2 kept[held];

	__device__ __forceinline__ Columns(const float *one, const float *other, int stride, int rows)
		: first(one), second(other), stride(stride), rows(rows) {
#pragma unroll
		for (int k = 0; k < held; k++) kept[k] = row(k);
	}

	__device__ __forceinline__ float2 row(int k) const {
		return k < rows ? make_float2(first[k * stride], second[k * stride]) : make_float2(0, 0);
	}
};

__device__ __forceinline__ void add(float2 &sum, float h, float2 w) {
	sum.x = fmaf(h, w.x, sum.x);
	sum.y = fmaf(h, w.y, sum.y);
}

// multiply adds the products of R states with rows base to base+chunk. State r begins at
// place+r·apart and is zero beyond the weight's rows.
template <int R, int held, class State>
__device__ __forceinline__ void multiply(float2 (&sum)[R], State &state, int place, int apart, const Columns<held> &w, int base) {
	const int ahead = Rows<R>::ahead;
	int from = 0;
	if (base == 0) {
#pragma unroll
		for (int k = 0; k < held; k += 4) {
#pragma unroll
			for (int r = 0; r < R; r++) {
				float4 h = load4(state, place + r * apart + k);
				add(sum[r], h.x, w.kept[k]);
				add(sum[r], h.y, w.kept[k + 1]);
				add(sum[r], h.z, w.kept[k + 2]);
				add(sum[r], h.w, w.kept[k + 3]);
			}
		}
		from = held;
	}
#pragma unroll 1
	for (; from < min(chunk, w.rows - base); from += ahead) {
		float2 v[ahead];
#pragma unroll
		for (int k = 0; k < ahead; k++) v[k] = w.row(base + from + k);
#pragma unroll
		for (int k = 0; k < ahead; k += 4) {
#pragma unroll
			for (int r = 0; r < R; r++) {
				float4 h = load4(state, place + r * apart + from + k);
				add(sum[r], h.x, v[k]);
				add(sum[r], h.y, v[k + 1]);
				add(sum[r], h.z, v[k + 2]);
				add(sum[r], h.w, v[k + 3]);
			}
		}
	}
}

// Place is a thread's position. Thread (gate, own) multiplies for all R records with the
// columns of that gate and of units own and own+half, then computes every gates-th of
// the block's R·2 pairs of a record and such a unit.
template <class Cell, int R> struct Place {
	static constexpr int answers = (2 * R + Cell::gates - 1) / Cell::gates;

	int half, gate, own, record, unit;

	__device__ __forceinline__ Place()
		: half(blockDim.x / Cell::gates), gate(threadIdx.x / half), own(threadIdx.x % half),
		  record(blockIdx.x * R), unit(blockIdx.y * 2 * half) {}

	// near and far are the thread's units, or the last unit if there is none.
	__device__ __forceinline__ int near(int hidden) const { return min(unit + own, hidden - 1); }
	__device__ __forceinline__ int far(int hidden) const { return min(unit + half + own, hidden - 1); }

	// answer j is for record r of the block and unit u of the block; it may not exist.
	__device__ __forceinline__ bool answer(int j, const Walk &q, int &r, int &u) const {
		int i = gate + j * Cell::gates;
		r = i / 2, u = own + i % 2 * half;
		return i < 2 * R && record + r < q.records && unit + u < q.hidden;
	}
};

// hidden [2, B, H] passes the hidden states from one launch to the next, memory [B, H]
// the units' memory; they are used where a sequence takes several launches.

template <class Cell, int R, class State, class Sums>
__device__ __forceinline__ void forwards(State &state, Sums &sums, float *trace, const float *x, const float *weight, const float *bias, float *hidden, float *memory, Walk q) {
	const Place<Cell, R> at;
	const int H = q.hidden, width = Cell::gates * H;
	const int near = at.gate * H + at.near(H), far = at.gate * H + at.far(H);
	const Columns<Rows<R>::held> w(weight + near, weight + far, width, H);
	const bool alone = gridDim.y == 1;
	int r, u;

	float remembered[at.answers];
#pragma unroll
	for (int j = 0; j < at.answers; j++)
		remembered[j] = at.answer(j, q, r, u) && q.from > 0 ? memory[(at.record + r) * H + at.unit + u] : 0.0f;
	for (int e = threadIdx.x; e < R * chunk; e += blockDim.x) state[e] = 0.0f;
	__syncthreads();

	for (int i = q.from; i < q.to; i++) {
		const int t = step_at(q, i);
		float2 in[R], sum[R];
#pragma unroll
		for (r = 0; r < R; r++) {
			const float *row = x + (min(at.record + r, q.records - 1) * q.steps + t) * width;
			in[r] = make_float2(row[near], row[far]);
			sum[r] = make_float2(0, 0);
		}
		for (int base = 0; i > 0 && base < H; base += chunk) {
			if (!alone) {
				const float *from = hidden + ((i - 1) & 1) * q.records * H + base;
				__syncthreads();
				for (int e = threadIdx.x; e < R * chunk; e += blockDim.x) {
					r = at.record + e / chunk;
					int k = e % chunk;
					state[e] = r < q.records && base + k < H ? from[r * H + k] : 0.0f;
				}
				__syncthreads();
			}
			multiply(sum, state, 0, chunk, w, base);
		}
#pragma unroll
		for (r = 0; r < R; r++) {
			int to = (r * 4 + at.gate) * chunk + at.own;
			if (Cell::gates == 3 && at.gate == 2) { // the candidate
				sums[to + chunk] = in[r].x;
				sums[to + chunk + at.half] = in[r].y;
				in[r] = make_float2(bias[near - 2 * H], bias[far - 2 * H]);
			}
			sums[to] = in[r].x + sum[r].x;
			sums[to + at.half] = in[r].y + sum[r].y;
		}
		__syncthreads();
#pragma unroll
		for (int j = 0; j < at.answers; j++) {
			if (!at.answer(j, q, r, u)) continue;
			float a[4], y[Cell::trace];
#pragma unroll
			for (int s = 0; s < 4; s++) a[s] = sums[(r * 4 + s) * chunk + u];
			float h = Cell::forward(a, remembered[j], y);
			float *to = trace + ((at.record + r) * q.steps + t) * Cell::trace * H + at.unit + u;
#pragma unroll
			for (int s = 0; s < Cell::trace; s++) to[s * H] = y[s];
			if (alone)
				state[r * chunk + u] = h;
			else
				hidden[((i & 1) * q.records + at.record + r) * H + at.unit + u] = h;
		}
		__syncthreads();
	}
	if (q.to == q.steps) return;
#pragma unroll
	for (int j = 0; j < at.answers; j++)
		if (at.answer(j, q, r, u)) memory[(at.record + r) * H + at.unit + u] = remembered[j];
}

// backwards goes from step to−1 down to from. Row t of states, `apart` numbers from the
// next, contains the units' memory after step t.
template <class Cell, int R, class State, class Sums>
__device__ __forceinline__ void backwards(State &state, Sums &sums, float *out, const float *turned, const float *trace, const float *states, int apart, const float *gradient, float *memory, Walk q) {
	const Place<Cell, R> at;
	const int H = q.hidden, width = Cell::gates * H;
	const float *rows = turned + at.gate * H * H;
	const Columns<Rows<R>::held> w(rows + at.near(H), rows + at.far(H), H, H);
	const bool alone = gridDim.y == 1;
	int r, u;

	float remembered[at.answers];
#pragma unroll
	for (int j = 0; j < at.answers; j++)
		remembered[j] = at.answer(j, q, r, u) && q.to < q.steps ? memory[(at.record + r) * H + at.unit + u] : 0.0f;
	for (int e = threadIdx.x; e < R * Cell::gates * chunk; e += blockDim.x) state[e] = 0.0f;
	__syncthreads();

	for (int i = q.to - 1; i >= q.from; i--) {
		const int t = step_at(q, i);
		float y[at.answers][Cell::trace], before[at.answers], v[at.answers];
#pragma unroll
		for (int j = 0; j < at.answers; j++) {
			bool real = at.answer(j, q, r, u);
			int row = (at.record + r) * q.steps + t;
#pragma unroll
			for (int s = 0; s < Cell::trace; s++) y[j][s] = real ? trace[(row * Cell::trace + s) * H + at.unit + u] : 0.0f;
			before[j] = real && i > 0 ? states[((at.record + r) * q.steps + step_at(q, i - 1)) * apart + at.unit + u] : 0.0f;
			v[j] = real ? gradient[row * H + at.unit + u] : 0.0f;
		}
		float2 sum[R];
#pragma unroll
		for (r = 0; r < R; r++) sum[r] = make_float2(0, 0);
		for (int base = 0; i + 1 < q.steps && base < H; base += chunk) {
			if (!alone) {
				const int next = step_at(q, i + 1);
				__syncthreads();
				for (int e = threadIdx.x; e < R * Cell::gates * chunk; e += blockDim.x) {
					r = at.record + e / (Cell::gates * chunk);
					int g = e / chunk % Cell::gates, k = base + e % chunk, row = r * q.steps + next;
					state[e] = r < q.records && k < H ? Cell::signal(g, out[row * width + g * H + k], trace + row * Cell::trace * H + k) : 0.0f;
				}
				__syncthreads();
			}
			multiply(sum, state, at.gate * chunk, Cell::gates * chunk, w, base);
		}
#pragma unroll
		for (r = 0; r < R; r++) {
			int to = (r * Cell::gates + at.gate) * chunk + at.own;
			sums[to] = sum[r].x;
			sums[to + at.half] = sum[r].y;
		}
		__syncthreads();
#pragma unroll
		for (int j = 0; j < at.answers; j++) {
			if (!at.answer(j, q, r, u)) continue;
			float total = v[j] + Cell::carried(remembered[j]);
#pragma unroll
			for (int g = 0; g < Cell::gates; g++) total += sums[(r * Cell::gates + g) * chunk + u];
			float d[Cell::gates], s[Cell::gates];
			Cell::backward(y[j], before[j], total, remembered[j], d, s);
			float *to = out + ((at.record + r) * q.steps + t) * width + at.unit + u;
#pragma unroll
			for (int g = 0; g < Cell::gates; g++) {
				to[g * H] = d[g];
				if (alone) state[(r * Cell::gates + g) * chunk + u] = s[g];
			}
		}
		__syncthreads();
	}
	if (q.from == 0) return;
#pragma unroll
	for (int j = 0; j < at.answers; j++)
		if (at.answer(j, q, r, u)) memory[(at.record + r) * H + at.unit + u] = remembered[j];
}

// The kernels for R records per block.
#define WALKS(R)                                                                                                                    \
	KERNEL LAUNCH_BOUNDS(256) lstm_trace_##R(float *trace, const float *x, const float *w, float *hidden, float *memory, Walk q) {  \
		SHARED(float, state, R * chunk);                                                                                            \
		SHARED(float, sums, R * 4 * chunk);                                                                                         \
		forwards<Lstm, R>(state, sums, trace, x, w, x, hidden, memory, q);                                                          \
	}                                                                                                                               \
	KERNEL LAUNCH_BOUNDS(192) gru_trace_##R(float *trace, const float *x, const float *w, const float *bias, float *hidden,         \
	                                        float *memory, Walk q) {                                                                \
		SHARED(float, state, R * chunk);                                                                                            \
		SHARED(float, sums, R * 4 * chunk);                                                                                         \
		forwards<Gru, R>(state, sums, trace, x, w, bias, hidden, memory, q);                                                        \
	}                                                                                                                               \
	KERNEL LAUNCH_BOUNDS(256) lstm_gradient_##R(float *out, const float *turned, const float *trace, const float *gradient,         \
	                                            float *memory, Walk q) {                                                            \
		SHARED(float, state, R * 4 * chunk);                                                                                        \
		SHARED(float, sums, R * 4 * chunk);                                                                                         \
		backwards<Lstm, R>(state, sums, out, turned, trace, trace + 4 * q.hidden, 5 * q.hidden, gradient, memory, q);               \
	}                                                                                                                               \
	KERNEL LAUNCH_BOUNDS(192) gru_gradient_##R(float *out, const float *turned, const float *trace, const float *hidden,            \
	                                           const float *gradient, float *memory, Walk q) {                                      \
		SHARED(float, state, R * 3 * chunk);                                                                                        \
		SHARED(float, sums, R * 3 * chunk);                                                                                         \
		backwards<Gru, R>(state, sums, out, turned, trace, hidden, q.hidden, gradient, memory, q);                                  \
	}

WALKS(1)
WALKS(2)
WALKS(4)
WALKS(8)

// lstm_states copies the hidden states from the trace.
KERNEL lstm_states(float *out, const float *trace, int n, int hidden) {
	EACH(i, n) {
		int row = (int)i / hidden;
		const float *y = trace + row * 5 * hidden + ((int)i - row * hidden);
		out[i] = y[3 * hidden] * tanhf(y[4 * hidden]);
	}
}

// gru_states does so for a GRU: n units of all records, one thread each.
KERNEL gru_states(float *out, const float *trace, int n, int hidden, int steps, int reverse) {
	EACH(i, n) {
		int record = (int)i / hidden, unit = (int)i - record * hidden;
		float h = 0;
#pragma unroll 8
		for (int k = 0; k < steps; k++) {
			int row = record * steps + (reverse ? steps - 1 - k : k);
			const float *y = trace + row * 4 * hidden + unit;
			h = fmaf(y[hidden], h, (1 - y[hidden]) * y[3 * hidden]);
			out[row * hidden + unit] = h;
		}
	}
}

// gru_hidden computes the signals at the product: the candidate's are multiplied by the
// reset gate.
KERNEL gru_hidden(float *out, const float *trace, const float *signals, int n, int hidden) {
	EACH(i, n) {
		int row = (int)i / (3 * hidden), column = (int)i - row * 3 * hidden;
		float d = signals[i];
		out[i] = column < 2 * hidden ? d : d * trace[row * 4 * hidden + column - 2 * hidden];
	}
}

// delay gives each step the previous one; a step has width numbers.
KERNEL delay(float *out, const float *x, int n, int width, int steps, int reverse) {
	EACH(i, n) {
		int t = (int)i / width % steps;
		bool first = reverse ? t == steps - 1 : t == 0;
		out[i] = first ? 0.0f : x[reverse ? i + width : i - width];
	}
}
