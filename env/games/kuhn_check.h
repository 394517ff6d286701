// Kuhn poker: validity of states (for bytes that come from outside), and the table in words (for people).
#pragma once

#include "env/games/kuhn.h"

namespace env {

// Plays the recorded moves again: everything but the deal and the randomness follows from them.
inline std::string Kuhn::check(const Rules& rules, int players) const {
  if (const std::string problem = check_table(rules, players); !problem.empty()) return problem;
  if (starter != 0 || reshuffles || reshuffled || discard_size || draw_size != 1)
    return "its piles are no piles of the deck";
  int seen[1 + kCardKinds] = {};
  for (int card : {hand[0], hand[1], pile[0]}) {
    if (card < kJack || card > kKing || seen[card]++) return "its cards are not those of the deck";
  }
  Kuhn again = *this;
  again.decisions = 0;
  again.to_move = again.last_mover = again.current_phase = again.finished = again.truncated_ = again.scored = 0;
  again.showdown = 0;
  for (int seat = 0; seat < kMaxPlayers; ++seat) again.totals[seat] = 0, again.paid[seat] = 1;
  for (uint8_t& move : again.moves) move = kNoMove;
  for (uint32_t i = 0; i < decisions; ++i) {
    if (again.finished || (moves[i] != kPassed && moves[i] != kDidBet)) return "its moves are impossible";
    again.step(rules, moves[i] == kDidBet ? kBet : kPass);
  }
  if (std::memcmp(static_cast<const void*>(this), static_cast<const void*>(&again), sizeof *this) != 0)
    return "it is not what its moves lead to";
  return "";
}

// Cards are codes (jack 1, queen 2, king 3); moves are in order: 1 for a pass, 2 for a bet.
inline StateFields Kuhn::inspect() const {
  using List = std::vector<int64_t>;
  return {{"hands", List(hand, hand + kMaxPlayers)},
          {"draw_pile", {pile[0]}},
          {"paid", List(paid, paid + kMaxPlayers)},
          {"moves", List(moves, moves + kMaxMoves)},
          {"to_play", {to_play()}},
          {"phase", {current_phase}},
          {"scores", List(totals, totals + kMaxPlayers)},
          {"decisions", {decisions}},
          {"showdown", {showdown}},
          {"done", {finished}},
          {"truncated", {truncated_}}};
}

inline std::string Kuhn::last_event() const {
  if (decisions == 0) return "";
  const bool bet = moves[decisions - 1] == kDidBet;
  const bool answered = decisions > 1 && moves[decisions - 2] == kDidBet;
  return answered ? (bet ? "called" : "gave up") : (bet ? "bet" : "passed");
}

// A table as text, from a seat's point of view (-1: a spectator).
inline std::string Kuhn::render(const Rules&, int seat) const {
  static const char* names[] = {"-", "jack", "queen", "king"};
  std::string out = "Decision " + std::to_string(decisions) + ", ";
  out += finished ? (truncated_ ? "truncated" : "finished")
                  : "seat " + std::to_string(to_move) + " to decide: " + phase_name(current_phase);
  out += "\nPot " + std::to_string(paid[0] + paid[1]) + "\n";
  for (int s = 0; s < kMaxPlayers; ++s) {
    out += "  seat " + std::to_string(s) + (s == seat ? " (you)" : "") + (!finished && s == to_move ? " *" : "");
    out += "   paid " + std::to_string(paid[s]) + "   card ";
    out += hand_hidden_from(s, seat) ? "##" : names[hand[s]];
    out += "\n";
  }
  return out;
}

}  // namespace env
