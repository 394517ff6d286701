// Errors of batched tables that need a sentence: each names the table, what was given and what was expected.
#pragma once

#include "env/any_vec_env.h"

namespace env {

// The options, or an error that names the one that cannot be.
template <class Game>
const Options& checked_options(const Options& o) {
  const auto require = [](const char* name, int value, int low, int high) {
    if (value >= low && value <= high) return;
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(low) + " to " +
                                std::to_string(high) + ", got " + std::to_string(value));
  };
  require("num_envs", o.num_envs, 1, 1 << 24);
  require_players<Game>(o.num_players);
  require("threads", o.threads, 1, 1024);
  return o;
}

// An action that is not among the legal ones.
template <class Game>
[[noreturn]] void refuse_action(size_t i, const Game& game, uint64_t legal, int64_t action) {
  std::string text = "table " + std::to_string(i) + ": ";
  if (game.done()) {
    text += "the game is over (action " + std::to_string(action) + "); reset it or pass " + std::to_string(kSkip);
  } else {
    text += "illegal action " + std::to_string(action);
    if (action >= 0 && action < Game::kNumActions) text += " (" + Game::action_name(static_cast<int>(action)) + ")";
    text += " in phase " + Game::phase_name(game.phase()) + "; legal:";
    for (int a = 0; a < Game::kNumActions; ++a) {
      if (legal >> a & 1) text += " " + std::to_string(a);
    }
  }
  throw std::invalid_argument(text);
}

// An outcome that a legal action, or none, cannot have.
template <class Game>
[[noreturn]] void refuse_outcome(size_t i, int64_t action, int64_t outcome, const float* odds) {
  const std::string name = action == kSkip ? "none" : Game::action_name(static_cast<int>(action));
  std::string text = "table " + std::to_string(i) + ": outcome " + std::to_string(outcome) + " cannot follow action " +
                     std::to_string(action) + " (" + name + "); possible: 0 (not told)";
  for (int code = 1; code < Game::kOutcomes; ++code) {
    if (odds[code] > 0) text += " " + std::to_string(code);
  }
  throw std::invalid_argument(text);
}

// One bot, or none, for each seat.
inline void require_bots(const std::vector<std::shared_ptr<Bot>>& seats, int players) {
  if (static_cast<int>(seats.size()) == players) return;
  throw std::invalid_argument("bots: expected one for each of " + std::to_string(players) + " seats, got " +
                              std::to_string(seats.size()));
}

// A bot for each seat.
inline void require_all_bots(const std::vector<std::shared_ptr<Bot>>& seats, int players) {
  require_bots(seats, players);
  for (const auto& bot : seats) {
    if (!bot) throw std::invalid_argument("bots: every seat needs one");
  }
}

// The number of a bot, or a negative one for none.
inline void require_chosen(int i, int64_t chosen, size_t bots) {
  if (chosen < static_cast<int64_t>(bots)) return;
  throw std::invalid_argument("chosen: table " + std::to_string(i) + ": expected the number of one of " +
                              std::to_string(bots) + " bots, or less than 0, got " + std::to_string(chosen));
}

}  // namespace env
