// Skip-Bo: observations, the belief and samples from it, and the game's description for search.
#pragma once

#include "env/games/skipbo.h"

namespace env {

inline ObservationSpec Skipbo::observation(int players, bool counts) {
  constexpr int kCodes = kHidden + 1, kSizes = Rules::kMaxCards + 1, kStockSizes = Rules::kMaxStock + 1;
  std::vector<TokenGroup> groups = {
      {"slot",
       Layout::kSlots * players,
       {{"owner", kMaxPlayers, false, true},
        {"zone", 4},
        {"index", kHandCards, true},
        {"card", kCodes},
        {"under", kCodes},
        {"size", kStockSizes}},
       true,
       true,
       true},
      {"player",
       players,
       {{"owner", kMaxPlayers, false, true}, {"cards", kHandCards + 1}, {"stock", kStockSizes}},
       false,
       true},
      {"global",
       1,
       {{"draw_size", kSizes},
        {"set_aside", kSizes},
        {"step", 64},
        {"current", kMaxPlayers},
        {"reshuffled", 2},
        {"players", kMaxPlayers - 1}}},
      {"decision", 1, {{"phase", kNumPhases}}}};
  if (counts) {
    std::vector<Field> kinds;
    for (int kind = 1; kind < kWild; ++kind) kinds.push_back({"count_" + std::to_string(kind), Rules::kMaxCopies + 1});
    kinds.push_back({"count_wild", Rules::kMaxCopies + 1});
    groups.push_back({"counts", kPools, kinds});
  }
  return ObservationSpec(std::move(groups));
}

// A player's board, then the building piles, which count as part of every board.
inline void Skipbo::observe_board(const Rules& rules, int seat, int r, int16_t* out) const {
  enum Zone { kStockZone, kHandZone, kDiscardZone, kBuildingZone };
  const bool open = r == 0 || rules.extras;
  const auto put = [&out, r](Zone zone, int index, int card, int under, int size) {
    for (int number : {r, int{zone}, index, card, under, std::min(size, Rules::kMaxStock)}) {
      *out++ = static_cast<int16_t>(number);
    }
  };
  put(kStockZone, 0, open ? stock_top(seat) : kHidden, kNoCard, rules.extras ? stock_size[seat] : 0);
  for (int place = 0; place < kHandCards; ++place) {
    const bool empty = open && place >= hand_size[seat];
    put(kHandZone, place, empty ? kNoCard : r == 0 ? hand[seat][place] : kHidden, kNoCard, 0);
  }
  int end = own_discard_begin(seat, 0);
  for (int i = 0; i < kPiles; ++i) {
    const int size = own_discard_size[seat][i];
    end += size;
    const int top = size > 0 ? own_discards[end - 1] : kNoCard, under = size > 1 ? own_discards[end - 2] : kNoCard;
    put(kDiscardZone, i, open ? top : kHidden, rules.extras ? under : kNoCard, rules.extras ? size : 0);
  }
  for (int i = 0; i < kPiles; ++i) put(kBuildingZone, i, height[i], kNoCard, 0);
}

inline void Skipbo::observe(const Rules& rules, int seat, int16_t* out, bool counts) const {
  const int n = num_players;
  for (int r = 0, s = seat; r < n; ++r, s = next(s)) {
    observe_board(rules, s, r, out);
    out += Layout::slot(1, 0);
  }
  for (int r = 0, s = seat; r < n; ++r, s = next(s)) {
    *out++ = static_cast<int16_t>(r);
    *out++ = r == 0 || rules.extras ? hand_size[s] : uint8_t{0};
    *out++ = rules.extras ? stock_size[s] : uint8_t{0};
  }
  *out++ = rules.extras ? draw_size : uint8_t{0};
  *out++ = rules.extras ? discard_size : uint8_t{0};
  *out++ = static_cast<int16_t>(std::min(decisions / 8, 63u));
  *out++ = static_cast<int16_t>(relative(to_play(), seat));
  *out++ = reshuffled;
  *out++ = static_cast<int16_t>(n - 2);

  *out++ = current_phase;

  if (counts) unseen_counts(seat, out);
}

// The belief, [2][13]: row 0, the cards of which every card that the seat cannot see (in other hands, in the draw pile
// and under the tops of stocks, its own included) is a uniform draw; row 1, the cards of which the next drawn card is
// one. They differ when the draw pile is empty: then the next card comes from those set aside.
inline void Skipbo::unseen_counts(int seat, int16_t* out) const {
  int16_t* next_draw = out + kCardKinds;
  for (int kind = 0; kind < kCardKinds; ++kind) out[kind] = face_down[kind + 1];
  for (int place = 0; place < hand_size[seat]; ++place) --out[hand[seat][place] - 1];
  if (draw_size) {
    std::copy(out, out + kCardKinds, next_draw);
  } else {
    std::fill(next_draw, next_draw + kCardKinds, int16_t{0});
    for (int i = 0; i < discard_size; ++i) ++next_draw[discard_at(i) - 1];
  }
}

// Deals everything anew that the seat cannot see, and the future. Decisions of others, and the cards that a reshuffle
// put into the draw pile, are not used as evidence (docs/games/skipbo.md says why), except for the dealer, who knows all
// hands: for him the stocks hold, from the first reshuffle on, cards that can be worked out and the draw pile others.
inline void Skipbo::determinize(const Rules&, int seat, uint64_t key) {
  Rng dealer{key, 0};
  uint8_t pool[Rules::kMaxCards];
  const bool apart = seat == kDealer && reshuffled;
  int size = apart ? 0 : draw_size;
  std::memcpy(pool, pile, static_cast<size_t>(size));
  const auto each_hidden = [this, seat](auto visit) {
    for (int s = 0; s < num_players; ++s) {
      const bool seen = s == seat || seat == kDealer;
      for (int place = 0; !seen && place < hand_size[s]; ++place) visit(hand[s][place]);
      for (int i = 0; i + 1 < stock_size[s]; ++i) visit(stock[s][i]);
    }
  };
  each_hidden([&](uint8_t card) { pool[size++] = card; });
  each_hidden([&](uint8_t& card) {
    const uint32_t pick = dealer.below(static_cast<uint32_t>(size));
    card = pool[pick];
    pool[pick] = pool[--size];
  });
  if (!apart) std::memcpy(pile, pool, draw_size);
  rng.key = dealer.next();
}

// Only the hands of others are hidden in slots; the cards under the tops of stocks lie in none.
inline void Skipbo::true_cards(int seat, int8_t* out) const {
  std::fill(out, out + num_players * Layout::kSlots, int8_t{0});
  for (int r = 1, s = next(seat); r < num_players; ++r, s = next(s)) {
    std::copy(hand[s], hand[s] + hand_size[s], out + r * Layout::kSlots + Layout::kHand);
  }
}

// A play from the stock uncovers the next card of the stock for all.
inline ChanceRule Skipbo::chance_rule(int, int phase, int action) {
  return {phase == kTurnPhase && action < kPlay + kPiles, 0, true};
}

inline int Skipbo::outcome(int) const {
  return decisions && last_action < kPlay + kPiles ? stock_top(last_mover) : uint8_t{kNoCard};
}

// The belief of a player who draws no conclusions (see unseen_counts). Under the last card of a stock there is none.
inline void Skipbo::odds(const Rules&, int seat, int action, float* out) const {
  std::fill(out, out + kOutcomes, 0.0f);
  out[0] = 1;
  if (action >= kPlay + kPiles || stock_size[to_move] < 2) return;
  int16_t counts[kPools * kCardKinds];
  unseen_counts(seat, counts);
  share_out(counts, out);
}

inline void Skipbo::arrange(const Rules&, int, int outcome) {
  Places hidden;
  hidden.add(pile, draw_size);
  for (int s = 0; s < num_players; ++s) {
    if (s != to_move) hidden.add(hand[s], hand_size[s]);
    hidden.add(stock[s], std::max(stock_size[s] - 1, 0));
  }
  std::swap(hidden.pick(outcome, rng), stock[to_move][stock_size[to_move] - 2]);
}

inline void Skipbo::draws(int seat, int8_t* out) const {
  std::fill(out, out + kDraws, int8_t{0});
  if (seat == to_move) std::copy(hand[seat] + hand_size[seat] - drawn, hand[seat] + hand_size[seat], out);
}

inline std::string Skipbo::phase_name(int phase) {
  static const char* names[] = {"turn", "stuck"};
  return names[phase];
}

// The last word names both places: s the stock, a to e the hand, w to z the own discard piles, 1 to 4 the building
// piles.
inline std::string Skipbo::action_name(int action) {
  if (action == kPass) return "pass";
  const bool plays = action < kDiscard;
  const int from = plays ? (action - kPlay) / kPiles : kHand + (action - kDiscard) / kPiles;
  const char* targets = plays ? kBuildingNames : kDiscardNames;
  return std::string(plays ? "play " : "discard ") + kSourceNames[from] + targets[action % kPiles];
}

// A card leaves its slot (role 0) for a building pile (role 6 on the own board, 7 on the others') or a discard pile
// (role 8). The rest of the hand is involved if the card came from there: cards behind it move up (roles 1 to 4, by
// distance), those before it (role 5) stay, but all are drawn anew when the hand is empty, and none is seen any more
// when the turn is over.
inline ActionShape Skipbo::action_shape(int players, int action) {
  enum Role { kLeaves, kBehind, kBefore = kBehind + kHandCards - 1, kBuilt, kBuiltElsewhere, kReceives };
  if (action == kPass) return {4, {}};
  const bool plays = action < kDiscard;
  const int from = plays ? (action - kPlay) / kPiles : kHand + (action - kDiscard) / kPiles;
  const bool of_hand = from >= kHand && from < kDiscards;
  ActionShape shape{!plays ? 3 : of_hand ? 1 : from == kStock ? 0 : 2, {{from, kLeaves}}};
  for (int slot = kHand; of_hand && slot < kDiscards; ++slot) {
    if (slot != from) shape.slots.emplace_back(slot, slot > from ? kBehind + slot - from - 1 : int{kBefore});
  }
  if (!plays) {
    shape.slots.emplace_back(kDiscards + action % kPiles, kReceives);
    return shape;
  }
  for (int r = 0; r < players; ++r) {
    const int pile = r * Layout::kSlots + Layout::kBuilding + action % kPiles;
    shape.slots.emplace_back(pile, r == 0 ? kBuilt : kBuiltElsewhere);
  }
  return shape;
}

// Every slot names its own zone, so that a board is a set of slots.
inline std::vector<std::vector<int>> Skipbo::symmetric_blocks() {
  std::vector<std::vector<int>> blocks;
  for (int slot = 0; slot < Layout::kSlots; ++slot) blocks.push_back({slot});
  return blocks;
}

// A player may get stuck when all cards are drawn; the phase table leaves that out.
inline PhaseRule Skipbo::phase_rule(int, int phase, int action) {
  if (phase == kStuckPhase) return {action == kPass, kTurnPhase, true};
  return {action != kPass, kTurnPhase, action >= kDiscard};
}

}  // namespace env
