#include "fault.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <atomic>
#include "driver.h"
#include "memory.h"

namespace emu {

static std::atomic<int> error;

int take_error() { return error.exchange(0); }
bool has_failed() { return error.load(std::memory_order_relaxed) != 0; }

const char *base_name(const char *path) {
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static std::string triple(unsigned x, unsigned y, unsigned z) {
	char text[48];
	snprintf(text, sizeof text, "(%u,%u,%u)", x, y, z);
	return text;
}

std::string thread_name(unsigned id) {
	uint3 size = view.block_size;
	return triple(id % size.x, id / size.x % size.y, id / size.x / size.y);
}

static void report_first(int code, const char *text) {
	int none = 0;
	if (error.compare_exchange_strong(none, code)) fprintf(stderr, "emulated device: %s\n", text);
}

void report_fault(int code, const char *format, ...) {
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	report_first(code, text);
}

void print_error(const char *format, ...) {
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fprintf(stderr, "emulated device: %s\n", text);
}

void fail(int code, const char *format, ...) {
	char text[1024];
	const uint3 &b = view.block;
	int n = snprintf(text, sizeof text, "%s: block %s thread %s: ", worker->launch->kernel->name, triple(b.x, b.y, b.z).c_str(), thread_name(view.id).c_str());
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text + n, sizeof text - size_t(n), format, arguments);
	va_end(arguments);
	report_first(code, text);
	worker->abandon();
}

// The fault that the signal handler recorded. finish_fault examines it after the handler
// has returned, on an intact stack and outside the signal.
static __thread struct {
	int signal;
	const void *address, *code;
	bool write, known;
} fault __attribute__((tls_model("initial-exec")));

// " (file:line)" of an instruction of a kernel, and of the calls it is inlined into, if
// addr2line is installed.
static std::string source_of(const void *code) {
	Dl_info in;
	if (dladdr(code, &in) == 0) return "";
	char command[1024], line[256];
	snprintf(command, sizeof command, "addr2line -s -i -e '%s' %#lx 2>/dev/null", in.dli_fname, long(static_cast<const char *>(code) - static_cast<char *>(in.dli_fbase)));
	FILE *lines = popen(command, "r");
	if (lines == nullptr) return "";
	std::string source;
	for (int i = 0; i < 3 && fgets(line, sizeof line, lines) != nullptr; i++) {
		if (strchr(line, '?') != nullptr || strstr(line, "registry.h") != nullptr || strstr(line, ".cu.cc") != nullptr) break;
		line[strcspn(line, " \n")] = 0;
		source += (source.empty() ? " (" : " in ") + std::string(line);
	}
	pclose(lines);
	return source.empty() ? "" : source + ")";
}

static void finish_fault() {
	const std::string at = source_of(fault.code);
	switch (fault.signal) {
	case SIGFPE: fail(CUDA_ERROR_LAUNCH_FAILED, "divides an integer by zero%s", at.c_str());
	case SIGSEGV:
	case SIGBUS: break;
	default: fail(CUDA_ERROR_ILLEGAL_INSTRUCTION, "reaches an instruction that the compiler assumed unreachable (signal %d)%s", fault.signal, at.c_str());
	}
	if (worker->overflowed(uintptr_t(fault.address))) fail(CUDA_ERROR_HARDWARE_STACK_ERROR, "its variables need more than the 64 KiB stack of a thread%s", at.c_str());
	// The processor gives no address for a vector access that is not aligned.
	if (!fault.known) fail(CUDA_ERROR_MISALIGNED_ADDRESS, "accesses a vector at a misaligned or invalid address%s", at.c_str());
	fail(CUDA_ERROR_ILLEGAL_ADDRESS, "%s %s%s", fault.write ? "writes" : "reads", describe(fault.address).c_str(), at.c_str());
}

static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
static struct sigaction previous[NSIG];

static void handle(int signal, siginfo_t *info, void *context) {
	if (worker == nullptr || !worker->running) {
		const struct sigaction &p = previous[signal];
		if (p.sa_flags & SA_SIGINFO) {
			p.sa_sigaction(signal, info, context);
		} else if (p.sa_handler == SIG_DFL) {
			sigaction(signal, &p, nullptr);  // the instruction faults again and ends the process
		} else if (p.sa_handler != SIG_IGN) {
			p.sa_handler(signal);
		}
		return;
	}
	fault.signal = signal;
	fault.address = info->si_addr;
	fault.known = info->si_code > 0 && info->si_code != SI_KERNEL;
	uintptr_t sp = (uintptr_t(worker->fault_stack()) - 1024) & ~uintptr_t(63);
	mcontext_t &m = static_cast<ucontext_t *>(context)->uc_mcontext;
#if defined(__x86_64__)
	fault.write = m.gregs[REG_ERR] & 2;
	fault.code = reinterpret_cast<void *>(m.gregs[REG_RIP]);
	m.gregs[REG_RSP] = greg_t(sp - 8);  // as after a call
	m.gregs[REG_RIP] = greg_t(uintptr_t(finish_fault));
#else
	// The access is described by a record after the registers (ESR_MAGIC); bit 6 is set
	// for a write.
	fault.write = false;
	for (auto *record = reinterpret_cast<_aarch64_ctx *>(m.__reserved); record->magic != 0; record = reinterpret_cast<_aarch64_ctx *>(reinterpret_cast<char *>(record) + record->size)) {
		if (record->magic == ESR_MAGIC) fault.write = reinterpret_cast<esr_context *>(record)->esr & 1 << 6;
	}
	fault.code = reinterpret_cast<void *>(m.pc);
	m.sp = sp;
	m.pc = uintptr_t(finish_fault);
#endif
}

void install_handlers() {
	for (int signal : caught) {
		struct sigaction action = {};
		action.sa_sigaction = handle;
		action.sa_flags = SA_SIGINFO | SA_ONSTACK;
		sigfillset(&action.sa_mask);
		sigaction(signal, &action, &previous[signal]);
	}
}

void prepare_thread() {
	sigset_t others;
	sigfillset(&others);
	for (int signal : caught) sigdelset(&others, signal);
	pthread_sigmask(SIG_BLOCK, &others, nullptr);
	stack_t stack = {};
	stack.ss_size = 64 << 10;
	stack.ss_sp = malloc(stack.ss_size);
	sigaltstack(&stack, nullptr);
}

}  // namespace emu
