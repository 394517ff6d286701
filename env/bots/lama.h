// Hand-written L.A.M.A. players: the three strategies of P. Romero Marimon, The L.A.M.A. card game (2022), and a random
// player. They know nothing but an observation row (fields and codes: docs/games/lama.md).
#pragma once

#include "env/bots/bot.h"
#include "env/games/lama.h"

namespace env {

// Fields of a row that the strategies read.
class LamaView {
 public:
  LamaView(const int16_t* row, int players) : row_(row), players_(players) {}

  int top() const { return row_[LamaLayout::pile(players_)]; }
  int points() const { return row_[LamaLayout::decision(players_) + 1]; }  // points of the own hand by the rules

  // Kinds of cards in the player's own hand.
  int distinct() const {
    int kinds = 0;
    for (int kind = 0; kind < LamaRules::kKinds; ++kind) kinds += row_[3 * kind + 2] > 0;
    return kinds;
  }

  // The smallest number of cards that a player holds.
  int fewest_cards() const {
    int fewest = LamaRules::kMaxCards;
    for (int r = 0; r < players_; ++r) fewest = std::min<int>(fewest, row_[LamaLayout::player(players_) + 6 * r + 1]);
    return fewest;
  }

 private:
  const int16_t* row_;
  int players_;
};

// Plays a card whenever possible; derived classes say whether it draws or folds otherwise.
class LamaStrategy : public Bot {
 protected:
  LamaStrategy(int players, bool equal_first) : players_(players), equal_first_(equal_first) {}
  virtual bool folds(const LamaView&) const { return false; }

 private:
  int act(const int16_t* row, uint64_t legal, Rng&) const final {
    const LamaView view(row, players_);
    const int equal = Lama::kPlay + view.top() - 1, next = Lama::kPlay + Lama::following(view.top()) - 1;
    for (int action : {equal_first_ ? equal : next, equal_first_ ? next : equal}) {
      if (legal >> action & 1) return action;
    }
    const bool can_draw = legal >> Lama::kDraw & 1;
    return can_draw && !folds(view) ? Lama::kDraw : Lama::kFold;
  }

  int players_;
  bool equal_first_;
};

class LamaStrategy1 : public LamaStrategy {
 public:
  static BotDoc doc() { return {"strategy_1", "plays the equal card, else the next one, else draws", {}}; }
  LamaStrategy1(int players, const std::vector<double>&) : LamaStrategy(players, true) {}
};

class LamaStrategy2 : public LamaStrategy {
 public:
  static BotDoc doc() { return {"strategy_2", "plays the next card, else the equal one, else draws", {}}; }
  LamaStrategy2(int players, const std::vector<double>&) : LamaStrategy(players, false) {}
};

// Draws while f(x, y, z) = g(x) + (y - C) + D z is positive, with g(1) = -A and g(x) = B x for x > 1, and folds
// otherwise: x is the number of kinds and y the points in hand, z the number of cards in the smallest hand of all.
class LamaStrategy3 : public LamaStrategy {
 public:
  static BotDoc doc() {
    return {"strategy_3",
            "plays as strategy_1, but folds rather than draws when few cards, kinds and points are left",
            {{"A", 17.576, 0, 100, "urge to fold with equal cards only"},
             {"B", 12.24196, 0, 100, "urge to go on for each different card, if there are several"},
             {"C", 3.920, 0, 100, "points that are cheap enough to fold with"},
             {"D", 1.222, 0, 100, "urge to go on for each card in the smallest hand"}}};
  }
  LamaStrategy3(int players, const std::vector<double>& values)
      : LamaStrategy(players, true), a_(values[0]), b_(values[1]), c_(values[2]), d_(values[3]) {}

 private:
  bool folds(const LamaView& view) const override {
    const int x = view.distinct();
    const double g = x == 1 ? -a_ : b_ * x;
    return g + (view.points() - c_) + d_ * view.fewest_cards() <= 0;
  }

  double a_, b_, c_, d_;
};

struct LamaBots : BotList<Lama, LamaStrategy1, LamaStrategy2, LamaStrategy3, RandomBot> {};

}  // namespace env
