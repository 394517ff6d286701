// Equivalent actions. Slots of a player that may trade places without changing the position have the same class, and
// actions that do the same to slots of the same classes lead to the same position up to the names of slots. Such actions
// are searched as one: the first stands for all.
//
// Classes of a root are given. A child inherits them: slots that the action touches get a class of their own, and the
// other slots of their blocks new classes, equal where they were equal. That never joins what differs, if actions change
// nothing but the slots that they touch, but it does not notice slots that become equal.
#pragma once

#include <cmath>
#include <cstring>

#include "mcts/select.h"
#include "native/rng.h"

namespace mcts {

class Equivalence {
 public:
  Equivalence(const Setup& config, const Tree& tree)
      : tree_(tree),
        players_(config.players),
        per_player_(config.block_of.size()),
        blocks_(config.block_of),
        classes_(tree.node.size() * slots()),
        representative_(per_player_ ? static_cast<size_t>(tree.batch * tree.actions) : 0) {
    if (!per_player_) return;
    const auto K = static_cast<size_t>(config.touches);
    for (size_t a = 0; a < static_cast<size_t>(config.actions); ++a) {
      Action action;
      action.kind = native::mix(native::kGamma * static_cast<uint64_t>(config.action_kind[a] + 1));
      for (size_t k = 0; k < K; ++k) {
        const int slot = config.action_slots[a * K + k];
        if (slot < 0) continue;
        const size_t place = static_cast<size_t>(slot) % per_player_;
        const int board = slot / static_cast<int>(per_player_), role = config.action_roles[a * K + k];
        action.touches.push_back({board, place, config.block_of[place], numbers_of(board * 256 + role)});
      }
      std::stable_sort(action.touches.begin(), action.touches.end(), [](const Touch& one, const Touch& other) {
        return one.board != other.board ? one.board < other.board : one.block < other.block;
      });
      for (size_t t = 0; t < action.touches.size(); ++t) {
        const Touch& touch = action.touches[t];
        action.touches[t].ends_block = t + 1 == action.touches.size() || action.touches[t + 1].block != touch.block ||
                                       action.touches[t + 1].board != touch.board;
      }
      table_.push_back(std::move(action));
    }
  }

  size_t slots() const { return static_cast<size_t>(players_) * per_player_; }

  // Whether the current search joins equivalent actions.
  bool on() const { return on_; }
  void begin(bool on) { on_ = on; }

  // Takes the classes of a root: row `game` of `classes`, [B, slots].
  void set_root(int game, const uint8_t* classes) {
    std::copy_n(classes + static_cast<size_t>(game) * slots(), slots(), row(tree_.at(game, kRoot)));
  }

  // Finds the classes of a new decision node and joins its equivalent legal actions. logit [A]: the first of equivalent
  // actions gets the logarithm of their summed exponentials. Returns the actions that remain legal.
  uint64_t merge(int game, size_t node, float* logit) {
    const Node& here = tree_.node[node];
    if (here.parent == kNone) {
      uint8_t* representative = &representative_[static_cast<size_t>(game * tree_.actions)];
      for (int a = 0; a < tree_.actions; ++a) representative[a] = static_cast<uint8_t>(a);
      return joined(row(node), 0, here.legal, logit, representative);
    }
    const Node& above = tree_.node[tree_.at(game, here.parent)];
    const Node& moved = above.chance ? above : here;
    const size_t decided = tree_.at(game, moved.parent);
    inherit(row(decided), tree_.node[decided].to_play, moved.edge, row(node));
    return joined(row(node), here.to_play, here.legal, logit, nullptr);
  }

  // Action that stands for an action of the root.
  int representative(int game, int action) const {
    return on_ ? representative_[static_cast<size_t>(game * tree_.actions + action)] : action;
  }

  // Writes a number per action of the root, [A]: equivalent ones get equal parts of the number of the one searched.
  void share_out(int game, const float* numbers, float* out) const {
    const int A = tree_.actions;
    if (!on_) return void(std::copy_n(numbers, A, out));
    float copies[kMaxEdges] = {};
    for (int a = 0; a < A; ++a) copies[representative(game, a)] += 1;
    for (int a = 0; a < A; ++a) out[a] = numbers[representative(game, a)] / copies[representative(game, a)];
  }

 private:
  struct Touch {
    int board;     // player whose slot it is, counted from the mover
    size_t place;  // slot of that player
    int block;
    size_t numbers;           // row of `numbers_` for its board and role
    bool ends_block = false;  // whether the next slot is in another block
  };
  struct Action {
    uint64_t kind = 0;           // number that is the same for actions of one kind
    std::vector<Touch> touches;  // slots of a block one after the other
  };

  uint8_t* row(size_t node) { return &classes_[node * slots()]; }

  // Writes the classes of the slots after an action of the player `mover`. above, own [slots], by seat.
  void inherit(const uint8_t* above, int mover, int action, uint8_t* own) const {
    std::memcpy(own, above, slots());
    const auto& touches = table_[static_cast<size_t>(action)].touches;
    for (size_t first = 0, end; first < touches.size(); first = end) {
      for (end = first + 1; end < touches.size() && touches[end].board == touches[first].board;) ++end;
      separate(&touches[first], &touches[0] + end, own + board(mover, touches[first].board));
    }
  }

  // Joins equivalent legal actions of the player `mover`; representative [A] or null: the action that stands for each.
  uint64_t joined(const uint8_t* classes, int mover, uint64_t legal, float* logit, uint8_t* representative) const {
    uint64_t signature[kMaxEdges], remaining = legal, copies[kMaxEdges] = {};
    uint64_t seen = 0;  // actions that stand for themselves and touch slots
    for (uint64_t rest = legal; rest; rest &= rest - 1) {
      const int a = __builtin_ctzll(rest);
      if (table_[static_cast<size_t>(a)].touches.empty()) continue;
      signature[a] = signature_of(table_[static_cast<size_t>(a)], classes, mover);
      uint64_t first = seen;
      while (first && signature[__builtin_ctzll(first)] != signature[a]) first &= first - 1;
      if (!first) {
        seen |= uint64_t{1} << a;
        continue;
      }
      const int same = __builtin_ctzll(first);
      remaining &= ~(uint64_t{1} << a);
      copies[same] |= uint64_t{1} << a;
      if (representative) representative[a] = static_cast<uint8_t>(same);
    }
    for (uint64_t rest = remaining; rest; rest &= rest - 1) {
      const int a = __builtin_ctzll(rest);
      if (!copies[a]) continue;
      float highest = logit[a], sum = 0;
      for (uint64_t c = copies[a]; c; c &= c - 1) highest = std::max(highest, logit[__builtin_ctzll(c)]);
      for (uint64_t c = copies[a] | uint64_t{1} << a; c; c &= c - 1)
        sum += fast_exp(logit[__builtin_ctzll(c)] - highest);
      for (uint64_t c = copies[a]; c; c &= c - 1) logit[__builtin_ctzll(c)] = -1e9f;
      logit[a] = highest + std::log(sum);
    }
    return remaining;
  }

  size_t board(int mover, int seats_on) const {
    const int seat = mover + seats_on;
    return static_cast<size_t>(seat < players_ ? seat : seat - players_) * per_player_;
  }

  // A number that is the same for equivalent actions: the kind and, block by block, the roles and classes of the slots
  // touched, in any order. Others have the same number by accident with a probability of 2^-64.
  uint64_t signature_of(const Action& action, const uint8_t* classes, int mover) const {
    uint64_t all = action.kind, block = 0;
    for (const Touch& touch : action.touches) {
      block += numbers_[touch.numbers + classes[board(mover, touch.board) + touch.place]];
      if (!touch.ends_block) continue;
      all += native::mix(block + native::kGamma);
      block = 0;
    }
    return all;
  }

  // Row of `numbers_` for slots on a board in a role, which is added if it is new.
  size_t numbers_of(int where) {
    const size_t known = static_cast<size_t>(std::find(rows_.begin(), rows_.end(), where) - rows_.begin());
    if (known == rows_.size()) {
      rows_.push_back(where);
      for (uint64_t own = 0; own < 256; ++own)
        numbers_.push_back(native::mix(native::kGamma * (static_cast<uint64_t>(where) * 256 + own + 1)));
    }
    return known * 256;
  }

  // Renames the classes of a board on which the slots [first, end) are touched.
  void separate(const Touch* first, const Touch* end, uint8_t* classes) const {
    constexpr int kTouched = 1 << 16, kBeside = 1 << 17;
    int name[256];
    for (size_t i = 0; i < per_player_; ++i) {
      name[i] = classes[i];
      for (const Touch* touch = first; touch != end; ++touch) {
        if (touch->place == i) {
          name[i] = kTouched + static_cast<int>(i);
          break;
        }
        if (touch->block == blocks_[i]) name[i] = kBeside + blocks_[i] * 256 + classes[i];
      }
    }
    for (size_t i = 0; i < per_player_; ++i) {
      classes[i] = static_cast<uint8_t>(std::find(name, name + i, name[i]) - name);
    }
  }

  const Tree& tree_;
  const int players_;
  const size_t per_player_;  // slots of a player; 0 if there is no table
  const std::vector<int> blocks_;
  std::vector<Action> table_;
  std::vector<int> rows_;          // board and role that each row of `numbers_` is for
  std::vector<uint64_t> numbers_;  // [rows, 256] random number of a slot, by its class
  std::vector<uint8_t> classes_;   // [B, N, slots] classes at decision nodes, by seat relative to the root's player
  std::vector<uint8_t> representative_;  // [B, A] action that stands for each action of the root
  bool on_ = false;
};

}  // namespace mcts
