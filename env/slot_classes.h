// Classes of slots that the player to move cannot tell apart, so that a search need not try each of them. Written for
// all games, from what they declare: the observation, the symmetric blocks, and the slots that actions are about.
#pragma once

#include <algorithm>

#include "env/game_info.h"

namespace env {

// Two slots of a player have the same class if and only if
//   - their tokens are equal but for fields that name places,
//   - the tokens of their blocks are equal as multisets in the same way,
//   - actions are about them in the same kinds and roles, equally often,
//   - the decision at hand (a group of one token) names neither of them, nor their blocks, or both in the same field.
// They may then trade places by the symmetries of the game without a change of the observation, but for the names of
// places in tokens of the past. A class is the number of the first such slot of its player.
class SlotClasses {
 public:
  explicit SlotClasses(const GameInfo& info)
      : players_(info.num_players), slots_(info.slots()), spec_(info.observation) {
    block_of_.resize(static_cast<size_t>(slots_));
    for (const auto& block : info.symmetric_blocks) {
      for (const int slot : block) block_of_[static_cast<size_t>(slot)] = static_cast<int>(blocks_.size());
      blocks_.push_back(block);
    }
    // Actions count slots from the player to move on, as observations do.
    std::vector<std::vector<std::pair<int, int>>> used(static_cast<size_t>(players_ * slots_));
    for (const ActionShape& shape : info.action_shapes) {
      for (const auto& [slot, role] : shape.slots) used[static_cast<size_t>(slot)].emplace_back(shape.kind, role);
    }
    for (auto& roles : used) {
      std::sort(roles.begin(), roles.end());
      uint64_t hash = 0;
      for (const auto& [kind, role] : roles) hash = fold(fold(hash, kind), role);
      roles_.push_back(hash);
    }
  }

  int slots() const { return players_ * slots_; }  // slots of all players
  int width() const { return spec_.width; }        // numbers in a row

  // Writes the classes [players * slots] of the slots that the row shows, those of its observer first.
  void write(const int16_t* row, uint8_t* out) const {
    std::vector<uint64_t> content = roles_;
    size_t first = 0;  // first slot of the group
    for (const TokenGroup& group : spec_.groups) {
      if (!group.slots) {
        mark_named(group, row, content);
        continue;
      }
      const auto width = group.fields.size();
      for (size_t token = 0; token < static_cast<size_t>(group.count); ++token) {
        const int16_t* value = row + group.offset + token * width;
        for (size_t f = 0; f < width; ++f) {
          if (!group.fields[f].place) content[first + token] = fold(content[first + token], value[f]);
        }
      }
      first += static_cast<size_t>(group.count);
    }
    for (size_t player = 0; player < static_cast<size_t>(players_); ++player) {
      classify(content.data() + player * static_cast<size_t>(slots_), out + player * static_cast<size_t>(slots_));
    }
  }

 private:
  static uint64_t fold(uint64_t hash, int number) { return mix(hash + kGamma * (static_cast<uint64_t>(number) + 1)); }

  // Sets the slots apart that a single token names: 0 is nothing, else 1 + slot, or 1 + block, of the player to move.
  void mark_named(const TokenGroup& group, const int16_t* row, std::vector<uint64_t>& content) const {
    for (size_t f = 0; group.count == 1 && f < group.fields.size(); ++f) {
      const int named = row[group.offset + static_cast<int>(f)] - 1;
      if (!group.fields[f].place || named < 0) continue;
      const bool block = group.fields[f].vocabulary == 1 + static_cast<int>(blocks_.size());
      for (int slot = 0; slot < slots_; ++slot) {
        uint64_t& hash = content[static_cast<size_t>(slot)];
        if ((block ? block_of_[static_cast<size_t>(slot)] : slot) == named) hash = fold(hash, static_cast<int>(f));
      }
    }
  }

  // Classes of one player's slots.
  void classify(const uint64_t* content, uint8_t* out) const {
    uint64_t sums[256] = {};  // of the contents of blocks, in no order
    for (size_t b = 0; b < blocks_.size(); ++b) {
      for (const int slot : blocks_[b]) sums[b] += mix(content[slot]);
    }
    for (int slot = 0; slot < slots_; ++slot) {
      const auto same = [&](int other) {
        return content[other] == content[slot] &&
               sums[block_of_[static_cast<size_t>(other)]] == sums[block_of_[static_cast<size_t>(slot)]];
      };
      int found = 0;
      while (!same(found)) ++found;
      out[slot] = static_cast<uint8_t>(found);
    }
  }

  const int players_, slots_;
  const ObservationSpec spec_;
  std::vector<std::vector<int>> blocks_;
  std::vector<int> block_of_;    // [slots of a player] block of each slot
  std::vector<uint64_t> roles_;  // [slots of all players] hash of what actions do with a slot
};

}  // namespace env
