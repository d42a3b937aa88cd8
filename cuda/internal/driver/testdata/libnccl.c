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
enum { ALL_REDUCE, REDUCE, BROADCAST };

typedef struct {
	char bytes[128];
} unique_id;

typedef struct {
	int rank, size, error;
	int *peers; /* rank 0: of each rank; others: rank 0's */
	int (*launch)(void *stream, void (*function)(void *), void *data);
} communicator;

/* What all ranks must agree on. */
typedef struct {
	size_t bytes;
	int kind, root;
} task;

typedef struct call {
	communicator *c;
	void *stream;
	char *memory;
	task task;
	struct call *next; /* of a group */
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

/* A rank other than 0: it sends rank 0 what it has, and receives what it gets. */
static int follow(const call *x) {
	const int peer = x->c->peers[0], is_root = x->task.root == x->c->rank;
	const int sends = x->task.kind != BROADCAST || is_root;
	const int receives = x->task.kind == ALL_REDUCE || (x->task.kind == REDUCE) == is_root;
	return sent(peer, &x->task, sizeof x->task) && (!sends || sent(peer, x->memory, x->task.bytes)) &&
		(!receives || received(peer, x->memory, x->task.bytes));
}

/* Rank 0: it adds what the others send, or takes the root's, and sends it to those that get it. */
static int lead(const call *x, int64_t *theirs, int64_t *result) {
	const communicator *c = x->c;
	const task mine = x->task;
	memcpy(result, x->memory, mine.bytes);
	for (int i = 1; i < c->size; i++) {
		task other = {0};
		if (!received(c->peers[i], &other, sizeof other) || memcmp(&other, &mine, sizeof mine))
			return 0;
		if (mine.kind == BROADCAST && i != mine.root)
			continue;
		if (!received(c->peers[i], theirs, mine.bytes))
			return 0;
		if (mine.kind == BROADCAST)
			memcpy(result, theirs, mine.bytes);
		for (size_t k = 0; mine.kind != BROADCAST && k < mine.bytes / 8; k++)
			result[k] = (int64_t)((uint64_t)result[k] + (uint64_t)theirs[k]);
	}
	for (int i = 0; i < c->size; i++) {
		if (mine.kind != ALL_REDUCE && (mine.kind == REDUCE) != (i == mine.root))
			continue;
		if (i == 0)
			memcpy(x->memory, result, mine.bytes);
		else if (!sent(c->peers[i], result, mine.bytes))
			return 0;
	}
	return 1;
}

/* After an error the stream hangs, as that of NCCL does, until the rank is aborted. */
static void run(void *data) {
	call *x = data;
	communicator *c = x->c;
	int fine;
	if (c->rank > 0) {
		fine = follow(x);
	} else {
		int64_t *theirs = malloc(x->task.bytes + 1), *result = malloc(x->task.bytes + 1);
		fine = lead(x, theirs, result);
		free(theirs);
		free(result);
	}
	if (x->task.kind == REDUCE && x->task.root != c->rank)
		memset(x->memory, 0x5a, x->task.bytes); /* NCCL promises nothing about it */
	if (!fine) {
		__atomic_store_n(&c->error, REMOTE_ERROR, __ATOMIC_RELEASE);
		sleep(2);
	}
	free(x);
}

/* The calls of this thread's group. */
static _Thread_local int groups;
static _Thread_local call *first, *last;

int ncclGroupStart(void) {
	groups++;
	return SUCCESS;
}

int ncclGroupEnd(void) {
	if (groups == 0)
		return INVALID_ARGUMENT;
	if (--groups > 0)
		return SUCCESS;
	int failed = SUCCESS;
	for (call *x = first, *next; x; x = next) {
		next = x->next;
		if (x->c->launch(x->stream, run, x))
			failed = SYSTEM_ERROR;
	}
	first = last = NULL;
	return failed;
}

static int queue(const void *from, void *to, communicator *c, void *stream, task task) {
	if (from != to || task.root < 0 || task.root >= c->size)
		return INVALID_ARGUMENT; /* the driver uses one address only */
	call *x = malloc(sizeof *x);
	*x = (call){c, stream, to, task, NULL};
	ncclGroupStart();
	if (last)
		last->next = x;
	else
		first = x;
	last = x;
	return ncclGroupEnd();
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *c, void *stream) {
	if (type != INT64 || operation != 0)
		return INVALID_ARGUMENT;
	return queue(from, to, c, stream, (task){8 * count, ALL_REDUCE, 0});
}

int ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root, void *c, void *stream) {
	if (type != INT64 || operation != 0)
		return INVALID_ARGUMENT;
	return queue(from, to, c, stream, (task){8 * count, REDUCE, root});
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *c, void *stream) {
	if (type != UINT8)
		return INVALID_ARGUMENT;
	return queue(from, to, c, stream, (task){count, BROADCAST, root});
}
