// Faults of kernels: one line on stderr with the kernel, the block and the thread, and an
// error code for the launch. Only the first fault of a launch is reported.
#pragma once
#include <stdint.h>
#include <string>
#include "worker.h"

namespace emu {

// Called on a thread of a block: reports and ends the launch.
[[noreturn]] void fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Called on other threads: reports the fault.
void report_fault(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Prints one line about a wrong call of the driver.
void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Returns the error of the last launch and clears it; 0 if there was none.
int take_error();
bool has_failed();

// Catches the faults of the processor in a kernel. All other faults go to the handlers
// that were installed before, which are Go's.
void install_handlers();

// Gives the calling thread a stack for these handlers and blocks every other signal.
void prepare_thread();

// "(x,y,z)" of a thread of the block that runs.
std::string thread_name(unsigned id);

// The last part of a path.
const char *base_name(const char *path);

}  // namespace emu
