// Skip-Bo, the rules.
//
// CARDS. 162 cards: 1 to 12, twelve of each, and 18 wild cards, which stand for any number. 2 to 6 players. Every
// player is dealt a stock of 30 cards (20 with five or six players), face down but for its top card; the rest is the
// draw pile. In the middle there is room for four building piles, before each player for four discard piles. Hands are
// empty.
//
// TURN. Draw until you hold five cards. Then play as many cards onto the building piles as you can and want: a building
// pile begins with a 1 and counts up to 12. Cards may come from the top of your stock, from your hand, or from the tops
// of your own discard piles, in any order. A player who has played all cards of the hand draws five new ones at once
// and goes on. Put a card from your hand onto one of your discard piles, on top of what is there, to end your turn; you
// may do so whenever you like.
//
// PILES. A building pile that has reached 12 is set aside. If the draw pile is empty when a card is to be drawn, the
// cards set aside are shuffled and become the draw pile; if there are none, you go on with fewer cards. With an empty
// hand and nothing to draw you must play from the stock and the discard piles while that is possible, and pass then.
//
// END. The player who plays the last card of the own stock wins at once. If a full circle of turns brings no draw, no
// play and no discard, the game is a draw.
//
// Choices where the sources leave one: wild cards stay wild cards when a pile is set aside; a player whose hand is
// empty and who completes a pile, so that there is something to draw again, draws at once. One game is one round, and
// seat 0 begins; comparisons play every deal with swapped seats.
//
// Options, actions, phases, observation and randomness: docs/games/skipbo.md.
#pragma once

#include <algorithm>
#include <cstdio>

#include "env/games/card_game.h"
#include "env/games/skipbo_rules.h"

namespace env {

// Offsets of the groups in an observation row for P players (docs/games/skipbo.md has the fields).
struct SkipboLayout {
  // A player's slots; the four building piles are everybody's, and stand on each player's board.
  static constexpr int kStock = 0, kHand = 1, kDiscards = 6, kBuilding = 10, kSlots = 14;
  static constexpr int kSlotFields = 6;
  static constexpr int slot(int seat, int index) { return (seat * kSlots + index) * kSlotFields; }
  static constexpr int player(int players) { return slot(players, 0); }
  static constexpr int global(int players) { return player(players) + 3 * players; }
  static constexpr int decision(int players) { return global(players) + 6; }
  static constexpr int counts(int players) { return decision(players) + 1; }
  static constexpr int width(int players) { return counts(players) + 2 * SkipboRules::kKinds; }
};

struct SkipboBots;

struct Skipbo : CardGame<Skipbo, SkipboRules, 6> {
  using Bots = SkipboBots;
  using Layout = SkipboLayout;

  static constexpr const char* kName = "skipbo";
  static constexpr int kVersion = 1;
  static constexpr int kNumActions = 61;
  static constexpr int kMinPlayers = 2;
  static constexpr const char* kWhyPlayers = "the rules are written for these";
  static constexpr int kNumPhases = 2;
  static constexpr int kScoreScale = 100;  // a card off a stock pays a tenth of a unit in training (round_reward = 10)
  static constexpr int kMaxWidth = Layout::width(kMaxPlayers);
  static constexpr int kPools = 2;
  static constexpr int kCardKinds = Rules::kKinds;
  static constexpr int kOutcomes = 1 + kCardKinds;
  static constexpr int kDraws = Rules::kHandCards;

  static constexpr int kPiles = 4;  // number of building piles, and of discard piles of a player
  static constexpr int kHandCards = Rules::kHandCards;
  // Source of a played card; the same order as the slots of a board.
  enum Source : int { kStock = Layout::kStock, kHand = Layout::kHand, kDiscards = Layout::kDiscards, kSources = 10 };
  // Actions: kPlay + source * 4 + building pile, kDiscard + place in the hand * 4 + discard pile.
  enum Action : int { kPlay = 0, kDiscard = 40, kPass = 60 };
  enum Phase : uint8_t { kTurnPhase, kStuckPhase };  // kStuckPhase: nothing to do but pass

  // A card is coded as its number, the wild card as 13; 0 is no card.
  static constexpr int kWild = 13;
  static constexpr int kHidden = 14;  // a card that the observer cannot see, in observations
  static constexpr int kFull = 12;    // cards of a building pile

  // Names of the places for people.
  static constexpr const char* kSourceNames = "sabcdewxyz";
  static constexpr const char* kHandNames = kSourceNames + kHand;
  static constexpr const char* kDiscardNames = kSourceNames + kDiscards;
  static constexpr const char* kBuildingNames = "1234";

  // ---- state -------------------------------------------------------------------------------------------
  // Completed building piles are set aside: they are the discard pile of CardGame. Totals are the cards left in the
  // stocks, once the game is over and not a draw.
  uint32_t completed;  // completed building piles in this game
  uint32_t turns[kMaxPlayers];
  uint8_t own_discards[Rules::kMaxCards];  // discard piles of all players, seat by seat, pile by pile, bottom first
  uint8_t face_down[1 + Rules::kKinds];    // cards by code in the draw pile, in hands and under the tops of stocks
  uint8_t own_discard_size[kMaxPlayers][kPiles];
  uint8_t stock[kMaxPlayers][Rules::kMaxStock];
  uint8_t stock_size[kMaxPlayers];
  uint8_t hand[kMaxPlayers][kHandCards];  // cards in the order of drawing
  uint8_t hand_size[kMaxPlayers];
  uint8_t building[kPiles][kFull];
  uint8_t height[kPiles];
  uint8_t idle;         // turns in a row, this one included, in which nothing was drawn, played or discarded so far
  uint8_t last_action;  // action of the last decision
  uint8_t last_card;    // card that the last decision moved
  uint8_t deadlock;     // whether the game ended in a draw
  uint8_t drawn;        // cards that the last decision dealt to the player to move: the last ones of that hand
  uint8_t spare[3];

  // ---- play --------------------------------------------------------------------------------------------
  void reset(const Rules& rules, int players, uint64_t key) {
    clear_table(players, key);
    gather_deck(rules, 0);
    for (int kind = 0; kind < Rules::kKinds; ++kind) face_down[kind + 1] = static_cast<uint8_t>(rules.deck[kind]);
    for (int seat = 0; seat < players; ++seat) {
      stock_size[seat] = static_cast<uint8_t>(rules.stock_cards);
      for (int i = 0; i < rules.stock_cards; ++i) stock[seat][i] = draw_card();
      --face_down[stock_top(seat)];
    }
    if (rules.starter == Rules::Starter::kRandom) {
      starter = static_cast<uint8_t>(Rng{key, uint64_t{1} << 56}.below(static_cast<uint32_t>(players)));
    }
    start_turn(starter);
    drawn = 0;
  }

  void decide(const Rules&, int action) {
    last_action = static_cast<uint8_t>(action);
    last_card = kNoCard;
    drawn = 0;
    if (action == kPass) {
      pass();
    } else if (action >= kDiscard) {
      discard((action - kDiscard) / kPiles, (action - kDiscard) % kPiles);
    } else {
      play((action - kPlay) / kPiles, (action - kPlay) % kPiles);
    }
  }

  // Among equal cards, and among empty building piles, the first stands for all.
  uint64_t legal(const Rules&) const {
    if (finished) return 0;
    if (current_phase == kStuckPhase) return uint64_t{1} << kPass;
    const Fits fits = open_piles();
    uint64_t mask = board_plays(fits);
    uint32_t seen = 0;
    for (int place = 0; place < hand_size[to_move]; ++place) {
      const int card = hand[to_move][place];
      if (seen >> card & 1) continue;
      seen |= 1u << card;
      mask |= uint64_t{fits.piles[card]} << (kPlay + kPiles * (kHand + place));
      mask |= uint64_t{0xf} << (kDiscard + kPiles * place);
    }
    return mask;
  }

  // ---- results -----------------------------------------------------------------------------------------
  bool pays_win() const { return CardGame::pays_win() && !deadlock; }
  int score_change(int seat) const { return seat == last_mover && scored ? -1 : 0; }

  static std::vector<std::string> stat_names(int players) {
    std::vector<std::string> names = {"decisions", "turns", "completed_piles", "reshuffles", "deadlock", "winner"};
    for (int seat = 0; seat < players; ++seat) names.push_back("turns_" + std::to_string(seat));
    return names;
  }

  void stats(int32_t* out) const {
    uint32_t sum = 0;
    for (uint32_t count : turns) sum += count;
    for (uint32_t number : {decisions, sum, completed, reshuffles, uint32_t{deadlock}}) {
      *out++ = static_cast<int32_t>(number);
    }
    *out++ = stock_size[last_mover] == 0 ? last_mover : -1;
    for (int seat = 0; seat < num_players; ++seat) *out++ = static_cast<int32_t>(turns[seat]);
  }

  // ---- knowledge and description: skipbo_knowledge.h, skipbo_check.h ---------------------------------
  static ObservationSpec observation(int players, bool counts);
  void observe(const Rules& rules, int seat, int16_t* out, bool counts = true) const;
  void unseen_counts(int seat, int16_t* out) const;
  void determinize(const Rules& rules, int seat, uint64_t key);
  void true_cards(int seat, int8_t* out) const;

  static ChanceRule chance_rule(int players, int phase, int action);
  int outcome(int seat) const;
  void odds(const Rules& rules, int seat, int action, float* out) const;
  void arrange(const Rules& rules, int action, int outcome);
  void draws(int seat, int8_t* out) const;

  static std::string phase_name(int phase);
  static std::string action_name(int action);
  static PhaseRule phase_rule(int players, int phase, int action);
  static ActionShape action_shape(int players, int action);
  static std::vector<std::vector<int>> symmetric_blocks();
  std::string check(const Rules& rules, int players) const;
  StateFields inspect() const;
  std::string last_event() const;
  std::string render(const Rules& rules, int seat) const;

  // ---- piles -------------------------------------------------------------------------------------------
  uint8_t stock_top(int seat) const { return stock_size[seat] ? stock[seat][stock_size[seat] - 1] : uint8_t{kNoCard}; }

  // Index in `own_discards` where a discard pile begins.
  int own_discard_begin(int seat, int index) const {
    const uint8_t* sizes = own_discard_size[0];
    int begin = 0;
    for (int i = 0; i < seat * kPiles + index; ++i) begin += sizes[i];
    return begin;
  }

  // A card of a discard pile, from its top (0) down.
  uint8_t own_discard_at(int seat, int index, int depth) const {
    const int size = own_discard_size[seat][index];
    return depth < size ? own_discards[own_discard_begin(seat, index) + size - 1 - depth] : uint8_t{kNoCard};
  }

  // Whether the player to move can play from the stock or the discard piles.
  bool board_can_play() const { return board_plays(open_piles()) != 0; }

 private:
  friend CardGame;

  void observe_board(const Rules& rules, int seat, int r, int16_t* out) const;
  std::string check_cards(const Rules& rules) const;
  static std::string card_name(int card);

  // Building piles that take a card, by card code, as bit masks.
  struct Fits {
    uint8_t piles[1 + Rules::kKinds];
  };

  Fits open_piles() const {
    Fits fits = {};
    for (int i = 0; i < kPiles; ++i) {
      if (height[i] == 0 && fits.piles[1]) continue;
      const auto bit = static_cast<uint8_t>(1u << i);
      fits.piles[height[i] + 1] |= bit;
      fits.piles[kWild] |= bit;
    }
    return fits;
  }

  uint64_t board_plays(const Fits& fits) const {
    uint64_t mask = uint64_t{fits.piles[stock_top(to_move)]} << (kPlay + kPiles * kStock);
    int end = own_discard_begin(to_move, 0);
    for (int i = 0; i < kPiles; ++i) {
      end += own_discard_size[to_move][i];
      const int top = own_discard_size[to_move][i] ? own_discards[end - 1] : kNoCard;
      mask |= uint64_t{fits.piles[top]} << (kPlay + kPiles * (kDiscards + i));
    }
    return mask;
  }

  void refill() {
    while (hand_size[to_move] < kHandCards) {
      if (draw_size == 0 && discard_size == 0) return;
      if (draw_size == 0) {
        reshuffle(0);
        for (int i = 0; i < draw_size; ++i) ++face_down[pile[i]];
      }
      hand[to_move][hand_size[to_move]++] = draw_card();
      ++drawn;
      idle = 0;
    }
  }

  // ---- decisions ---------------------------------------------------------------------------------------
  void play(int source, int target) {
    last_card = take(source);
    building[target][height[target]++] = last_card;
    idle = 0;
    if (height[target] == kFull) set_aside(target);
    if (stock_size[to_move] == 0) return finish();
    if (hand_size[to_move] == 0) refill();
    update_phase();
  }

  void discard(int place, int index) {
    last_card = take(kHand + place);
    const int at = own_discard_begin(to_move, index) + own_discard_size[to_move][index];
    std::memmove(own_discards + at + 1, own_discards + at, static_cast<size_t>(Rules::kMaxCards - 1 - at));
    own_discards[at] = last_card;
    ++own_discard_size[to_move][index];
    idle = 0;
    start_turn(next(to_move));
  }

  void pass() {
    if (idle == num_players) {
      finished = deadlock = 1;
    } else {
      start_turn(next(to_move));
    }
  }

  // ---- consequences ------------------------------------------------------------------------------------
  // Removes a card from its source.
  uint8_t take(int source) {
    if (source == kStock) {
      const uint8_t card = stock_top(to_move);
      stock[to_move][--stock_size[to_move]] = kNoCard;
      if (stock_size[to_move]) --face_down[stock_top(to_move)];
      scored = 1;
      return card;
    }
    if (source >= kDiscards) {
      const int index = source - kDiscards;
      const int at = own_discard_begin(to_move, index) + --own_discard_size[to_move][index];
      const uint8_t card = own_discards[at];
      std::memmove(own_discards + at, own_discards + at + 1, static_cast<size_t>(Rules::kMaxCards - 1 - at));
      own_discards[Rules::kMaxCards - 1] = kNoCard;
      return card;
    }
    uint8_t* cards = hand[to_move];
    const int place = source - kHand;
    const uint8_t card = cards[place];
    --face_down[card];
    --hand_size[to_move];
    for (int i = place; i < hand_size[to_move]; ++i) cards[i] = cards[i + 1];
    cards[hand_size[to_move]] = kNoCard;
    return card;
  }

  void set_aside(int target) {
    for (uint8_t& card : building[target]) {
      push_discard(card);
      card = kNoCard;
    }
    height[target] = 0;
    ++completed;
  }

  void start_turn(int seat) {
    to_move = static_cast<uint8_t>(seat);
    ++turns[seat];
    ++idle;
    refill();
    update_phase();
  }

  // Sets the phase: whether the player to move has anything to do but pass.
  void update_phase() { current_phase = hand_size[to_move] || board_can_play() ? kTurnPhase : kStuckPhase; }

  void finish() {
    finished = 1;
    count_stocks();
  }

  void score_truncated(const Rules&) { count_stocks(); }

  void count_stocks() {
    for (int seat = 0; seat < num_players; ++seat) totals[seat] = stock_size[seat];
  }
};

}  // namespace env
