/* A stand-in of NCCL for the emulated device: the functions that the driver uses, with their meaning in
   NVIDIA's documentation, over sockets of one host. Rank 0 adds what the others send. A call runs in the
   order of its stream, as a function of the host. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, REMOTE_ERROR = 6 };
enum { UINT8 = 1, INT64 = 4 };

typedef struct {
	char bytes[128];
} unique_id;

typedef struct {
	int rank, size, error;
	int *peers; /* rank 0: of each rank; others: rank 0's */
	int (*launch)(void *stream, void (*function)(void *), void *data);
} communicator;

typedef struct {
	communicator *c;
	char *memory;
	size_t bytes;
	int adds;
} call;

/* What DPTRAIN_TWIN names is wrong with this library. */
static int fault(const char *name) {
	const char *planted = getenv("DPTRAIN_TWIN");
	return planted && !strcmp(planted, name);
}

static int listening = -1;

int ncclGetVersion(int *version) {
	*version = fault("old") ? 2307 : 22799;
	return SUCCESS;
}

const char *ncclGetErrorString(int status) {
	return status == REMOTE_ERROR ? "remote process exited or there was a network error" : "unhandled system error";
}

int ncclGetUniqueId(unique_id *id) {
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof at;
	listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listening, (void *)&at, sizeof at) || listen(listening, 1024) || getsockname(listening, (void *)&at, &length))
		return SYSTEM_ERROR;
	memset(id, 0, sizeof *id);
	memcpy(id->bytes, &at, sizeof at);
	return SUCCESS;
}

static int sent(int to, const void *from, size_t bytes) {
	for (ssize_t n; bytes > 0; bytes -= n, from = (const char *)from + n)
		if ((n = send(to, from, bytes, MSG_NOSIGNAL)) <= 0)
			return 0;
	return 1;
}

static int received(int from, void *to, size_t bytes) {
	for (ssize_t n; bytes > 0; bytes -= n, to = (char *)to + n)
		if ((n = recv(from, to, bytes, 0)) <= 0)
			return 0;
	return 1;
}

int ncclCommInitRank(void **made, int size, unique_id id, int rank) {
	void *driver = dlopen(getenv("DPTRAIN_LIBCUDA"), RTLD_NOW);
	if (!driver || fault("no start"))
		return SYSTEM_ERROR;
	if (rank < 0 || rank >= size)
		return INVALID_ARGUMENT;
	communicator *c = calloc(1, sizeof *c);
	*(void **)&c->launch = dlsym(driver, "cuLaunchHostFunc");
	c->rank = rank;
	c->size = size;
	c->peers = calloc(size, sizeof *c->peers);
	struct sockaddr_in at;
	memcpy(&at, id.bytes, sizeof at);
	const int now = 1;
	for (int i = 1; rank == 0 && i < size; i++) {
		int peer = accept(listening, NULL, NULL), of;
		if (peer < 0 || !received(peer, &of, sizeof of) || of < 1 || of >= size)
			return SYSTEM_ERROR;
		c->peers[of] = peer;
		setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
	}
	if (rank > 0) {
		c->peers[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		setsockopt(c->peers[0], IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
		if (connect(c->peers[0], (void *)&at, sizeof at) || !sent(c->peers[0], &rank, sizeof rank))
			return SYSTEM_ERROR;
	}
	*made = c;
	return SUCCESS;
}

static void leave(communicator *c) {
	for (int i = 0; i < c->size; i++)
		if (c->peers[i] > 0)
			shutdown(c->peers[i], SHUT_RDWR);
}

int ncclCommDestroy(void *c) {
	leave(c);
	free(((communicator *)c)->peers);
	free(c);
	return SUCCESS;
}

int ncclCommAbort(void *c) {
	leave(c);
	return SUCCESS;
}

int ncclCommGetAsyncError(void *c, int *error) {
	*error = __atomic_load_n(&((communicator *)c)->error, __ATOMIC_ACQUIRE);
	return SUCCESS;
}

/* After an error the stream hangs, as that of NCCL does, until the rank is aborted. */
static void run(void *data) {
	call *x = data;
	communicator *c = x->c;
	int fine = 1;
	if (c->rank > 0) {
		fine = (!x->adds || sent(c->peers[0], x->memory, x->bytes)) && received(c->peers[0], x->memory, x->bytes);
	} else {
		int64_t *theirs = malloc(x->bytes + 1), *ours = (int64_t *)x->memory;
		for (int i = 1; fine && x->adds && i < c->size; i++) {
			fine = received(c->peers[i], theirs, x->bytes);
			for (size_t k = 0; fine && k < x->bytes / 8; k++)
				ours[k] = (int64_t)((uint64_t)ours[k] + (uint64_t)theirs[k]);
		}
		for (int i = 1; fine && i < c->size; i++)
			fine = sent(c->peers[i], x->memory, x->bytes);
		free(theirs);
	}
	if (!fine) {
		__atomic_store_n(&c->error, REMOTE_ERROR, __ATOMIC_RELEASE);
		sleep(2);
	}
	free(x);
}

static int queue(const void *from, void *to, size_t bytes, int adds, communicator *c, void *stream) {
	if (from != to)
		return INVALID_ARGUMENT; /* the driver uses none of these */
	call *x = malloc(sizeof *x);
	*x = (call){c, to, bytes, adds};
	return c->launch(stream, run, x) ? SYSTEM_ERROR : SUCCESS;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *c, void *stream) {
	if (type != INT64 || operation != 0)
		return INVALID_ARGUMENT;
	return queue(from, to, 8 * count, 1, c, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *c, void *stream) {
	if (type != UINT8 || root != 0)
		return INVALID_ARGUMENT;
	return queue(from, to, count, 0, c, stream);
}
