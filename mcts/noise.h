// Random numbers of the roots: Gumbel and Dirichlet noise.
#pragma once

#include <cmath>

#include "mcts/select.h"
#include "native/bits.h"

namespace mcts {

inline float gumbel_noise(native::Rng& rng) {
  const double u = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
  return static_cast<float>(-std::log(-std::log(u)));
}

inline double normal_noise(native::Rng& rng) {
  const double u = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * rng.uniform());
}

// Gamma random numbers by the method of Marsaglia and Tsang (2000).
inline double gamma_noise(native::Rng& rng, double shape) {
  if (shape < 1) {
    const double u = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
    return gamma_noise(rng, shape + 1) * std::pow(u, 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal_noise(rng), v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    const double u = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

// Writes a draw from a symmetric Dirichlet distribution over the legal ones of `count` actions.
inline void dirichlet_noise(native::Rng& rng, double alpha, uint64_t legal, int count, float* out) {
  double draws[kMaxEdges] = {}, sum = 0;
  for (uint64_t rest = legal; rest; rest &= rest - 1) {
    const int a = __builtin_ctzll(rest);
    sum += draws[a] = gamma_noise(rng, alpha);
  }
  if (sum == 0) sum = draws[native::random_bit(legal, rng)] = 1;  // a tiny alpha puts everything on one action
  for (int a = 0; a < count; ++a) out[a] = static_cast<float>(draws[a] / sum);
}

}  // namespace mcts
