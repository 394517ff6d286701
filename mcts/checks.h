// Checks of what a search is given: roots and network outputs.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>

#include "mcts/config.h"

namespace mcts {

[[noreturn]] inline void refuse_root(int64_t game, const std::string& why) {
  throw std::invalid_argument("game " + std::to_string(game) + ": " + why);
}

// Refuses counts of unseen cards that are missing or negative.
inline void check_counts(const Setup& config, int count, const float* counts) {
  if (!counts && config.needs_counts()) {
    throw std::invalid_argument("counts: expected unseen cards, because chance_source is exact or cards, got None");
  }
  const int64_t numbers = int64_t{config.pools} * (config.outcomes - 1);
  for (int64_t i = 0; counts && i < count * numbers; ++i) {
    if (!(counts[i] >= 0 && counts[i] <= 1e6f))
      refuse_root(i / numbers, "counts: expected 0 to 1000000, got " + std::to_string(counts[i]));
  }
}

// Refuses roots that cannot be searched; `Search::begin` explains the arguments.
inline void check_roots(const Setup& config, int count, const uint64_t* legal, const int8_t* phase, const float* counts,
                        const uint8_t* classes) {
  const int A = config.actions;
  for (int game = 0; game < count; ++game) {
    if (!legal[game]) refuse_root(game, "no action is legal");
    if (A < 64 && legal[game] >> A) {
      refuse_root(game, "action " + std::to_string(63 - __builtin_clzll(legal[game])) +
                            " is legal, expected actions 0 to " + std::to_string(A - 1));
    }
    if (phase[game] < 0 || phase[game] >= config.phases) {
      refuse_root(game,
                  "phase " + std::to_string(phase[game]) + ", expected 0 to " + std::to_string(config.phases - 1));
    }
  }
  check_counts(config, count, counts);
  if (classes && !config.slots()) {
    throw std::invalid_argument("classes: expected None, because the search has no action table");
  }
}

// Refuses roots whose player is passed over, and players who do not exist.
inline void check_absent(const Setup& config, int count, const uint64_t* absent) {
  if (!absent) return;
  if (config.leaves_round.empty()) {
    throw std::invalid_argument("absent: expected None, because no action of the phase table leaves the round");
  }
  for (int game = 0; game < count; ++game) {
    if (absent[game] & 1) refuse_root(game, "the player to move is passed over");
    if (config.players < 64 && absent[game] >> config.players) {
      refuse_root(game, "player " + std::to_string(63 - __builtin_clzll(absent[game])) +
                            " is passed over, expected players 1 to " + std::to_string(config.players - 1));
    }
  }
}

// Whether a number is finite and so small that sums of such numbers are.
inline bool sound(float number) { return std::abs(number) <= 1e30f; }

[[noreturn]] inline void refuse_output(int game, const char* what, int index, float number) {
  refuse_root(game, std::string("the network's ") + what + " " + std::to_string(index) + " is " +
                        (std::isnan(number)   ? "not a number"
                         : std::isinf(number) ? "infinite"
                                              : "too large"));
}

}  // namespace mcts
