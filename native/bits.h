// Masks of up to 64 actions: bit a is action a.
#pragma once

#include <cstdint>
#ifdef __BMI2__
#include <immintrin.h>
#endif

#include "native/rng.h"

namespace native {

// Index of the n-th (from 0) set bit; the mask must have more than n of them.
inline int nth_bit(uint64_t mask, uint32_t n) {
#ifdef __BMI2__
  return __builtin_ctzll(_pdep_u64(uint64_t{1} << n, mask));
#else
  while (n-- > 0) mask &= mask - 1;
  return __builtin_ctzll(mask);
#endif
}

// Index of a set bit, drawn uniformly.
inline int random_bit(uint64_t mask, Rng& rng) {
  return nth_bit(mask, rng.below(static_cast<uint32_t>(__builtin_popcountll(mask))));
}

// Writes the lowest `count` bits as bools.
inline void spread_bits(uint64_t mask, bool* out, int count) {
  int i = 0;
#ifdef __BMI2__
  for (; i + 8 <= count; i += 8) {
    const uint64_t bytes = _pdep_u64(mask >> i, 0x0101010101010101ull);
    __builtin_memcpy(out + i, &bytes, sizeof bytes);
  }
#endif
  for (; i < count; ++i) out[i] = mask >> i & 1;
}

}  // namespace native
