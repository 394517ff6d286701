// Parts that card games share. A game derives from one of
//   CardGame    seats, turns, a draw pile and a discard pile, the frame of a decision, ranks and rewards
//   RoundGame   the same, for matches of several rounds: totals to start from, the public history, the end of a round
// and passes itself, its rules and its largest number of players as template arguments. Fewer points are better.
//
// The game has
//   kScoreScale                                  points that pay one unit of reward at round_reward = 1
//   void decide(const Rules&, int action)        carries out a legal action; sets to_move, current_phase, finished at
//                                                the end, and `scored` if it counts for the scores
//   void score_truncated(const Rules&)           totals of an episode that is cut off before its end
//   int score_change(int seat) const             points that the last decision added to a seat, if it scored
//   void arrange(const Rules&, int action, int outcome)    trades hidden cards so that the action's event has this
//                                                outcome; only if the game declares chance events (env/game.h)
//   bool pays_win() const                        whether winners are rewarded beside the points; here: unless truncated
// and its rules have
//   options     max_decisions, round_reward, time_penalty
//   constants   kMaxCards, a multiple of 8, so that a state has no padding
//   deck        sorted_deck and deck_size, as sort_deck (env/rules.h) derives them
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "env/game.h"

namespace env {

inline constexpr int kHistoryLength = 16;      // lines of the public history in observations
inline constexpr uint32_t kUsualPoints = 16;   // entries of a game's table of usual points of a round
inline constexpr uint32_t kLongestMatch = 64;  // most rounds of an imagined match

template <class Game, class GameRules, int kSeats>
struct CardGame {
  using Rules = GameRules;
  static constexpr int kMaxPlayers = kSeats;
  static constexpr int kNoCard = 0;  // cards are codes from 1
  static constexpr int kNobody = 0xff;
  static constexpr int kOutcomes = 1;  // outcomes of chance events: none, unless the game declares some
  static constexpr int kDraws = 0;

  // ---- state -------------------------------------------------------------------------------------------
  Rng rng;
  uint32_t decisions;   // decisions in this episode
  uint32_t reshuffles;  // reshuffles in this episode
  int32_t totals[kSeats];
  uint8_t pile[Rules::kMaxCards];  // draw pile from the left end, discard pile from the right end (its bottom)
  uint8_t draw_size;
  uint8_t discard_size;
  uint8_t num_players;
  uint8_t to_move;
  uint8_t last_mover;  // seat that made the last decision
  uint8_t starter;     // seat that began the round
  uint8_t current_phase;
  uint8_t finished;
  uint8_t truncated_;
  uint8_t scored;      // whether the last decision counted for the scores
  uint8_t reshuffled;  // whether the discard pile was reshuffled since the last deal
  uint8_t unused[5];

  // ---- play --------------------------------------------------------------------------------------------
  void step(const Rules& rules, int action) {
    ++decisions;
    last_mover = to_move;
    scored = 0;
    const uint8_t decided = current_phase;
    game().decide(rules, action);
    if (!finished && at_cap(rules)) truncate(rules);
    if (finished) current_phase = decided;
  }

  void step_told(const Rules& rules, int action, int outcome) {
    if (outcome) game().arrange(rules, action, outcome);
    step(rules, action);
  }

  // ---- chance: a game without events -------------------------------------------------------------------
  static ChanceRule chance_rule(int, int, int) { return {}; }
  int outcome(int) const { return 0; }
  void odds(const Rules&, int, int, float* out) const { out[0] = 1; }
  void arrange(const Rules&, int, int) {}
  void draws(int, int8_t*) const {}

  // ---- questions ---------------------------------------------------------------------------------------
  int to_play() const { return finished ? last_mover : to_move; }
  int phase() const { return current_phase; }
  int players() const { return num_players; }
  bool done() const { return finished; }
  bool truncated() const { return truncated_; }
  bool standing_changed() const { return finished; }
  bool pays_win() const { return finished && !truncated_; }

  int next(int seat) const { return seat + 1 == num_players ? 0 : seat + 1; }
  int relative(int seat, int observer) const {
    const int r = seat - observer;
    return r < 0 ? r + num_players : r;
  }

  void scores(int32_t* out) const { std::copy(totals, totals + num_players, out); }

  void ranks(int8_t* out) const {
    for (int seat = 0; seat < num_players; ++seat) {
      int rank = 1;
      for (int other = 0; other < num_players; ++other) rank += totals[other] < totals[seat];
      out[seat] = static_cast<int8_t>(rank);
    }
  }

  // The last mover pays for the decision. A decision that scores pays every seat its advantage over the mean of the
  // others. If winning is rewarded, each of k seats with the fewest points at the end gets 2 / k - 1
  // and all others pay 1: the reward is linear in the share of the win.
  void rewards(const Rules& rules, float* out) const {
    const int n = num_players;
    std::fill(out, out + n, 0.0f);
    if (decisions == 0) return;
    out[last_mover] = static_cast<float>(-rules.time_penalty);
    if (!scored) return;
    int sum = 0;
    for (int seat = 0; seat < n; ++seat) sum += game().score_change(seat);
    const int lowest = *std::min_element(totals, totals + n);
    const int winners = static_cast<int>(std::count(totals, totals + n, lowest));
    for (int seat = 0; seat < n; ++seat) {
      const int own = game().score_change(seat);
      double reward = rules.round_reward * (static_cast<double>(sum - own) / (n - 1) - own) / Game::kScoreScale;
      if (game().pays_win()) reward += totals[seat] == lowest ? 2.0 / winners - 1.0 : -1.0;
      out[seat] += static_cast<float>(reward);
    }
  }

  // ---- piles -------------------------------------------------------------------------------------------
  uint8_t discard_at(int i) const { return pile[Rules::kMaxCards - 1 - i]; }  // card i from the bottom of the pile
  uint8_t discard_top() const { return discard_size ? discard_at(discard_size - 1) : uint8_t{kNoCard}; }

 protected:
  // An empty table: everything else is zero.
  void clear_table(int players, uint64_t key) {
    std::memset(static_cast<void*>(&game()), 0, sizeof(Game));
    rng = {key, 0};
    num_players = static_cast<uint8_t>(players);
  }

  // The whole deck becomes the draw pile. Randomness of round r begins at counter r * 2^32.
  void gather_deck(const Rules& rules, uint32_t round) {
    rng.counter = uint64_t{round} << 32;
    std::memcpy(pile, rules.sorted_deck, sizeof pile);
    draw_size = static_cast<uint8_t>(rules.deck_size);
    discard_size = 0;
    reshuffled = 0;
  }

  // A card drawn uniformly from the draw pile, which must not be empty.
  uint8_t draw_card() {
    const uint32_t i = rng.below(draw_size);
    const uint8_t card = pile[i];
    pile[i] = pile[--draw_size];
    return card;
  }

  // Place of the card that the next call of draw_card will take, after the discard pile except its top has become the
  // draw pile, if that is empty.
  uint8_t& next_draw() {
    Rng ahead = rng;
    return draw_size ? pile[ahead.below(draw_size)]
                     : pile[Rules::kMaxCards - 1 - static_cast<int>(ahead.below(discard_size - 1u))];
  }

  // Probabilities of codes as the counts of kinds; of no event, if there is nothing to count.
  static void share_out(const int16_t* counts, float* out) {
    int sum = 0;
    for (int kind = 0; kind < Game::kCardKinds; ++kind) sum += counts[kind];
    out[0] = sum ? 0.0f : 1.0f;
    for (int kind = 0; kind < Game::kCardKinds; ++kind) {
      out[1 + kind] = sum ? static_cast<float>(counts[kind]) / static_cast<float>(sum) : 0.0f;
    }
  }

  // Hidden places with cards, from which one that holds a given card is picked.
  struct Places {
    uint8_t* list[Rules::kMaxCards];
    int size = 0;

    void add(uint8_t* first, int count) {
      for (int i = 0; i < count; ++i) list[size++] = first + i;
    }
    // One of the places that hold the card, each as likely as the others; there must be one.
    uint8_t& pick(int card, Rng& rng) const {
      int holding = 0;
      for (int i = 0; i < size; ++i) holding += *list[i] == card;
      auto left = static_cast<int>(rng.below(static_cast<uint32_t>(holding)));
      int at = 0;
      for (; *list[at] != card || left-- > 0; ++at) {
      }
      return *list[at];
    }
  };

  void push_discard(int card) {
    pile[Rules::kMaxCards - 1 - discard_size] = static_cast<uint8_t>(card);
    ++discard_size;
  }

  // The discard pile, bottom first, becomes the draw pile, which must be empty; its top `kept` cards stay.
  void reshuffle(int kept) {
    uint8_t cards[Rules::kMaxCards];
    const int count = discard_size - kept;
    for (int i = 0; i < count; ++i) cards[i] = discard_at(i);
    for (int i = 0; i < kept; ++i) pile[Rules::kMaxCards - 1 - i] = discard_at(count + i);
    std::memcpy(pile, cards, static_cast<size_t>(count));
    draw_size = static_cast<uint8_t>(count);
    discard_size = static_cast<uint8_t>(kept);
    reshuffled = 1;
    ++reshuffles;
  }

  // ---- the end -----------------------------------------------------------------------------------------
  bool at_cap(const Rules& rules) const { return decisions == static_cast<uint32_t>(rules.max_decisions); }

  void truncate(const Rules& rules) {
    game().score_truncated(rules);
    finished = truncated_ = 1;
  }

  // ---- is this a state of the game ---------------------------------------------------------------------
  // Checks the members above; "" or the problem.
  std::string check_table(const Rules& rules, int players) const {
    if (num_players != players) return "it has " + std::to_string(num_players) + " players";
    if (to_move >= players || last_mover >= players) return "nobody sits where the player to move does";
    if (current_phase >= Game::kNumPhases) return "unknown phase";
    if (finished > 1 || truncated_ > finished || scored > 1 || reshuffled > 1) return "a flag is neither 0 nor 1";
    if (draw_size + discard_size > rules.deck_size) return "its piles are no piles of the deck";
    const auto cap = static_cast<uint32_t>(rules.max_decisions);
    if (decisions > cap || (decisions == cap && !finished)) return "it is past max_decisions";
    if (reshuffles > decisions) return "its counters contradict each other";
    for (uint8_t byte : unused) {
      if (byte) return "it has something where nothing belongs";
    }
    return "";
  }

  // Takes the cards of both piles off `left` and adds those of the draw pile to `drawable`, both by card code; false if
  // a pile has something that is no card.
  template <size_t kCodes>
  bool count_piles(int (&left)[kCodes], int (&drawable)[kCodes]) const {
    for (int i = 0; i < draw_size + discard_size; ++i) {
      const uint8_t card = i < draw_size ? pile[i] : discard_at(i - draw_size);
      if (card == kNoCard || card >= kCodes) return false;
      --left[card];
      drawable[card] += i < draw_size;
    }
    return true;
  }

 private:
  Game& game() { return static_cast<Game&>(*this); }
  const Game& game() const { return static_cast<const Game&>(*this); }
};

// ---------------------------------------------------------------------------------------------------------
// A match of rounds. The game also has `void start_round(const Rules&)`, which deals, and
// `int usual_points(const Rules&, int seat, uint32_t i) const`, by how much a round changes the seat's total: entry i of
// the sixteenths of the rounds that good players play, the best round first. `Event` is a line of the public
// history as it stands in an observation, but for its `actor`, who is 1 + seat here and 0 for no line.

template <class Game, class GameRules, int kSeats, class GameEvent>
struct RoundGame : CardGame<Game, GameRules, kSeats> {
  using Base = CardGame<Game, GameRules, kSeats>;
  using Rules = GameRules;
  using Event = GameEvent;
  using Base::decisions, Base::finished, Base::num_players, Base::scored, Base::totals, Base::truncated_;

  // ---- state -------------------------------------------------------------------------------------------
  uint32_t round;
  uint32_t round_decisions;
  int32_t round_scores[kSeats];   // points that the last finished round added to the totals
  Event history[kHistoryLength];  // ring buffer; round_decisions names the next place

  void reset(const Rules& rules, int players, uint64_t key) {
    Base::clear_table(players, key);
    if (rules.initial_scores == Rules::InitialScores::kUniform) {
      for (int seat = 0; seat < players; ++seat) {
        Rng draw{key, (uint64_t{1} << 56) + static_cast<uint64_t>(seat)};
        totals[seat] = static_cast<int32_t>(draw.below(static_cast<uint32_t>(rules.target)));
      }
    }
    if (rules.initial_scores == Rules::InitialScores::kPlayed) draw_standing(rules, key);
    game().start_round(rules);
  }

  bool standing_changed() const { return scored || finished; }
  int score_change(int seat) const { return round_scores[seat]; }

  // The latest event is 1 back; events before the round's first have no actor.
  const Event& event(uint32_t back) const { return history[(round_decisions - back) % kHistoryLength]; }
  uint32_t num_events() const { return std::min<uint32_t>(round_decisions, kHistoryLength); }

 protected:
  void gather_deck(const Rules& rules) {
    Base::gather_deck(rules, round);
    std::memset(history, 0, sizeof history);
    round_decisions = 0;
  }

  // Totals before one round, drawn at random, of an imagined match: the points of all seats are added round by round,
  // each an entry of the table of usual points, until a total reaches the target; the standing before round n replaces
  // the one kept with probability 1 / n.
  void draw_standing(const Rules& rules, uint64_t key) {
    Rng draw{key, uint64_t{1} << 56};
    int32_t kept[kSeats] = {};
    for (uint32_t n = 1; n <= kLongestMatch; ++n) {
      if (*std::max_element(totals, totals + num_players) >= rules.target) break;
      if (draw.below(n) == 0) std::copy(totals, totals + num_players, kept);
      for (int seat = 0; seat < num_players; ++seat) {
        totals[seat] += game().usual_points(rules, seat, draw.below(kUsualPoints));
      }
    }
    std::copy(kept, kept + num_players, totals);
  }

  void remember(const Event& event) { history[round_decisions++ % kHistoryLength] = event; }

  // After the round was scored: the episode is over, or the next round is dealt.
  void end_round(const Rules& rules) {
    scored = 1;
    const int highest = *std::max_element(totals, totals + num_players);
    const bool over = rules.episode == Rules::Episode::kRound || highest >= rules.target;
    if (over || Base::at_cap(rules)) {
      finished = 1;
      truncated_ = !over;
      return;
    }
    ++round;
    game().start_round(rules);
  }

  std::string check_table(const Rules& rules, int players) const {
    if (round_decisions > decisions || round > decisions) return "its counters contradict each other";
    return Base::check_table(rules, players);
  }

  // Whether the history has an actor and a kind of event (not 0, which is none) exactly where decisions were made.
  bool history_is_sound(int players, int last_kind) const {
    for (uint32_t i = 0; i < kHistoryLength; ++i) {
      const bool past = i < num_events();
      if ((history[i].actor != 0) != past || (history[i].kind != 0) != past) return false;
      if (history[i].actor > players || history[i].kind > last_kind) return false;
    }
    return true;
  }

 private:
  Game& game() { return static_cast<Game&>(*this); }
};

}  // namespace env
