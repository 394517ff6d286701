// SkyjoView: a Skyjo observation row, read by name. The bots know nothing else. Fields and codes: docs/games/skyjo.md.
//
// Seats are relative to the observer, who is 0. Cards are codes (value + 3, 0 for no card). Sets of grid cells are bit
// masks.
#pragma once

#include "env/games/skyjo.h"

namespace env {

// Pool of unseen cards from which some card is a uniform draw. A player to move has a face-down card and can draw one,
// so that a pool is never empty when it is used.
struct SkyjoPool {
  static constexpr int kFirst = 1, kLast = SkyjoRules::kValues;  // lowest and highest card code

  int count[kLast + 1] = {};  // number of cards by card code
  int total = 0, sum = 0, squares = 0;

  explicit SkyjoPool(const int16_t* counts) {
    for (int card = kFirst; card <= kLast; ++card) add(card, counts[card - kFirst]);
  }

  void add(int card, int copies) {
    const int value = Skyjo::value_of(card);
    count[card] += copies;
    total += copies;
    sum += copies * value;
    squares += copies * value * value;
  }
  void add(const SkyjoPool& other) {
    for (int card = kFirst; card <= kLast; ++card) add(card, other.count[card]);
  }

  double share(int card) const { return static_cast<double>(count[card]) / total; }
  double mean() const { return static_cast<double>(sum) / total; }
  double variance() const { return static_cast<double>(squares) / total - mean() * mean(); }
};

// Grid of one player.
struct SkyjoGrid {
  uint8_t card[Skyjo::kCells];  // card codes; no card if face down or cleared
  uint32_t face_down = 0, face_up = 0;
  int face_up_sum = 0;

  uint32_t cells() const { return face_down | face_up; }
  bool is_face_down(int cell) const { return face_down >> cell & 1; }
  int face_down_count() const { return __builtin_popcount(face_down); }

  // Next cell of the column, cyclically.
  static int below(int cell) {
    static constexpr uint8_t next[] = {4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3};
    return next[cell];
  }
  // Number of the other two cards in the cell's column that equal the given card.
  int matches(int cell, int given) const { return (card[below(cell)] == given) + (card[below(below(cell))] == given); }
  // Cells where the given card would meet exactly that many equal cards.
  uint32_t matching(int given, int equals) const {
    uint32_t found = 0;
    for (int cell = 0; cell < Skyjo::kCells; ++cell) {
      found |= static_cast<uint32_t>(matches(cell, given) == equals) << cell;
    }
    return found;
  }
};

class SkyjoView {
 public:
  SkyjoView(const int16_t* row, int players) : row_(row), players_(players) {}
  int players() const { return players_; }

  // ---- grids -------------------------------------------------------------------------------------------
  int card(int r, int cell) const { return token(r, cell)[3]; }  // card code; no card if face down or cleared
  bool face_down(int r, int cell) const { return token(r, cell)[2] == 0; }
  bool face_up(int r, int cell) const { return token(r, cell)[2] == 1; }
  bool cleared(int r, int cell) const { return token(r, cell)[2] == 2; }

  SkyjoGrid grid(int r) const {
    SkyjoGrid grid;
    for (int cell = 0; cell < Skyjo::kCells; ++cell) {
      grid.card[cell] = static_cast<uint8_t>(card(r, cell));
      grid.face_down |= static_cast<uint32_t>(face_down(r, cell)) << cell;
      grid.face_up |= static_cast<uint32_t>(face_up(r, cell)) << cell;
      grid.face_up_sum += face_up(r, cell) ? Skyjo::value_of(card(r, cell)) : 0;
    }
    return grid;
  }

  // ---- piles and hand ----------------------------------------------------------------------------------
  int top() const { return discard()[0]; }
  int discard_size() const { return discard()[1]; }
  int deck_size() const { return global()[0]; }
  int hand() const { return decision()[1]; }

  // ---- the moment --------------------------------------------------------------------------------------
  int phase() const { return decision()[0]; }
  int offered_column() const { return decision()[3] - 1; }  // column on offer in phase clear
  int decisions() const { return 8 * global()[1]; }         // decisions in this round, rounded down, at most 504
  bool final_turn() const { return global()[6] != 0; }
  int ender() const { return global()[7] - 1; }  // seat that ended the round, -1 for nobody
  bool reshuffled() const { return global()[8] != 0; }
  int to_go(int r) const { return row_[SkyjoLayout::score(players_) + 2 * r + 1]; }

  // ---- belief ------------------------------------------------------------------------------------------
  SkyjoPool face_down_pool() const { return SkyjoPool(counts()); }
  SkyjoPool deck_pool() const { return SkyjoPool(counts() + SkyjoRules::kValues); }
  // Whether both pools are the same cards, so that a card drawn from the deck leaves the face-down pool too.
  bool one_pool() const { return !reshuffled() && deck_size() > 0; }

 private:
  const int16_t* token(int r, int cell) const { return row_ + 4 * (Skyjo::kCells * r + cell); }
  const int16_t* discard() const { return row_ + SkyjoLayout::discard(players_); }
  const int16_t* global() const { return row_ + SkyjoLayout::global(players_); }
  const int16_t* decision() const { return row_ + SkyjoLayout::decision(players_); }
  const int16_t* counts() const { return row_ + SkyjoLayout::counts(players_); }

  const int16_t* row_;
  int players_;
};

}  // namespace env
