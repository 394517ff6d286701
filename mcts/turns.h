// Turns inside a tree: the player who moves after an action, and the phase that follows, by the game's phase table.
//
// Some games let players leave a round (they fold) and pass them over until it is over. Who has left is known at the
// root; below it the actions tell. When nobody is left the round is over, and everybody is back.
#pragma once

#include <vector>

#include "mcts/config.h"
#include "mcts/tree.h"

namespace mcts {

class Turns {
 public:
  Turns(const Setup& config, const Tree& tree)
      : config_(config),
        tree_(tree),
        everybody_(config.players < 64 ? (uint64_t{1} << config.players) - 1 : ~uint64_t{0}),
        absent_(config.leaves_round.empty() ? 0 : tree.node.size()) {}

  // Takes the players who are passed over at a root, a bit for each, counted from the root's player.
  void begin(int game, uint64_t absent) {
    if (!absent_.empty()) absent_[tree_.at(game, kRoot)] = absent;
  }

  // Sets phase and player to move of a new node below an action, or below the outcome of an event.
  void add(size_t up, int edge, size_t node, Node& below) {
    const Node& above = tree_.node[up];
    below.phase = above.phase;
    below.to_play = above.to_play;
    if (above.chance) {
      if (!absent_.empty()) absent_[node] = absent_[up];
      return;
    }
    const size_t rule =
        static_cast<size_t>(above.phase) * static_cast<size_t>(config_.actions) + static_cast<size_t>(edge);
    below.phase = config_.next_phase[rule];
    uint64_t absent = 0;
    if (!absent_.empty()) {
      absent = absent_[up];
      if (config_.leaves_round[rule]) {
        absent |= uint64_t{1} << above.to_play;
        if (__builtin_popcountll(absent) == config_.players - 1) below.phase = config_.last_phase[rule];
        if (absent == everybody_) absent = 0;
      }
      absent_[node] = absent;
    }
    if (!config_.turn_passes[rule]) return;
    int seat = above.to_play;
    do {
      seat = seat + 1 == config_.players ? 0 : seat + 1;
    } while (absent >> seat & 1);
    below.to_play = static_cast<uint8_t>(seat);
  }

 private:
  const Setup& config_;
  const Tree& tree_;
  const uint64_t everybody_;
  std::vector<uint64_t> absent_;  // [B, N] players who are passed over; empty if no action leaves a round
};

}  // namespace mcts
