// Skip-Bo: validity of states (for bytes that come from outside), and the table in words (for people).
#pragma once

#include "env/games/skipbo.h"

namespace env {

// Guarantees that every step from an accepted state is safe and that play ends. Accepts every state that play can
// reach, and some that it cannot (more turns than decisions allow, say).
inline std::string Skipbo::check(const Rules& rules, int players) const {
  if (const std::string problem = check_table(rules, players); !problem.empty()) return problem;
  if (starter >= players) return "nobody sits where the starter does";
  if (deadlock > finished || truncated_ + deadlock > 1) return "a flag is neither 0 nor 1";
  if (drawn > hand_size[to_move]) return "the cards drawn last are not in hand";
  if (last_action >= kNumActions || last_card > kWild) return "its last decision is none";
  if (completed > decisions || reshuffles > completed || idle > players) return "its counters contradict each other";
  for (uint8_t byte : spare) {
    if (byte) return "it has something where nothing belongs";
  }
  const std::string problem = check_cards(rules);
  if (!problem.empty() || finished) return problem;

  for (int seat = 0; seat < players; ++seat) {
    if (stock_size[seat] == 0) return "a stock is empty, and the game goes on";
  }
  if (hand_size[to_move] == 0 && draw_size + discard_size > 0) return "the player to move has not drawn";
  if ((current_phase == kStuckPhase) != (hand_size[to_move] == 0 && !board_can_play()))
    return "the phase does not fit the cards";
  return "";
}

// Checks that every card of the deck lies somewhere, and where it may.
inline std::string Skipbo::check_cards(const Rules& rules) const {
  int left[1 + Rules::kKinds] = {},
               down[1 + Rules::kKinds] = {};  // cards not found yet; cards found that are hidden from somebody
  for (int kind = 0; kind < Rules::kKinds; ++kind) left[kind + 1] = rules.deck[kind];
  bool proper = true;
  const auto meet = [&](int card, bool hidden) {
    proper = proper && card >= 1 && card <= kWild;
    if (!proper) return;
    --left[card];
    down[card] += hidden;
  };

  int on_discards = 0;
  for (int seat = 0; seat < kMaxPlayers; ++seat) {
    for (uint8_t size : own_discard_size[seat]) on_discards += size;
    if (stock_size[seat] > rules.stock_cards || hand_size[seat] > kHandCards) return "a stock or hand is too large";
    if (totals[seat] < 0 || totals[seat] > rules.stock_cards) return "a score is out of range";
    if (turns[seat] > decisions + 1) return "its counters contradict each other";
    if (seat < num_players) continue;
    const int sizes =
        own_discard_size[seat][0] + own_discard_size[seat][1] + own_discard_size[seat][2] + own_discard_size[seat][3];
    if (stock_size[seat] || hand_size[seat] || sizes || totals[seat] || turns[seat])
      return "an empty seat is not empty";
  }
  if (on_discards > rules.deck_size) return "its piles are no piles of the deck";

  for (int i = 0; i < draw_size; ++i) meet(pile[i], true);
  for (int i = 0; i < discard_size; ++i) meet(discard_at(i), false);
  for (int i = 0; i < on_discards; ++i) meet(own_discards[i], false);
  for (int seat = 0; seat < num_players; ++seat) {
    for (int i = 0; i < stock_size[seat]; ++i) meet(stock[seat][i], i + 1 < stock_size[seat]);
    for (int i = 0; i < hand_size[seat]; ++i) meet(hand[seat][i], true);
  }
  for (int i = 0; i < kPiles; ++i) {
    if (height[i] >= kFull) return "a building pile is too high";
    for (int at = 0; at < height[i]; ++at) {
      meet(building[i][at], false);
      if (building[i][at] != at + 1 && building[i][at] != kWild) return "a building pile does not count up";
    }
  }
  if (!proper) return "a pile has no proper card";
  for (int card = 0; card <= kWild; ++card) {
    if (left[card] != 0) return "its cards are not those of the deck";
    if (down[card] != face_down[card]) return "its card counts are wrong";
  }
  return "";
}

// Cards are codes (wild 13), piles bottom first and seat by seat.
inline StateFields Skipbo::inspect() const {
  using List = std::vector<int64_t>;
  const int n = num_players;
  List stocks, hands, sizes, aside, piles;
  int on_discards = 0;
  for (int seat = 0; seat < n; ++seat) {
    stocks.insert(stocks.end(), stock[seat], stock[seat] + stock_size[seat]);
    hands.insert(hands.end(), hand[seat], hand[seat] + hand_size[seat]);
    sizes.insert(sizes.end(), own_discard_size[seat], own_discard_size[seat] + kPiles);
    for (uint8_t size : own_discard_size[seat]) on_discards += size;
  }
  for (int i = 0; i < discard_size; ++i) aside.push_back(discard_at(i));
  for (int i = 0; i < kPiles; ++i) piles.insert(piles.end(), building[i], building[i] + height[i]);
  return {{"stocks", stocks},
          {"stock_sizes", List(stock_size, stock_size + n)},
          {"hands", hands},
          {"hand_sizes", List(hand_size, hand_size + n)},
          {"discard_piles", List(own_discards, own_discards + on_discards)},
          {"discard_sizes", sizes},
          {"building_piles", piles},
          {"heights", List(height, height + kPiles)},
          {"draw_pile", List(pile, pile + draw_size)},
          {"set_aside", aside},
          {"to_play", {to_play()}},
          {"phase", {current_phase}},
          {"starter", {starter}},
          {"idle", {idle}},
          {"scores", List(totals, totals + n)},
          {"turns", List(turns, turns + n)},
          {"decisions", {decisions}},
          {"completed", {completed}},
          {"reshuffles", {reshuffles}},
          {"reshuffled", {reshuffled}},
          {"done", {finished}},
          {"truncated", {truncated_}},
          {"deadlock", {deadlock}}};
}

inline std::string Skipbo::card_name(int card) {
  return card == kNoCard ? "-" : card == kWild ? "wild" : std::to_string(card);
}

inline std::string Skipbo::last_event() const {
  if (decisions == 0) return "";
  if (last_action == kPass) return "passed";
  const std::string card = card_name(last_card);
  if (last_action >= kDiscard) return std::string("discarded ") + card + " onto " + kDiscardNames[last_action % kPiles];
  const int from = (last_action - kPlay) / kPiles;
  const std::string where = from == kStock      ? "the stock, " + std::to_string(stock_size[last_mover]) + " left"
                            : from >= kDiscards ? std::string("discard pile ") + kDiscardNames[from - kDiscards]
                                                : "the hand";
  return "played " + card + " onto pile " + kBuildingNames[last_action % kPiles] + " from " + where;
}

// A table as text, from a seat's point of view (-1: a spectator).
inline std::string Skipbo::render(const Rules&, int seat) const {
  char line[200];
  std::string out;
  uint32_t turn = 0;
  for (uint32_t count : turns) turn += count;
  std::snprintf(line, sizeof line, "Turn %u, decision %u, %s\n", turn, decisions,
                finished ? (truncated_ ? "truncated"
                            : deadlock ? "a draw"
                                       : "finished")
                         : ("seat " + std::to_string(to_move) + " to decide: " + phase_name(current_phase)).c_str());
  out += line;
  std::snprintf(line, sizeof line, "Draw pile %d   set aside %d   building piles", draw_size, discard_size);
  out += line;
  for (int i = 0; i < kPiles; ++i) out += std::string("   ") + kBuildingNames[i] + ": " + card_name(height[i]);
  out += "\n";
  for (int s = 0; s < num_players; ++s) {
    const std::string who =
        "seat " + std::to_string(s) + (s == seat ? " (you)" : "") + (!finished && s == to_move ? " *" : "");
    std::snprintf(line, sizeof line, "  %-15s stock %2d, top %-4s   discard piles", who.c_str(), stock_size[s],
                  card_name(stock_top(s)).c_str());
    out += line;
    for (int i = 0; i < kPiles; ++i) {
      out += std::string("   ") + kDiscardNames[i] + ":";
      for (int depth = own_discard_size[s][i]; depth-- > 0;) out += " " + card_name(own_discard_at(s, i, depth));
      if (own_discard_size[s][i] == 0) out += " -";
    }
    out += "   hand";
    for (int place = 0; s == seat && place < hand_size[s]; ++place) {
      out += std::string("   ") + kHandNames[place] + ": " + card_name(hand[s][place]);
    }
    if (s != seat) out += " " + std::to_string(hand_size[s]) + (hand_size[s] == 1 ? " card" : " cards");
    out += "\n";
  }
  return out;
}

}  // namespace env
