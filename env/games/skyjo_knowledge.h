// Skyjo: who knows what. Observations, the exact belief, and samples from it; and the game's description for search.
#pragma once

#include "env/games/skyjo.h"

namespace env {

inline ObservationSpec Skyjo::observation(int players, bool counts) {
  std::vector<TokenGroup> groups = {
      {"board", 12 * players, {{"owner", 8}, {"position", 12}, {"visibility", 3}, {"value", 16}}, true, true},
      {"discard", 1, {{"top", 16}, {"size", 161}}},
      {"global",
       1,
       {{"deck_size", 161},
        {"step", 64},
        {"current", 8},
        {"phase", 5},
        {"stage", 3},
        {"round", 32},
        {"final_turn", 2},
        {"ender", 9},
        {"reshuffled", 2},
        {"players", 7}}},
      {"score", players, {{"owner", 8}, {"to_go", 256}}, false, true},
      {"history",
       Layout::kHistory,
       {{"actor", 9}, {"kind", 10}, {"position", 13}, {"card", 16}, {"card_out", 16}, {"source", 3}}},
      {"decision", 1, {{"phase", 5}, {"hand", 17}, {"source", 3}, {"column", 5}}}};
  if (counts) {
    std::vector<Field> values;
    for (int value = -2; value <= 12; ++value) values.push_back({"count_" + std::to_string(value), 32});
    groups.push_back({"counts", kPools, values});
  }
  return ObservationSpec(std::move(groups));
}

inline void Skyjo::observe(const Rules& rules, int seat, int16_t* out, bool counts) const {
  const int n = num_players;
  int fewest = kCells;
  for (int r = 0, s = seat; r < n; ++r, s = next(s)) {
    fewest = std::min(fewest, __builtin_popcount(face_down[s]));
    const uint32_t down = face_down[s], present = in_grid[s];
    for (int cell = 0; cell < kCells; ++cell, out += 4) {
      const uint64_t hidden = down >> cell & 1, cleared = ~present >> cell & 1;
      const uint64_t card = grid[s][cell] & (hidden - 1);
      const uint64_t visibility = cleared * 2 + (1 - hidden) * (1 - cleared);
      const uint64_t token =
          static_cast<uint64_t>(r) | static_cast<uint64_t>(cell) << 16 | visibility << 32 | card << 48;
      std::memcpy(out, &token, sizeof token);
    }
  }
  *out++ = discard_top();
  *out++ = discard_size;

  *out++ = draw_size;
  *out++ = static_cast<int16_t>(std::min(round_decisions / 8, 63u));
  *out++ = static_cast<int16_t>(relative(to_play(), seat));
  *out++ = current_phase;
  *out++ = fewest >= 8 ? 0 : fewest >= 4 ? 1 : 2;
  *out++ = static_cast<int16_t>(std::min(round, 31u));
  *out++ = ender != kNobody;
  *out++ = ender == kNobody ? 0 : static_cast<int16_t>(1 + relative(ender, seat));
  *out++ = reshuffled;
  *out++ = static_cast<int16_t>(n - 2);

  for (int r = 0, s = seat; r < n; ++r, s = next(s)) {
    *out++ = static_cast<int16_t>(r);
    *out++ = static_cast<int16_t>(std::clamp(rules.target - totals[s], 0, 255));
  }

  for (uint32_t back = 1; back <= Layout::kHistory; ++back, out += 6) {
    const Event& event = history[(round_decisions - back) % Layout::kHistory];
    out[0] = event.kind == kNoEvent ? 0 : static_cast<int16_t>(1 + relative(event.actor, seat));
    out[1] = event.kind;
    out[2] = event.position;
    out[3] = event.card;
    out[4] = event.card_out;
    out[5] = event.source;
  }

  *out++ = current_phase;
  *out++ = hand_hidden_from(seat) ? 16 : hand;
  *out++ = hand_source;
  *out++ = clear_column == kNobody ? 0 : static_cast<int16_t>(1 + clear_column);

  if (counts) unseen_counts(seat, out);
}

// The exact belief, [2][15]: row 0, the cards of which every face-down grid card is a uniform draw; row 1, those of
// which the next deck card (and a hand that this seat cannot see) is one. Before the first reshuffle
// these are the same cards. A reshuffle separates them: the face-down cards, which can be worked out by then,
// stay apart from the new draw pile.
inline void Skyjo::unseen_counts(int seat, int16_t* out) const {
  int16_t down[16], draw[16];
  for (int card = 0; card < 16; ++card) down[card] = down_counts[card];
  for (int card = 0; card < 16; ++card) draw[card] = draw_counts[card];
  const bool secret = hand_hidden_from(seat);
  if (secret) ++draw[hand];
  if (!reshuffled) {
    for (int card = 0; card < 16; ++card) down[card] = static_cast<int16_t>(down[card] + draw[card]);
  }
  if (draw_size == 0 && !secret) {
    for (int i = 0; i + 1 < discard_size; ++i) ++draw[discard_at(i)];
  } else if (!reshuffled) {
    std::memcpy(draw, down, sizeof draw);
  }
  std::memcpy(out, down + 1, kCardKinds * sizeof *out);
  std::memcpy(out + kCardKinds, draw + 1, kCardKinds * sizeof *out);
}

// Deals anew everything that the seat cannot know, and the future: a draw from the exact posterior. A reshuffle
// keeps the face-down cards apart from the draw pile (see unseen_counts).
inline void Skyjo::determinize(const Rules&, int seat, uint64_t key) {
  Rng dealer{key, 0};
  uint8_t pool[Rules::kMaxCards];
  int size = 0;
  const bool secret = hand_hidden_from(seat);
  const auto each_face_down = [this](auto visit) {
    for (int s = 0; s < num_players; ++s) {
      for (uint32_t cells = face_down[s]; cells; cells &= cells - 1) visit(grid[s][__builtin_ctz(cells)]);
    }
  };
  const auto pool_draw_pile_and_hand = [&] {
    std::memcpy(pool + size, pile, draw_size);
    size += draw_size;
    if (secret) pool[size++] = hand;
  };
  const auto deal = [&] {
    const uint32_t i = dealer.below(static_cast<uint32_t>(size));
    const uint8_t card = pool[i];
    pool[i] = pool[--size];
    return card;
  };

  each_face_down([&](uint8_t card) { pool[size++] = card; });
  if (!reshuffled) pool_draw_pile_and_hand();
  std::memset(down_counts, 0, sizeof down_counts);
  each_face_down([&](uint8_t& card) { ++down_counts[card = deal()]; });
  if (reshuffled) pool_draw_pile_and_hand();
  if (secret) hand = deal();
  std::memcpy(pile, pool, static_cast<size_t>(size));
  std::memset(draw_counts, 0, sizeof draw_counts);
  for (int i = 0; i < size; ++i) ++draw_counts[pool[i]];
  rng.key = dealer.next();
}

inline std::string Skyjo::phase_name(int phase) {
  static const char* names[] = {"source", "keep", "position", "setup", "clear"};
  return names[phase];
}

inline std::string Skyjo::action_name(int action) {
  static const char* names[] = {"deck", "take", "keep", "discard"};
  return action < kPosition ? names[action] : "position " + std::to_string(action - kPosition);
}

// A position concerns its cell (role 0) and the rest of the column (role 1), which may be cleared with it.
inline ActionShape Skyjo::action_shape(int action) {
  if (action < kPosition) return {action, {}};
  const int cell = action - kPosition;
  ActionShape shape{kPosition, {{cell, 0}}};
  for (int other = cell % kColumns; other < kCells; other += kColumns) {
    if (other != cell) shape.slots.emplace_back(other, 1);
  }
  return shape;
}

inline std::vector<std::vector<int>> Skyjo::symmetric_blocks() {
  return {{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 11}};
}

inline PhaseRule Skyjo::phase_rule(int phase, int action) {
  const bool position = action >= kPosition;
  switch (phase) {
    case kSourcePhase:
      if (action == kDeck) return {true, kKeepPhase, false};
      return {action == kTake, kPositionPhase, false};
    case kKeepPhase:
      return {action == kKeep || action == kDiscard, kPositionPhase, false};
    case kPositionPhase:
      return {position, kSourcePhase, true};
    case kSetupPhase:
      return {position, kSetupPhase, false};
    default:
      return {action == kKeep || action == kDiscard, kSourcePhase, true};
  }
}

}  // namespace env
