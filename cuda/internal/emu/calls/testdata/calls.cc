// Calls the driver of the emulated device as a program would and prints what is not as
// CUDA's manual has it. The arguments are the library and the name of a test.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <thread>
#include <vector>

using Pointer = uintptr_t;
static void *library;
static int failures;

// Calls a function of the driver by name.
template <class... A> static int cu(const char *name, A... arguments) {
	auto f = reinterpret_cast<int (*)(A...)>(dlsym(library, name));
	if (f == nullptr) {
		printf("there is no %s\n", name);
		exit(1);
	}
	return f(arguments...);
}

template <class T, class U> static void same(int line, const char *what, T got, U want) {
	if (got == T(want)) return;
	printf("line %d: %s is %lld, want %lld\n", line, what, (long long)got, (long long)want);
	failures++;
}
#define SAME(got, want) same(__LINE__, #got, got, want)
#define OK(call) same(__LINE__, #call, call, 0)

static void *module, *null_stream;

static void *function(const char *name) {
	void *f = nullptr;
	OK(cu("cuModuleGetFunction", &f, module, name));
	return f;
}

static void begin() {
	void *context;
	OK(cu("cuInit", 0u));
	OK(cu("cuCtxCreate_v2", &context, 0u, 0));
	OK(cu("cuModuleLoadData", &module, (const void *)".version 8.8\n.target sm_90"));
}

static Pointer device(size_t bytes) {
	Pointer p = 0;
	OK(cu("cuMemAlloc_v2", &p, bytes));
	return p;
}

static float *pinned(size_t n) {
	void *p = nullptr;
	OK(cu("cuMemHostAlloc", &p, 4 * n, 0u));
	return static_cast<float *>(p);
}

static void *stream(unsigned flags = 1) {
	void *s = nullptr;
	OK(cu("cuStreamCreate", &s, flags));
	return s;
}

static int launch(void *f, unsigned blocks, unsigned threads, void *s, std::vector<void *> arguments, unsigned shared = 0) {
	return cu("cuLaunchKernel", f, blocks, 1u, 1u, threads, 1u, 1u, shared, s, arguments.data(), (void **)nullptr);
}

static int add(Pointer y, Pointer x, float by, int n, void *s) { return launch(function("add"), 1, 256, s, {&y, &x, &by, &n}); }

static float first(Pointer p) {
	float v = -1;
	OK(cu("cuMemcpyDtoH_v2", (void *)&v, p, size_t(4)));
	return v;
}

static void test_handles() {
	void *nothing = &failures, *out = nullptr;
	Pointer p = 0;
	int n = 0;
	float ms;
	SAME(cu("cuDeviceGetCount", &n), 3);
	OK(cu("cuInit", 0u));
	OK(cu("cuDeviceGetCount", &n));
	SAME(n, 1);
	SAME(cu("cuDeviceGet", &n, 1), 101);
	SAME(cu("cuMemAlloc_v2", &p, size_t(4)), 201);
	SAME(cu("cuCtxSetCurrent", nothing), 201);
	begin();
	SAME(cu("cuCtxDestroy_v2", nothing), 201);
	SAME(cu("cuStreamSynchronize", nothing), 400);
	SAME(cu("cuStreamDestroy_v2", nothing), 400);
	SAME(cu("cuStreamWaitEvent", null_stream, nothing, 0u), 400);
	SAME(cu("cuEventRecord", nothing, null_stream), 400);
	SAME(cu("cuEventElapsedTime", &ms, nothing, nothing), 400);
	SAME(cu("cuModuleLoadData", &out, (const void *)"any image"), 200);
	SAME(cu("cuModuleLoadData", &out, (const void *)".version 8.8\n.target sm_100"), 209);
	char cubin[64] = "\x7f""ELF\2\1\1\63\7";
	for (int sm : {75, 80, 89, 90, 100}) {
		cubin[48] = char(sm);
		SAME(cu("cuModuleLoadData", &out, (const void *)cubin), sm == 90 ? 0 : 209);
	}
	SAME(cu("cuModuleGetFunction", &out, nothing, "add"), 400);
	SAME(cu("cuModuleGetFunction", &out, module, "no such kernel"), 500);
	SAME(cu("cuModuleUnload", nothing), 400);
	SAME(cu("cuFuncGetAttribute", &n, 0, nothing), 400);
	SAME(cu("cuGraphLaunch", nothing, null_stream), 400);
	SAME(cu("cuGraphDestroy", nothing), 400);
	SAME(cu("cuMemFree_v2", Pointer(&n)), 1);
	SAME(cu("cuMemFreeHost", nothing), 1);
	SAME(cu("cuMemAlloc_v2", &p, size_t(0)), 1);
	SAME(cu("cuMemcpyHtoD_v2", Pointer(&n), (const void *)&n, size_t(4)), 1);
	SAME(cu("cuMemsetD32_v2", device(8) + 2, 0u, size_t(1)), 1);
	p = device(16);
	SAME(cu("cuMemcpyDtoD_v2", p + 4, p, size_t(8)), 1);
	OK(cu("cuMemcpyDtoD_v2", p + 8, p, size_t(8)));
	// A context is current on one thread only.
	std::thread([&] { SAME(cu("cuMemAlloc_v2", &p, size_t(4)), 201); }).join();
	const char *text = nullptr;
	OK(cu("cuGetErrorName", 700, &text));
	SAME(strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"), 0);
	SAME(cu("cuGetErrorName", 12345, &text), 1);
}

static void test_memory() {  // of 1 MiB
	begin();
	size_t free = 0, total = 0;
	Pointer p = 0, q = device(600 << 10);
	OK(cu("cuMemGetInfo_v2", &free, &total));
	SAME(total, 1 << 20);
	SAME(free, 424 << 10);
	SAME(cu("cuMemAlloc_v2", &p, size_t(425 << 10)), 2);
	OK(cu("cuMemAlloc_v2", &p, size_t(424 << 10)));
	OK(cu("cuMemFree_v2", q));
	SAME(cu("cuMemFree_v2", q), 1);
	OK(cu("cuMemAlloc_v2", &q, size_t(600 << 10)));
	uint32_t fresh = 0;
	OK(cu("cuMemcpyDtoH_v2", (void *)&fresh, q, size_t(4)));
	SAME(fresh, 0x7ff57ff5);
}

static void test_lateness() {
	begin();
	Pointer x = device(1024), y = device(1024), z = device(1024);
	void *s = stream(), *t = stream();
	float *host = pinned(256);
	// Page-locked memory is read and written when the work is done, not before.
	host[0] = 1;
	OK(cu("cuMemcpyHtoDAsync_v2", x, (const void *)host, size_t(1024), s));
	host[0] = 2;
	OK(add(y, x, 10, 256, s));
	float *result = pinned(256);
	result[0] = -1;
	OK(cu("cuMemcpyDtoHAsync_v2", (void *)result, y, size_t(1024), s));
	SAME(result[0], -1);
	OK(cu("cuStreamSynchronize", s));
	SAME(result[0], 12);
	// Other memory is read before the call returns.
	float plain[256] = {3};
	OK(cu("cuMemcpyHtoDAsync_v2", x, (const void *)plain, sizeof plain, s));
	plain[0] = 4;
	OK(cu("cuMemcpyDtoHAsync_v2", (void *)plain, x, sizeof plain, s));
	SAME(plain[0], 3);
	// Streams run apart unless an event ties them.
	OK(cu("cuMemsetD32Async", x, 0u, size_t(256), s));
	OK(cu("cuStreamSynchronize", s));
	OK(add(x, x, 1, 256, s));
	OK(add(z, x, 100, 256, t));
	OK(cu("cuStreamSynchronize", t));
	SAME(first(z), 100);
	void *e = nullptr;
	OK(cu("cuEventCreate", &e, 0u));
	OK(add(x, x, 1, 256, s));
	OK(cu("cuEventRecord", e, s));
	OK(cu("cuStreamWaitEvent", t, e, 0u));
	OK(add(z, x, 100, 256, t));
	OK(cu("cuStreamSynchronize", t));
	SAME(first(z), 102);
	// A stream that blocks is tied to the default one.
	void *b = stream(0);
	OK(add(x, x, 1, 256, b));
	SAME(first(x), 3);
	// One who asks gets an answer in the end.
	OK(add(x, x, 1, 256, s));
	OK(cu("cuEventRecord", e, s));
	SAME(cu("cuEventQuery", e), 600);
	int asked = 0;
	while (cu("cuEventQuery", e) == 600 && asked < 10) asked++;
	SAME(asked < 10, true);
	SAME(cu("cuStreamQuery", s), 0);
	float ms = -1;
	OK(cu("cuEventElapsedTime", &ms, e, e));
	SAME(ms, 0);
}

static void test_launches() {
	begin();
	void *f = function("add");
	Pointer x = device(1024), y = device(1024);
	OK(cu("cuMemsetD32_v2", x, 0u, size_t(256)));
	float by = 5;
	int n = 256;
	struct {
		Pointer y, x;
		float by;
		int n;
	} packed = {y, x, 5, 256};
	size_t bytes = sizeof packed;
	auto run = [&](unsigned blocks, unsigned threads) {
		void *extra[] = {(void *)1, &packed, (void *)2, &bytes, nullptr};
		return cu("cuLaunchKernel", f, blocks, 1u, 1u, threads, 1u, 1u, 0u, null_stream, (void **)nullptr, (void **)extra);
	};
	OK(run(1, 256));
	SAME(first(y), 5);
	SAME(run(1, 257), 1);
	SAME(run(0, 256), 1);
	SAME(run(1, 0), 1);
	bytes = 20;
	SAME(run(1, 256), 1);
	bytes = 64;
	SAME(run(1, 256), 1);
	bytes = sizeof packed;
	packed.x = Pointer(&packed);
	SAME(run(1, 256), 1);
	SAME(launch(f, 1, 256, null_stream, {&y, &x, &by, &n}, 64), 1);
	int bound = 0;
	OK(cu("cuFuncGetAttribute", &bound, 0, f));
	SAME(bound, 256);

	signed char a = -3;
	struct alignas(16) Mixed {
		char c;
		double d;
		short s;
		alignas(16) float f[4];
	} m = {7, 2.5, -9, {1, 2, 3, 4}};
	int b = 1 << 30;
	long long l = -5;
	OK(launch(function("mixed"), 1, 8, null_stream, {&y, &a, &m, &b, &l}));
	double got[8], want[8] = {-3, 7, 2.5, -9, 1, 4, 1 << 30, -5};
	OK(cu("cuMemcpyDtoH_v2", (void *)got, y, sizeof got));
	for (int i = 0; i < 8; i++) SAME(got[i], want[i]);

	Pointer all = device(4 * 3 * 4 * 5 * 2 * 3 * 4);
	void *arguments[] = {&all};
	OK(cu("cuLaunchKernel", function("places"), 3u, 4u, 5u, 2u, 3u, 4u, 0u, null_stream, (void **)arguments, (void **)nullptr));
	std::vector<unsigned> placed(3 * 4 * 5 * 2 * 3 * 4);
	OK(cu("cuMemcpyDtoH_v2", (void *)placed.data(), all, placed.size() * 4));
	for (unsigned i = 0; i < placed.size(); i++) SAME(placed[i], i ^ (i / 24 / 12 << 20 | i % 24 / 6 << 24));

	Pointer sum = device(4), partial = device(800), arrived = device(4);
	OK(cu("cuMemsetD32_v2", arrived, 0u, size_t(1)));
	n = 51199;
	OK(launch(function("total"), 200, 256, null_stream, {&sum, &partial, &arrived, &n}));
	unsigned got_sum = 0, want_sum = 0;
	for (int i = 0; i < n; i++) want_sum += unsigned(i);
	OK(cu("cuMemcpyDtoH_v2", (void *)&got_sum, sum, size_t(4)));
	SAME(got_sum, want_sum);
}

static void test_lanes() {
	begin();
	Pointer y = device(32 * 16 * 4);
	OK(launch(function("lanes"), 1, 32, null_stream, {&y}));
	unsigned got[32][16];
	OK(cu("cuMemcpyDtoH_v2", (void *)got, y, sizeof got));
	for (unsigned i = 0; i < 32; i++) {
		const unsigned *l = got[i];
		SAME(l[0], 5);
		SAME(l[1], i / 8 * 8 + 3);
		SAME(l[2], i < 3 ? i : i - 3);
		SAME(l[3], i % 8 < 3 ? i : i - 3);
		SAME(l[4], i > 28 ? i : i + 3);
		SAME(l[5], i % 8 > 4 ? i : i + 3);
		SAME(l[6], i ^ 9);
		SAME(l[7], 0x49249249);
		SAME(l[8], 1);
		SAME(l[9], 0);
		SAME(l[10], 7);
		SAME(l[11], 0);
		SAME(l[12], 1);
		SAME(l[13], 2 * (i ^ 1) + 1);
		SAME(l[14], i < 16 ? (i ^ 1) : 0xaaaa0000);
		unsigned reversed = 0;
		for (int b = 0; b < 32; b++) reversed |= (i >> b & 1) << (31 - b);
		unsigned leading = i == 0 ? 32 : unsigned(__builtin_clz(i)), lowest = i == 0 ? 0 : unsigned(__builtin_ctz(i)) + 1;
		unsigned high = unsigned((uint64_t(i << 28) * 32) >> 32), rotated = i >> 1 | i << 31;
		SAME(l[15], reversed ^ high ^ rotated ^ (leading + lowest));
	}
}

static void test_graphs() {
	begin();
	Pointer x = device(1024), y = device(1024);
	void *s = stream(), *t = stream(), *graph = nullptr, *executable = nullptr, *e = nullptr;
	OK(cu("cuMemsetD32Async", x, 0u, size_t(256), s));
	OK(cu("cuStreamSynchronize", s));
	OK(cu("cuEventCreate", &e, 0u));
	auto begin_capture = [&](int mode) { OK(cu("cuStreamBeginCapture_v2", s, mode)); };
	auto end_capture = [&] { return cu("cuStreamEndCapture", s, &graph); };

	// What is captured runs when the graph does, with the arguments that it had.
	begin_capture(2);
	{
		float by = 1;
		int n = 256;
		OK(launch(function("add"), 1, 256, s, {&x, &x, &by, &n}));
		by = 1000;
	}
	OK(cu("cuEventRecord", e, s));
	OK(cu("cuStreamWaitEvent", t, e, 0u));
	OK(add(y, x, 100, 256, t));
	OK(cu("cuEventRecord", e, t));
	OK(cu("cuStreamWaitEvent", s, e, 0u));
	int status = 0;
	OK(cu("cuStreamIsCapturing", s, &status));
	SAME(status, 1);
	OK(end_capture());
	size_t nodes = 0;
	OK(cu("cuGraphGetNodes", graph, (void **)nullptr, &nodes));
	SAME(nodes, 2);
	OK(cu("cuGraphInstantiateWithFlags", &executable, graph, 0ull));
	OK(cu("cuGraphDestroy", graph));
	SAME(first(x), 0);
	for (int i = 0; i < 3; i++) OK(cu("cuGraphLaunch", executable, s));
	OK(cu("cuGraphExecDestroy", executable));
	OK(cu("cuStreamSynchronize", s));
	SAME(first(x), 3);
	SAME(first(y), 103);

	// What is captured waits only for its dependencies: here
	// what reads x does not keep the next addition waiting.
	OK(cu("cuMemsetD32Async", x, 0u, size_t(256), s));
	OK(cu("cuStreamSynchronize", s));
	void *const *named = nullptr;
	size_t count = 0;
	begin_capture(2);
	OK(cu("cuStreamGetCaptureInfo_v2", s, &status, (unsigned long long *)nullptr, (void **)nullptr, &named, &count));
	SAME(count, 0);
	OK(add(x, x, 1, 256, s));
	OK(cu("cuStreamGetCaptureInfo_v2", s, &status, (unsigned long long *)nullptr, (void **)nullptr, &named, &count));
	SAME(count, 1);
	void *fork = named[0];
	OK(add(y, x, 100, 256, s));
	OK(cu("cuStreamGetCaptureInfo_v2", s, &status, (unsigned long long *)nullptr, (void **)nullptr, &named, &count));
	void *read = named[0];
	OK(cu("cuStreamUpdateCaptureDependencies", s, &fork, size_t(1), 1u));
	OK(add(x, x, 10, 256, s));
	OK(cu("cuStreamUpdateCaptureDependencies", s, &read, size_t(1), 0u));
	OK(add(x, x, 1000, 256, s));
	OK(end_capture());
	OK(cu("cuGraphInstantiateWithFlags", &executable, graph, 0ull));
	OK(cu("cuGraphDestroy", graph));
	OK(cu("cuGraphLaunch", executable, s));
	OK(cu("cuStreamSynchronize", s));
	SAME(first(x), 1011);
	SAME(first(y), 111);  // read after the write that it was captured before
	OK(cu("cuGraphExecDestroy", executable));
	SAME(cu("cuStreamUpdateCaptureDependencies", s, &fork, size_t(1), 1u), 401);

	// What a capture does not allow spoils it.
	begin_capture(0);
	Pointer p = 0;
	SAME(cu("cuMemAlloc_v2", &p, size_t(4)), 900);
	SAME(add(x, x, 1, 256, s), 901);
	SAME(end_capture(), 901);
	begin_capture(2);
	OK(cu("cuMemAlloc_v2", &p, size_t(4)));
	SAME(cu("cuStreamSynchronize", s), 900);
	SAME(end_capture(), 901);
	begin_capture(2);
	float plain = 0;
	SAME(cu("cuMemcpyDtoHAsync_v2", (void *)&plain, x, size_t(4), s), 900);
	SAME(end_capture(), 901);
	begin_capture(2);
	OK(cu("cuEventRecord", e, s));
	OK(cu("cuStreamWaitEvent", t, e, 0u));
	OK(add(y, x, 100, 256, t));
	SAME(end_capture(), 904);
	OK(cu("cuEventRecord", e, t));
	begin_capture(2);
	SAME(cu("cuStreamWaitEvent", s, e, 0u), 905);
	SAME(end_capture(), 901);
	begin_capture(0);
	std::thread([&] {
		void *context = nullptr;
		OK(cu("cuCtxCreate_v2", &context, 0u, 0));
		SAME(end_capture(), 908);
		OK(cu("cuCtxDestroy_v2", context));
	}).join();
	OK(end_capture());
	SAME(end_capture(), 401);
	SAME(cu("cuStreamBeginCapture_v2", null_stream, 2), 900);
}

static void test_errors() {
	begin();
	Pointer x = device(1024), freed = device(1024);
	void *broken = nullptr;
	OK(cu("cuCtxGetCurrent", &broken));
	OK(cu("cuMemFree_v2", freed));
	void *f = function("add");
	SAME(add(x, freed, 1, 256, null_stream), 1);
	// A kernel that fails leaves the context so until it is destroyed.
	OK(launch(f, 2, 256, null_stream, {&x, &x, &failures, &(int &)(*new int(300))}));
	SAME(cu("cuCtxSynchronize"), 700);
	Pointer p = 0;
	SAME(cu("cuMemAlloc_v2", &p, size_t(4)), 700);
	SAME(cu("cuCtxSynchronize"), 700);
	OK(cu("cuCtxDestroy_v2", broken));
	begin();
	SAME(cu("cuCtxSetCurrent", broken), 201);
	Pointer y = device(1024);
	OK(cu("cuMemsetD32_v2", y, 0u, size_t(256)));
	OK(add(y, y, 2, 256, null_stream));
	SAME(first(y), 2);
}

static void test_threads() {
	begin();
	void *context = nullptr;
	OK(cu("cuCtxGetCurrent", &context));
	std::vector<std::thread> all;
	for (int i = 0; i < 8; i++) {
		all.emplace_back([=] {
			OK(cu("cuCtxSetCurrent", context));
			Pointer x = device(1024);
			void *s = stream();
			OK(cu("cuMemsetD32Async", x, 0u, size_t(256), s));
			for (int k = 0; k < 200; k++) OK(add(x, x, 1, 256, s));
			OK(cu("cuStreamSynchronize", s));
			SAME(first(x), 200);
		});
	}
	for (std::thread &t : all) t.join();
}

static void test_lost() {  // after 3 launches
	begin();
	Pointer x = device(1024);
	OK(cu("cuMemsetD32_v2", x, 0u, size_t(256)));
	for (int i = 0; i < 3; i++) OK(add(x, x, 1, 256, null_stream));
	SAME(first(x), 3);
	OK(add(x, x, 1, 256, null_stream));
	SAME(cu("cuCtxSynchronize"), 46);
}

// A fault of the host itself must end it, as without the library.
static void test_crash() {
	begin();
	volatile int *nowhere = nullptr;
	*nowhere = 1;
}

int main(int count, char **arguments) {
	if (count != 3 || (library = dlopen(arguments[1], RTLD_NOW)) == nullptr) {
		puts(count == 3 ? dlerror() : "usage: calls library test");
		return 1;
	}
	static const struct {
		const char *name;
		void (*run)();
	} tests[] = {{"handles", test_handles}, {"memory", test_memory}, {"lateness", test_lateness}, {"launches", test_launches}, {"lanes", test_lanes},
	             {"graphs", test_graphs},   {"errors", test_errors}, {"threads", test_threads},   {"lost", test_lost},         {"crash", test_crash}};
	for (const auto &t : tests)
		if (strcmp(t.name, arguments[2]) == 0) return t.run(), failures != 0;
	puts("no such test");
	return 1;
}
