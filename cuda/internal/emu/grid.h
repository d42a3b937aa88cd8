// The threads of the operating system that do the device's work. The device thread
// executes the streams; in a long launch the helper threads run blocks, too.
#pragma once
#include <functional>
#include "worker.h"

namespace emu {

void set_workers(int n);

// Runs work on the device thread and waits for it.
void on_device(const std::function<void()> &work);

// Runs every block of a launch; on the device thread only.
void run(const Launch &l);

}  // namespace emu
