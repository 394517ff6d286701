// L.A.M.A.: validity of states (for bytes that come from outside), and the table in words (for people).
#pragma once

#include "env/games/lama.h"

namespace env {

// Guarantees that every step from an accepted state is safe and that play ends. Accepts every state that play can
// reach, and some that it cannot (a total that no round adds up to, say).
inline std::string Lama::check(const Rules& rules, int players) const {
  if (const std::string problem = check_table(rules, players); !problem.empty()) return problem;
  if (starter >= players) return "nobody sits where the starter does";
  if (aborted > truncated_) return "a flag is neither 0 nor 1";
  if (discard_size < 1) return "its piles are no piles of the deck";
  for (uint8_t byte : spare) {
    if (byte) return "it has something where nothing belongs";
  }

  int left[1 + Rules::kKinds] = {};  // cards of the deck that were not found yet
  for (int kind = 0; kind < Rules::kKinds; ++kind) left[kind + 1] = rules.deck[kind];
  int draw[1 + Rules::kKinds] = {}, playing = 0;
  for (int seat = 0; seat < kMaxPlayers; ++seat) {
    const std::string who = "seat " + std::to_string(seat);
    int cards = 0;
    for (int card = 0; card <= kLlama; ++card) {
      cards += hand[seat][card];
      left[card] -= hand[seat][card];
    }
    if (cards != hand_size[seat] || folded[seat] > 1) return who + " has no proper hand";
    if (rounds_won[seat] > decisions || folds[seat] > decisions) return "its counters contradict each other";
    const bool present = seat < players;
    playing += present && !folded[seat];
    if (!present && (cards || folded[seat] || totals[seat] || round_scores[seat] || rounds_won[seat] || folds[seat]))
      return "an empty seat is not empty";
    if (totals[seat] < 0 || totals[seat] > 1000000000 || round_scores[seat] < -10 || round_scores[seat] > 1000)
      return "the score of " + who + " is out of range";
    if (present && !finished && cards == 0) return who + " has no cards, and the round goes on";
  }
  if (drawn > kLlama || (drawn && !hand[last_mover][drawn])) return "the card drawn last is not in hand";
  if (playing != active) return "it miscounts who has folded";
  if (!count_piles(left, draw)) return "a pile has no proper card";
  for (int card = 0; card <= kLlama; ++card) {
    if (left[card] != 0) return "its cards are not those of the deck";
    if (draw[card] != draw_counts[card]) return "its card counts are wrong";
  }
  if (!history_is_sound(players, kFolded)) return "its history has an impossible entry";
  for (const Event& e : history) {
    if (e.card > kLlama || e.top > kLlama) return "its history has an impossible entry";
  }
  if (finished) return "";
  if (folded[to_move]) return "the player to move has folded";
  if ((current_phase == kAlonePhase) != (active == 1)) return "the phase does not fit who has folded";
  if (active == 1 && rules.last_player == Rules::LastPlayer::kStops) return "the round would be over";
  return "";
}

// Cards are codes (llama 7), hands are counts of 1 to llama, seat by seat; the history is latest first.
inline StateFields Lama::inspect() const {
  using List = std::vector<int64_t>;
  const int n = num_players;
  List hands, deck(pile, pile + draw_size), discard, events;
  for (int seat = 0; seat < n; ++seat) hands.insert(hands.end(), hand[seat] + 1, hand[seat] + 1 + Rules::kKinds);
  for (int i = 0; i < discard_size; ++i) discard.push_back(discard_at(i));
  for (uint32_t back = 1; back <= num_events(); ++back) {
    const Event& e = event(back);
    events.insert(events.end(), {e.actor - 1, e.kind, e.card, e.top});
  }
  return {{"hands", hands},
          {"draw_pile", deck},
          {"discard_pile", discard},
          {"folded", List(folded, folded + n)},
          {"to_play", {to_play()}},
          {"phase", {current_phase}},
          {"starter", {starter}},
          {"scores", List(totals, totals + n)},
          {"last_round_scores", List(round_scores, round_scores + n)},
          {"round", {round}},
          {"decisions", {decisions}},
          {"round_decisions", {round_decisions}},
          {"reshuffles", {reshuffles}},
          {"reshuffled", {reshuffled}},
          {"rounds_won", List(rounds_won, rounds_won + n)},
          {"folds", List(folds, folds + n)},
          {"history", events},
          {"done", {finished}},
          {"truncated", {truncated_}},
          {"aborted", {aborted}}};
}

// A round that has just begun has no event yet.
inline std::string Lama::last_event() const {
  const Event& e = event(1);
  if (e.kind == kNoEvent) return "";
  const int cards = hand_size[e.actor - 1];
  const std::string left = std::to_string(cards) + (cards == 1 ? " card" : " cards");
  switch (e.kind) {
    case kPlayed:
      return action_name(e.card - 1).replace(0, 4, "played") + ", " + (cards ? left + " left" : "the last card");
    case kDrew:
      return aborted ? "could draw no card" : "drew, " + left + " in hand";
    default:
      return "folded with " + left;
  }
}

// A table as text, from a seat's point of view (-1: a spectator). Other hands are shown when the episode is over.
inline std::string Lama::render(const Rules& rules, int seat) const {
  char line[160];
  const auto text = [](int card) { return card == kLlama ? std::string("llama") : std::to_string(card); };
  std::string out;
  std::snprintf(line, sizeof line, "Round %u, decision %u, %s\n", round + 1, decisions,
                finished ? (truncated_ ? "truncated" : "finished")
                         : ("seat " + std::to_string(to_move) + " to decide: " + phase_name(current_phase)).c_str());
  out += line;
  std::snprintf(line, sizeof line, "Deck %d   pile %d, top %s\n", draw_size, discard_size, text(discard_top()).c_str());
  out += line;
  for (int s = 0; s < num_players; ++s) {
    const std::string who =
        "seat " + std::to_string(s) + (s == seat ? " (you)" : "") + (!finished && s == to_move ? " *" : "");
    const std::string before = round || finished ? ", last round " + std::to_string(round_scores[s]) : "";
    const std::string cards = std::to_string(hand_size[s]) + (hand_size[s] == 1 ? " card" : " cards");
    std::snprintf(line, sizeof line, "  %-15s total %d%s   %s%s", who.c_str(), totals[s], before.c_str(), cards.c_str(),
                  folded[s] ? ", folded" : "");
    out += line;
    if (!hand_hidden_from(s, seat) && hand_size[s]) out += ":";
    for (int card = 1; card <= kLlama && !hand_hidden_from(s, seat); ++card) {
      for (int i = 0; i < hand[s][card]; ++i) out += " " + text(card);
    }
    out += "\n";
  }
  std::snprintf(line, sizeof line, "The match ends at %d.\n", rules.target);
  if (rules.episode == Rules::Episode::kMatch) out += line;
  return out;
}

}  // namespace env
