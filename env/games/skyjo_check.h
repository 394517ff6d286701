// Skyjo: validity of states (for bytes that come from outside), and the table in words (for people).
#pragma once

#include "env/games/skyjo.h"

namespace env {

// Guarantees that every step from an accepted state is safe and that play ends. Accepts every state that play can
// reach, and some that it cannot (a total that no round adds up to, say).
inline std::string Skyjo::check(const Rules& rules, int players) const {
  if (const std::string problem = check_table(rules, players); !problem.empty()) return problem;
  if (ender != kNobody && ender >= players) return "nobody sits where the round's ender does";
  if (last_ender != kNobody && last_ender >= players) return "nobody sits where the last round's ender did";
  const bool setting_up = current_phase == kSetupPhase;
  if (setting_up ? (starter != kNobody || ender != kNobody) : starter >= players)
    return "nobody sits where the starter does";
  if (hand > 15 || hand_source > kFromDiscard || (hand == kNoCard) != (hand_source == kNoSource)) return "no such hand";
  if (revealed > 15) return "no such card was revealed";
  if (turns > decisions) return "its counters contradict each other";
  for (uint8_t byte : spare) {
    if (byte) return "it has something where nothing belongs";
  }

  int left[16] = {};  // cards of the deck that were not found yet
  for (int value = 0; value < Rules::kValues; ++value) left[value + 1] = rules.deck[value];
  int down[16] = {}, draw[16] = {};
  for (int seat = 0; seat < kMaxPlayers; ++seat) {
    const bool playing = seat < players;
    const uint16_t cells = in_grid[seat];
    if (!playing && (cells || totals[seat] || round_scores[seat] || columns_cleared[seat]))
      return "an empty seat is not empty";
    if (cells & ~kAllCells || face_down[seat] & ~cells)
      return "seat " + std::to_string(seat) + " has cards outside its grid";
    if (playing && (std::abs(int64_t{totals[seat]}) > 1000000000 || std::abs(int64_t{round_scores[seat]}) > 1000000)) {
      return "the score of seat " + std::to_string(seat) + " is out of range";
    }
    for (int cell = 0; cell < kCells; ++cell) {
      const int card = grid[seat][cell];
      const bool present = cells >> cell & 1;
      if (card > 15 || (card != kNoCard) != present)
        return "seat " + std::to_string(seat) + " has no proper card at position " + std::to_string(cell);
      if (present != (cells >> cell % kColumns & 1))
        return "seat " + std::to_string(seat) + " has a column that is cleared in part";
      if (present) --left[card];
      if (face_down[seat] >> cell & 1) ++down[card];
    }
  }
  if (!count_piles(left, draw)) return "a pile has no proper card";
  if (hand != kNoCard) --left[hand];
  for (int card = 0; card < 16; ++card) {
    if (left[card] != removed[card] || (removed[card] && rules.cleared_cards == Rules::ClearedCards::kDiscardPile)) {
      return "its cards are not those of the deck";
    }
    if (down[card] != down_counts[card] || draw[card] != draw_counts[card]) return "its card counts are wrong";
  }
  if (!history_is_sound(players, kDeclined)) return "its history has an impossible entry";
  for (const Event& e : history) {
    if (e.unused[0] || e.unused[1] || e.position > kCells || e.card > 15 || e.card_out > 15 || e.source > kFromDiscard)
      return "its history has an impossible entry";
  }

  const bool voluntary = rules.clearing == Rules::Clearing::kVoluntary;
  if (setting_up && rules.setup != Rules::Setup::kChosen) return "a setup phase needs setup=chosen";
  if (current_phase == kClearPhase && !voluntary) return "a clear phase needs clearing=voluntary";
  if (finished) return "";
  if ((current_phase == kClearPhase) != (clear_column < kColumns)) return "no column is offered in this phase";
  if (clear_column != kNobody && clear_column >= kColumns) return "no such column";
  if (ender != kNobody && (face_down[ender] || ender == to_move)) return "the round's ender still has a turn";
  for (int seat = 0; seat < players; ++seat) {
    const bool between_turns = seat != to_move || current_phase == kSourcePhase || current_phase == kKeepPhase;
    const bool had_final_turn = ender != kNobody && relative(seat, ender) < relative(to_move, ender);
    if (between_turns && !had_final_turn && !face_down[seat])
      return "seat " + std::to_string(seat) + " has nothing face down, and the round goes on";
    if (setting_up) {
      const int revealed = kCells - __builtin_popcount(face_down[seat]);
      const int wanted = seat < to_move ? rules.initial_reveals : 0;
      if (seat == to_move ? revealed >= rules.initial_reveals : revealed != wanted)
        return "the reveals of the setup are out of order";
    }
  }
  switch (current_phase) {
    case kSourcePhase:
    case kSetupPhase:
      if (hand != kNoCard) return "a card is in hand before one was drawn";
      if (discard_size < 1 || draw_size + discard_size < 2) return "there is nothing to draw";
      break;
    case kKeepPhase:
      if (hand_source != kFromDeck) return "no drawn card is in hand";
      if (discard_size < 1) return "the discard pile is empty";
      break;
    case kPositionPhase:
      if (hand == kNoCard ? !face_down[to_move] || !discard_size : !in_grid[to_move])
        return "no position can be chosen";
      if (draw_size + discard_size < 1) return "there is nothing to draw";
      break;
    default:
      if (hand != kNoCard || !complete(to_move, clear_column)) return "the column offered is not complete";
      if (draw_size + discard_size < 2 || discard_size < 1) return "there is nothing to draw";
  }
  return "";
}

// Cards are codes (value + 3, 0 for none), seat by seat; the history is latest first.
inline StateFields Skyjo::inspect() const {
  using List = std::vector<int64_t>;
  const int n = num_players;
  List boards, up, draw(pile, pile + draw_size), discard, out, events, columns;
  for (int seat = 0; seat < n; ++seat) {
    for (int cell = 0; cell < kCells; ++cell) {
      boards.push_back(grid[seat][cell]);
      up.push_back((in_grid[seat] & ~face_down[seat]) >> cell & 1);
    }
    columns.push_back(columns_cleared[seat]);
  }
  for (int i = 0; i < discard_size; ++i) discard.push_back(discard_at(i));
  for (int card = 0; card < 16; ++card) out.insert(out.end(), removed[card], card);
  for (uint32_t back = 1; back <= num_events(); ++back) {
    const Event& e = event(back);
    events.insert(events.end(), {e.actor - 1, e.kind, e.position, e.card, e.card_out, e.source});
  }
  const auto seat_or_none = [](uint8_t seat) { return seat == kNobody ? -1 : int64_t{seat}; };
  return {{"boards", boards},
          {"face_up", up},
          {"draw_pile", draw},
          {"discard_pile", discard},
          {"out_of_play", out},
          {"hand", {hand}},
          {"hand_source", {hand_source}},
          {"to_play", {to_play()}},
          {"phase", {current_phase}},
          {"ender", {seat_or_none(ender)}},
          {"starter", {seat_or_none(starter)}},
          {"scores", List(totals, totals + n)},
          {"last_round_scores", List(round_scores, round_scores + n)},
          {"round", {round}},
          {"decisions", {decisions}},
          {"round_decisions", {round_decisions}},
          {"turns", {turns}},
          {"columns_cleared", columns},
          {"reshuffled", {reshuffled}},
          {"history", events},
          {"clear_column", {seat_or_none(clear_column)}},
          {"done", {finished}},
          {"truncated", {truncated_}}};
}

// A round that has just begun has no event yet.
inline std::string Skyjo::last_event() const {
  const Event& e = event(1);
  const auto card = [](int code) { return std::to_string(value_of(code)); };
  const std::string where = std::to_string(e.position - 1);
  switch (e.kind) {
    case kDrew:
      return "drew from the deck";
    case kTook:
      return "took " + card(e.card) + " from the discard pile";
    case kKept:
      return "kept the drawn card";
    case kDiscarded:
      return "discarded the drawn card, " + card(e.card_out);
    case kReplaced:
      return "put " + card(e.card) + " at position " + where + " and discarded " + card(e.card_out);
    case kTurned:
    case kRevealed:
      return "turned over " + card(e.card) + " at position " + where;
    case kCleared:
      return "discarded column " + where;
    case kDeclined:
      return "kept column " + where;
    default:
      return "";
  }
}

// A table as text, from a seat's point of view (-1: a spectator). Face-down cards are ##.
inline std::string Skyjo::render(const Rules& rules, int seat) const {
  char line[160];
  auto text = [](int card) { return std::to_string(value_of(card)); };
  std::string out;
  std::snprintf(line, sizeof line, "Round %u, decision %u, %s\n", round + 1, decisions,
                finished ? (truncated_ ? "truncated" : "finished")
                         : ("seat " + std::to_string(to_move) + " to decide: " + phase_name(current_phase)).c_str());
  out += line;
  std::snprintf(line, sizeof line, "Draw pile %d   discard pile %d, top %s", draw_size, discard_size,
                discard_size ? text(discard_top()).c_str() : "-");
  out += line;
  if (hand != kNoCard) {
    out += "   in hand " + ((seat == to_move || hand_source == kFromDiscard) ? text(hand) : std::string("##"));
  }
  if (ender != kNobody && !finished) out += "   final turns: seat " + std::to_string(ender) + " ended the round";
  if (clear_column < kColumns) out += "   column " + std::to_string(clear_column) + " is complete";
  out += "\n";
  constexpr int kAbreast = 3;  // seats side by side, so that a terminal of 80 columns holds them
  for (int first = 0; first < num_players; first += kAbreast) {
    const int last = std::min<int>(first + kAbreast, num_players);
    out += first ? "\n     " : "     ";
    for (int s = first; s < last; ++s) {
      const std::string who =
          "seat " + std::to_string(s) + (s == seat ? " (you)" : "") + (!finished && s == to_move ? " *" : "");
      std::snprintf(line, sizeof line, " %-22s", who.c_str());
      out += line;
    }
    for (int row = 0; row < 3; ++row) {  // each row, with its positions in front of it
      std::snprintf(line, sizeof line, "\n%2d-%-2d", row * kColumns, row * kColumns + kColumns - 1);
      out += line;
      for (int s = first; s < last; ++s) {
        for (int column = 0; column < kColumns; ++column) {
          const int cell = row * kColumns + column;
          const std::string card = !(in_grid[s] >> cell & 1)  ? "."
                                   : face_down[s] >> cell & 1 ? "##"
                                                              : text(grid[s][cell]);
          std::snprintf(line, sizeof line, "%4s", card.c_str());
          out += line;
        }
        out += "       ";
      }
    }
    out += "\n     ";
    for (int s = first; s < last; ++s) {
      const std::string before = round || finished ? ", last round " + std::to_string(round_scores[s]) : "";
      std::snprintf(line, sizeof line, " %-22s", ("total " + std::to_string(totals[s]) + before).c_str());
      out += line;
    }
  }
  if (const int sum = finished && ender != kNobody ? face_up_sum(ender) : 0; sum && round_scores[ender] == 2 * sum) {
    std::snprintf(line, sizeof line, "\nSeat %d ended the round without the lowest sum: its %d points are doubled.",
                  ender, sum);
    out += line;
  }
  std::snprintf(line, sizeof line, "\nThe match ends at %d.", rules.target);
  if (rules.episode == Rules::Episode::kMatch) out += line;
  return out + "\n";
}

}  // namespace env
