/* Compiles one CUDA source with NVRTC, to the same bytes every time:

     compile LIBRARIES cubin|ptx OPTION... <sources >image

   LIBRARIES is the folder of NVRTC 12.9. The log goes to the standard error.
   The sources are the text to compile, then the name and the text of each file that
   can be included; each of these strings ends with a zero byte.

   NVRTC keeps sets that are ordered by address, so where memory lies decides the
   order of some of its work and, in long kernels, the names and order of registers.
   Here its memory, its stack and its code lie at addresses that no chance and no host
   decides: malloc is replaced by one that hands out fixed places in the order of the
   calls, NVRTC runs in a thread whose stack has a fixed address, and the libraries are
   mapped below a fixed address. NVRTC keeps paths, whose lengths decide the places of
   blocks: it reads no file, its folder is named "." when it is opened, and the current
   folder is the root. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE ((char *)0x7a0000000000)
#define HEAP ((char *)0x100000000000)
#define STACK ((char *)0x600000000000)
enum { STACK_SIZE = 1 << 28 };

/* A block of the heap has a power of two as its size, and a range of its own of
   16 GiB of addresses, which identifies the size. A freed block contains the address of
   the block that was freed before it. */
enum { CLASSES = 34, SMALLEST = 4, REACH = 34 };

static char *fresh[CLASSES];
static void *freed[CLASSES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *start_of(int class) { return HEAP + ((size_t)class << REACH); }

static int class_of(void *block) { return (int)((size_t)((char *)block - HEAP) >> REACH); }

static void map(int class) {
	if (fresh[class])
		return;
	fresh[class] = mmap(start_of(class), (size_t)1 << REACH, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (fresh[class] != start_of(class))
		abort();
}

static void *take(size_t size) {
	int class = SMALLEST;
	while (((size_t)1 << class) < size)
		if (++class == CLASSES)
			return NULL;
	pthread_mutex_lock(&lock);
	void *block = freed[class];
	if (block) {
		freed[class] = *(void **)block;
	} else {
		map(class);
		block = fresh[class];
		fresh[class] += (size_t)1 << class;
		if (fresh[class] > start_of(class + 1))
			abort();
	}
	pthread_mutex_unlock(&lock);
	return block;
}

void *malloc(size_t size) { return take(size); }

void free(void *block) {
	if (!block)
		return;
	int class = class_of(block);
	pthread_mutex_lock(&lock);
	*(void **)block = freed[class];
	freed[class] = block;
	pthread_mutex_unlock(&lock);
}

size_t malloc_usable_size(void *block) { return block ? (size_t)1 << class_of(block) : 0; }

void *calloc(size_t count, size_t size) {
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes))
		return NULL;
	void *block = take(bytes);
	return block ? memset(block, 0, bytes) : NULL;
}

void *realloc(void *block, size_t size) {
	size_t held = malloc_usable_size(block);
	if (block && size <= held)
		return block;
	void *larger = take(size);
	if (larger && block) {
		memcpy(larger, block, held);
		free(block);
	}
	return larger;
}

/* A block is aligned to its size. */
void *memalign(size_t alignment, size_t size) { return take(size < alignment ? alignment : size); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
	*block = memalign(alignment, size);
	return *block ? 0 : 12;
}

static void fail(const char *why) {
	fprintf(stderr, "%s\n", why);
	exit(1);
}

/* The kernel maps libraries from the top down: with all taken down to CODE, the next
   ones lie there. The gap is no multiple of a large page, which the kernel would align
   and leave a hole of random size above. */
static void take_down_to_code(void) {
	const size_t gap = ((size_t)1 << 30) + 4096;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *lowest = mmap(NULL, gap, PROT_NONE, flags, -1, 0);
	if (lowest == MAP_FAILED || lowest < CODE ||
		mmap(CODE, (size_t)(lowest - CODE), PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0) != CODE)
		fail("the addresses above the libraries cannot be taken");
}

static void enter(const char *folder) {
	if (chdir(folder)) {
		perror(folder);
		exit(1);
	}
}

static void *open_library(const char *path) {
	void *library = dlopen(path, RTLD_NOW);
	if (!library)
		fail(dlerror());
	return library;
}

/* Opening libraries took blocks that depend on the host: the heap starts again behind
   all of them. */
static void renew_heap(void) {
	for (int class = SMALLEST; class < CLASSES; class++) {
		freed[class] = NULL;
		map(class);
		fresh[class] = start_of(class) + ((size_t)1 << (REACH - 1));
	}
}

static void *library;

static void *find(const char *name) {
	void *function = dlsym(library, name);
	if (!function)
		fail(dlerror());
	return function;
}

enum { FILES = 256 };

/* read_strings reads strings from the standard input and returns how many there are. */
static int read_strings(const char **strings, int most) {
	static char text[1 << 22];
	const size_t size = fread(text, 1, sizeof text, stdin);
	if (size == 0 || size == sizeof text || text[size - 1])
		fail("the sources are empty, longer than 4 MiB, or do not end with a zero byte");
	int count = 0;
	for (size_t at = 0; at < size; at += strlen(text + at) + 1) {
		if (count == most)
			fail("the sources have too many files");
		strings[count++] = text + at;
	}
	return count;
}

struct arguments { int count; char **list; };

static void *run(void *arguments) {
	int argc = ((struct arguments *)arguments)->count;
	char **argv = ((struct arguments *)arguments)->list;
	enter(argv[1]);
	library = open_library("./libnvrtc.so.12");
	open_library("./libnvrtc-builtins.so.12.9");
	enter("/");
	int ptx = !strcmp(argv[2], "ptx");
	int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *) = find("nvrtcCreateProgram");
	int (*compile)(void *, int, char **) = find("nvrtcCompileProgram");
	const char *(*describe)(int) = find("nvrtcGetErrorString");
	int (*log_size)(void *, size_t *) = find("nvrtcGetProgramLogSize");
	int (*get_log)(void *, char *) = find("nvrtcGetProgramLog");
	int (*image_size)(void *, size_t *) = find(ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize");
	int (*get_image)(void *, char *) = find(ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN");

	const char *strings[1 + 2 * FILES], *names[FILES], *texts[FILES];
	int count = read_strings(strings, 1 + 2 * FILES), files = count / 2;
	if (count % 2 == 0)
		fail("the sources have a file without a name");
	for (int i = 0; i < files; i++) {
		names[i] = strings[1 + 2 * i];
		texts[i] = strings[2 + 2 * i];
	}
	renew_heap();
	void *program;
	int failed = create(&program, strings[0], "kernels", files, texts, names);
	if (failed)
		fail(describe(failed));
	failed = compile(program, argc - 3, argv + 3);

	size_t size;
	char *text;
	if (!log_size(program, &size) && (text = calloc(size + 1, 1)) && !get_log(program, text))
		fputs(text, stderr);
	if (failed)
		fail(describe(failed));
	if ((failed = image_size(program, &size)) || !(text = malloc(size)) || (failed = get_image(program, text)))
		fail(failed ? describe(failed) : "out of memory");
	if (fwrite(text, 1, size, stdout) != size || fflush(stdout))
		fail("the image cannot be written");
	return NULL;
}

int main(int argc, char **argv) {
	if (argc < 3)
		fail("usage: compile LIBRARIES cubin|ptx OPTION...");
	take_down_to_code();
	char *stack = mmap(STACK, STACK_SIZE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;
	struct arguments arguments = {argc, argv};
	if (stack != STACK || pthread_attr_init(&attributes) || pthread_attr_setstack(&attributes, stack, STACK_SIZE) ||
		pthread_create(&thread, &attributes, run, &arguments) || pthread_join(thread, NULL))
		fail("the thread with a fixed stack cannot be started");
	return 0;
}
