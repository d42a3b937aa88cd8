// The checked build compiles kernels with -fsanitize for misaligned accesses, indices of
// local arrays, overflow of signed integers, shifts and division by zero. The compiler
// then calls the functions below; each argument begins with the place in the source.
#include <stdint.h>
#include "driver.h"
#include "fault.h"

namespace {

struct Source {
	const char *file;
	uint32_t line, column;
};

struct Mismatch {
	Source at;
	const void *type;
	unsigned char log_alignment, kind;
};

[[noreturn]] void undefined(const void *data, const char *what) {
	const Source &at = *static_cast<const Source *>(data);
	emu::fail(emu::CUDA_ERROR_LAUNCH_FAILED, "%s (%s:%u)", what, emu::base_name(at.file), at.line);
}

}  // namespace

extern "C" {

void __ubsan_handle_type_mismatch_v1(Mismatch *m, uintptr_t address) {
	emu::fail(emu::CUDA_ERROR_MISALIGNED_ADDRESS, "%s address %p, which is not a multiple of %u (%s:%u)", m->kind == 1 ? "writes" : "reads",
	          reinterpret_cast<void *>(address), 1u << m->log_alignment, emu::base_name(m->at.file), m->at.line);
}
void __ubsan_handle_out_of_bounds(void *data, uintptr_t) { undefined(data, "indexes a local array beyond its end"); }
void __ubsan_handle_add_overflow(void *data, uintptr_t, uintptr_t) { undefined(data, "overflows a signed integer by an addition"); }
void __ubsan_handle_sub_overflow(void *data, uintptr_t, uintptr_t) { undefined(data, "overflows a signed integer by a subtraction"); }
void __ubsan_handle_mul_overflow(void *data, uintptr_t, uintptr_t) { undefined(data, "overflows a signed integer by a product"); }
void __ubsan_handle_negate_overflow(void *data, uintptr_t) { undefined(data, "overflows a signed integer by a negation"); }
void __ubsan_handle_divrem_overflow(void *data, uintptr_t, uintptr_t) { undefined(data, "divides an integer by zero"); }
void __ubsan_handle_shift_out_of_bounds(void *data, uintptr_t, uintptr_t) { undefined(data, "shifts by more than the bits there are"); }

}
