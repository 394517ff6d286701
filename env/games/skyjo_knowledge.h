// Skyjo: observations, the exact belief and samples from it, and the game's description for search.
#pragma once

#include "env/games/skyjo.h"

namespace env {

inline ObservationSpec Skyjo::observation(int players, bool counts) {
  std::vector<TokenGroup> groups = {
      {"board",
       12 * players,
       {{"owner", 8, false, true}, {"position", 12, true}, {"visibility", 3}, {"value", 16, false, false, true}},
       true,
       true},
      {"discard", 1, {{"top", 16, false, false, true}, {"size", 161}}},
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
      {"score", players, {{"owner", 8, false, true}, {"to_go", 256}}, false, true},
      {"history",
       Layout::kHistory,
       {{"actor", 9}, {"kind", 10}, {"position", 13, true}, {"card", 16}, {"card_out", 16}, {"source", 3}}},
      {"decision", 1, {{"phase", 5}, {"hand", 17, false, false, true}, {"source", 3}, {"column", 5, true}}}};
  if (counts) {
    std::vector<Field> values;
    for (int value = -2; value <= 12; ++value) values.push_back({"count_" + std::to_string(value), 32});
    groups.push_back({"counts", kPools, values});
  }
  return ObservationSpec(std::move(groups));
}

// Converts eight bytes to eight int16 in one vector instruction.
template <class Bytes>
auto widen(const Bytes& bytes) {
  static_assert(sizeof bytes == 8);
  typedef uint8_t Narrow __attribute__((vector_size(8)));
  typedef int16_t Wide __attribute__((vector_size(16)));
  Narrow narrow;
  std::memcpy(&narrow, &bytes, sizeof narrow);
  return __builtin_convertvector(narrow, Wide);
}

inline void Skyjo::observe(const Rules& rules, int seat, int16_t* out, bool counts) const {
  const int n = num_players;
  int16_t seen_as[1 + kMaxPlayers] = {};  // 1 + seat -> 1 + relative seat; 0 for nobody
  int fewest = kCells;
  for (int r = 0, s = seat; r < n; ++r, s = next(s)) {
    seen_as[1 + s] = static_cast<int16_t>(1 + r);
    fewest = std::min(fewest, __builtin_popcount(face_down[s]));
    observe_board(s, r, out);
    out += 4 * kCells;
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
  *out++ = ender == kNobody ? int16_t{0} : seen_as[1 + ender];
  *out++ = reshuffled;
  *out++ = static_cast<int16_t>(n - 2);

  for (int r = 0, s = seat; r < n; ++r, s = next(s)) {
    *out++ = static_cast<int16_t>(r);
    *out++ = static_cast<int16_t>(std::clamp(rules.target - totals[s], 0, 255));
  }

  // Each event is widened with its two spare bytes: the next one, or the decision, overwrites them.
  for (uint32_t back = 1; back <= Layout::kHistory; ++back, out += 6) {
    const auto wide = widen(event(back));
    std::memcpy(out, &wide, sizeof wide);
    out[0] = seen_as[event(back).actor];
  }

  *out++ = current_phase;
  *out++ = hand_hidden_from(seat) ? 16 : hand;
  *out++ = hand_source;
  *out++ = clear_column == kNobody ? 0 : static_cast<int16_t>(1 + clear_column);

  if (counts) unseen_counts(seat, out);
}

// The 12 tokens (owner, position, visibility, value) of a seat's grid, four at a time.
inline void Skyjo::observe_board(int seat, int r, int16_t* out) const {
  typedef uint64_t Four __attribute__((vector_size(32)));
  const Four owner = Four{} + static_cast<uint64_t>(r);
  const Four down = Four{} + face_down[seat], present = Four{} + in_grid[seat];
  Four cell = {0, 1, 2, 3};
  for (int row = 0; row < kCells; row += 4, cell += 4, out += 16) {
    const uint8_t* card = grid[seat] + row;
    const Four cards = {card[0], card[1], card[2], card[3]};
    const Four hidden = down >> cell & 1, cleared = 1 - (present >> cell & 1);
    const Four visibility = 1 - hidden + cleared;  // a cleared cell is not face down
    const Four tokens = owner | cell << 16 | visibility << 32 | (cards & (hidden - 1)) << 48;
    std::memcpy(out, &tokens, sizeof tokens);
  }
}

// The exact belief, [2][15]: row 0, the cards of which every face-down grid card is a uniform draw; row 1, the cards of
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

// Deals everything anew that the seat cannot know, and the future: a draw from the exact posterior. After a reshuffle
// the face-down cards are kept apart from the draw pile (see unseen_counts).
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

// Face-down cards of all grids, the seat's own included: nobody has looked at them.
inline void Skyjo::true_cards(int seat, int8_t* out) const {
  for (int r = 0, s = seat; r < num_players; ++r, s = next(s)) {
    for (int cell = 0; cell < kCells; ++cell) {
      *out++ = face_down[s] >> cell & 1 ? static_cast<int8_t>(grid[s][cell]) : int8_t{0};
    }
  }
}

// A card drawn from the deck is its drawer's secret for one decision: keeping or discarding it shows it to all, or puts
// it where all will see it, within the same turn. No private information lasts, so searches may let all players know
// it; `outcome` is strict and tells it to the drawer alone.
inline ChanceRule Skyjo::chance_rule(int, int phase, int action) {
  if (phase == kSourcePhase) return {action == kDeck, 1, true};
  return {(phase == kPositionPhase || phase == kSetupPhase) && action >= kPosition, 0, true};
}

// A drawn card is read from the hand, which `determinize` may have changed, and not remembered.
inline int Skyjo::outcome(int seat) const {
  if (event(1).kind == kDrew) return hand_hidden_from(seat) ? int{kNoCard} : hand;
  return revealed;
}

inline void Skyjo::odds(const Rules&, int seat, int action, float* out) const {
  std::fill(out, out + kOutcomes, 0.0f);
  out[0] = 1;
  const bool drawing = current_phase == kSourcePhase && action == kDeck;
  const bool turning = action >= kPosition && (face_down[to_move] >> (action - kPosition) & 1);
  if (!turning && (!drawing || seat != to_move)) return;
  int16_t counts[kPools * kCardKinds];
  unseen_counts(seat, counts);
  share_out(counts + (drawing ? kCardKinds : 0), out);
}

// The pools are those of `unseen_counts`: before a reshuffle the draw pile and all face-down cards are one.
inline void Skyjo::arrange(const Rules&, int action, int outcome) {
  const bool drawing = current_phase == kSourcePhase;
  Places hidden;
  if (drawing && draw_size == 0) {
    hidden.add(pile + Rules::kMaxCards - discard_size + 1, discard_size - 1);
  } else {
    if (drawing || !reshuffled) hidden.add(pile, draw_size);
    for (int s = 0; s < num_players && !(drawing && reshuffled); ++s) {
      for (uint32_t cells = face_down[s]; cells; cells &= cells - 1) hidden.add(&grid[s][__builtin_ctz(cells)], 1);
    }
  }
  uint8_t& found = hidden.pick(outcome, rng);
  uint8_t& shown = drawing ? next_draw() : grid[to_move][action - kPosition];
  const auto in_pile = [this](const uint8_t& place) { return &place >= pile && &place < pile + Rules::kMaxCards; };
  if (in_pile(found) != in_pile(shown)) {
    uint8_t* found_in = in_pile(found) ? draw_counts : down_counts;
    uint8_t* shown_in = in_pile(shown) ? draw_counts : down_counts;
    --found_in[found], ++found_in[shown];
    --shown_in[shown], ++shown_in[found];
  }
  std::swap(found, shown);
}

inline std::string Skyjo::phase_name(int phase) {
  static const char* names[] = {"source", "keep", "position", "setup", "clear"};
  return names[phase];
}

inline std::string Skyjo::action_name(int action) {
  static const char* names[] = {"deck", "take", "keep", "discard"};
  return action < kPosition ? names[action] : "position " + std::to_string(action - kPosition);
}

// A position is about its cell (role 0) and the rest of the column (role 1), which may be cleared with it.
inline ActionShape Skyjo::action_shape(int, int action) {
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

// Moves the tokens of cells, and renames the cells and columns in the history and the decision (0 for none).
inline void Skyjo::relabel(const int8_t* to, int players, int16_t* row) {
  for (int seat = 0; seat < players; ++seat) {
    int16_t* board = row + Layout::board(players) + 4 * kCells * seat;
    int16_t before[4 * kCells];
    std::memcpy(before, board, sizeof before);
    for (int cell = 0; cell < kCells; ++cell) {
      std::memcpy(board + 4 * to[cell], before + 4 * cell, 4 * sizeof *board);
      board[4 * to[cell] + 1] = to[cell];
    }
  }
  const auto rename = [to](int16_t& named, bool column) {
    if (named < 0 || named > (column ? kColumns : kCells)) {
      throw std::invalid_argument("rows: expected observations, got a place of " + std::to_string(named));
    }
    if (named) named = static_cast<int16_t>(1 + (column ? to[named - 1] % kColumns : to[named - 1]));
  };
  for (int16_t* event = row + Layout::history(players); event < row + Layout::decision(players); event += 6) {
    rename(event[2], event[1] == kCleared || event[1] == kDeclined);
  }
  rename(row[Layout::decision(players) + 3], true);
}

inline PhaseRule Skyjo::phase_rule(int, int phase, int action) {
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
