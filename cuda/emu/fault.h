// Faults of kernels: one line on stderr with the kernel, the block and the thread, and an
// error code for the launch. Only the first fault of a launch is reported.
#pragma once
#include <stdint.h>
#include <string>
#include "worker.h"

namespace emu {

// Called on a thread of a block: reports and ends the launch.
[[noreturn]] void fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Called elsewhere: reports.
void complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

// One line for the caller of the driver, of what it did wrong.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The error of the launch that ran, which is forgotten; 0 if there was none.
int take_error();
bool has_failed();

// Catches the faults of the processor that happen in a kernel. All others go to the
// handlers that were there before, which are Go's.
void install_handlers();

// Gives the calling thread a stack for those handlers and blocks every other signal.
void prepare_thread();

// "(x,y,z)" of a thread of the block that runs.
std::string thread_name(unsigned id);

// The last part of a path.
const char *base_name(const char *path);

}  // namespace emu
