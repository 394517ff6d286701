// Skip-Bo: the options of a rule set. docs/games/skipbo.md explains each of them.
#pragma once

#include "env/rules.h"

namespace env {

struct SkipboRules {
  static constexpr int kKinds = 13;      // kinds of cards: 1..12 and the wild card
  static constexpr int kMaxCopies = 36;  // cards of a kind
  static constexpr int kMaxCards = 192;
  static constexpr int kMaxStock = 80;  // cards in a stock
  static constexpr int kHandCards = 5;

  enum class Starter : uint8_t { kSeat0, kRandom };

  int stock = 0;
  Starter starter = Starter::kSeat0;
  bool extras = true;
  int deck[kKinds] = {12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 18};
  int max_decisions = 5000;
  double round_reward = 0.0;
  double time_penalty = 0.0;

  // Derived by prepare(): the deck in ascending order, as card codes, and the cards dealt to each stock.
  uint8_t sorted_deck[kMaxCards] = {};
  int deck_size = 0;
  int stock_cards = 0;

  template <class Visitor>
  void visit(Visitor& v) {
    v.integer("stock", stock, 0, kMaxStock, "cards in each stock; 0: 30 for 2 to 4 players, 20 for 5 or 6");
    v.choice("starter", starter, {"seat_0", "random"}, "who begins");
    v.flag("extras", extras, "whether observations show the public facts beyond the mover's own cards and the piles");
    v.counts("deck", deck, kMaxCopies, "cards of each kind, 1 to 12 and wild");
    v.integer("max_decisions", max_decisions, 1, 1000000, "decisions before truncation; players can stall");
    v.real("round_reward", round_reward, -10, 10, "weight of the reward for each card off a stock");
    v.real("time_penalty", time_penalty, 0, 1, "cost of a decision to the player who makes it");
  }

  static std::vector<std::pair<std::string, RuleList>> presets() { return {{"official", {}}}; }

  // Refuses impossible combinations of options and derives the rest.
  void prepare(int players) {
    stock_cards = stock ? stock : (players <= 4 ? 30 : 20);
    deck_size =
        sort_deck(deck, sorted_deck, stock_cards * players + kHandCards,
                  std::to_string(stock_cards) + " for each of " + std::to_string(players) + " stocks, and a hand");
  }
};

}  // namespace env
