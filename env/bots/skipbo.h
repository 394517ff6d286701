// Hand-written Skip-Bo players: those of the paper on Hierarchical Positional Value Play (HPVP), in all readings of its
// wording, one that plans for its stock and saves wild cards, and one that weighs rules of thumb. They know nothing but
// an observation row (fields and codes: docs/games/skipbo.md).
#pragma once

#include "env/bots/bot.h"
#include "env/games/skipbo.h"

namespace env {

// Fields of a row that the bots read, and the legal actions by source and target.
class SkipboView {
 public:
  using Layout = SkipboLayout;
  static constexpr int kPiles = Skipbo::kPiles;
  static constexpr int kNone = -1;

  SkipboView(const int16_t* row, uint64_t legal) : row_(row), legal_(legal) {}

  int card(int slot, int seat = 0) const { return row_[Layout::slot(seat, slot) + 3]; }
  int under(int slot) const { return row_[Layout::slot(0, slot) + 4]; }
  int size(int slot) const { return row_[Layout::slot(0, slot) + 5]; }
  int stock() const { return card(Layout::kStock); }
  int hand(int place) const { return card(Layout::kHand + place); }
  int discard_top(int pile) const { return card(Layout::kDiscards + pile); }
  int height(int pile) const { return card(Layout::kBuilding + pile); }

  static int play(int source, int pile) { return Skipbo::kPlay + kPiles * source + pile; }
  static int discard(int place, int pile) { return Skipbo::kDiscard + kPiles * place + pile; }
  bool can_play(int source, int pile) const { return legal_ >> play(source, pile) & 1; }
  bool can_discard(int place) const { return legal_ >> discard(place, 0) & 1; }
  uint64_t plays() const { return legal_ & ((uint64_t{1} << Skipbo::kDiscard) - 1); }

  // Highest building pile that takes the card of a source (the leftmost of equally high ones), or kNone.
  int highest_pile(int source) const {
    int best = kNone;
    for (int pile = 0; pile < kPiles; ++pile) {
      if (can_play(source, pile) && (best == kNone || height(pile) > height(best))) best = pile;
    }
    return best;
  }

 private:
  const int16_t* row_;
  uint64_t legal_;
};

// Plays and discards as derived classes choose; passes if there is nothing else to do.
class SkipboPlanner : public Bot {
 protected:
  static constexpr int kNone = SkipboView::kNone;
  virtual int play(const SkipboView& view) const = 0;               // an action that plays a card; kNone ends the turn
  virtual int discard(const SkipboView& view, Rng& rng) const = 0;  // an action that discards a card

 private:
  int act(const int16_t* row, uint64_t legal, Rng& rng) const final {
    if (legal >> Skipbo::kPass & 1) return Skipbo::kPass;
    const SkipboView view(row, legal);
    const int action = play(view);
    if (action != kNone) return action;
    return view.can_discard(0) ? discard(view, rng) : __builtin_ctzll(legal);  // with an empty hand the bot must play
  }
};

// ---- HPVP ----------------------------------------------------------------------------------------------
// 1. Plays the stock card onto the highest pile that takes it. 2. Plays a hand card onto the highest pile that takes
// one, a number rather than a wild card. 3. Plays the top of the first discard pile that can be played, onto the
// highest pile. 4. Discards the highest number (a wild card only if there is nothing else). The paper leaves open onto
// which discard pile.
class SkipboHpvp : public SkipboPlanner {
 protected:
  enum Reading { kLowestTop, kHighestTop, kFirstPile };
  explicit SkipboHpvp(Reading reading) : reading_(reading) {}

 private:
  int play(const SkipboView& view) const override {
    if (const int pile = view.highest_pile(Skipbo::kStock); pile != kNone) return view.play(Skipbo::kStock, pile);
    if (const int action = play_hand(view); action != kNone) return action;
    for (int source = Skipbo::kDiscards; source < Skipbo::kSources; ++source) {
      if (const int pile = view.highest_pile(source); pile != kNone) return view.play(source, pile);
    }
    return kNone;
  }

  // Non-empty piles are higher than empty ones, so that the paper's first two preferences for hand cards are one; among
  // piles of equal height every card goes onto the leftmost.
  static int play_hand(const SkipboView& view) {
    int best = kNone, best_pile = kNone;
    for (int place = 0; place < Skipbo::kHandCards; ++place) {
      const int source = Skipbo::kHand + place, pile = view.highest_pile(source);
      if (pile == kNone) continue;
      const int gain = best == kNone ? 1 : view.height(pile) - view.height(best_pile);
      if (gain > 0 || (gain == 0 && view.card(best) == Skipbo::kWild)) best = source, best_pile = pile;
    }
    return best == kNone ? kNone : SkipboView::play(best, best_pile);
  }

  int discard(const SkipboView& view, Rng&) const override {
    int card = kNone;
    const auto rank = [&view](int place) { return view.hand(place) % Skipbo::kWild; };  // wild cards rank lowest
    for (int place = 0; place < Skipbo::kHandCards; ++place) {
      if (view.can_discard(place) && (card == kNone || rank(place) > rank(card))) card = place;
    }
    return SkipboView::discard(card, pile_for_discard(view));
  }

  int pile_for_discard(const SkipboView& view) const {
    if (reading_ == kFirstPile) return 0;
    int best = 0;
    const auto worth = [&](int pile) {
      const int top = view.discard_top(pile);
      if (reading_ == kLowestTop) return -top;
      return top < Skipbo::kFull ? top : -1;
    };
    for (int pile = 1; pile < Skipbo::kPiles; ++pile) {
      if (worth(pile) > worth(best)) best = pile;
    }
    return best;
  }

  Reading reading_;
};

class SkipboHpvpLowestTop : public SkipboHpvp {
 public:
  static BotDoc doc() { return {"hpvp", "HPVP; discards onto the pile with the lowest top, empty ones first", {}}; }
  SkipboHpvpLowestTop(int, const std::vector<double>&) : SkipboHpvp(kLowestTop) {}
};

class SkipboHpvpHighestTop : public SkipboHpvp {
 public:
  static BotDoc doc() { return {"hpvp_highest_top", "HPVP; discards onto the pile with the highest top below 12", {}}; }
  SkipboHpvpHighestTop(int, const std::vector<double>&) : SkipboHpvp(kHighestTop) {}
};

class SkipboHpvpFirstPile : public SkipboHpvp {
 public:
  static BotDoc doc() { return {"hpvp_first_pile", "HPVP; always discards onto the first pile", {}}; }
  SkipboHpvpFirstPile(int, const std::vector<double>&) : SkipboHpvp(kFirstPile) {}
};

// ---- greedy and random -----------------------------------------------------------------------------------
// Actions are numbered in the order of this bot's preferences: stock, hand, discard piles, each onto the leftmost pile
// that takes the card; then the first hand card onto the first discard pile.
class SkipboGreedy : public Bot {
 public:
  static BotDoc doc() {
    return {"greedy", "plays the first card it can, else discards the first onto the first pile", {}};
  }
  SkipboGreedy(int, const std::vector<double>&) {}

 private:
  int act(const int16_t*, uint64_t legal, Rng&) const override { return __builtin_ctzll(legal); }
};

class SkipboGreedyRandomPile : public Bot {
 public:
  static BotDoc doc() { return {"greedy_random_pile", "as greedy, but discards onto a random pile", {}}; }
  SkipboGreedyRandomPile(int, const std::vector<double>&) {}

 private:
  int act(const int16_t*, uint64_t legal, Rng& rng) const override {
    const int first = __builtin_ctzll(legal);
    if (first != SkipboView::discard(0, 0)) return first;
    return first + static_cast<int>(rng.below(Skipbo::kPiles));
  }
};

class SkipboRandomPlay : public Bot {
 public:
  static BotDoc doc() { return {"random_play", "plays uniformly at random, and discards only if it cannot play", {}}; }
  SkipboRandomPlay(int, const std::vector<double>&) {}

 private:
  int act(const int16_t* row, uint64_t legal, Rng& rng) const override {
    const uint64_t plays = SkipboView(row, legal).plays();
    return random_bit(plays ? plays : legal, rng);
  }
};

// ---- wild_saver -------------------------------------------------------------------------------------------
// Plays the stock card whenever it can; else the first card of the sequence that makes room for it with the fewest wild
// cards; else numbers, unless that brings a pile close to where the next player's stock card fits, but never a wild
// card. Discards so that piles count down, and prefers cards that are needed late.
class SkipboWildSaver : public SkipboPlanner {
 public:
  static BotDoc doc() {
    return {"wild_saver",
            "spends wild cards on its stock card only, and discards so that piles count down",
            {{"wilds", 2, 0, 5, "wild cards that one stock card is worth"},
             {"guard", 4, 0, 12, "cards that the next player should lack at least after a play without need"}}};
  }
  SkipboWildSaver(int, const std::vector<double>& values) : wilds_(values[0]), guard_(values[1]) {}

 private:
  // Cards that are available in this turn, or become available, as far as they are known.
  struct Supply {
    int hand[Skipbo::kHandCards], top[Skipbo::kPiles], under[Skipbo::kPiles];

    explicit Supply(const SkipboView& view) {
      for (int i = 0; i < Skipbo::kHandCards; ++i) hand[i] = view.hand(i);
      for (int i = 0; i < Skipbo::kPiles; ++i)
        top[i] = view.discard_top(i), under[i] = view.under(Skipbo::kDiscards + i);
    }

    // Takes a card, from the hand first, and returns its source; kNone if there is none.
    int take(int card) {
      for (int i = 0; i < Skipbo::kHandCards; ++i) {
        if (hand[i] != card) continue;
        hand[i] = Skipbo::kNoCard;
        return Skipbo::kHand + i;
      }
      for (int i = 0; i < Skipbo::kPiles; ++i) {
        if (top[i] != card) continue;
        top[i] = under[i];
        under[i] = Skipbo::kNoCard;
        return Skipbo::kDiscards + i;
      }
      return kNone;
    }
  };

  struct Plan {
    int action = kNone, wilds = 0, length = 0;

    bool better_than(const Plan& other) const {
      if (action == kNone || other.action == kNone) return action != kNone;
      return wilds != other.wilds ? wilds < other.wilds : length < other.length;
    }
  };

  int play(const SkipboView& view) const override {
    if (const int pile = view.highest_pile(Skipbo::kStock); pile != kNone) return view.play(Skipbo::kStock, pile);
    Plan best;
    for (int pile = 0; pile < Skipbo::kPiles; ++pile) {
      const Plan plan = way_to_stock(view, pile);
      if (plan.wilds <= wilds_ && plan.better_than(best)) best = plan;
    }
    return best.action != kNone ? best.action : play_without_need(view);
  }

  // Cheapest way to bring a building pile to where the stock card fits; a pile may be completed and begun on the way.
  // Only the first of several empty piles can be played on, which is enough.
  static Plan way_to_stock(const SkipboView& view, int pile) {
    Supply supply(view);
    Plan plan;
    for (int height = view.height(pile); height + 1 != view.stock(); height = (height + 1) % Skipbo::kFull) {
      int source = supply.take(height + 1);
      if (source == kNone) {
        source = supply.take(Skipbo::kWild);
        ++plan.wilds;
      }
      if (source == kNone || (plan.length == 0 && !view.can_play(source, pile))) return {};
      if (plan.length == 0) plan.action = SkipboView::play(source, pile);
      ++plan.length;
    }
    return plan;
  }

  int play_without_need(const SkipboView& view) const {
    const int next_stock = view.card(Skipbo::kStock, 1);
    for (int source = Skipbo::kHand; source < Skipbo::kSources; ++source) {
      const int pile = view.highest_pile(source);
      if (pile == kNone || view.card(source) == Skipbo::kWild) continue;
      const int lacking = next_stock - 2 - view.height(pile);  // between the pile then and the next player's stock card
      const bool helps = next_stock <= Skipbo::kFull && lacking >= 0 && lacking < guard_;
      if (!helps) return SkipboView::play(source, pile);
    }
    return kNone;
  }

  int discard(const SkipboView& view, Rng&) const override {
    double best = 0;
    int action = kNone;
    for (int place = 0; place < Skipbo::kHandCards; ++place) {
      for (int pile = 0; view.can_discard(place) && pile < Skipbo::kPiles; ++pile) {
        const double worth = worth_of_discard(view, view.hand(place), pile);
        if (action == kNone || worth > best) best = worth, action = SkipboView::discard(place, pile);
      }
    }
    return action;
  }

  static double worth_of_discard(const SkipboView& view, int card, int pile) {
    if (card == Skipbo::kWild) return -100;
    int missing = Skipbo::kFull;  // cards to be played before this one
    for (int i = 0; i < Skipbo::kPiles; ++i) {
      missing = std::min(missing, (card - 1 - view.height(i) + Skipbo::kFull) % Skipbo::kFull);
    }
    const double late = 0.3 * missing;
    const int top = view.discard_top(pile);
    if (top == Skipbo::kNoCard) return late + 1;
    if (top == Skipbo::kWild) return late - 50;
    if (top == card || top == card + 1) return late + 5;
    return late -
           (top > card ? 0.5 * (top - card) : 1.0 + card - top);  // a card that is needed sooner should not be covered
  }

  double wilds_, guard_;
};

// ---- rules_of_thumb ---------------------------------------------------------------------------------------
// Advice that players give each other, each piece with a weight; it looks at one play at a time.
//   Stock first: the stock card before all others, then piles on which the cards at hand make room for it.
//   Block: put the card that the next player's stock shows onto its pile; do not build up to where it fits.
//   Save wild cards: for the stock card.
//   Empty the hand: five new cards follow. Keep discard piles short: play from them before the hand.
//   Do not bury: discard onto an equal or the next higher card, not onto one that is needed sooner.
class SkipboRulesOfThumb : public SkipboPlanner {
 public:
  static BotDoc doc() {
    return {"rules_of_thumb",
            "weighs advice: stock first, block, save wild cards, empty the hand, short piles, do not bury",
            {{"block", 2, 0, 100, "weight of the next player's stock card"},
             {"wild", 20, 0, 100, "price of a wild card; making room for the stock card is worth 30"}}};
  }
  SkipboRulesOfThumb(int, const std::vector<double>& values) : block_(values[0]), wild_(values[1]) {}

 private:
  int play(const SkipboView& view) const override {
    double best = 0;
    int action = kNone;
    for (int source = Skipbo::kStock; source < Skipbo::kSources; ++source) {
      for (int pile = 0; pile < Skipbo::kPiles; ++pile) {
        if (!view.can_play(source, pile)) continue;
        const double worth = worth_of_play(view, source, pile);
        if (worth > best) best = worth, action = SkipboView::play(source, pile);
      }
    }
    return action;
  }

  double worth_of_play(const SkipboView& view, int source, int pile) const {
    if (source == Skipbo::kStock) return 1000 + view.height(pile);
    const int card = view.height(pile) + 1,
              next = card % Skipbo::kFull + 1;  // number played, and number that fits then
    const int next_stock = view.card(Skipbo::kStock, 1);
    double worth = source >= Skipbo::kDiscards ? 3 : 6.0 - cards_in_hand(view);
    if (makes_room(view, pile)) worth += 30;
    if (card == next_stock) worth += block_;
    if (next == next_stock && next != view.stock()) worth -= block_;
    if (source >= Skipbo::kDiscards && view.under(source) == next) worth += 3;
    if (view.card(source) == Skipbo::kWild) worth -= wild_;
    return worth;
  }

  // Whether hand and discard piles have all cards that a pile lacks before the stock card, one of them wild at most.
  static bool makes_room(const SkipboView& view, int pile) {
    int wilds = 0, held = 0;  // wild cards at hand; numbers at hand, as bits
    const auto count = [&](int card) { card == Skipbo::kWild ? void(++wilds) : void(held |= 1 << card); };
    for (int place = 0; place < Skipbo::kHandCards; ++place) count(view.hand(place));
    for (int i = 0; i < Skipbo::kPiles; ++i) count(view.discard_top(i)), held |= 1 << view.under(Skipbo::kDiscards + i);
    int missing = 0;
    for (int number = view.height(pile) + 1; number < view.stock(); ++number) missing += !(held >> number & 1);
    return view.height(pile) < view.stock() && view.stock() <= Skipbo::kFull && missing <= std::min(wilds, 1);
  }

  static int cards_in_hand(const SkipboView& view) {
    int count = 0;
    for (int place = 0; place < Skipbo::kHandCards; ++place) count += view.hand(place) != Skipbo::kNoCard;
    return count;
  }

  int discard(const SkipboView& view, Rng&) const override {
    double best = 0;
    int action = kNone;
    for (int place = 0; place < Skipbo::kHandCards; ++place) {
      for (int pile = 0; view.can_discard(place) && pile < Skipbo::kPiles; ++pile) {
        const double worth = worth_of_discard(view, view.hand(place), pile);
        if (action == kNone || worth > best) best = worth, action = SkipboView::discard(place, pile);
      }
    }
    return action;
  }

  static double worth_of_discard(const SkipboView& view, int card, int pile) {
    if (card == Skipbo::kWild) return -1000;
    const int top = view.discard_top(pile);
    double worth = -0.5 * view.size(Skipbo::kDiscards + pile);
    if (top == Skipbo::kNoCard) {
      worth += 5;
    } else if (top == Skipbo::kWild) {
      worth -= 30;
    } else if (top == card || top == card + 1) {
      worth += 9;
    } else {
      worth -= top > card ? 0.5 * (top - card) : 2.0 * (card - top);
    }
    for (int i = 0; i < Skipbo::kPiles; ++i) {  // a card that fits soon stays in the hand
      const int missing = (card - 1 - view.height(i) + Skipbo::kFull) % Skipbo::kFull;
      if (missing < 3) worth -= 3 - missing;
    }
    return worth + 0.2 * card;
  }

  double block_, wild_;
};

struct SkipboBots : BotList<Skipbo, SkipboHpvpLowestTop, SkipboHpvpHighestTop, SkipboHpvpFirstPile, SkipboGreedy,
                            SkipboGreedyRandomPile, RandomBot, SkipboRandomPlay, SkipboWildSaver, SkipboRulesOfThumb> {
};

}  // namespace env
