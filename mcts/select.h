// Selection: the action that a simulation follows at each node, by PUCT (Schrittwieser et al. 2020, appendix B) or
// Gumbel (Danihelka et al. 2022). Both read a single node of a tree.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "mcts/config.h"
#include "mcts/tree.h"

namespace mcts {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kSmallestRange = 1e-8f;  // smallest range of values that are rescaled to 0..1
inline constexpr int kMaxEdges = 64;            // most actions or outcomes of a node

// The legal action with the highest score; the first of several equal ones.
inline int best_action(const float* score, uint64_t legal) {
  int best = __builtin_ctzll(legal);
  for (uint64_t rest = legal & (legal - 1); rest; rest &= rest - 1) {
    const int action = __builtin_ctzll(rest);
    if (score[action] > score[best]) best = action;
  }
  return best;
}

// Reductions of `width` numbers, a multiple of 8, in eight running results that compilers keep in one register. The
// order of additions is part of the result, so it must not depend on the compiler.
inline constexpr int kLanes = 8;

template <class Term>
float sum(int width, Term&& term) {
  float lanes[kLanes] = {};
  for (int a = 0; a < width; a += kLanes) {
    for (int k = 0; k < kLanes; ++k) lanes[k] += term(a + k);
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

inline float highest_of(const float* numbers, int width) {
  float lanes[kLanes];
  std::copy_n(numbers, kLanes, lanes);
  for (int a = kLanes; a < width; a += kLanes) {
    for (int k = 0; k < kLanes; ++k) lanes[k] = numbers[a + k] > lanes[k] ? numbers[a + k] : lanes[k];
  }
  float highest = lanes[0];
  for (int k = 1; k < kLanes; ++k) highest = lanes[k] > highest ? lanes[k] : highest;
  return highest;
}

inline float lowest_of(const float* numbers, int width) {
  float lanes[kLanes];
  std::copy_n(numbers, kLanes, lanes);
  for (int a = kLanes; a < width; a += kLanes) {
    for (int k = 0; k < kLanes; ++k) lanes[k] = numbers[a + k] < lanes[k] ? numbers[a + k] : lanes[k];
  }
  float lowest = lanes[0];
  for (int k = 1; k < kLanes; ++k) lowest = lanes[k] < lowest ? lanes[k] : lowest;
  return lowest;
}

// e^x to within two units in the last place for x <= 0, in arithmetic that compilers turn into vector code.
inline float fast_exp(float x) {
  const float clamped = x > -87.0f ? x : -87.0f;
  const float scaled = clamped * 1.44269504f;
  const float whole = std::floor(scaled + 0.5f);
  const float r = (clamped - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t exponent = (static_cast<int32_t>(whole) + 127) << 23;
  float power;
  std::memcpy(&power, &exponent, sizeof power);
  return p * power;
}

// Softmax over the legal actions; the others get 0. `out` may be `logit`. Both have `width` entries.
inline void softmax(const float* logit, uint64_t legal, float* out, int width) {
  for (int a = 0; a < width; ++a) out[a] = legal >> a & 1 ? logit[a] : -kInfinity;
  const float highest = highest_of(out, width);
  for (int a = 0; a < width; ++a) out[a] = fast_exp(out[a] - highest);
  for (int a = 0; a < width; ++a) out[a] = legal >> a & 1 ? out[a] : 0.0f;
  const float scale = 1.0f / sum(width, [&](int a) { return out[a]; });
  for (int a = 0; a < width; ++a) out[a] *= scale;
}

// Index of the value that the player to move at a node maximises.
inline int judge(const Setup& config, const Tree& tree, size_t node) {
  return config.maxn() ? tree.node[node].to_play : 0;
}

// ---- PUCT ---------------------------------------------------------------------------------------------------

// Q is rescaled to 0..1 between the lowest and highest of the node's value and its children's.
class Puct {
 public:
  explicit Puct(const Setup& config) : config_(config) {
    for (int n = 0; n <= config.nodes() + 1; ++n) {
      const double visits = n, base = config.pb_c_base;
      explore_.push_back(
          static_cast<float>(std::sqrt(visits) * (config.pb_c_init + std::log((visits + base + 1) / base))));
    }
  }

  int choose(const Tree& tree, size_t node) const {
    const size_t e = tree.edge(node);
    const float* visits = &tree.edge_visits[e];
    const float* evaluated = &tree.edge_values[e];
    const float* prior = &tree.prior[e];
    const float* q = &tree.q[e];
    const float own = tree.value[tree.per_value(node) + static_cast<size_t>(judge(config_, tree, node))];
    float known[kMaxEdges];
    for (int a = 0; a < tree.stride; ++a) known[a] = evaluated[a] > 0 ? q[a] : own;
    const float lowest = std::min(own, lowest_of(known, tree.stride));
    const float highest = std::max(own, highest_of(known, tree.stride));
    const float scale = 1.0f / std::max(highest - lowest, kSmallestRange);
    const float unvisited = config_.unvisited == Unvisited::kNeutral ? (own - lowest) * scale : 0.0f;
    const float explore = explore_[static_cast<size_t>(tree.node[node].visits)];
    float score[kMaxEdges];
    for (int a = 0; a < tree.stride; ++a) score[a] = evaluated[a] > 0 ? (q[a] - lowest) * scale : unvisited;
    if (config_.leaves > 1) {
      for (int a = 0; a < tree.stride; ++a) {
        const float pending = visits[a] > 0 ? (visits[a] - evaluated[a]) / visits[a] : 0.0f;
        score[a] *= 1.0f - config_.virtual_loss * pending;
      }
    }
    for (int a = 0; a < tree.stride; ++a) score[a] += explore * prior[a] / (visits[a] + 1.0f);
    return best_action(score, tree.node[node].legal);
  }

 private:
  const Setup& config_;
  std::vector<float> explore_;  // exploration factor by the node's visits
};

// ---- Gumbel -------------------------------------------------------------------------------------------------

// Sizes of the rounds of sequential halving (Karnin et al. 2013) among `considered` actions: round r visits so many
// actions that have r visits. They add up to `simulations` or, if the last round is cut short, to more.
inline std::vector<int> halving_rounds(int considered, int simulations) {
  if (considered <= 1) return std::vector<int>(static_cast<size_t>(simulations), 1);
  const int halvings = static_cast<int>(std::ceil(std::log2(considered)));
  std::vector<int> rounds;
  for (int made = 0; made < simulations; considered = std::max(2, considered / 2)) {
    const int repeats = std::max(1, simulations / (halvings * considered));
    for (int repeat = 0; repeat < repeats && made < simulations; ++repeat, made += considered) {
      rounds.push_back(considered);
    }
  }
  return rounds;
}

// Visit counts that an action must have to be considered, for each simulation.
inline std::vector<int> considered_visits(int considered, int simulations) {
  std::vector<int> sequence;
  int round = 0;
  for (int size : halving_rounds(considered, simulations)) {
    sequence.insert(sequence.end(), static_cast<size_t>(size), round++);
  }
  sequence.resize(static_cast<size_t>(simulations));
  return sequence;
}

class Gumbel {
 public:
  explicit Gumbel(const Setup& config) : config_(config) {
    const int simulations = config.nodes() - 1;
    for (int m = 0; m <= std::min(config.max_considered, config.actions); ++m) {
      table_.push_back(considered_visits(m, simulations));
      const std::vector<int> rounds = halving_rounds(m, simulations);
      int left = simulations;  // visits of the last round
      for (size_t r = 0; r + 1 < rounds.size(); ++r) left -= rounds[r];
      blind_end_.push_back(!rounds.empty() && left < rounds.back() && left < config.leaves);
    }
  }

  // The action to follow at the root, by sequential halving.
  //
  // With several leaves, actions whose value is still to come are passed over if there are others: the order in which a
  // round visits its actions is free, and where the next round begins, the best of the actions whose values are known
  // belongs to it, whatever the value to come turns out to be.
  int choose_root(const Tree& tree, size_t root, const float* gumbel) const {
    const size_t e = tree.edge(root), m = considered(tree, root);
    const float made = sum(tree.stride, [&](int a) { return tree.edge_visits[e + static_cast<size_t>(a)]; });
    const auto visits = static_cast<float>(table_[m][static_cast<size_t>(made)]);
    const uint64_t legal = tree.node[root].legal;
    if (config_.leaves == 1) return best_of(tree, root, gumbel, visits, visits, legal);
    uint64_t known = 0;
    for (uint64_t rest = legal; rest; rest &= rest - 1) {
      const auto a = static_cast<size_t>(__builtin_ctzll(rest));
      known |= uint64_t{tree.edge_visits[e + a] == visits && tree.edge_values[e + a] == visits} << a;
    }
    const bool last = blind_end_[m] && visits == static_cast<float>(table_[m].back());
    return best_of(tree, root, gumbel, visits, visits, known && !last ? known : legal);
  }

  // The action that the search recommends: the best among the most visited. Where leaves have begun a last round without
  // the values by which its actions are chosen, its visits do not count.
  int recommend(const Tree& tree, size_t root, const float* gumbel) const {
    const float* visits = &tree.edge_visits[tree.edge(root)];
    const size_t m = considered(tree, root);
    const float most = *std::max_element(visits, visits + tree.actions);
    const bool blind = blind_end_[m] && most == static_cast<float>(table_[m].back() + 1);
    return best_of(tree, root, gumbel, blind ? most - 1 : most, most, tree.node[root].legal);
  }

  // The action to follow at an inner node: visits follow the improved policy.
  int choose(const Tree& tree, size_t node) const {
    const float* visits = &tree.edge_visits[tree.edge(node)];
    float policy[kMaxEdges];
    improved_policy(tree, node, policy);
    const float scale = 1.0f / (1.0f + sum(tree.stride, [&](int a) { return visits[a]; }));
    for (int a = 0; a < tree.stride; ++a) policy[a] -= visits[a] * scale;
    return best_action(policy, tree.node[node].legal);
  }

  // Improved policy: softmax(logit + sigma(completed q)), [stride].
  void improved_policy(const Tree& tree, size_t node, float* policy) const {
    completed_q(tree, node, policy);
    const float* logit = &tree.logit[tree.edge(node)];
    for (int a = 0; a < tree.stride; ++a) policy[a] += logit[a];
    softmax(policy, tree.node[node].legal, policy, tree.stride);
  }

 private:
  // Number of actions considered at a root.
  size_t considered(const Tree& tree, size_t root) const {
    const int legal = __builtin_popcountll(tree.node[root].legal);
    return static_cast<size_t>(std::min({config_.max_considered, config_.actions, legal}));
  }

  // The candidate with the highest noise + logit + weighted value, among those with `least` to `most` visits.
  int best_of(const Tree& tree, size_t root, const float* gumbel, float least, float most, uint64_t candidates) const {
    const float* visits = &tree.edge_visits[tree.edge(root)];
    const float* logit = &tree.logit[tree.edge(root)];
    float score[kMaxEdges];
    completed_q(tree, root, score);
    float highest = -kInfinity;
    for (uint64_t rest = tree.node[root].legal; rest; rest &= rest - 1) {
      highest = std::max(highest, logit[__builtin_ctzll(rest)]);
    }
    for (int a = 0; a < tree.stride; ++a) {
      const float total = std::max(-1e9f, gumbel[a] + (logit[a] - highest) + score[a]);
      score[a] = visits[a] >= least && visits[a] <= most ? total : -kInfinity;
    }
    return best_action(score, candidates);
  }

  // Values of all actions, [stride]: unvisited ones take the mixed value (appendix D), and so do visited ones in part if
  // few visits are not to be trusted; rescaled to 0..1 and weighted by how much has been searched.
  void completed_q(const Tree& tree, size_t node, float* out) const {
    const size_t e = tree.edge(node);
    const float* visits = &tree.edge_visits[e];
    const float* evaluated = &tree.edge_values[e];
    const float* prior = &tree.prior[e];
    const float* q = &tree.q[e];
    float share[kMaxEdges];  // prior of the evaluated actions, 0 for the others
    for (int a = 0; a < tree.stride; ++a) {
      const float p = prior[a] > std::numeric_limits<float>::min() ? prior[a] : std::numeric_limits<float>::min();
      share[a] = evaluated[a] > 0 ? p : 0.0f;
    }
    const float total = sum(tree.stride, [&](int a) { return evaluated[a]; });
    const float mass = sum(tree.stride, [&](int a) { return share[a]; });
    const float weighted = sum(tree.stride, [&](int a) { return share[a] * q[a]; });
    const float known = mass > 0 ? weighted / mass : 0.0f;
    const float mixed = (tree.node[node].raw_value + total * known) / (total + 1.0f);
    for (int a = 0; a < tree.stride; ++a) out[a] = evaluated[a] > 0 ? q[a] : mixed;
    if (config_.value_visits > 0) {
      for (int a = 0; a < tree.stride; ++a) {
        out[a] = mixed + (out[a] - mixed) * (evaluated[a] / (evaluated[a] + config_.value_visits));
      }
    }
    for (int a = tree.actions; a < tree.stride; ++a) out[a] = out[0];  // padding must not widen the range
    const float lowest = lowest_of(out, tree.stride), highest = highest_of(out, tree.stride);
    const float range = config_.rescale_values ? std::max(highest - lowest, kSmallestRange) : 1.0f;
    const float most = config_.visit_trust * highest_of(visits, tree.stride);
    const float weight = (config_.maxvisit_init + most) * config_.value_scale / range;
    for (int a = 0; a < tree.actions; ++a) out[a] = (out[a] - lowest) * weight;
    for (int a = tree.actions; a < tree.stride; ++a) out[a] = 0;
  }

  const Setup& config_;
  std::vector<std::vector<int>> table_;  // [considered][simulation] visit count that an action must have
  std::vector<bool> blind_end_;          // [considered] whether the last round is cut short and ends in its first step
};

}  // namespace mcts
