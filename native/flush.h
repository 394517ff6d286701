// FlushDenormals: denormal numbers count as 0 while it lives, in the thread that made it.
//
// Gradients and softmax tails fade into numbers below 1e-38, which say nothing here; on many processors arithmetic with
// them is a hundred times slower than with others.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace native {

class FlushDenormals {
 public:
  FlushDenormals() : before_(mode()) { set_mode(before_ | kFlush); }
  ~FlushDenormals() { set_mode(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  using Mode = unsigned;
  static constexpr Mode kFlush = 0x8040;  // results that would be denormal become 0, denormal arguments count as 0
  static Mode mode() { return _mm_getcsr(); }
  static void set_mode(Mode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Mode = uint64_t;
  static constexpr Mode kFlush = uint64_t{1} << 24;  // FZ: both
  static Mode mode() {
    Mode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set_mode(Mode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  using Mode = int;
  static constexpr Mode kFlush = 0;
  static Mode mode() { return 0; }
  static void set_mode(Mode) {}
#endif
  const Mode before_;
};

}  // namespace native
