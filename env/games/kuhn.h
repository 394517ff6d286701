// Kuhn poker, the rules. It is the sample game of docs/new_game.md: as small as a game of hidden information can be,
// and solved exactly, so that search and learning can be measured against the truth.
//
// CARDS. A jack, a queen and a king. Two players. Both put one chip into the pot and are dealt one card, which nobody
// else sees; the third card stays face down.
//
// TURN. Seat 0 begins. A player passes or bets; a bet puts one more chip into the pot.
//   - If both pass, the higher card wins the pot.
//   - After a bet the other player answers: a pass gives up, and the bettor wins the pot; a bet calls, and the higher
//     card wins it.
// So a hand is one of pass-pass, bet-pass, bet-bet, pass-bet-pass and pass-bet-bet, and wins one chip or, after a bet
// and a call, two.
//
// POINTS are the chips lost, so that fewer are better, as in the other games: a player who wins two chips has -2
// points. There is no reward for winning as such: chips are all that counts. A player is rewarded half of the chips
// won.
//
// VALUE. With best play by both, seat 0 loses 1/18 of a chip per hand on average (H. W. Kuhn, A Simplified Two-Person
// Poker, 1950).
//
// Options, actions, phases, observation and randomness: docs/games/kuhn.md.
#pragma once

#include "env/games/card_game.h"
#include "env/games/kuhn_rules.h"

namespace env {

// Places in an observation row (docs/games/kuhn.md has the fields).
struct KuhnLayout {
  static constexpr int kCard = 1;  // the observer's card
  static constexpr int kPlayer = 4, kGlobal = 8, kHistory = 9, kDecision = 15, kCounts = 16, kWidth = 19;
};

struct KuhnBots;

struct Kuhn : CardGame<Kuhn, KuhnRules, 2> {
  using Bots = KuhnBots;
  using Layout = KuhnLayout;

  static constexpr const char* kName = "kuhn";
  static constexpr int kVersion = 1;
  static constexpr int kNumActions = 2;
  static constexpr int kMinPlayers = 2;
  static constexpr const char* kWhyPlayers = "the game and its solution are for two";
  static constexpr int kNumPhases = 2;
  static constexpr int kScoreScale = 4;  // points between a player who wins two chips and one who loses them
  static constexpr int kMaxWidth = Layout::kWidth;
  static constexpr int kPools = 1;
  static constexpr int kCardKinds = Rules::kKinds;

  enum Action : int { kPass, kBet };
  enum Phase : uint8_t { kOpenPhase, kAnswerPhase };  // kAnswerPhase: the other player has bet
  enum Move : uint8_t { kNoMove, kPassed, kDidBet };
  enum Card : uint8_t { kJack = 1, kQueen, kKing, kHidden };  // kHidden: a card that the observer cannot see
  static constexpr int kMaxMoves = 3;

  // ---- state -------------------------------------------------------------------------------------------
  uint8_t hand[kMaxPlayers];
  uint8_t paid[kMaxPlayers];  // chips that each seat has put into the pot
  uint8_t moves[kMaxMoves];   // moves in order, kNoMove for moves to come
  uint8_t showdown;           // whether the hand is over and the cards decided it

  // ---- play --------------------------------------------------------------------------------------------
  void reset(const Rules& rules, int players, uint64_t key) {
    clear_table(players, key);
    gather_deck(rules, 0);
    for (int seat = 0; seat < players; ++seat) {
      hand[seat] = draw_card();
      paid[seat] = 1;
    }
  }

  void decide(const Rules&, int action) {
    moves[decisions - 1] = action == kBet ? kDidBet : kPassed;
    const bool answer = current_phase == kAnswerPhase;
    if (action == kBet) ++paid[to_move];
    if (answer && action == kPass) return end_hand(next(to_move));
    if (answer || (action == kPass && decisions == 2)) return show_cards();
    if (action == kBet) current_phase = kAnswerPhase;
    to_move = static_cast<uint8_t>(next(to_move));
  }

  uint64_t legal(const Rules&) const { return finished ? 0 : 1u << kPass | 1u << kBet; }

  // ---- results -----------------------------------------------------------------------------------------
  int score_change(int seat) const { return totals[seat]; }
  bool pays_win() const { return false; }
  void score_truncated(const Rules&) {}  // the pot goes to nobody

  static std::vector<std::string> stat_names(int) { return {"decisions", "showdown", "chips_won_0"}; }

  void stats(int32_t* out) const {
    out[0] = static_cast<int32_t>(decisions);
    out[1] = showdown;
    out[2] = -totals[0];
  }

  // ---- knowledge and description: kuhn_knowledge.h, kuhn_check.h -------------------------------------
  static ObservationSpec observation(int players, bool counts);
  void observe(const Rules& rules, int seat, int16_t* out, bool counts) const;
  void unseen_counts(int seat, int16_t* out) const;
  void determinize(const Rules& rules, int seat, uint64_t key);
  void true_cards(int seat, int8_t* out) const;

  static std::string phase_name(int phase);
  static std::string action_name(int action);
  static PhaseRule phase_rule(int players, int phase, int action);
  static ActionShape action_shape(int players, int action);
  static std::vector<std::vector<int>> symmetric_blocks();
  std::string check(const Rules& rules, int players) const;
  StateFields inspect() const;
  std::string last_event() const;
  std::string render(const Rules& rules, int seat) const;

  // A hand is private until cards are compared; a player who gives up, or is given up to, does not show it.
  bool hand_hidden_from(int seat, int observer) const { return seat != observer && !showdown; }

 private:
  void show_cards() {
    showdown = 1;
    end_hand(hand[0] > hand[1] ? 0 : 1);
  }

  // The winner takes what the other one has paid.
  void end_hand(int winner) {
    const int loser = next(winner);
    totals[loser] = paid[loser];
    totals[winner] = -paid[loser];
    scored = finished = 1;
  }
};

}  // namespace env
