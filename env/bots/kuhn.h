// Hand-written Kuhn poker players, among them all equilibria of the game. They know nothing but an observation row
// (fields and codes: docs/games/kuhn.md).
#pragma once

#include "env/bots/bot.h"
#include "env/games/kuhn.h"

namespace env {

// Bets with a probability that derived classes choose.
class KuhnBot : public Bot {
 protected:
  // Probability of a bet for the mover's card; `first` says whether the mover is seat 0.
  virtual double bet_probability(int card, bool first, bool answer) const = 0;

 private:
  int act(const int16_t* row, uint64_t, Rng& rng) const final {
    const bool answer = row[Kuhn::Layout::kDecision] == Kuhn::kAnswerPhase;
    const int first_actor = row[Kuhn::Layout::kHistory];  // 0 nobody yet, 1 the mover, 2 the other player
    const double p = bet_probability(row[Kuhn::Layout::kCard], first_actor != 2, answer);
    return rng.uniform() < p ? Kuhn::kBet : Kuhn::kPass;
  }
};

// Every equilibrium of the game: the first player's policy has one parameter, the second player's is unique.
class KuhnEquilibrium : public KuhnBot {
 public:
  static BotDoc doc() {
    return {
        "equilibrium",
        "plays an equilibrium: nobody can win more than the value of the game against it",
        {{"alpha", 1.0 / 3, 0, 1.0 / 3, "probability that seat 0 bets a jack; it bets a king three times as often"}}};
  }
  KuhnEquilibrium(int, const std::vector<double>& values) : alpha_(values[0]) {}

 private:
  double bet_probability(int card, bool first, bool answer) const override {
    if (card == Kuhn::kKing) return first && !answer ? 3 * alpha_ : 1;
    if (card == Kuhn::kJack) return answer ? 0 : first ? alpha_ : 1.0 / 3;
    return !answer ? 0 : first ? alpha_ + 1.0 / 3 : 1.0 / 3;
  }

  double alpha_;
};

// Bets with the same probability whatever the card.
class KuhnUniform : public KuhnBot {
 public:
  static BotDoc doc() {
    return {"uniform", "bets with one probability, whatever its card", {{"bet", 0.5, 0, 1, "probability of a bet"}}};
  }
  KuhnUniform(int, const std::vector<double>& values) : bet_(values[0]) {}

 private:
  double bet_probability(int, bool, bool) const override { return bet_; }

  double bet_;
};

class KuhnAlwaysBet : public KuhnBot {
 public:
  static BotDoc doc() { return {"always_bet", "bets and calls with every card", {}}; }
  KuhnAlwaysBet(int, const std::vector<double>&) {}

 private:
  double bet_probability(int, bool, bool) const override { return 1; }
};

class KuhnAlwaysPass : public KuhnBot {
 public:
  static BotDoc doc() { return {"always_pass", "never bets and never calls", {}}; }
  KuhnAlwaysPass(int, const std::vector<double>&) {}

 private:
  double bet_probability(int, bool, bool) const override { return 0; }
};

struct KuhnBots : BotList<Kuhn, KuhnEquilibrium, KuhnUniform, KuhnAlwaysBet, KuhnAlwaysPass, RandomBot> {};

}  // namespace env
