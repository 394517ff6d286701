// What the games have in common, word for word: questions that a state answers from members that every game has, and
// results that follow from its scores.
//
// A game derives from CardGame<itself> and has
//   members     num_players, mover, actor, current_phase, finished, cut, decisions, totals[]
//   functions   bool won() const                    the game is over and somebody has won
//               bool scored() const                 the last decision counted for the scores
//               int score_change(int seat) const    what it added to a seat's score then
//   rules       round_reward, time_penalty
// Fewer points are better. CardGame has no members: a state is laid out as the game says.
#pragma once

#include <algorithm>
#include <cstdint>

namespace env {

template <class Game>
struct CardGame {
  int to_play() const { return game().finished ? game().actor : game().mover; }
  int phase() const { return game().current_phase; }
  int players() const { return game().num_players; }
  bool done() const { return game().finished; }
  bool truncated() const { return game().cut; }

  int next(int seat) const { return seat + 1 == game().num_players ? 0 : seat + 1; }
  int relative(int seat, int observer) const {
    const int r = seat - observer;
    return r < 0 ? r + game().num_players : r;
  }

  void scores(int32_t* out) const { std::copy(game().totals, game().totals + game().num_players, out); }

  void ranks(int8_t* out) const {
    const int n = game().num_players;
    for (int seat = 0; seat < n; ++seat) {
      int rank = 1;
      for (int other = 0; other < n; ++other) rank += game().totals[other] < game().totals[seat];
      out[seat] = static_cast<int8_t>(rank);
    }
  }

  // The mover pays for the decision; a change of the scores pays its advantage over the others' mean; and those with the
  // fewest points at the end share +1, while everybody else pays 1, unless nobody has won.
  template <class Rules>
  void rewards(const Rules& rules, float* out) const {
    const int n = game().num_players;
    const int32_t* totals = game().totals;
    std::fill(out, out + n, 0.0f);
    if (game().decisions == 0) return;
    out[game().actor] = static_cast<float>(-rules.time_penalty);
    if (!game().scored()) return;
    int sum = 0;
    for (int seat = 0; seat < n; ++seat) sum += game().score_change(seat);
    const int lowest = *std::min_element(totals, totals + n);
    const int winners = static_cast<int>(std::count(totals, totals + n, lowest));
    for (int seat = 0; seat < n; ++seat) {
      const int own = game().score_change(seat);
      double reward = rules.round_reward * (static_cast<double>(sum - own) / (n - 1) - own) / 100;
      if (game().won()) reward += totals[seat] == lowest ? 1.0 / winners : -1.0;
      out[seat] += static_cast<float>(reward);
    }
  }

 private:
  const Game& game() const { return static_cast<const Game&>(*this); }
};

}  // namespace env
