// Skyjo, the rules.
//
// CARDS. 150 cards: -2 five times, -1 ten times, 0 fifteen times, 1 to 12 ten times each. 2 to 8 players. Every player
// has 12 cards face down in a grid of 3 rows and 4 columns; one card opens the discard pile, the rest is the draw
// pile. Nobody looks at face-down cards, not even their owner.
//
// START. Every player turns two cards over. The highest sum begins (ties: the lowest seat); in later rounds the player
// who ended the last one.
//
// TURN. Take the top of the discard pile and replace one of your cards with it; or draw from the pile, and either
// keep the card and replace one of yours, or discard it and turn over one of your face-down cards. A card
// that is replaced goes face up on the discard pile. If the draw pile is empty when a card is needed, the discard
// pile except its top is shuffled and becomes the draw pile.
//
// COLUMNS. Three equal face-up cards in a column leave the grid, on top of the discard pile, at once.
//
// END. When all cards of a player are face up after a turn, every other player has one more turn. Then all cards are
// turned over (completed columns leave) and the sums are taken. If the sum of the player who ended the round is not
// strictly the lowest, it is doubled, unless it is zero or negative. Rounds are played until a player's total
// is 100 or more; the lowest total wins, equal lowest totals share the win.
//
// Options, actions, phases, observation and randomness: docs/games/skyjo.md.
#pragma once

#include <algorithm>
#include <cstdio>

#include "env/games/card_game.h"
#include "env/games/skyjo_rules.h"

namespace env {

// Offsets of the groups in an observation row for P players (docs/games/skyjo.md has the fields).
struct SkyjoLayout {
  static constexpr int kHistory = kHistoryLength;
  static constexpr int board(int) { return 0; }
  static constexpr int discard(int players) { return 48 * players; }
  static constexpr int global(int players) { return discard(players) + 2; }
  static constexpr int score(int players) { return global(players) + 10; }
  static constexpr int history(int players) { return score(players) + 2 * players; }
  static constexpr int decision(int players) { return history(players) + 6 * kHistory; }
  static constexpr int counts(int players) { return decision(players) + 4; }
  static constexpr int width(int players, bool with_counts = true) {
    return counts(players) + (with_counts ? 2 * SkyjoRules::kValues : 0);
  }
};

// A line of the public history.
struct SkyjoEvent {
  uint8_t actor, kind, position, card, card_out, source, unused[2];
};

struct SkyjoBots;

struct Skyjo : RoundGame<Skyjo, SkyjoRules, 8, SkyjoEvent> {
  using Bots = SkyjoBots;
  using Layout = SkyjoLayout;

  static constexpr const char* kName = "skyjo";
  static constexpr int kVersion = 1;
  static constexpr int kNumActions = 16;
  static constexpr int kMinPlayers = 2;
  static constexpr const char* kWhyPlayers = "the rules are written for these";
  static constexpr int kNumPhases = 5;
  static constexpr int kScoreScale = 100;  // points that end a match
  static constexpr int kMaxWidth = Layout::width(kMaxPlayers);
  static constexpr int kPools = 2;
  static constexpr int kCardKinds = SkyjoRules::kValues;
  static constexpr int kOutcomes = 1 + kCardKinds;

  enum Action : int { kDeck = 0, kTake = 1, kKeep = 2, kDiscard = 3, kPosition = 4 };
  enum Phase : uint8_t { kSourcePhase, kKeepPhase, kPositionPhase, kSetupPhase, kClearPhase };
  enum Source : uint8_t { kNoSource, kFromDeck, kFromDiscard };
  enum Kind : uint8_t { kNoEvent, kDrew, kTook, kKept, kDiscarded, kReplaced, kTurned, kRevealed, kCleared, kDeclined };

  static constexpr int kCells = 12;
  static constexpr int kColumns = 4;
  static constexpr uint16_t kColumnMask = 0x111;  // cells 0, 4, 8: column 0; shift it by the column
  static constexpr uint16_t kAllCells = 0xfff;

  // A card is coded as value + 3, so 1..15; 0 is no card.
  static constexpr int value_of(int card) { return card - 3; }

  // ---- state -------------------------------------------------------------------------------------------
  uint32_t turns;                   // turns completed in this episode
  uint16_t face_down[kMaxPlayers];  // a bit per cell that is face down
  uint16_t in_grid[kMaxPlayers];    // a bit per cell that is not cleared
  uint16_t columns_cleared[kMaxPlayers];
  uint8_t grid[kMaxPlayers][kCells];  // card codes, kNoCard where cleared
  uint8_t draw_counts[16];            // cards of each code in the draw pile
  uint8_t down_counts[16];            // cards of each code face down in the grids
  uint8_t removed[16];                // cards of each code out of play
  uint8_t hand;
  uint8_t hand_source;
  uint8_t ender;         // seat that ended the round, or kNobody
  uint8_t last_ender;    // seat that ended the round before, or kNobody
  uint8_t clear_column;  // column offered in the clear phase, otherwise kNobody
  uint8_t revealed;      // face-down card that the last decision turned up or replaced, or kNoCard
  uint8_t spare[6];

  // ---- play --------------------------------------------------------------------------------------------
  void decide(const Rules& rules, int action) {
    revealed = kNoCard;
    switch (current_phase) {
      case kSourcePhase:
        action == kDeck ? draw_from_deck() : take_discard();
        break;
      case kKeepPhase:
        action == kKeep ? keep_drawn() : discard_drawn();
        break;
      case kPositionPhase:
        hand != kNoCard ? replace(rules, action - kPosition) : turn_over(rules, action - kPosition);
        break;
      case kSetupPhase:
        reveal(rules, action - kPosition);
        break;
      case kClearPhase:
        decide_column(rules, action == kDiscard);
        break;
    }
  }

  uint64_t legal(const Rules&) const {
    if (finished) return 0;
    switch (current_phase) {
      case kSourcePhase:
        return 1u << kDeck | 1u << kTake;
      case kPositionPhase:
        return static_cast<uint64_t>(hand != kNoCard ? in_grid[to_move] : face_down[to_move]) << kPosition;
      case kSetupPhase:
        return static_cast<uint64_t>(face_down[to_move]) << kPosition;
      default:
        return 1u << kKeep | 1u << kDiscard;
    }
  }

  // ---- results -----------------------------------------------------------------------------------------
  static std::vector<std::string> stat_names(int players) {
    std::vector<std::string> names = {"decisions", "turns", "rounds", "ender"};
    for (int seat = 0; seat < players; ++seat) names.push_back("columns_cleared_" + std::to_string(seat));
    return names;
  }

  void stats(int32_t* out) const {
    *out++ = static_cast<int32_t>(decisions);
    *out++ = static_cast<int32_t>(turns);
    *out++ = static_cast<int32_t>(round + 1);
    *out++ = ender == kNobody ? -1 : ender;
    for (int seat = 0; seat < num_players; ++seat) *out++ = columns_cleared[seat];
  }

  // ---- knowledge and description: skyjo_knowledge.h, skyjo_check.h -----------------------------------
  static ObservationSpec observation(int players, bool counts);
  void observe(const Rules& rules, int seat, int16_t* out, bool counts = true) const;
  void unseen_counts(int seat, int16_t* out) const;
  void determinize(const Rules& rules, int seat, uint64_t key);
  void true_cards(int seat, int8_t* out) const;

  static ChanceRule chance_rule(int players, int phase, int action);
  int outcome(int seat) const;
  void odds(const Rules& rules, int seat, int action, float* out) const;
  void arrange(const Rules& rules, int action, int outcome);

  static std::string phase_name(int phase);
  static std::string action_name(int action);
  static PhaseRule phase_rule(int players, int phase, int action);
  static ActionShape action_shape(int players, int action);
  static std::vector<std::vector<int>> symmetric_blocks();
  static void relabel(const int8_t* to, int players, int16_t* row);
  std::string check(const Rules& rules, int players) const;
  StateFields inspect() const;
  std::string last_event() const;
  std::string render(const Rules& rules, int seat) const;

  // The card in hand is the only private card: if it came from the deck, only its holder sees it.
  bool hand_hidden_from(int seat) const { return hand_source == kFromDeck && seat != to_move && seat != kDealer; }

 private:
  friend RoundGame;
  friend CardGame;

  void observe_board(int seat, int r, int16_t* out) const;

  uint8_t draw() {
    const uint8_t card = draw_card();
    --draw_counts[card];
    return card;
  }

  // ---- a round -----------------------------------------------------------------------------------------
  void start_round(const Rules& rules) {
    last_ender = round ? ender : uint8_t{kNobody};
    gather_deck(rules);
    for (int value = 0; value < Rules::kValues; ++value) {
      draw_counts[value + 1] = static_cast<uint8_t>(rules.deck[value]);
    }
    std::memset(down_counts, 0, sizeof down_counts);
    std::memset(removed, 0, sizeof removed);
    ender = clear_column = kNobody;
    hand = kNoCard;
    hand_source = kNoSource;

    for (int seat = 0; seat < num_players; ++seat) {
      face_down[seat] = in_grid[seat] = kAllCells;
      for (int cell = 0; cell < kCells; ++cell) {
        const uint8_t card = draw();
        grid[seat][cell] = card;
        ++down_counts[card];
      }
    }
    push_discard(draw());

    if (rules.setup == Rules::Setup::kChosen && rules.initial_reveals > 0) {
      starter = kNobody;
      to_move = 0;
      current_phase = kSetupPhase;
      return;
    }
    for (int seat = 0; seat < num_players; ++seat) {
      uint8_t cells[kCells] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
      for (int left = kCells; left > kCells - rules.initial_reveals; --left) {
        const uint32_t pick = rng.below(static_cast<uint32_t>(left));
        turn_up(seat, cells[pick]);
        clear_if_complete(rules, seat, cells[pick] % kColumns);
        cells[pick] = cells[left - 1];
      }
    }
    choose_starter(rules);
  }

  void choose_starter(const Rules& rules) {
    if (rules.first_starter == Rules::FirstStarter::kRandom && round == 0) {
      starter = static_cast<uint8_t>(Rng{rng.key, uint64_t{1} << 57}.below(num_players));
    } else if (rules.next_starter == Rules::NextStarter::kSeat0) {
      starter = 0;
    } else if (rules.next_starter == Rules::NextStarter::kEnder && last_ender != kNobody) {
      starter = last_ender;
    } else {
      starter = 0;
      for (int seat = 1; seat < num_players; ++seat) {
        if (face_up_sum(seat) > face_up_sum(starter)) starter = static_cast<uint8_t>(seat);
      }
    }
    to_move = starter;
    current_phase = kSourcePhase;
  }

  int face_up_sum(int seat) const {
    int sum = 0;
    for (uint32_t cells = in_grid[seat] & ~face_down[seat]; cells; cells &= cells - 1) {
      sum += value_of(grid[seat][__builtin_ctz(cells)]);
    }
    return sum;
  }

  // ---- decisions ---------------------------------------------------------------------------------------
  void remember(Kind kind, int position, int card, int card_out, int source) {
    const auto byte = [](int number) { return static_cast<uint8_t>(number); };
    RoundGame::remember({byte(1 + to_move), kind, byte(position), byte(card), byte(card_out), byte(source), {}});
  }

  void draw_from_deck() {
    if (draw_size == 0) {
      reshuffle(1);
      for (int i = 0; i < draw_size; ++i) ++draw_counts[pile[i]];
    }
    hand = draw();
    hand_source = kFromDeck;
    remember(kDrew, 0, kNoCard, kNoCard, kFromDeck);
    current_phase = kKeepPhase;
  }

  void take_discard() {
    hand = discard_top();
    --discard_size;
    hand_source = kFromDiscard;
    remember(kTook, 0, hand, kNoCard, kFromDiscard);
    current_phase = kPositionPhase;
  }

  void keep_drawn() {
    remember(kKept, 0, kNoCard, kNoCard, kFromDeck);
    current_phase = kPositionPhase;
  }

  void discard_drawn() {
    remember(kDiscarded, 0, kNoCard, hand, kFromDeck);
    push_discard(hand);
    hand = kNoCard;
    hand_source = kNoSource;
    current_phase = kPositionPhase;
  }

  void replace(const Rules& rules, int cell) {
    const uint8_t old = grid[to_move][cell];
    if (face_down[to_move] >> cell & 1) show(cell);
    remember(kReplaced, 1 + cell, hand, old, hand_source);
    grid[to_move][cell] = hand;
    hand = kNoCard;
    hand_source = kNoSource;
    push_discard(old);
    after_change(rules, cell);
  }

  void turn_over(const Rules& rules, int cell) {
    show(cell);
    remember(kTurned, 1 + cell, grid[to_move][cell], kNoCard, kNoSource);
    after_change(rules, cell);
  }

  void reveal(const Rules& rules, int cell) {
    show(cell);
    remember(kRevealed, 1 + cell, grid[to_move][cell], kNoCard, kNoSource);
    clear_if_complete(rules, to_move, cell % kColumns);
    if (__builtin_popcount(face_down[to_move]) > kCells - rules.initial_reveals) return;
    if (to_move + 1 < num_players) {
      ++to_move;
    } else {
      choose_starter(rules);
    }
  }

  void decide_column(const Rules& rules, bool discard) {
    const int column = clear_column;
    const int card = grid[to_move][column];
    remember(discard ? kCleared : kDeclined, 1 + column, discard ? kNoCard : card, discard ? card : kNoCard, kNoSource);
    if (discard) clear(rules, to_move, column);
    offer_column(rules, column + 1);
  }

  // ---- consequences ------------------------------------------------------------------------------------
  // A decision turns up a card of the player to move.
  void show(int cell) {
    turn_up(to_move, cell);
    revealed = grid[to_move][cell];
  }

  void turn_up(int seat, int cell) {
    face_down[seat] = static_cast<uint16_t>(face_down[seat] & ~(1u << cell));
    --down_counts[grid[seat][cell]];
  }

  bool complete(int seat, int column) const {
    const uint16_t cells = static_cast<uint16_t>(kColumnMask << column);
    const uint8_t* card = grid[seat] + column;
    return card[0] == card[4] && card[0] == card[8] && !(face_down[seat] & cells) && (in_grid[seat] & cells);
  }

  void clear(const Rules& rules, int seat, int column) {
    for (int cell = column; cell < kCells; cell += kColumns) {
      const uint8_t card = grid[seat][cell];
      if (rules.cleared_cards == Rules::ClearedCards::kDiscardPile) {
        push_discard(card);
      } else {
        ++removed[card];
      }
      grid[seat][cell] = kNoCard;
    }
    in_grid[seat] = static_cast<uint16_t>(in_grid[seat] & ~(kColumnMask << column));
    ++columns_cleared[seat];
  }

  void clear_if_complete(const Rules& rules, int seat, int column) {
    if (complete(seat, column)) clear(rules, seat, column);
  }

  void after_change(const Rules& rules, int cell) {
    if (rules.clearing == Rules::Clearing::kVoluntary) return offer_column(rules, 0);
    clear_if_complete(rules, to_move, cell % kColumns);
    end_turn(rules);
  }

  void offer_column(const Rules& rules, int first) {
    for (int column = first; column < kColumns; ++column) {
      if (!complete(to_move, column)) continue;
      clear_column = static_cast<uint8_t>(column);
      current_phase = kClearPhase;
      return;
    }
    clear_column = kNobody;
    end_turn(rules);
  }

  void end_turn(const Rules& rules) {
    ++turns;
    if (ender == kNobody && face_down[to_move] == 0) ender = to_move;
    const int following = next(to_move);
    if (following == ender) {
      score_round(rules, rules.ender_penalty == Rules::EnderPenalty::kStrictLowestRequired);
      return end_round(rules);
    }
    to_move = static_cast<uint8_t>(following);
    current_phase = kSourcePhase;
  }

  void score_round(const Rules& rules, bool penalty) {
    for (int seat = 0; seat < num_players; ++seat) {
      while (face_down[seat]) turn_up(seat, __builtin_ctz(face_down[seat]));
      for (int column = 0; rules.clear_on_final_reveal && column < kColumns; ++column) {
        const bool wanted = rules.clearing == Rules::Clearing::kAutomatic || value_of(grid[seat][column]) > 0;
        if (wanted) clear_if_complete(rules, seat, column);
      }
      round_scores[seat] = face_up_sum(seat);
    }
    if (penalty && (round_scores[ender] > 0 || rules.penalty_on_nonpositive)) {
      const int own = round_scores[ender];
      const auto not_above = std::count_if(round_scores, round_scores + num_players, [own](int s) { return s <= own; });
      if (not_above > 1) round_scores[ender] *= 2;
    }
    for (int seat = 0; seat < num_players; ++seat) totals[seat] += round_scores[seat];
  }

  // Points of a seat in 4,096 rounds of two `greedy` bots (`python -m experiments.match_utility` prints them).
  static int usual_points(const Rules&, int, uint32_t i) {
    constexpr int kPoints[kUsualPoints] = {0, 2, 4, 5, 6, 8, 9, 11, 12, 14, 16, 18, 21, 24, 28, 36};
    return kPoints[i];
  }

  void score_truncated(const Rules& rules) {
    score_round(rules, false);
    clear_column = kNobody;
  }
};

}  // namespace env
