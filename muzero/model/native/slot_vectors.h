// Vectors as wide as the target CPU has them, functions of vectors, and matrix products.
//
// This header is included by one source file per kind of CPU. These files must not share code, because the linker could
// keep a version that another CPU cannot run: everything is in an unnamed namespace or always inlined, and headers of
// the standard library are not used. A file that defines BELIEF_BF16 gets products of bfloat16 numbers.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "muzero/model/native/slot_step.h"

namespace slot_step {
namespace {

#if defined(__AVX512F__)
constexpr int kWidth = 16, kPanel = 4;
#elif defined(__AVX__)
constexpr int kWidth = 8, kPanel = 2;
#else
constexpr int kWidth = 4, kPanel = 4;
#endif

#if defined(BELIEF_BF16)
constexpr bool kBf16 = true;
using Act = uint16_t;  // type of the inputs of products
#else
constexpr bool kBf16 = false;
using Act = float;
#endif

typedef float Vec __attribute__((vector_size(4 * kWidth)));
typedef uint32_t Ints __attribute__((vector_size(4 * kWidth)));
typedef float Loose __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));

BELIEF_INLINE Vec load(const float* p) { return *reinterpret_cast<const Loose*>(p); }
BELIEF_INLINE void store(float* p, Vec x) { *reinterpret_cast<Loose*>(p) = x; }
BELIEF_INLINE Vec all(float x) { return x - Vec{}; }

// Both functions keep NaN, so that the search notices it.
BELIEF_INLINE Vec relu(Vec x) { return x < 0 ? Vec{} : x; }
BELIEF_INLINE Vec larger(Vec x, Vec y) { return x < y ? y : x; }

typedef float Four __attribute__((vector_size(16)));

// Reduces a vector to four numbers by halves: join(x, y) combines two vectors of four.
template <class Join>
BELIEF_INLINE Four folded(Vec x, Join join) {
  Four quarters[kWidth / 4];
  __builtin_memcpy(quarters, &x, sizeof x);
  for (int n = kWidth / 8; n >= 1; n /= 2) {
    for (int i = 0; i < n; ++i) quarters[i] = join(quarters[i], quarters[i + n]);
  }
  return quarters[0];
}

BELIEF_INLINE float sum(Vec x) {
  const Four y = folded(x, [](Four a, Four b) { return a + b; });
  return (y[0] + y[2]) + (y[1] + y[3]);
}

BELIEF_INLINE float largest(Vec x) {
  const Four y = folded(x, [](Four a, Four b) { return a > b ? a : b; });
  const float even = y[0] > y[2] ? y[0] : y[2], odd = y[1] > y[3] ? y[1] : y[3];
  return even > odd ? even : odd;
}

// Exponential e^x for x <= 88: 2^n e^r with |r| <= ln 2 / 2, a polynomial for e^r (Cephes). Relative error about 1e-7.
BELIEF_INLINE Vec exp(Vec x) {
  x = larger(x, all(-87.0f));
  const Vec magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec shifted = x * 1.44269504f + magic;
  const Vec n = shifted - magic;
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const Ints power = (reinterpret_cast<Ints>(shifted) << 23) + 0x3f800000;  // the integer is in the lowest bits
  return p * reinterpret_cast<Vec>(power);
}

// 1 - erf |z|, given bell = exp(-z z): Abramowitz and Stegun 7.1.26, absolute error 1.5e-7.
BELIEF_INLINE Vec erf_tail(Vec z, Vec bell) {
  const Vec size = reinterpret_cast<Vec>(reinterpret_cast<Ints>(z) & 0x7fffffff);
  const Vec t = 1.0f / (size * 0.3275911f + 1.0f);
  Vec p = t * 1.061405429f - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  return p * t * bell;
}

// GELU: x Phi(x).
BELIEF_INLINE Vec gelu(Vec x) {
  const Vec z = x * 0.70710678f;
  const Vec tail = erf_tail(z, exp(-z * z));
  const Vec half = x * 0.5f;
  return x > 0 ? x - half * tail : half * tail;
}

BELIEF_INLINE void store_act(float* p, Vec x) { store(p, x); }

#if defined(BELIEF_BF16)
BELIEF_INLINE void store_act(uint16_t* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}
#endif

BELIEF_INLINE void copy(float* to, const float* from, int n) {
  for (int i = 0; i < n; i += kWidth) store(to + i, load(from + i));
}

BELIEF_INLINE void to_act(Act* to, const float* from, int n) {
  for (int i = 0; i < n; i += kWidth) store_act(to + i, load(from + i));
}

// ---- products -----------------------------------------------------------------------------------------

// Product of R rows and a panel of C vectors of outputs.
template <int R, int C>
BELIEF_INLINE void tile(const Act* x, int64_t x_step, const Act* w, int inputs, const float* start, int64_t start_step,
                        float* y, int64_t y_step) {
  Vec sums[R][C];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[r][c] = load(start + r * start_step + c * kWidth);
  }
#if defined(BELIEF_BF16)
  for (int k = 0; k < inputs; k += 2) {
    __m512bh weights[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      weights[c] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w + (k * C + 2 * c) * kWidth));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      int32_t two;
      __builtin_memcpy(&two, x + r * x_step + k, 4);
      const __m512bh both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sums[r][c] = _mm512_dpbf16_ps(sums[r][c], both, weights[c]);
    }
  }
#else
  for (int k = 0; k < inputs; ++k) {
    Vec weights[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) weights[c] = load(w + (k * C + c) * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec one = all(x[r * x_step + k]);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sums[r][c] += one * weights[c];
    }
  }
#endif
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) store(y + r * y_step + c * kWidth, sums[r][c]);
  }
}

// Product for the last rows, fewer than R of them.
template <int R, int C>
void last_rows(int rows, const Act* x, int64_t x_step, const Act* w, int inputs, const float* start, int64_t start_step,
               float* y, int64_t y_step) {
  if constexpr (R > 1) {
    if (rows < R - 1) return last_rows<R - 1, C>(rows, x, x_step, w, inputs, start, start_step, y, y_step);
    tile<R - 1, C>(x, x_step, w, inputs, start, start_step, y, y_step);
  }
}

template <int C>
void panel(const Act* x, int64_t x_step, int rows, const Act* w, int inputs, const float* start, int64_t start_step,
           float* y, int64_t y_step) {
  constexpr int kRegisters = kWidth == 8 ? 12 : 24;  // registers that hold sums
  constexpr int R = kRegisters / C < 12 ? kRegisters / C : 12;
  int r = 0;
  for (; r + R <= rows; r += R) {
    tile<R, C>(x + r * x_step, x_step, w, inputs, start + r * start_step, start_step, y + r * y_step, y_step);
  }
  if (r < rows) {
    last_rows<R, C>(rows - r, x + r * x_step, x_step, w, inputs, start + r * start_step, start_step, y + r * y_step,
                    y_step);
  }
}

// Linear layer y = x W + start; the bias is used if there is no start.
void product(const Linear& m, const Act* x, int64_t x_step, int rows, float* y, int64_t y_step,
             const float* start = nullptr, int64_t start_step = 0) {
  if (!start) start = m.bias;
  const Act* w = static_cast<const Act*>(m.weights);
  for (int out = 0; out < m.outputs;) {
    const int left = (m.outputs - out) / kWidth, c = left < kPanel ? left : kPanel;
    switch (c) {
      case 1:
        panel<1>(x, x_step, rows, w, m.inputs, start + out, start_step, y + out, y_step);
        break;
      case 2:
        panel<2>(x, x_step, rows, w, m.inputs, start + out, start_step, y + out, y_step);
        break;
      default:
        if constexpr (kPanel == 4) {
          if (c == 3) panel<3>(x, x_step, rows, w, m.inputs, start + out, start_step, y + out, y_step);
          if (c == 4) panel<4>(x, x_step, rows, w, m.inputs, start + out, start_step, y + out, y_step);
        }
    }
    w += int64_t{m.inputs} * c * kWidth;
    out += c * kWidth;
  }
}

}  // namespace
}  // namespace slot_step
