#ifndef DPTRAIN_RANKS_MPI_H
#define DPTRAIN_RANKS_MPI_H

#include <stddef.h>
#include <stdint.h>

/* An MPI library. Handles are numbers of the size of a pointer. Where a library's handles are
   ints, it reads the low half of an argument: the calling conventions of amd64 (System V) and of
   arm64 (AAPCS64) pass both in one register. */
typedef struct {
	uintptr_t world, int64s, int32s, bytes, sum, errors_return, in_place;
	int funneled;
	int (*init_thread)(int *argc, char ***argv, int required, int *provided);
	int (*finalize)(void);
	int (*comm_rank)(uintptr_t comm, int *rank);
	int (*comm_size)(uintptr_t comm, int *size);
	int (*comm_set_errhandler)(uintptr_t comm, uintptr_t handler);
	int (*iallreduce)(uintptr_t send, void *receive, int count, uintptr_t type, uintptr_t op, uintptr_t comm, uintptr_t *request);
	int (*iallgatherv)(uintptr_t send, int count, uintptr_t send_type, void *receive, const int counts[], const int places[], uintptr_t type,
		uintptr_t comm, uintptr_t *request);
	int (*ialltoallv)(const void *send, const int counts[], const int places[], uintptr_t send_type, void *receive, const int receive_counts[],
		const int receive_places[], uintptr_t type, uintptr_t comm, uintptr_t *request);
	int (*ibcast)(void *buffer, int count, uintptr_t type, int root, uintptr_t comm, uintptr_t *request);
	int (*isend)(const void *buffer, int count, uintptr_t type, int to, int tag, uintptr_t comm, uintptr_t *request);
	int (*iprobe)(int from, int tag, uintptr_t comm, int *found, void *status);
	int (*test)(uintptr_t *request, int *done, void *status);
	int (*abort)(uintptr_t comm, int code);
	int (*error_string)(int code, char *text, int *length);
	int (*get_library_version)(char *text, int *length);
} ranks_mpi;

/* ranks_open returns a library, or NULL and the reason. */
void *ranks_open(const char *path, char *failure, size_t bytes);

/* ranks_load_functions loads the functions. It returns the name of one that is missing, or NULL. */
const char *ranks_load_functions(void *library, ranks_mpi *mpi);

/* ranks_symbol returns the address of a symbol; 0 if a library lacks it. */
uintptr_t ranks_symbol(void *library, const char *name);

/* ranks_abi_major returns the major version of the standard ABI that a library has; -1: it has none. */
int ranks_abi_major(void *library);

/* ranks_init starts MPI on the calling thread, which makes all later calls. Signal handlers that the
   library installs are removed: they lack SA_ONSTACK, which Go's threads need, and Go
   handles the signals itself. */
int ranks_init(const ranks_mpi *mpi, int *provided);

int ranks_finalize(const ranks_mpi *mpi);
int ranks_rank(const ranks_mpi *mpi, int *rank);
int ranks_size(const ranks_mpi *mpi, int *size);
int ranks_return_errors(const ranks_mpi *mpi);

/* Calls that return at once. Their memory stays in place until ranks_wait reports that they are done. */
int ranks_start_sum(const ranks_mpi *mpi, int64_t *values, int count, uintptr_t *request);
int ranks_start_sum32(const ranks_mpi *mpi, int32_t *values, int count, uintptr_t *request);
int ranks_start_gather(const ranks_mpi *mpi, void *bytes, const int counts[], const int places[], uintptr_t *request);
/* shape has four arrays of size: counts and places of what is sent, and of what is received. */
int ranks_start_exchange(const ranks_mpi *mpi, const void *send, void *receive, const int shape[], int size, uintptr_t *request);
int ranks_start_broadcast(const ranks_mpi *mpi, void *bytes, int count, uintptr_t *request);

/* ranks_wait waits for a call, and returns after about limit nanoseconds even if it is not done. waited is how long
   the caller has waited for the call before. */
int ranks_wait(const ranks_mpi *mpi, uintptr_t *request, int64_t waited, int64_t limit, int *done);

/* ranks_start_roll_call sends a rank the message that this one waits. */
int ranks_start_roll_call(const ranks_mpi *mpi, int to, uintptr_t *request);

/* ranks_has_roll_call sets found if a rank has sent that message. */
int ranks_has_roll_call(const ranks_mpi *mpi, int from, int *found);

int ranks_abort(const ranks_mpi *mpi);
int ranks_error_string(const ranks_mpi *mpi, int code, char *text, int *length);
int ranks_library_version(const ranks_mpi *mpi, char *text, int *length);

#endif
