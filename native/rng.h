// Counter-based randomness: the n-th number of a stream is a pure function of (key, n), so that a game is the same on
// every machine, for every batch size and thread count.
//
// The generator is SplitMix64 (Steele, Lea, Flood 2014) addressed by counter.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace native {

inline constexpr uint64_t kGamma = 0x9e3779b97f4a7c15ull;

inline constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Folds the parts, in order, into a key: key(seed, deal, episode) names a game.
inline constexpr uint64_t make_key(std::initializer_list<uint64_t> parts) {
  uint64_t key = 0;
  for (uint64_t part : parts) key = mix(key + kGamma * (part + 1));
  return key;
}

struct Rng {
  uint64_t key;
  uint64_t counter;

  static constexpr uint64_t at(uint64_t key, uint64_t counter) { return mix(key + kGamma * (counter + 1)); }
  uint64_t next() { return at(key, counter++); }

  // Random integer, uniform on 0..n-1 (the bias, below n / 2^64, is too small to be measured).
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }
  // Random number, uniform on [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
};

}  // namespace native
