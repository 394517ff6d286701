// Chance nodes: probabilities of the outcomes of an event, and the outcome that a visit follows.
#pragma once

#include <cstring>

#include "mcts/select.h"
#include "native/rng.h"

namespace mcts {

class Chance {
 public:
  Chance(const Setup& config, const Tree& tree)
      : config_(config),
        tree_(tree),
        path_(config.outcomes > 1 ? tree.node.size() : 0),
        counts_(config.outcomes > 1 ? static_cast<size_t>(config.batch) * game_counts() : 0) {}

  // Numbers of cards per game: of each kind, in each pool.
  size_t game_counts() const { return static_cast<size_t>(config_.pools) * static_cast<size_t>(config_.outcomes - 1); }

  // Prepares a root. counts [pools, outcomes - 1] or null if they are not needed: unseen cards of each kind.
  void begin(int game, uint64_t key, const float* counts) {
    if (path_.empty()) return;
    path_[tree_.at(game, kRoot)] = native::make_key({key, 2});
    if (counts) std::copy_n(counts, game_counts(), &counts_[static_cast<size_t>(game) * game_counts()]);
  }

  // Names a new node by the path that leads to it: its random number does not depend on when it is added.
  void add(size_t up, int edge, size_t node) {
    if (!path_.empty()) path_[node] = native::Rng::at(path_[up], static_cast<uint64_t>(edge));
  }

  // Probability of code 0, that there is no event, by the network's logits, [outcomes].
  float none(const float* logits) const {
    float total = 0;
    for (int c = 0; c < config_.outcomes; ++c) total += std::exp(logits[c] - logits[0]);
    return 1.0f / total;  // 0 where the sum overflows
  }

  // Writes the probabilities of the outcomes, [stride], from the network's logits, [outcomes]. Returns the outcomes that
  // are possible, a bit for each.
  uint64_t priors(int game, size_t node, const float* logits, float* prior) const {
    const int O = config_.outcomes;
    float logit[kMaxEdges];
    for (int c = 0; c < tree_.stride; ++c) logit[c] = c < O ? logits[c] : 0.0f;
    const uint64_t codes = O < 64 ? (uint64_t{1} << O) - 1 : ~uint64_t{0};
    softmax(logit, codes, prior, tree_.stride);
    if (config_.chance_source == ChanceSource::kUniform) {
      for (int c = 1; c < O; ++c) prior[c] = (1.0f - prior[0]) / static_cast<float>(O - 1);
    } else if (config_.needs_counts()) {
      float left[kMaxEdges];
      const float total = cards_left(game, node, left);
      for (int c = 1; c < O && total > 0; ++c) prior[c] = (1.0f - prior[0]) * left[c] / total;
    }
    uint64_t possible = 0;
    for (int c = 0; c < O; ++c) possible |= uint64_t{prior[c] > 0} << c;
    return possible;
  }

  // The outcome that the next visit of a chance node follows.
  int choose(size_t node) const {
    const size_t e = tree_.edge(node);
    const float* prior = &tree_.prior[e];
    const float* visits = &tree_.edge_visits[e];
    if (config_.chance_choice == ChanceChoice::kSpread) {
      const float made = sum(tree_.stride, [&](int c) { return visits[c]; });
      return drawn(prior, tree_.node[node].legal, path_[node] + native::kGamma * static_cast<uint64_t>(made));
    }
    float score[kMaxEdges];
    for (int c = 0; c < tree_.stride; ++c) score[c] = prior[c] / (visits[c] + 1.0f);
    return best_action(score, tree_.node[node].legal);
  }

 private:
  // The outcome whose interval of the cumulative probabilities contains point / 2^64. Points of successive visits lie
  // kGamma / 2^64 apart, which is the fractional part of the golden ratio: however many there are, they are spread
  // evenly, and each alone is uniform because the first one is.
  static int drawn(const float* prior, uint64_t possible, uint64_t point) {
    const float place = static_cast<float>(point >> 40) * 0x1.0p-24f;
    float below = 0;
    int outcome = __builtin_ctzll(possible);
    for (uint64_t rest = possible; rest; rest &= rest - 1) {
      const int c = __builtin_ctzll(rest);
      const float end = below + prior[c];
      if (end > below) outcome = c;  // an interval that rounding has emptied is never hit
      if (place < end) return outcome;
      below = end;
    }
    return outcome;
  }

  // Cards of each kind left in the pool that a chance node draws from, by code; returns their number. Numbers are not
  // whole where the counts are expectations.
  float cards_left(int game, size_t node, float* left) const {
    const auto kinds = static_cast<size_t>(config_.outcomes - 1);
    const float* counts = &counts_[static_cast<size_t>(game) * game_counts()];
    const auto pool = [&](size_t chance) {
      const Node& above = tree_.node[tree_.at(game, tree_.node[chance].parent)];
      return counts + config_.pool[static_cast<size_t>(above.phase) * static_cast<size_t>(config_.actions) +
                                   static_cast<size_t>(tree_.node[chance].edge)] *
                          kinds;
    };
    const float* own = pool(node);
    left[0] = 0;
    for (size_t c = 0; c < kinds; ++c) left[c + 1] = own[c];
    for (size_t n = tree_.at(game, tree_.node[node].parent); tree_.node[n].parent != kNone;) {
      const size_t up = tree_.at(game, tree_.node[n].parent);
      if (tree_.node[up].chance && tree_.node[n].edge > 0) {
        const float* drawn_from = pool(up);
        // Pools with equal counts are views of the same cards.
        const bool same = drawn_from == own || std::equal(own, own + kinds, drawn_from);
        if (same) left[tree_.node[n].edge] -= 1;
      }
      n = up;
    }
    float total = 0;
    for (size_t c = 1; c <= kinds; ++c) total += left[c] = std::max(left[c], 0.0f);
    return total;
  }

  const Setup& config_;
  const Tree& tree_;
  std::vector<uint64_t> path_;  // [B, N] key of the path to each node
  std::vector<float> counts_;   // [B, pools, outcomes - 1] unseen cards at the root
};

}  // namespace mcts
