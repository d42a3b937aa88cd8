//go:build gpu

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "mpi.h"

/* Plug-ins of Open MPI find the library's symbols only if they are global. */
void *ranks_open(const char *path, char *failure, size_t bytes) {
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!library)
		snprintf(failure, bytes, "%s", dlerror());
	return library;
}

const char *ranks_load_functions(void *library, ranks_mpi *mpi) {
	const struct {
		const char *name;
		void *slot;
	} functions[] = {
		{"MPI_Init_thread", &mpi->init_thread},
		{"MPI_Finalize", &mpi->finalize},
		{"MPI_Comm_rank", &mpi->comm_rank},
		{"MPI_Comm_size", &mpi->comm_size},
		{"MPI_Comm_set_errhandler", &mpi->comm_set_errhandler},
		{"MPI_Iallreduce", &mpi->iallreduce},
		{"MPI_Iallgatherv", &mpi->iallgatherv},
		{"MPI_Ialltoallv", &mpi->ialltoallv},
		{"MPI_Ibcast", &mpi->ibcast},
		{"MPI_Isend", &mpi->isend},
		{"MPI_Iprobe", &mpi->iprobe},
		{"MPI_Test", &mpi->test},
		{"MPI_Abort", &mpi->abort},
		{"MPI_Error_string", &mpi->error_string},
		{"MPI_Get_library_version", &mpi->get_library_version},
	};
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		void *function = dlsym(library, functions[i].name);
		if (!function)
			return functions[i].name;
		memcpy(functions[i].slot, &function, sizeof function);
	}
	return NULL;
}

uintptr_t ranks_symbol(void *library, const char *name) { return (uintptr_t)dlsym(library, name); }

int ranks_abi_major(void *library) {
	int (*get)(int *, int *), major = -1, minor = -1;
	void *function = dlsym(library, "MPI_Abi_get_version");
	if (!function)
		return -1;
	memcpy(&get, &function, sizeof get);
	return get(&major, &minor) == 0 ? major : -1;
}

int ranks_init(const ranks_mpi *mpi, int *provided) {
	struct sigaction before[NSIG], after;
	int known[NSIG];
	for (int s = 1; s < NSIG; s++)
		known[s] = sigaction(s, NULL, &before[s]) == 0;
#ifdef __linux__
	prctl(PR_SET_TIMERSLACK, 1000); /* nanoseconds, of this thread's pauses; the default is 50,000 */
#endif
	int status = mpi->init_thread(NULL, NULL, mpi->funneled, provided);
	for (int s = 1; s < NSIG; s++)
		if (known[s] && sigaction(s, NULL, &after) == 0 && after.sa_sigaction != before[s].sa_sigaction)
			sigaction(s, &before[s], NULL);
	return status;
}

int ranks_finalize(const ranks_mpi *mpi) { return mpi->finalize(); }

int ranks_rank(const ranks_mpi *mpi, int *rank) { return mpi->comm_rank(mpi->world, rank); }

int ranks_size(const ranks_mpi *mpi, int *size) { return mpi->comm_size(mpi->world, size); }

int ranks_return_errors(const ranks_mpi *mpi) { return mpi->comm_set_errhandler(mpi->world, mpi->errors_return); }

int ranks_start_sum(const ranks_mpi *mpi, int64_t *values, int count, uintptr_t *request) {
	*request = 0;
	return mpi->iallreduce(mpi->in_place, values, count, mpi->int64s, mpi->sum, mpi->world, request);
}

int ranks_start_sum32(const ranks_mpi *mpi, int32_t *values, int count, uintptr_t *request) {
	*request = 0;
	return mpi->iallreduce(mpi->in_place, values, count, mpi->int32s, mpi->sum, mpi->world, request);
}

int ranks_start_gather(const ranks_mpi *mpi, void *bytes, const int counts[], const int places[], uintptr_t *request) {
	*request = 0;
	return mpi->iallgatherv(mpi->in_place, 0, mpi->bytes, bytes, counts, places, mpi->bytes, mpi->world, request);
}

int ranks_start_exchange(const ranks_mpi *mpi, const void *send, void *receive, const int shape[], int size, uintptr_t *request) {
	*request = 0;
	return mpi->ialltoallv(send, shape, shape + size, mpi->bytes, receive, shape + 2 * size, shape + 3 * size, mpi->bytes, mpi->world, request);
}

int ranks_start_broadcast(const ranks_mpi *mpi, void *bytes, int count, uintptr_t *request) {
	*request = 0;
	return mpi->ibcast(bytes, count, mpi->bytes, 0, mpi->world, request);
}

/* A status has 20 to 32 bytes. No library needs more than this, and none of it is read. */
typedef struct {
	uint64_t words[16];
} any_status;

/* Pauses of ranks_wait. A thread that only tests takes a processor from a rank that computes, and one that yields
   to others waits until they have had their turn. */
enum { tests_without_pause = 500, shortest_pause = 2000, longest_pause = 200000 };

static int64_t nanoseconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

int ranks_wait(const ranks_mpi *mpi, uintptr_t *request, int64_t waited, int64_t limit, int *done) {
	int64_t began = nanoseconds(), now = began;
	for (int tests = 0;; tests++) {
		any_status status;
		int failed = mpi->test(request, done, &status);
		if (failed || *done)
			return failed;
		if (waited == 0 && tests < tests_without_pause)
			continue;
		now = nanoseconds();
		if (now - began > limit)
			return 0;
		int64_t pause = (waited + now - began) / 16;
		pause = pause < shortest_pause ? shortest_pause : pause > longest_pause ? longest_pause : pause;
		struct timespec pausing = {0, pause};
		nanosleep(&pausing, NULL);
	}
}

enum { roll_call = 1 };

int ranks_start_roll_call(const ranks_mpi *mpi, int to, uintptr_t *request) {
	static const char message;
	*request = 0;
	return mpi->isend(&message, 1, mpi->bytes, to, roll_call, mpi->world, request);
}

int ranks_has_roll_call(const ranks_mpi *mpi, int from, int *found) {
	any_status status;
	return mpi->iprobe(from, roll_call, mpi->world, found, &status);
}

int ranks_abort(const ranks_mpi *mpi) { return mpi->abort(mpi->world, 1); }

int ranks_error_string(const ranks_mpi *mpi, int code, char *text, int *length) {
	return mpi->error_string(code, text, length);
}

int ranks_library_version(const ranks_mpi *mpi, char *text, int *length) {
	return mpi->get_library_version(text, length);
}
