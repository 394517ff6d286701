// Kuhn poker: observations, the belief and samples from it, and the game's description for search.
#pragma once

#include "env/games/kuhn.h"

namespace env {

inline ObservationSpec Kuhn::observation(int players, bool counts) {
  std::vector<TokenGroup> groups = {
      {"hand", players, {{"owner", 2, false, true}, {"card", kHidden + 1, false, false, true}}, true, true, true},
      {"player", players, {{"owner", 2, false, true}, {"paid", 3}}, false, true},
      {"global", 1, {{"current", 2}}},
      {"history", kMaxMoves, {{"actor", 3}, {"kind", 3}}},
      {"decision", 1, {{"phase", kNumPhases}}}};
  if (counts) groups.push_back({"counts", kPools, {{"count_jack", 2}, {"count_queen", 2}, {"count_king", 2}}});
  return ObservationSpec(std::move(groups));
}

inline void Kuhn::observe(const Rules&, int seat, int16_t* out, bool counts) const {
  const int other = next(seat);
  const int card = hand_hidden_from(other, seat) ? int{kHidden} : hand[other];
  for (int number : {0, int{hand[seat]}, 1, card, 0, int{paid[seat]}, 1, int{paid[other]}, relative(to_play(), seat)}) {
    *out++ = static_cast<int16_t>(number);
  }
  for (int i = 0; i < kMaxMoves; ++i) {
    *out++ = moves[i] == kNoMove ? int16_t{0} : static_cast<int16_t>(1 + relative(i % 2, seat));
    *out++ = moves[i];
  }
  *out++ = current_phase;
  if (counts) unseen_counts(seat, out);
}

// The belief, [1][3]: the cards of which every card that the seat cannot see is a uniform draw.
inline void Kuhn::unseen_counts(int seat, int16_t* out) const {
  std::fill(out, out + kCardKinds, int16_t{1});
  --out[hand[seat] - 1];
  if (showdown) --out[hand[next(seat)] - 1];
}

// Deals the cards that the seat cannot see anew. The other player's bets are not used as evidence (docs/games/kuhn.md).
inline void Kuhn::determinize(const Rules&, int seat, uint64_t key) {
  Rng dealer{key, 0};
  if (!showdown && seat != kDealer && dealer.below(2)) std::swap(hand[next(seat)], pile[0]);
  rng.key = dealer.next();
}

// No card is an outcome, because no step shows one, so none has a code.
inline void Kuhn::true_cards(int, int8_t* out) const { std::fill(out, out + num_players, int8_t{0}); }

inline std::string Kuhn::phase_name(int phase) { return phase == kOpenPhase ? "open" : "answer"; }

inline std::string Kuhn::action_name(int action) { return action == kPass ? "pass" : "bet"; }

// Both actions are about the mover's card.
inline ActionShape Kuhn::action_shape(int, int action) { return {action, {{0, 0}}}; }

inline std::vector<std::vector<int>> Kuhn::symmetric_blocks() { return {{0}}; }

// The second pass, and every answer, ends the hand; the phase table leaves that out.
inline PhaseRule Kuhn::phase_rule(int, int phase, int action) {
  return {true, phase == kOpenPhase && action == kBet ? kAnswerPhase : kOpenPhase, true};
}

}  // namespace env
