// L.A.M.A., the rules.
//
// CARDS. 56 cards: 1 to 6 and the llama, eight of each. 2 to 8 players. Every player is dealt six cards, which nobody
// else sees; one card opens the discard pile, the rest is the deck. (Nine players would leave one card to draw.)
//
// TURN. Do one of three things. Play a card that equals the top of the pile or is the next one: 1-2-3-4-5-6-llama, and
// after the llama comes the 1 again. Or draw a card, which ends the turn: it cannot be played before the next one. Or
// fold: you are out of the round and keep your cards, hidden until the round is over. Drawing and folding are also
// allowed to players who could play a card. If the deck is empty when a card is to be drawn, the pile except its top is
// shuffled and becomes the deck; if there is nothing to draw even then, nobody can draw.
//
// LAST PLAYER. When all others have folded, the last player may go on playing cards, but not draw.
//
// END. A round ends when a player has played all cards, or all have folded. The cards left in a hand are points,
// a number its value and the llama 10, but equal cards count only once. Points are taken in chips of 1 and 10, which
// can be changed at any time; a player who has played all cards returns one chip: one of 10 if the total is 10 or more,
// else one of 1 if there is any. Then everything is shuffled and dealt anew; the player who made the last move starts
// (seat 0 the first round). A match ends after the round in which a player's total is 40 or more; the lowest total
// wins, equal lowest totals share the win.
//
// These are the official rules, for up to 6 players in print. The rule set `report` is the game of P. Romero Marimon, The
// L.A.M.A. card game (2022): every card counts, equal ones too; no chips are returned; a round also ends when all but
// one have folded; seat 0 starts every round; and a game in which nothing is left to draw is aborted.
//
// Options, actions, phases, observation and randomness: docs/games/lama.md.
#pragma once

#include <algorithm>
#include <cstdio>

#include "env/games/card_game.h"
#include "env/games/lama_rules.h"

namespace env {

// Offsets of the groups in an observation row for P players (docs/games/lama.md has the fields).
struct LamaLayout {
  static constexpr int kHistory = kHistoryLength;
  static constexpr int hand(int) { return 0; }
  static constexpr int player(int players) { return 3 * LamaRules::kKinds * players; }
  static constexpr int pile(int players) { return player(players) + 6 * players; }
  static constexpr int global(int players) { return pile(players) + 2; }
  static constexpr int history(int players) { return global(players) + 6; }
  static constexpr int decision(int players) { return history(players) + 4 * kHistory; }
  static constexpr int counts(int players) { return decision(players) + 2; }
  static constexpr int width(int players) { return counts(players) + 2 * LamaRules::kKinds; }
};

// A line of the public history.
struct LamaEvent {
  uint8_t actor, kind, card, top;
};

struct LamaBots;

struct Lama : RoundGame<Lama, LamaRules, 8, LamaEvent> {
  using Bots = LamaBots;
  using Layout = LamaLayout;

  static constexpr const char* kName = "lama";
  static constexpr int kVersion = 2;
  static constexpr int kNumActions = 9;
  static constexpr int kMinPlayers = 2;
  static constexpr const char* kWhyPlayers = "with nine, 55 of the 56 cards would be dealt and one left to draw";
  static constexpr int kNumPhases = 2;
  static constexpr int kScoreScale = 100;  // a round pays about one unit of reward in training (round_reward = 3)
  static constexpr int kMaxWidth = Layout::width(kMaxPlayers);
  static constexpr int kPools = 2;
  static constexpr int kCardKinds = LamaRules::kKinds;
  static constexpr int kOutcomes = 1 + kCardKinds;

  enum Action : int { kPlay = 0, kDraw = 7, kFold = 8 };  // playing a card is kPlay + card - 1
  enum Phase : uint8_t { kTurnPhase, kAlonePhase };       // kAlonePhase: all others have folded
  enum Kind : uint8_t { kNoEvent, kPlayed, kDrew, kFolded };

  // A card is coded as its value, the llama as 7; 0 is no card.
  static constexpr int kLlama = 7;
  static constexpr int points_of(int card) { return card == kLlama ? 10 : card; }
  static constexpr int following(int card) { return card == kLlama ? 1 : card + 1; }

  static constexpr int kUnknown = Rules::kMaxCopies + 1;  // number of cards of a kind in a hidden hand, in observations

  // ---- state -------------------------------------------------------------------------------------------
  uint32_t rounds_won[kMaxPlayers];
  uint32_t folds[kMaxPlayers];
  uint8_t hand[kMaxPlayers][1 + Rules::kKinds];  // number of cards by card code
  uint8_t draw_counts[1 + Rules::kKinds];        // number of cards in the deck by card code
  uint8_t hand_size[kMaxPlayers];
  uint8_t folded[kMaxPlayers];
  uint8_t active;   // number of players who have not folded
  uint8_t aborted;  // whether the game was truncated because there was no card to draw
  uint8_t drawn;    // card that the last decision drew, or kNoCard; it is in the last mover's hand
  uint8_t spare[5];

  // ---- play --------------------------------------------------------------------------------------------
  void decide(const Rules& rules, int action) {
    drawn = kNoCard;
    if (action == kDraw) {
      draw(rules);
    } else if (action == kFold) {
      fold(rules);
    } else {
      play(rules, action - kPlay + 1);
    }
  }

  uint64_t legal(const Rules& rules) const {
    if (finished) return 0;
    const int top = discard_top();
    uint64_t mask = 1u << kFold;
    for (int card : {top, following(top)}) {
      if (hand[to_move][card]) mask |= 1u << (kPlay + card - 1);
    }
    const bool cards = draw_size > 0 || discard_size > 1;
    if (current_phase == kTurnPhase && (cards || rules.nothing_to_draw == Rules::NothingToDraw::kAbort)) {
      mask |= 1u << kDraw;
    }
    return mask;
  }

  // ---- results -----------------------------------------------------------------------------------------
  static std::vector<std::string> stat_names(int players) {
    std::vector<std::string> names = {"decisions", "rounds", "reshuffles", "aborted"};
    for (const char* what : {"rounds_won_", "folds_"}) {
      for (int seat = 0; seat < players; ++seat) names.push_back(what + std::to_string(seat));
    }
    return names;
  }

  void stats(int32_t* out) const {
    for (uint32_t number : {decisions, round + 1, reshuffles, uint32_t{aborted}}) *out++ = static_cast<int32_t>(number);
    for (int seat = 0; seat < num_players; ++seat) *out++ = static_cast<int32_t>(rounds_won[seat]);
    for (int seat = 0; seat < num_players; ++seat) *out++ = static_cast<int32_t>(folds[seat]);
  }

  // ---- knowledge and description: lama_knowledge.h, lama_check.h -------------------------------------
  static ObservationSpec observation(int players, bool counts);
  void observe(const Rules& rules, int seat, int16_t* out, bool counts = true) const;
  void unseen_counts(int seat, int16_t* out) const;
  void determinize(const Rules& rules, int seat, uint64_t key);
  void true_cards(int seat, int8_t* out) const;

  static ChanceRule chance_rule(int players, int phase, int action);
  int outcome(int seat) const;
  void odds(const Rules& rules, int seat, int action, float* out) const;
  void arrange(const Rules& rules, int action, int outcome);

  static std::string phase_name(int phase);
  static std::string action_name(int action);
  static PhaseRule phase_rule(int players, int phase, int action);
  static ActionShape action_shape(int players, int action);
  static std::vector<std::vector<int>> symmetric_blocks();
  std::string check(const Rules& rules, int players) const;
  StateFields inspect() const;
  std::string last_event() const;
  std::string render(const Rules& rules, int seat) const;

  // Hands are private until the episode is over; then they lie open.
  bool hand_hidden_from(int seat, int observer) const { return seat != observer && observer != kDealer && !finished; }

  int hand_points(const Rules& rules, int seat) const {
    int sum = 0;
    for (int card = 1; card <= kLlama; ++card) {
      const int copies = hand[seat][card];
      sum += points_of(card) * (rules.scoring == Rules::Scoring::kDistinct ? std::min(copies, 1) : copies);
    }
    return sum;
  }

 private:
  friend RoundGame;
  friend CardGame;

  // ---- piles -------------------------------------------------------------------------------------------
  uint8_t draw_one() {
    const uint8_t card = draw_card();
    --draw_counts[card];
    return card;
  }

  void take(int seat, uint8_t card) {
    ++hand[seat][card];
    ++hand_size[seat];
  }

  // ---- a round -----------------------------------------------------------------------------------------
  void start_round(const Rules& rules) {
    gather_deck(rules);
    for (int kind = 0; kind < Rules::kKinds; ++kind) draw_counts[kind + 1] = static_cast<uint8_t>(rules.deck[kind]);
    std::memset(hand, 0, sizeof hand);
    std::memset(hand_size, 0, sizeof hand_size);
    std::memset(folded, 0, sizeof folded);
    active = num_players;

    for (int seat = 0; seat < num_players; ++seat) {
      for (int i = 0; i < Rules::kHandCards; ++i) take(seat, draw_one());
    }
    push_discard(draw_one());
    starter = rules.next_starter == Rules::NextStarter::kSeat0 ? uint8_t{0} : last_mover;
    to_move = starter;
    current_phase = kTurnPhase;
  }

  // ---- decisions ---------------------------------------------------------------------------------------
  void remember(Kind kind, int card) {
    RoundGame::remember({static_cast<uint8_t>(1 + to_move), kind, static_cast<uint8_t>(card), discard_top()});
  }

  void play(const Rules& rules, int card) {
    remember(kPlayed, card);
    --hand[to_move][card];
    --hand_size[to_move];
    push_discard(card);
    if (hand_size[to_move] == 0) {
      end_round(rules, to_move);
    } else {
      pass_turn();
    }
  }

  void draw(const Rules& rules) {
    remember(kDrew, kNoCard);
    if (draw_size == 0 && discard_size == 1) {
      aborted = 1;
      return truncate(rules);
    }
    if (draw_size == 0) {
      reshuffle(1);
      for (int i = 0; i < draw_size; ++i) ++draw_counts[pile[i]];
    }
    drawn = draw_one();
    take(to_move, drawn);
    pass_turn();
  }

  void fold(const Rules& rules) {
    remember(kFolded, kNoCard);
    folded[to_move] = 1;
    ++folds[to_move];
    --active;
    if (active == 0) {
      end_round(rules, kNobody);
    } else if (active == 1 && rules.last_player == Rules::LastPlayer::kStops) {
      end_round(rules, next_active());
    } else {
      pass_turn();
    }
  }

  // ---- consequences ------------------------------------------------------------------------------------
  int next_active() const {
    int seat = next(to_move);
    while (folded[seat]) seat = next(seat);
    return seat;
  }

  void pass_turn() {
    to_move = static_cast<uint8_t>(next_active());
    current_phase = active == 1 ? kAlonePhase : kTurnPhase;
  }

  void end_round(const Rules& rules, int winner) {
    if (winner != kNobody) ++rounds_won[winner];
    score_round(rules);
    RoundGame::end_round(rules);
  }

  int returned_chip(int seat) const { return std::min(totals[seat], totals[seat] < 10 ? 1 : 10); }

  void score_round(const Rules& rules) {
    for (int seat = 0; seat < num_players; ++seat) {
      round_scores[seat] = hand_points(rules, seat);
      if (rules.chip_return && hand_size[seat] == 0) round_scores[seat] = -returned_chip(seat);
      totals[seat] += round_scores[seat];
    }
  }

  // Points of a hand in 4,096 rounds of four bots `strategy_3` (`python -m experiments.match_utility --game lama`
  // prints them); 0 is an empty hand.
  int usual_points(const Rules& rules, int seat, uint32_t i) const {
    constexpr int kDistinct[kUsualPoints] = {0, 0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 9, 10, 11, 15, 19};
    constexpr int kAll[kUsualPoints] = {0, 0, 0, 2, 3, 4, 4, 6, 6, 8, 10, 11, 13, 16, 20, 28};
    const int points = rules.scoring == Rules::Scoring::kDistinct ? kDistinct[i] : kAll[i];
    return points == 0 && rules.chip_return ? -returned_chip(seat) : points;
  }

  void score_truncated(const Rules& rules) { score_round(rules); }
};

}  // namespace env
