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
// This shape is used up to 128 hidden units. Above, the weight does not fit (1 MiB at
// 256) and one block would leave the GPU idle. There the same kernel computes one step
// per launch, with the units divided among blocks of 64: ≈4 µs per step at 256 units, ≈8
// µs at 512. R is the smallest of 1, 2, 4, 8 for which every block finds a free
// multiprocessor. Memory moves 17 MiB forward and 20 MiB backward: 5 and 6 µs, which
// overlap.
#include "device.h"
#include "activation.h"
#include "each.h"

// StepRange is the range of a sequence's steps to compute, from, …, to−1 in reading
// order.
struct StepRange {
	int records, steps, hidden, reverse, from, to;
};

__device__ __forceinline__ int step_at(StepRange q, int i) { return q.reverse ? q.steps - 1 - i : i; }

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
// the others before their use, as many as the registers of R records allow.
static const int chunk = 128;

template <int R> struct Buffering {
	static const int register_rows = R == 1 ? 80 : R == 2 ? 64 : R == 4 ? 56 : 40, ahead = R < 4 ? 16 : 8;
	static_assert((chunk - register_rows) % ahead == 0, "a chunk ends with the rows that are loaded ahead");
};

// WeightColumns are a thread's two columns of a weight: row k is first[k·stride] and
// second[k·stride].
template <int register_rows> struct WeightColumns {
	const float *first, *second;
	int stride, rows;
	float2 registers[register_rows];

	__device__ __forceinline__ WeightColumns(const float *one, const float *other, int stride, int rows)
		: first(one), second(other), stride(stride), rows(rows) {
#pragma unroll
		for (int k = 0; k < register_rows; k++) registers[k] = row(k);
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
// place+r·stride and is zero beyond the weight's rows.
template <int R, int register_rows, class State>
__device__ __forceinline__ void multiply(float2 (&sum)[R], State &state, int place, int stride, const WeightColumns<register_rows> &w, int base) {
	const int ahead = Buffering<R>::ahead;
	int from = 0;
	if (base == 0) {
#pragma unroll
		for (int k = 0; k < register_rows; k += 4) {
#pragma unroll
			for (int r = 0; r < R; r++) {
				float4 h = load4(state, place + r * stride + k);
				add(sum[r], h.x, w.registers[k]);
				add(sum[r], h.y, w.registers[k + 1]);
				add(sum[r], h.z, w.registers[k + 2]);
				add(sum[r], h.w, w.registers[k + 3]);
			}
		}
		from = register_rows;
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
				float4 h = load4(state, place + r * stride + from + k);
				add(sum[r], h.x, v[k]);
				add(sum[r], h.y, v[k + 1]);
				add(sum[r], h.z, v[k + 2]);
				add(sum[r], h.w, v[k + 3]);
			}
		}
	}
}

// ThreadPosition is a thread's position. Thread (gate, own) multiplies for all R records
// with the columns of that gate and of units own and own+half, then computes every
// gates-th of the block's R·2 pairs of a record and such a unit.
template <class Cell, int R> struct ThreadPosition {
	static constexpr int results = (2 * R + Cell::gates - 1) / Cell::gates;

	int half, gate, own, record, unit;

	__device__ __forceinline__ ThreadPosition()
		: half(blockDim.x / Cell::gates), gate(threadIdx.x / half), own(threadIdx.x % half),
		  record(blockIdx.x * R), unit(blockIdx.y * 2 * half) {}

	// first_unit and second_unit are the thread's units, or the last unit if there is
	// none.
	__device__ __forceinline__ int first_unit(int hidden) const { return min(unit + own, hidden - 1); }
	__device__ __forceinline__ int second_unit(int hidden) const { return min(unit + half + own, hidden - 1); }

	// result returns whether result j of the thread exists, and its record r and unit u
	// in the block.
	__device__ __forceinline__ bool result(int j, const StepRange &q, int &r, int &u) const {
		int i = gate + j * Cell::gates;
		r = i / 2, u = own + i % 2 * half;
		return i < 2 * R && record + r < q.records && unit + u < q.hidden;
	}
};

// hidden [2, B, H] passes the hidden states from one launch to the next, and memory [B,
// H] the units' memory. They are used where a sequence takes several launches.

template <class Cell, int R, class State, class Sums>
__device__ __forceinline__ void run_forward(State &state, Sums &sums, float *trace, const float *x, const float *weight, const float *bias, float *hidden, float *memory, StepRange q) {
	const ThreadPosition<Cell, R> at;
	const int H = q.hidden, width = Cell::gates * H;
	const int first_column = at.gate * H + at.first_unit(H), second_column = at.gate * H + at.second_unit(H);
	const WeightColumns<Buffering<R>::register_rows> w(weight + first_column, weight + second_column, width, H);
	const bool single_block = gridDim.y == 1;
	int r, u;

	float cell[at.results];
#pragma unroll
	for (int j = 0; j < at.results; j++)
		cell[j] = at.result(j, q, r, u) && q.from > 0 ? memory[(at.record + r) * H + at.unit + u] : 0.0f;
	for (int e = threadIdx.x; e < R * chunk; e += blockDim.x) state[e] = 0.0f;
	__syncthreads();

	for (int i = q.from; i < q.to; i++) {
		const int t = step_at(q, i);
		float2 in[R], sum[R];
#pragma unroll
		for (r = 0; r < R; r++) {
			const float *row = x + (min(at.record + r, q.records - 1) * q.steps + t) * width;
			in[r] = make_float2(row[first_column], row[second_column]);
			sum[r] = make_float2(0, 0);
		}
		for (int base = 0; i > 0 && base < H; base += chunk) {
			if (!single_block) {
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
				in[r] = make_float2(bias[first_column - 2 * H], bias[second_column - 2 * H]);
			}
			sums[to] = in[r].x + sum[r].x;
			sums[to + at.half] = in[r].y + sum[r].y;
		}
		__syncthreads();
#pragma unroll
		for (int j = 0; j < at.results; j++) {
			if (!at.result(j, q, r, u)) continue;
			float a[4], y[Cell::trace];
#pragma unroll
			for (int s = 0; s < 4; s++) a[s] = sums[(r * 4 + s) * chunk + u];
			float h = Cell::forward(a, cell[j], y);
			float *to = trace + ((at.record + r) * q.steps + t) * Cell::trace * H + at.unit + u;
#pragma unroll
			for (int s = 0; s < Cell::trace; s++) to[s * H] = y[s];
			if (single_block)
				state[r * chunk + u] = h;
			else
				hidden[((i & 1) * q.records + at.record + r) * H + at.unit + u] = h;
		}
		__syncthreads();
	}
	if (q.to == q.steps) return;
#pragma unroll
	for (int j = 0; j < at.results; j++)
		if (at.result(j, q, r, u)) memory[(at.record + r) * H + at.unit + u] = cell[j];
}

// run_backward goes from step to−1 down to from. Row t of states, `stride` numbers from
// the next, contains the units' memory after step t.
template <class Cell, int R, class State, class Sums>
__device__ __forceinline__ void run_backward(State &state, Sums &sums, float *out, const float *transposed, const float *trace, const float *states, int stride, const float *gradient, float *memory, StepRange q) {
	const ThreadPosition<Cell, R> at;
	const int H = q.hidden, width = Cell::gates * H;
	const float *rows = transposed + at.gate * H * H;
	const WeightColumns<Buffering<R>::register_rows> w(rows + at.first_unit(H), rows + at.second_unit(H), H, H);
	const bool single_block = gridDim.y == 1;
	int r, u;

	float cell[at.results];
#pragma unroll
	for (int j = 0; j < at.results; j++)
		cell[j] = at.result(j, q, r, u) && q.to < q.steps ? memory[(at.record + r) * H + at.unit + u] : 0.0f;
	for (int e = threadIdx.x; e < R * Cell::gates * chunk; e += blockDim.x) state[e] = 0.0f;
	__syncthreads();

	for (int i = q.to - 1; i >= q.from; i--) {
		const int t = step_at(q, i);
		float y[at.results][Cell::trace], before[at.results], v[at.results];
#pragma unroll
		for (int j = 0; j < at.results; j++) {
			bool real = at.result(j, q, r, u);
			int row = (at.record + r) * q.steps + t;
#pragma unroll
			for (int s = 0; s < Cell::trace; s++) y[j][s] = real ? trace[(row * Cell::trace + s) * H + at.unit + u] : 0.0f;
			before[j] = real && i > 0 ? states[((at.record + r) * q.steps + step_at(q, i - 1)) * stride + at.unit + u] : 0.0f;
			v[j] = real ? gradient[row * H + at.unit + u] : 0.0f;
		}
		float2 sum[R];
#pragma unroll
		for (r = 0; r < R; r++) sum[r] = make_float2(0, 0);
		for (int base = 0; i + 1 < q.steps && base < H; base += chunk) {
			if (!single_block) {
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
		for (int j = 0; j < at.results; j++) {
			if (!at.result(j, q, r, u)) continue;
			float total = v[j] + Cell::carried(cell[j]);
#pragma unroll
			for (int g = 0; g < Cell::gates; g++) total += sums[(r * Cell::gates + g) * chunk + u];
			float d[Cell::gates], s[Cell::gates];
			Cell::backward(y[j], before[j], total, cell[j], d, s);
			float *to = out + ((at.record + r) * q.steps + t) * width + at.unit + u;
#pragma unroll
			for (int g = 0; g < Cell::gates; g++) {
				to[g * H] = d[g];
				if (single_block) state[(r * Cell::gates + g) * chunk + u] = s[g];
			}
		}
		__syncthreads();
	}
	if (q.from == 0) return;
#pragma unroll
	for (int j = 0; j < at.results; j++)
		if (at.result(j, q, r, u)) memory[(at.record + r) * H + at.unit + u] = cell[j];
}

// The kernels for R records per block.
#define RECURRENT_KERNELS(R)                                                                                                                    \
	KERNEL LAUNCH_BOUNDS(256) lstm_trace_##R(float *trace, const float *x, const float *w, float *hidden, float *memory, StepRange q) {  \
		SHARED(float, state, R * chunk);                                                                                            \
		SHARED(float, sums, R * 4 * chunk);                                                                                         \
		run_forward<Lstm, R>(state, sums, trace, x, w, x, hidden, memory, q);                                                          \
	}                                                                                                                               \
	KERNEL LAUNCH_BOUNDS(192) gru_trace_##R(float *trace, const float *x, const float *w, const float *bias, float *hidden,         \
	                                        float *memory, StepRange q) {                                                                \
		SHARED(float, state, R * chunk);                                                                                            \
		SHARED(float, sums, R * 4 * chunk);                                                                                         \
		run_forward<Gru, R>(state, sums, trace, x, w, bias, hidden, memory, q);                                                        \
	}                                                                                                                               \
	KERNEL LAUNCH_BOUNDS(256) lstm_gradient_##R(float *out, const float *transposed, const float *trace, const float *gradient,         \
	                                            float *memory, StepRange q) {                                                            \
		SHARED(float, state, R * 4 * chunk);                                                                                        \
		SHARED(float, sums, R * 4 * chunk);                                                                                         \
		run_backward<Lstm, R>(state, sums, out, transposed, trace, trace + 4 * q.hidden, 5 * q.hidden, gradient, memory, q);               \
	}                                                                                                                               \
	KERNEL LAUNCH_BOUNDS(192) gru_gradient_##R(float *out, const float *transposed, const float *trace, const float *hidden,            \
	                                           const float *gradient, float *memory, StepRange q) {                                      \
		SHARED(float, state, R * 3 * chunk);                                                                                        \
		SHARED(float, sums, R * 3 * chunk);                                                                                         \
		run_backward<Gru, R>(state, sums, out, transposed, trace, hidden, q.hidden, gradient, memory, q);                                  \
	}

RECURRENT_KERNELS(1)
RECURRENT_KERNELS(2)
RECURRENT_KERNELS(4)
RECURRENT_KERNELS(8)

// lstm_states copies the hidden states from the trace.
KERNEL lstm_states(float *out, const float *trace, int n, int hidden) {
	EACH(i, n) {
		int row = (int)i / hidden;
		const float *y = trace + row * 5 * hidden + ((int)i - row * hidden);
		out[i] = y[3 * hidden] * tanhf(y[4 * hidden]);
	}
}

// gru_states computes those of a GRU from the trace: n units of all records, one thread
// each.
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

// gru_hidden computes the signals at the product with the hidden state: the candidate's
// are multiplied by the reset gate.
KERNEL gru_hidden(float *out, const float *trace, const float *signals, int n, int hidden) {
	EACH(i, n) {
		int row = (int)i / (3 * hidden), column = (int)i - row * 3 * hidden;
		float d = signals[i];
		out[i] = column < 2 * hidden ? d : d * trace[row * 4 * hidden + column - 2 * hidden];
	}
}

// delay copies each step to the next one; a step has width numbers.
KERNEL delay(float *out, const float *x, int n, int width, int steps, int reverse) {
	EACH(i, n) {
		int t = (int)i / width % steps;
		bool first = reverse ? t == steps - 1 : t == 0;
		out[i] = first ? 0.0f : x[reverse ? i + width : i - width];
	}
}
