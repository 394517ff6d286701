// Kuhn poker: the options of a rule set. docs/games/kuhn.md explains each of them.
#pragma once

#include "env/rules.h"

namespace env {

struct KuhnRules {
  static constexpr int kKinds = 3;     // kinds of cards: jack, queen, king
  static constexpr int kMaxCards = 8;  // room for cards: a multiple of 8, as CardGame requires

  int max_decisions = 3;
  double round_reward = 1.0;
  double time_penalty = 0.0;

  // The deck in ascending order, as card codes.
  uint8_t sorted_deck[kMaxCards] = {1, 2, 3};
  int deck_size = 3;

  template <class Visitor>
  void visit(Visitor& v) {
    v.integer("max_decisions", max_decisions, 1, 1000000, "decisions before truncation; a hand has two or three");
    v.real("round_reward", round_reward, -10, 10, "reward of winning two chips, the most that a hand can bring");
    v.real("time_penalty", time_penalty, 0, 1, "cost of a decision to the player who makes it");
  }

  static std::vector<std::pair<std::string, RuleList>> presets() { return {{"official", {}}}; }

  void prepare(int) {}
};

}  // namespace env
