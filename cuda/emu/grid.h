// The threads of the operating system on which the device's work is done. One of them,
// the device thread, runs what the streams hold; in a long launch the others help.
#pragma once
#include <functional>
#include "worker.h"

namespace emu {

void set_workers(int n);

// Does work on the device thread and waits for it.
void on_device(const std::function<void()> &work);

// Runs every block of a launch; on the device thread only.
void run(const Launch &l);

}  // namespace emu
