// Common parts of the Skyjo bots: the phases of a turn (SkyjoBot), and planning one turn (SkyjoPlanner).
#pragma once

#include <limits>

#include "env/bots/bot.h"
#include "env/bots/skyjo_view.h"

namespace env {

// Asks a derived class the questions of a turn.
class SkyjoBot : public Bot {
 public:
  explicit SkyjoBot(int players) : players_(players) {}

 protected:
  virtual bool takes(const SkyjoView& view) const = 0;              // whether to take the discard pile's top or to draw
  virtual bool keeps(const SkyjoView& view) const = 0;              // whether to keep the drawn card or to discard it
  virtual int replaces(const SkyjoView& view, Rng& rng) const = 0;  // cell for the card in hand
  virtual int turns_over(const SkyjoView& view, Rng& rng) const {   // face-down cell to turn over, also before play
    return random_bit(view.grid(0).face_down, rng);
  }

  static int value(int card) { return Skyjo::value_of(card); }

 private:
  int act(const int16_t* row, uint64_t, Rng& rng) const final {
    const SkyjoView view(row, players_);
    switch (view.phase()) {
      case Skyjo::kSourcePhase:
        return takes(view) ? Skyjo::kTake : Skyjo::kDeck;
      case Skyjo::kKeepPhase:
        return keeps(view) ? Skyjo::kKeep : Skyjo::kDiscard;
      case Skyjo::kClearPhase:
        return value(view.card(0, view.offered_column())) > 0 ? Skyjo::kDiscard : Skyjo::kKeep;
      default:
        return Skyjo::kPosition + (view.hand() != Skyjo::kNoCard ? replaces(view, rng) : turns_over(view, rng));
    }
  }

  int players_;
};

// Facts that a plan is based on, gathered once per decision.
class SkyjoOutlook {
 public:
  const SkyjoView view;
  const SkyjoGrid own;
  SkyjoGrid rivals[Skyjo::kMaxPlayers];  // grids of the other players, from index 1, as in the view
  int turns_left;                        // turns until the round can end: the smallest number of face-down cards

  explicit SkyjoOutlook(const SkyjoView& row)
      : view(row), own(view.grid(0)), turns_left(own.face_down_count()), pool_(view.face_down_pool()) {
    for (int r = 1; r < view.players(); ++r) {
      rivals[r] = view.grid(r);
      turns_left = std::min(turns_left, rivals[r].face_down_count());
    }
    weigh();
  }

  // Takes copies of a card from the deck; negative numbers put them back.
  void draw(int card, int copies = 1) {
    if (!view.one_pool()) return;
    pool_.add(card, -copies);
    weigh();
  }

  // Mean and variance of a face-down card, and the probability that it is the given one.
  double mean() const { return mean_; }
  double variance() const { return pool_.variance(); }
  double share(int card) const { return pool_.count[card] * weight_; }

  double worth(int cell) const { return own.is_face_down(cell) ? mean_ : Skyjo::value_of(own.card[cell]); }
  double sum(const SkyjoGrid& grid) const { return grid.face_up_sum + mean_ * grid.face_down_count(); }
  bool ends_round(int cell) const { return own.face_down == 1u << cell && !view.final_turn(); }

 private:
  void weigh() {
    weight_ = 1.0 / pool_.total;
    mean_ = pool_.sum * weight_;
  }

  SkyjoPool pool_;  // pool of the face-down cards
  double weight_, mean_;
};

// Judges turns by the points that they promise. Derived judges redefine what they judge differently.
struct SkyjoJudge {
  // Gain from putting the card in the cell: the change of the player's own sum, with face-down cards at their mean.
  double placing(const SkyjoOutlook& outlook, int card, int cell) const { return outlook.worth(cell) - value(card); }
  // Gain from discarding the card and turning the cell over.
  double turning(const SkyjoOutlook&, int /*card*/, int /*cell*/) const { return 0; }
  // Additional gain from revealing a face-down card in either way.
  double revealing(const SkyjoOutlook&) const { return 0; }
  // Whether a card on the discard pile is considered at all.
  bool tempting(int /*card*/) const { return true; }

 protected:
  static int value(int card) { return Skyjo::value_of(card); }
};

// Looks one turn ahead and does what promises most points, with ties broken at random. The discard must promise more
// than the deck: the expectation, over the next card, of the better of its best place and of turning over a card
// instead.
template <class Judge>
class SkyjoPlanner : public SkyjoBot {
 public:
  static BotDoc doc() { return Judge::doc(); }
  SkyjoPlanner(int players, const std::vector<double>& values) : SkyjoBot(players), judge_(values) {}

 private:
  // Decisions per player after which a face-up card is replaced only for a gain; otherwise rounds might never end.
  static constexpr int kPatience = 60;

  struct Best {
    double points = -std::numeric_limits<double>::infinity();
    uint32_t cells = 0;

    void consider(int cell, double promised) {
      if (promised > points) cells = 0;
      if (promised >= points) cells |= 1u << cell;
      points = std::max(points, promised);
    }
  };

  bool takes(const SkyjoView& view) const override {
    if (!judge_.tempting(view.top())) return false;
    SkyjoOutlook outlook(view);
    const double promised = best_place(outlook, view.top()).points;
    const SkyjoPool deck = view.deck_pool();
    double expected = 0;
    for (int card = SkyjoPool::kFirst; card <= SkyjoPool::kLast; ++card) {
      if (deck.count[card] == 0) continue;
      outlook.draw(card);
      expected += deck.share(card) * std::max(best_place(outlook, card).points, best_turn(outlook, card).points);
      outlook.draw(card, -1);
    }
    return promised > expected;
  }

  bool keeps(const SkyjoView& view) const override {
    const SkyjoOutlook outlook(view);
    return best_place(outlook, view.hand()).points > best_turn(outlook, view.hand()).points;
  }
  int replaces(const SkyjoView& view, Rng& rng) const override {
    return random_bit(best_place(SkyjoOutlook(view), view.hand()).cells, rng);
  }
  int turns_over(const SkyjoView& view, Rng& rng) const override {
    return random_bit(best_turn(SkyjoOutlook(view), view.top()).cells, rng);
  }

  Best best_place(const SkyjoOutlook& outlook, int card) const {
    const bool late = outlook.view.decisions() >= kPatience * outlook.view.players();
    const double light = judge_.revealing(outlook);
    Best best;
    for (uint32_t rest = outlook.own.cells(); rest; rest &= rest - 1) {
      const int cell = __builtin_ctz(rest);
      const bool face_down = outlook.own.is_face_down(cell);
      const double points = judge_.placing(outlook, card, cell) + (face_down ? light : 0);
      if (face_down || points > 0 || !late) best.consider(cell, points);
    }
    return best;
  }

  Best best_turn(const SkyjoOutlook& outlook, int card) const {
    const double light = judge_.revealing(outlook);
    Best best;
    for (uint32_t rest = outlook.own.face_down; rest; rest &= rest - 1) {
      const int cell = __builtin_ctz(rest);
      best.consider(cell, judge_.turning(outlook, card, cell) + light);
    }
    return best;
  }

  Judge judge_;
};

}  // namespace env
