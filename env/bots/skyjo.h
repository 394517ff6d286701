// Hand-written Skyjo players. Four follow rules, among them those of the threshold study. The others plan one turn and
// differ in how they judge it: greedy, and six that are named in the SkyNet paper (section 4.3.2).
#pragma once

#include <cmath>

#include "env/bots/skyjo_bot.h"

namespace env {

// ---------------------------------------------------------------------------------------------------------
// Rule followers

// Ignores all cards, and ends the round after as many turns as it has face-down cards.
class SkyjoNaive : public SkyjoBot {
 public:
  static BotDoc doc() {
    return {"naive", "always draws from the deck and puts the card in place of a random face-down one", {}};
  }
  SkyjoNaive(int players, const std::vector<double>&) : SkyjoBot(players) {}

 private:
  bool takes(const SkyjoView&) const override { return false; }
  bool keeps(const SkyjoView&) const override { return true; }
  int replaces(const SkyjoView& view, Rng& rng) const override { return turns_over(view, rng); }
};

// The strategy of F. Reichel, A Mathematical Analysis and Simulation-Based Evaluation of Local Decision Rules in Skyjo
// (2026), as the code in its appendix plays it. A card replaces the largest face-up card that is larger (the first of
// several); if there is none, a random face-down card. A card from the deck replaces a face-down card only if it is
// below the mean of the unseen cards, and is discarded otherwise.
class SkyjoThreshold : public SkyjoBot {
 public:
  static BotDoc doc() {
    return {"threshold",
            "takes a discard of at most t; replaces its largest card, or a face-down one by less than the mean",
            {{"t", 2, -3, 13, "largest value that it takes from the discard pile"}}};
  }
  SkyjoThreshold(int players, const std::vector<double>& values) : SkyjoBot(players), t_(values[0]) {}

 protected:
  bool takes(const SkyjoView& view) const override { return value(view.top()) <= t_; }

  bool keeps(const SkyjoView& view) const override {
    return largest_above(view, view.hand()) || value(view.hand()) < mean_before_draw(view);
  }

  int replaces(const SkyjoView& view, Rng& rng) const override {
    if (const uint32_t cells = largest_above(view, view.hand())) return __builtin_ctz(preferred(view, cells));
    return random_bit(preferred(view, view.grid(0).face_down), rng);
  }

  // Cells that the bot prefers for the card in hand, out of some equally good ones: at least one.
  virtual uint32_t preferred(const SkyjoView&, uint32_t cells) const { return cells; }

 private:
  // Cells of the largest face-up card, if that is larger than the given card.
  static uint32_t largest_above(const SkyjoView& view, int card) {
    uint32_t cells = 0;
    for (int cell = 0, largest = card; cell < Skyjo::kCells; ++cell) {
      const int here = view.card(0, cell);
      if (here > largest) cells = 0;
      if (here > card && here >= largest) cells |= 1u << cell;
      largest = std::max(largest, here);
    }
    return cells;
  }

  // Mean of the draw pile and all face-down cards as they were when the turn began.
  static double mean_before_draw(const SkyjoView& view) {
    SkyjoPool unseen = view.face_down_pool();
    const bool pile_was_empty = view.reshuffled() && view.discard_size() == 1;
    if (pile_was_empty) return unseen.mean();
    if (view.reshuffled() && view.deck_size() > 0) unseen.add(view.deck_pool());
    unseen.add(view.hand(), 1);
    return unseen.mean();
  }

  double t_;
};

// The threshold player, but it completes columns first, unless their cards are worth keeping, and among equally good
// cells it prefers one where the card makes a pair.
class SkyjoColumnThreshold : public SkyjoThreshold {
 public:
  static BotDoc doc() {
    return {"column_threshold", "plays threshold, but completes columns first and prefers to make pairs",
            SkyjoThreshold::doc().parameters};
  }
  using SkyjoThreshold::SkyjoThreshold;

 private:
  bool takes(const SkyjoView& view) const override {
    return completing(view, view.top()) || SkyjoThreshold::takes(view);
  }
  bool keeps(const SkyjoView& view) const override {
    return completing(view, view.hand()) || SkyjoThreshold::keeps(view);
  }

  // Among several columns the bot completes the one where the card replaces the largest card.
  int replaces(const SkyjoView& view, Rng& rng) const override {
    const uint32_t cells = completing(view, view.hand());
    if (!cells) return SkyjoThreshold::replaces(view, rng);
    int best = __builtin_ctz(cells);
    for (uint32_t rest = cells; rest; rest &= rest - 1) {
      if (view.card(0, __builtin_ctz(rest)) > view.card(0, best)) best = __builtin_ctz(rest);
    }
    return best;
  }

  uint32_t preferred(const SkyjoView& view, uint32_t cells) const override {
    const uint32_t pairs = cells & view.grid(0).matching(view.hand(), 1);
    return pairs ? pairs : cells;
  }

  static uint32_t completing(const SkyjoView& view, int card) {
    return value(card) > 0 ? view.grid(0).matching(card, 2) : 0;
  }
};

// ---------------------------------------------------------------------------------------------------------
// Judges, one for each planner

// Greedy value replacement: only the sum of the grid counts.
struct SkyjoGreedyValue : SkyjoJudge {
  static BotDoc doc() {
    return {"greedy_value", "replaces its largest card, face-down ones taken at their mean, by a smaller one", {}};
  }
  explicit SkyjoGreedyValue(const std::vector<double>&) {}
};

// Information-first flip: while many cards are unknown, every turn must reveal a face-down card, by turning it over or
// by replacing it with a lower card. After that it replaces its largest card, as greedy_value does.
struct SkyjoInfoFirst : SkyjoJudge {
  static BotDoc doc() {
    return {"info_first",
            "reveals its cards first, and replaces large ones once most are known",
            {{"unknown", 4, 0, 12, "number of face-down cards from which on it no longer insists on revealing"}}};
  }
  explicit SkyjoInfoFirst(const std::vector<double>& values) : unknown(values[0]) {}

  double revealing(const SkyjoOutlook& outlook) const {
    const double more_than_any_replacement = 20;
    return outlook.own.face_down_count() > unknown ? more_than_any_replacement : 0;
  }

  double unknown;
};

// Risk-aware unknown replacement: a face-down card may be a low one, so only a card safely below the mean
// replaces it; otherwise it is turned over, which risks nothing.
struct SkyjoRiskAware : SkyjoJudge {
  static BotDoc doc() {
    return {"risk_aware",
            "replaces a face-down card only by a card safely below the mean",
            {{"caution", 0.5, 0, 3, "standard deviations below the mean that are safe"}}};
  }
  explicit SkyjoRiskAware(const std::vector<double>& values) : caution(values[0]) {}

  double placing(const SkyjoOutlook& outlook, int card, int cell) const {
    const double margin = outlook.own.is_face_down(cell) ? caution * std::sqrt(outlook.variance()) : 0;
    return SkyjoJudge::placing(outlook, card, cell) - margin;
  }

  double caution;
};

// End-round aggro: a leader should end the round before the others catch up. While its expected sum is the lowest,
// every revealed card counts as some points won.
struct SkyjoEndRoundAggro : SkyjoJudge {
  static BotDoc doc() {
    return {"end_round_aggro",
            "races to turn over its last card while its expected sum is the lowest",
            {{"hurry", 3, 0, 20, "points that revealing a card is worth to it in the lead"}}};
  }
  explicit SkyjoEndRoundAggro(const std::vector<double>& values) : hurry(values[0]) {}

  double revealing(const SkyjoOutlook& outlook) const {
    for (int r = 1; r < outlook.view.players(); ++r) {
      if (outlook.sum(outlook.rivals[r]) <= outlook.sum(outlook.own)) return 0;
    }
    return hurry;
  }

  double hurry;
};

// Anti-discard: a discarded card is an offer to the next player, who likes cards below the mean and the third card of a
// pair. Replacing a face-down card may offer anything. It takes only very good cards from the discard pile.
struct SkyjoAntiDiscard : SkyjoJudge {
  static BotDoc doc() {
    return {"anti_discard",
            "avoids discarding cards that the next player could use, and mostly draws from the deck",
            {{"envy", 0.5, 0, 1, "points that a point offered to the next player costs it"},
             {"very_good", 1, -3, 12, "largest value that it takes from the discard pile"}}};
  }
  explicit SkyjoAntiDiscard(const std::vector<double>& values) : envy(values[0]), very_good(values[1]) {}

  bool tempting(int card) const { return value(card) <= very_good; }

  double placing(const SkyjoOutlook& outlook, int card, int cell) const {
    const double gain = SkyjoJudge::placing(outlook, card, cell);
    if (!outlook.own.is_face_down(cell)) return gain - envy * offer(outlook, outlook.own.card[cell]);
    double expected = 0;
    for (int old = SkyjoPool::kFirst; value(old) < outlook.mean(); ++old) {
      expected += outlook.share(old) * (outlook.mean() - value(old));
    }
    return gain - envy * expected;
  }
  double turning(const SkyjoOutlook& outlook, int card, int) const { return -envy * offer(outlook, card); }

  // Points that a card on the discard pile is worth to the next player.
  static double offer(const SkyjoOutlook& outlook, int card) {
    const bool no_more_turns = outlook.view.ender() == 1;
    if (no_more_turns) return 0;
    const bool completes = value(card) > 0 && outlook.rivals[1].matching(card, 2);
    return std::max(0.0, outlook.mean() - value(card)) + (completes ? 3 * value(card) : 0);
  }

  double envy, very_good;
};

// Judges columns: the third equal card takes three times its value off the sum, in addition to the card that it
// replaces. Two equal cards are credited with the chance of a third. Columns of zeros and negative cards are not
// sought.
struct SkyjoColumnJudge : SkyjoJudge {
  double placing(const SkyjoOutlook& outlook, int card, int cell) const {
    const double gain = SkyjoJudge::placing(outlook, card, cell) + relief(outlook, card, cell);
    return outlook.own.is_face_down(cell) ? gain : gain - relief(outlook, outlook.own.card[cell], cell);
  }

  // Gain from turning the cell over. On average the sum stays the same; the gain comes from cards that fit their
  // column.
  double turning(const SkyjoOutlook& outlook, int, int cell) const {
    const int second = outlook.own.card[SkyjoGrid::below(cell)];
    const int third = outlook.own.card[SkyjoGrid::below(SkyjoGrid::below(cell))];
    double points = 0;
    if (second) points += outlook.share(second) * relief(outlook, second, cell);
    if (third && third != second) points += outlook.share(third) * relief(outlook, third, cell);
    return points;
  }

  // Credit that the card in the cell gets for equal cards in its column.
  double relief(const SkyjoOutlook& outlook, int card, int cell) const {
    const int equals = outlook.own.matches(cell, card);
    if (equals == 0) return 0;
    if (equals == 2) return 3 * value(card);
    if (value(card) <= 0 || outlook.view.final_turn() || outlook.ends_round(cell)) return 0;
    const double cards_to_come = cards_per_turn * outlook.turns_left;
    return 3 * value(card) * std::min(1.0, hope + cards_to_come * outlook.share(card));
  }

  double hope, cards_per_turn;  // chance of a third card: a constant part, and a part for each card to come
};

// Column hunter: every pair counts as part of a column, whatever the odds.
struct SkyjoColumnHunter : SkyjoColumnJudge {
  static BotDoc doc() {
    return {"column_hunter",
            "collects equal cards in columns, even if that costs points",
            {{"eagerness", 0.5, 0, 1, "share of a column that a pair counts as"}}};
  }
  explicit SkyjoColumnHunter(const std::vector<double>& values) : SkyjoColumnJudge{{}, values[0], 0} {}
};

// Exact expectation of how one turn changes the player's own sum. Three later consequences are considered as well: a
// pair may be completed before the round can end; a large card can be replaced once it is known; and turning over the
// last card may double the sum, so that it prefers to wait and accept a small loss on a face-up card.
struct SkyjoGreedy : SkyjoColumnJudge {
  static BotDoc doc() {
    return {"greedy",
            "lowers its expected sum as far as possible in one turn, considering pairs and the ender's penalty",
            {{"column_bonus", 2, 0, 10, "cards per turn, while the round lasts, that may complete a pair"},
             {"knowledge", 2.5, 0, 20, "points that knowing the card turned over is worth"}}};
  }
  explicit SkyjoGreedy(const std::vector<double>& values) : SkyjoColumnJudge{{}, 0, values[0]}, knowledge(values[1]) {}

  double placing(const SkyjoOutlook& outlook, int card, int cell) const {
    const double gain = SkyjoColumnJudge::placing(outlook, card, cell);
    return outlook.ends_round(cell) ? gain - penalty(outlook, gain) : gain;
  }
  double turning(const SkyjoOutlook& outlook, int card, int cell) const {
    const double gain = SkyjoColumnJudge::turning(outlook, card, cell);
    if (outlook.ends_round(cell)) return gain - penalty(outlook, gain);
    return outlook.view.final_turn() ? gain : gain + knowledge;
  }

  // Ending the round costs the player's own sum once more, unless all rivals are above it after their last turn.
  static double penalty(const SkyjoOutlook& outlook, double gain) {
    const double last_turn_mean = 3, last_turn_variance = 6;  // mean and variance of a last turn in points, roughly
    const double sum = outlook.sum(outlook.own) - gain;
    if (sum <= 0) return 0;
    double lowest = 1;
    for (int r = 1; r < outlook.view.players(); ++r) {
      const SkyjoGrid& rival = outlook.rivals[r];
      const double behind = sum - (outlook.sum(rival) - last_turn_mean);
      const double variance = rival.face_down_count() * outlook.variance() + last_turn_variance;
      lowest *= std::erfc(behind / std::sqrt(2 * variance)) / 2;
    }
    return sum * (1 - lowest);
  }

  double knowledge;
};

// ---------------------------------------------------------------------------------------------------------
// The list

struct SkyjoBots
    : BotList<Skyjo, RandomBot, SkyjoNaive, SkyjoThreshold, SkyjoColumnThreshold, SkyjoPlanner<SkyjoGreedy>,
              SkyjoPlanner<SkyjoGreedyValue>, SkyjoPlanner<SkyjoInfoFirst>, SkyjoPlanner<SkyjoColumnHunter>,
              SkyjoPlanner<SkyjoRiskAware>, SkyjoPlanner<SkyjoEndRoundAggro>, SkyjoPlanner<SkyjoAntiDiscard>> {};

}  // namespace env
