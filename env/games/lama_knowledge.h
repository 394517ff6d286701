// L.A.M.A.: observations, the belief and samples from it, and the game's description for search.
#pragma once

#include "env/games/lama.h"

namespace env {

inline ObservationSpec Lama::observation(int players, bool counts) {
  constexpr int kSizes = Rules::kMaxCards + 1, kCodes = 1 + Rules::kKinds;
  std::vector<TokenGroup> groups = {
      {"hand",
       Rules::kKinds * players,
       {{"owner", 8, false, true}, {"card", kCodes, false, false, true}, {"count", kUnknown + 1}},
       true,
       true,
       true},
      {"player",
       players,
       {{"owner", 8, false, true},
        {"cards", kSizes},
        {"folded", 2, false, false, false, true},
        {"to_go", 256},
        {"black", 32},
        {"white", 10}},
       false,
       true},
      {"pile", 1, {{"top", kCodes, false, false, true}, {"size", kSizes}}},
      {"global",
       1,
       {{"deck_size", kSizes}, {"step", 64}, {"current", 8}, {"round", 32}, {"reshuffled", 2}, {"players", 7}}},
      {"history", Layout::kHistory, {{"actor", 9}, {"kind", 4}, {"card", kCodes}, {"top", kCodes}}},
      {"decision", 1, {{"phase", kNumPhases}, {"points", 256}}}};
  if (counts) {
    std::vector<Field> kinds;
    for (int kind = 1; kind < kLlama; ++kind) kinds.push_back({"count_" + std::to_string(kind), Rules::kMaxCopies + 1});
    kinds.push_back({"count_llama", Rules::kMaxCopies + 1});
    groups.push_back({"counts", kPools, kinds});
  }
  return ObservationSpec(std::move(groups));
}

inline void Lama::observe(const Rules& rules, int seat, int16_t* out, bool counts) const {
  const int n = num_players;
  int16_t seen_as[1 + kMaxPlayers] = {};  // 1 + seat -> 1 + relative seat; 0 for nobody
  for (int r = 0, s = seat; r < n; ++r, s = next(s)) {
    seen_as[1 + s] = static_cast<int16_t>(1 + r);
    const bool hidden = hand_hidden_from(s, seat);
    for (int card = 1; card <= kLlama; ++card) {
      *out++ = static_cast<int16_t>(r);
      *out++ = static_cast<int16_t>(card);
      *out++ = hidden ? int16_t{kUnknown} : int16_t{hand[s][card]};
    }
  }
  for (int r = 0, s = seat; r < n; ++r, s = next(s)) {
    *out++ = static_cast<int16_t>(r);
    *out++ = hand_size[s];
    *out++ = folded[s];
    *out++ = static_cast<int16_t>(std::clamp(rules.target - totals[s], 0, 255));
    *out++ = static_cast<int16_t>(std::min(totals[s] / 10, 31));
    *out++ = static_cast<int16_t>(totals[s] % 10);
  }
  *out++ = discard_top();
  *out++ = discard_size;

  *out++ = draw_size;
  *out++ = static_cast<int16_t>(std::min(round_decisions / 8, 63u));
  *out++ = static_cast<int16_t>(relative(to_play(), seat));
  *out++ = static_cast<int16_t>(std::min(round, 31u));
  *out++ = reshuffled;
  *out++ = static_cast<int16_t>(n - 2);

  for (uint32_t back = 1; back <= Layout::kHistory; ++back) {
    const Event& e = event(back);
    *out++ = seen_as[e.actor];
    *out++ = e.kind;
    *out++ = e.card;
    *out++ = e.top;
  }

  *out++ = current_phase;
  *out++ = static_cast<int16_t>(std::min(hand_points(rules, seat), 255));

  if (counts) unseen_counts(seat, out);
}

// The belief, [2][7]: row 0, the cards of which every card that the seat cannot see (in other hands and in the
// deck) is a uniform draw; row 1, the cards of which the next deck card is one. They differ when the deck is empty:
// then the next card comes from the pile.
inline void Lama::unseen_counts(int seat, int16_t* out) const {
  // All cards of a kind are at most 16, so eight counts can be added as one number.
  static_assert(sizeof hand[0] == 8 && sizeof draw_counts == 8);
  const auto all = [](const uint8_t* counts) {
    uint64_t sum;
    std::memcpy(&sum, counts, sizeof sum);
    return sum;
  };
  uint64_t unseen = all(draw_counts);
  for (int s = 0; s < num_players; ++s) unseen += hand_hidden_from(s, seat) ? all(hand[s]) : 0;
  uint8_t hidden[1 + kCardKinds], drawn[1 + kCardKinds];
  std::memcpy(hidden, &unseen, sizeof hidden);
  std::memcpy(drawn, &unseen, sizeof drawn);
  if (draw_size == 0) {
    std::memset(drawn, 0, sizeof drawn);
    for (int i = 0; i + 1 < discard_size; ++i) ++drawn[discard_at(i)];
  }
  std::copy(hidden + 1, hidden + 1 + kCardKinds, out);
  std::copy(drawn + 1, drawn + 1 + kCardKinds, out + kCardKinds);
}

// Deals everything anew that the seat cannot see, and the future. Decisions of others, and the cards that a reshuffle
// took from the pile, are not used as evidence (docs/games/lama.md says why).
inline void Lama::determinize(const Rules&, int seat, uint64_t key) {
  Rng dealer{key, 0};
  uint8_t pool[Rules::kMaxCards];
  int size = draw_size;
  std::memcpy(pool, pile, draw_size);
  for (int s = 0; s < num_players; ++s) {
    if (!hand_hidden_from(s, seat)) continue;
    for (int card = 1; card <= kLlama; ++card) {
      for (; hand[s][card]; --hand[s][card]) {
        pool[size++] = static_cast<uint8_t>(card);
        ++draw_counts[card];
      }
    }
  }
  for (int s = 0; s < num_players; ++s) {
    if (!hand_hidden_from(s, seat)) continue;
    for (int i = 0; i < hand_size[s]; ++i) {
      const uint32_t pick = dealer.below(static_cast<uint32_t>(size));
      ++hand[s][pool[pick]];
      --draw_counts[pool[pick]];
      pool[pick] = pool[--size];
    }
  }
  std::memcpy(pile, pool, draw_size);
  rng.key = dealer.next();
  if (drawn && hand_hidden_from(last_mover, seat)) {  // any card of the new hand may be the one drawn last
    auto left = static_cast<int>(dealer.below(hand_size[last_mover]));
    for (drawn = 1; left >= hand[last_mover][drawn]; ++drawn) left -= hand[last_mover][drawn];
  }
}

// A slot stands for a kind of card: its code, if a hidden hand has such a card.
inline void Lama::true_cards(int seat, int8_t* out) const {
  for (int r = 0, s = seat; r < num_players; ++r, s = next(s)) {
    for (int card = 1; card <= kLlama; ++card) {
      *out++ = hand_hidden_from(s, seat) && hand[s][card] ? static_cast<int8_t>(card) : int8_t{0};
    }
  }
}

inline ChanceRule Lama::chance_rule(int, int phase, int action) {
  return {phase == kTurnPhase && action == kDraw, 1, false};
}

inline int Lama::outcome(int seat) const { return seat == last_mover ? int{drawn} : int{kNoCard}; }

// The belief of a player who draws no conclusions (see unseen_counts). Without a card to draw there is no event.
inline void Lama::odds(const Rules&, int seat, int action, float* out) const {
  std::fill(out, out + kOutcomes, 0.0f);
  out[0] = 1;
  if (action != kDraw || seat != to_move) return;
  int16_t counts[kPools * kCardKinds];
  unseen_counts(seat, counts);
  share_out(counts + kCardKinds, out);
}

// Cards of other hands may trade places with those of the deck. A reshuffled pile was seen by all.
inline void Lama::arrange(const Rules&, int, int outcome) {
  int holding = 0;  // cards of this kind where the mover cannot tell them apart
  uint8_t* first = draw_size ? pile : pile + Rules::kMaxCards - discard_size + 1;
  const int cards = draw_size ? draw_size : discard_size - 1;
  for (int i = 0; i < cards; ++i) holding += first[i] == outcome;
  for (int s = 0; draw_size && s < num_players; ++s) holding += s == to_move ? 0 : hand[s][outcome];
  auto left = static_cast<int>(rng.below(static_cast<uint32_t>(holding)));
  uint8_t& shown = next_draw();
  for (int i = 0; i < cards; ++i) {
    if (first[i] == outcome && left-- == 0) return std::swap(first[i], shown);
  }
  int owner = 0;
  for (; owner == to_move || left >= hand[owner][outcome]; ++owner) left -= owner == to_move ? 0 : hand[owner][outcome];
  --hand[owner][outcome], ++hand[owner][shown];
  --draw_counts[shown], ++draw_counts[outcome];
  shown = static_cast<uint8_t>(outcome);
}

inline std::string Lama::phase_name(int phase) {
  static const char* names[] = {"turn", "alone"};
  return names[phase];
}

inline std::string Lama::action_name(int action) {
  if (action == kDraw) return "draw";
  if (action == kFold) return "fold";
  const int card = action - kPlay + 1;
  return "play " + (card == kLlama ? "llama" : std::to_string(card));
}

// Slot k of a player holds the number of cards of kind k in the hand. Playing a card is about its slot (role 0); a
// drawn card may be of any kind (role 1).
inline ActionShape Lama::action_shape(int, int action) {
  if (action == kFold) return {2, {}};
  if (action < kDraw) return {0, {{action - kPlay, 0}}};
  ActionShape shape{1, {}};
  for (int kind = 0; kind < Rules::kKinds; ++kind) shape.slots.emplace_back(kind, 1);
  return shape;
}

// Every slot names its own kind, so that a hand is a set of seven slots.
inline std::vector<std::vector<int>> Lama::symmetric_blocks() { return {{0}, {1}, {2}, {3}, {4}, {5}, {6}}; }

// Usual consequences of actions, as long as nobody has played all cards, which ends a round. A fold that leaves one
// player in the round leads to `alone`; the last one's fold ends the round, and this player starts the next one.
inline PhaseRule Lama::phase_rule(int players, int phase, int action) {
  const bool folds = action == kFold;
  if (phase == kAlonePhase) return {action != kDraw, folds ? kTurnPhase : kAlonePhase, false, folds, kTurnPhase};
  return {true, folds && players == 2 ? kAlonePhase : kTurnPhase, true, folds, kAlonePhase};
}

}  // namespace env
