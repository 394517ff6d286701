// Batched search: simulate, expand, backward, for B trees in lockstep. The caller runs the network in between.
//
//   search.begin(network outputs of the roots)
//   for each step:
//     search.select(...)      writes the (parent, action) pairs that the network has to evaluate
//     search.expand(outputs)  takes the network outputs and backs them up
//   (expand_and_select expands one step and selects the next one in a single pass)
//   search.targets(...), search.choose(...)
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "mcts/select.h"
#include "native/bits.h"
#include "native/thread_pool.h"

namespace mcts {

// Evaluations that the network has to make in one step, [L, B].
struct Requests {
  int64_t* parent;  // index into hidden states laid out [nodes, B]
  int64_t* action;
  int64_t* shift;    // 1 where the turn passes to the next player, else 0
  int64_t* to_play;  // seat to move at the new node, relative to the root's player
};

inline constexpr int kAhead = 2;  // games between a prefetch and its use
inline constexpr int kPath = 6;   // nodes of a path that are prefetched

class Search {
 public:
  explicit Search(const Setup& setup)
      : config_((setup.check(), setup)),
        tree_(config_.batch, config_.nodes(), config_.actions, config_.values()),
        puct_(config_),
        gumbel_(config_),
        noise_(static_cast<size_t>(config_.batch) * static_cast<size_t>(tree_.stride)),
        leaves_(static_cast<size_t>(config_.batch) * static_cast<size_t>(config_.leaves)),
        paths_(static_cast<size_t>(config_.batch) * kPath, kNone),
        pool_(config_.tree_threads) {
    for (int phase = 0; phase < config_.phases; ++phase) {
      uint64_t mask = 0;
      for (int a = 0; a < config_.actions; ++a) {
        mask |= uint64_t{config_.possible[table(phase, a)] != 0} << a;
      }
      if (!mask) throw std::invalid_argument("phase table: no action is possible in phase " + std::to_string(phase));
      phase_mask_.push_back(mask);
    }
  }

  const Setup& config() const { return config_; }
  const Tree& tree() const { return tree_; }
  int64_t levels() const { return levels_; }
  double seconds() const { return seconds_; }
  // Number of trees of the current search. There is no search before `begin`, nor after network outputs have been
  // refused, because some trees may already have taken their outputs.
  int active() const {
    if (!begun_) throw std::logic_error("no search is under way: call begin first");
    return active_;
  }

  // Starts n <= B new trees; the arrays of this search then have n rows where the comments below say B. Hidden states
  // stay laid out [nodes, B]. outputs [B, A + V]: logits, values. legal [B]: a bit per action. phase [B]. keys [B]:
  // seeds of each row's random numbers. noise [B, A] or null: Gumbel or Dirichlet noise to use instead of drawing it.
  void begin(int count, const float* outputs, const uint64_t* legal, const int8_t* phase, const uint64_t* keys,
             const float* noise) {
    const int A = config_.actions, V = config_.values();
    for (int game = 0; game < count; ++game) {
      if (!legal[game]) throw std::invalid_argument("game " + std::to_string(game) + ": no action is legal");
      if (A < 64 && legal[game] >> A) {
        throw std::invalid_argument("game " + std::to_string(game) + ": action " +
                                    std::to_string(63 - __builtin_clzll(legal[game])) +
                                    " is legal, expected actions 0 to " + std::to_string(A - 1));
      }
      if (phase[game] < 0 || phase[game] >= config_.phases) {
        throw std::invalid_argument("game " + std::to_string(game) + ": phase " + std::to_string(phase[game]) +
                                    ", expected 0 to " + std::to_string(config_.phases - 1));
      }
    }
    begun_ = false;
    step_ = 0;
    levels_ = 0;
    selected_ = false;
    active_ = count;
    keys_.assign(keys, keys + count);
    each_game([&](int game) {
      const size_t root = tree_.at(game, kRoot);
      tree_.clear(root);
      tree_.node[root].legal = legal[game];
      tree_.node[root].phase = static_cast<uint8_t>(phase[game]);
      tree_.node[root].to_play = 0;
      const float* out = outputs + static_cast<int64_t>(game) * (A + V);
      fill(game, root, out, out + A);
      tree_.node[root].visits = tree_.node[root].evaluated = 1;
      add_noise(game, root, noise ? noise + static_cast<int64_t>(game) * A : nullptr);
    });
    begun_ = true;
  }

  // Walks down every tree to an action that has not been tried, `leaves` times per tree.
  void select(const Requests& requests) {
    (void)active();
    if (step_ >= config_.steps()) throw std::logic_error("select: all simulations have been made");
    if (selected_) throw std::logic_error("select: the last step has not been expanded");
    selected_ = true;
    each_game([&](int game) { select_in(game, step_, requests); });
  }

  // Takes the network outputs of the selected nodes, [L, B, A + 2 V]: logits, values, rewards.
  void expand(const float* outputs) {
    (void)active();
    if (!selected_) throw std::logic_error("expand: nothing has been selected");
    begun_ = false;
    each_game([&](int game) { expand_in(game, outputs); });
    begun_ = true;
    selected_ = false;
    ++step_;
  }

  // Expands this step and selects the next one, tree by tree, while a tree is in the cache.
  void expand_and_select(const float* outputs, const Requests& requests) {
    (void)active();
    if (!selected_) throw std::logic_error("expand: nothing has been selected");
    if (step_ + 1 >= config_.steps()) throw std::logic_error("select: all simulations have been made");
    begun_ = false;
    each_game([&](int game) {
      if (game + kAhead < active_) prefetch(game + kAhead, step_ + 1);
      expand_in(game, outputs);
      select_in(game, step_ + 1, requests);
    });
    begun_ = true;
    ++step_;
  }

  // Training targets. policy [B, A]: visit shares (PUCT) or the improved policy (Gumbel). values [B, V]: search values
  // of the roots.
  void targets(float* policy, float* values) {
    (void)active();
    const int A = config_.actions, V = config_.values();
    each_game([&](int game) {
      const size_t root = tree_.at(game, kRoot);
      float target[kMaxActions];
      policy_target(root, target);
      std::copy_n(target, A, policy + static_cast<int64_t>(game) * A);
      std::copy_n(&tree_.value[tree_.per_value(root)], V, values + static_cast<int64_t>(game) * V);
    });
  }

  // Statistics of the root's actions. visits [B, A]. q [B, A]: values of the actions tried, for the root's player; 0
  // for the others.
  void root_actions(float* visits, float* q) {
    (void)active();
    const int A = config_.actions;
    each_game([&](int game) {
      const size_t e = tree_.edge(tree_.at(game, kRoot));
      const int64_t row = static_cast<int64_t>(game) * A;
      std::copy_n(&tree_.edge_visits[e], A, visits + row);
      std::copy_n(&tree_.q[e], A, q + row);
    });
  }

  // One action per tree. PUCT: visits to the power of 1 / temperature, the most visited at 0. Gumbel: the best of
  // the most visited, at any temperature (its noise is what explores).
  void choose(float temperature, int64_t* actions) {
    (void)active();
    if (!(temperature >= 0))
      throw std::invalid_argument("temperature: expected 0 or more, got " + std::to_string(temperature));
    each_game([&](int game) {
      const size_t root = tree_.at(game, kRoot);
      actions[game] = config_.algorithm == Algorithm::kGumbel ? gumbel_.recommend(tree_, root, noise(game))
                                                              : sample(game, root, temperature);
    });
  }

 private:
  size_t table(int phase, int action) const {
    return static_cast<size_t>(phase) * static_cast<size_t>(config_.actions) + static_cast<size_t>(action);
  }
  float* noise(int game) { return &noise_[static_cast<size_t>(game) * static_cast<size_t>(tree_.stride)]; }

  template <class Visit>
  void each_game(Visit&& visit) {
    const auto started = std::chrono::steady_clock::now();
    pool_.split(active_, 32, [&visit](int64_t begin, int64_t end) {
      for (int game = static_cast<int>(begin); game < end; ++game) visit(game);
    });
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  }

  // Prefetches the memory that the next step of a game will touch: the last path, along which values are backed up and
  // the next walk starts, the node at its end, and the place of the next node.
  void prefetch(int game, int step) const {
    const int32_t* path = &paths_[static_cast<size_t>(game) * kPath];
    for (int i = 0; i < kPath && path[i] != kNone; ++i) tree_.prefetch(tree_.at(game, path[i]));
    tree_.prefetch(tree_.at(game, leaves_[static_cast<size_t>(game)]));
    tree_.prefetch(tree_.at(game, 1 + step * config_.leaves));
  }

  void select_in(int game, int step, const Requests& requests) {
    int64_t levels = 0;
    for (int leaf = 0; leaf < config_.leaves; ++leaf) {
      const int32_t node = simulate(game, 1 + step * config_.leaves + leaf, levels);
      const size_t at = static_cast<size_t>(leaf) * static_cast<size_t>(active_) + static_cast<size_t>(game);
      leaves_[at] = node;
      const size_t n = tree_.at(game, node), up = tree_.at(game, tree_.node[n].parent);
      requests.parent[at] = static_cast<int64_t>(tree_.node[n].parent) * config_.batch + game;
      requests.action[at] = tree_.node[n].action;
      requests.shift[at] = tree_.node[n].to_play != tree_.node[up].to_play;
      requests.to_play[at] = tree_.node[n].to_play;
    }
    levels_.fetch_add(levels, std::memory_order_relaxed);
  }

  void expand_in(int game, const float* outputs) {
    const int A = config_.actions, V = config_.values();
    for (int leaf = 0; leaf < config_.leaves; ++leaf) {
      const size_t at = static_cast<size_t>(leaf) * static_cast<size_t>(active_) + static_cast<size_t>(game);
      const size_t node = tree_.at(game, leaves_[at]);
      const float* out = outputs + static_cast<int64_t>(at) * (A + 2 * V);
      if (!tree_.node[node].expanded) {
        fill(game, node, out, out + A);
        const int from = tree_.node[tree_.at(game, tree_.node[node].parent)].to_play;
        fill_players(game, "reward", out + A + V, from, &tree_.reward[tree_.per_value(node)]);
      }
      backward(game, node);
    }
  }

  // ---- the three verbs -------------------------------------------------------------------------------------
  // Returns the node to be evaluated: `fresh`, added to the tree, or a pending one that an earlier leaf of this step
  // has added.
  int32_t simulate(int game, int32_t fresh, int64_t& levels) {
    int32_t node = kRoot;
    int32_t* path = &paths_[static_cast<size_t>(game) * kPath];
    for (int length = 0;; ++length) {
      const size_t n = tree_.at(game, node);
      if (length < kPath) path[length] = node;
      if (length + 1 < kPath) path[length + 1] = kNone;
      ++levels;
      const int action = config_.algorithm == Algorithm::kPuct ? puct_.choose(tree_, n)
                         : node == kRoot                       ? gumbel_.choose_root(tree_, n, noise(game))
                                                               : gumbel_.choose(tree_, n);
      const size_t e = tree_.edge(n) + static_cast<size_t>(action);
      ++tree_.node[n].visits;
      tree_.edge_visits[e] += 1;
      const int32_t next = tree_.child[e];
      if (next == kNone) {
        add_node(game, node, action, fresh);
        tree_.child[e] = fresh;
        ++tree_.node[tree_.at(game, fresh)].visits;
        return fresh;
      }
      node = next;
      const size_t below = tree_.at(game, node);
      if (!tree_.node[below].expanded) {
        ++tree_.node[below].visits;
        return node;
      }
    }
  }

  void add_node(int game, int32_t parent, int action, int32_t fresh) {
    const size_t up = tree_.at(game, parent), node = tree_.at(game, fresh);
    tree_.clear(node);
    tree_.node[node].parent = parent;
    tree_.node[node].action = action;
    const size_t rule = table(tree_.node[up].phase, action);
    tree_.node[node].phase = config_.next_phase[rule];
    tree_.node[node].legal = phase_mask_[config_.next_phase[rule]];
    const int seat = tree_.node[up].to_play + (config_.turn_passes[rule] ? 1 : 0);
    tree_.node[node].to_play = static_cast<uint8_t>(seat == config_.players ? 0 : seat);
  }

  // Stores the network outputs of a node.
  void fill(int game, size_t node, const float* logits, const float* values) {
    const size_t e = tree_.edge(node);
    for (int a = 0; a < config_.actions; ++a) {
      if (!sound(logits[a]) && (tree_.node[node].legal >> a & 1)) refuse(game, "policy logit", a, logits[a]);
      tree_.logit[e + static_cast<size_t>(a)] = tree_.node[node].legal >> a & 1 ? logits[a] : -1e9f;
    }
    for (int a = config_.actions; a < tree_.stride; ++a) tree_.logit[e + static_cast<size_t>(a)] = -1e9f;
    softmax(&tree_.logit[e], tree_.node[node].legal, &tree_.prior[e], tree_.stride);
    float* value = &tree_.value[tree_.per_value(node)];
    fill_players(game, "value", values, tree_.node[node].to_play, value);
    tree_.node[node].raw_value = value[judge(config_, tree_, node)];
    tree_.node[node].expanded = 1;
  }

  // Stores one number per player, given from the seat `from` on, by seat relative to the root's player.
  void fill_players(int game, const char* what, const float* given, int from, float* out) const {
    const int V = config_.values();
    for (int k = 0; k < V; ++k) {
      if (!sound(given[k])) refuse(game, what, k, given[k]);
      const int seat = config_.maxn() && config_.mover_frame ? from + k : k;
      out[seat < V ? seat : seat - V] = given[k];
    }
  }

  // Backs up the value of a node to the root.
  void backward(int game, size_t node) {
    const int V = config_.values();
    float returns[kMaxActions];
    std::copy_n(&tree_.value[tree_.per_value(node)], V, returns);
    ++tree_.node[node].evaluated;  // a value counts once for each leaf of a step that met here
    while (tree_.node[node].parent != kNone) {
      const size_t up = tree_.at(game, tree_.node[node].parent);
      const float* reward = &tree_.reward[tree_.per_value(node)];
      const float* below = &tree_.value[tree_.per_value(node)];
      float* value = &tree_.value[tree_.per_value(up)];
      const auto count = static_cast<float>(tree_.node[up].evaluated++);
      for (int v = 0; v < V; ++v) {
        returns[v] = reward[v] + config_.discount * returns[v];
        value[v] = (value[v] * count + returns[v]) / (count + 1.0f);
      }
      const size_t e = tree_.edge(up) + static_cast<size_t>(tree_.node[node].action);
      const int v = judge(config_, tree_, up);
      tree_.q[e] = reward[v] + config_.discount * below[v];
      tree_.edge_values[e] += 1;
      node = up;
    }
  }

  // ---- the root --------------------------------------------------------------------------------------------
  void add_noise(int game, size_t root, const float* given) {
    float* own = noise(game);
    const int A = config_.actions;
    native::Rng rng{keys_[static_cast<size_t>(game)], 0};
    if (config_.algorithm == Algorithm::kGumbel) {
      for (int a = 0; a < A; ++a) own[a] = (given ? given[a] : gumbel(rng)) * config_.gumbel_scale;
      return;
    }
    if (config_.dirichlet_fraction == 0) return;
    if (given) {
      for (int a = 0; a < A; ++a) own[a] = tree_.node[root].legal >> a & 1 ? given[a] : 0.0f;
    } else {
      dirichlet(rng, tree_.node[root].legal, own);
    }
    const size_t e = tree_.edge(root);
    for (int a = 0; a < A; ++a) {
      float& prior = tree_.prior[e + static_cast<size_t>(a)];
      prior = (1 - config_.dirichlet_fraction) * prior + config_.dirichlet_fraction * own[a];
    }
  }

  static float gumbel(native::Rng& rng) {
    const double u = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
    return static_cast<float>(-std::log(-std::log(u)));
  }

  static double normal(native::Rng& rng) {
    const double u = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * rng.uniform());
  }

  // Gamma random numbers by the method of Marsaglia and Tsang (2000).
  static double gamma(native::Rng& rng, double shape) {
    if (shape < 1) {
      const double u = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
      return gamma(rng, shape + 1) * std::pow(u, 1 / shape);
    }
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = normal(rng), v = std::pow(1 + c * x, 3);
      if (v <= 0) continue;
      const double u = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
      if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
  }

  void dirichlet(native::Rng& rng, uint64_t legal, float* out) const {
    double draws[kMaxActions] = {}, sum = 0;
    for (uint64_t rest = legal; rest; rest &= rest - 1) {
      const int a = __builtin_ctzll(rest);
      sum += draws[a] = gamma(rng, static_cast<double>(config_.dirichlet_alpha));
    }
    if (sum == 0) sum = draws[native::random_bit(legal, rng)] = 1;  // a tiny alpha puts everything on one action
    for (int a = 0; a < config_.actions; ++a) out[a] = static_cast<float>(draws[a] / sum);
  }

  // ---- results ---------------------------------------------------------------------------------------------
  void policy_target(size_t root, float* target) const {
    const size_t e = tree_.edge(root);
    if (config_.algorithm == Algorithm::kGumbel) return gumbel_.improved_policy(tree_, root, target);
    float sum = 0;
    for (int a = 0; a < config_.actions; ++a) sum += tree_.edge_visits[e + static_cast<size_t>(a)];
    for (int a = 0; a < config_.actions; ++a) {
      target[a] =
          sum > 0 ? tree_.edge_visits[e + static_cast<size_t>(a)] / sum : tree_.prior[e + static_cast<size_t>(a)];
    }
  }

  int sample(int game, size_t root, float temperature) const {
    float score[kMaxActions];
    policy_target(root, score);
    const size_t e = tree_.edge(root);
    if (temperature == 0) {
      // Ties between equally visited actions are decided by the better value.
      float most = 0;
      for (uint64_t rest = tree_.node[root].legal; rest; rest &= rest - 1)
        most = std::max(most, score[__builtin_ctzll(rest)]);
      for (int a = 0; a < config_.actions; ++a)
        score[a] = score[a] == most ? tree_.q[e + static_cast<size_t>(a)] : -kInfinity;
      return best_action(score, tree_.node[root].legal);
    }
    native::Rng rng{native::make_key({keys_[static_cast<size_t>(game)], 1}), 0};
    for (int a = 0; a < config_.actions; ++a) score[a] = std::log(score[a]) / temperature + gumbel(rng);
    return best_action(score, tree_.node[root].legal);
  }

  // Whether a number is finite and so small that sums of such numbers are.
  static bool sound(float number) { return std::abs(number) <= 1e30f; }

  [[noreturn]] static void refuse(int game, const char* what, int index, float number) {
    throw std::invalid_argument("game " + std::to_string(game) + ": the network's " + what + " " +
                                std::to_string(index) + " is " +
                                (std::isnan(number)   ? "not a number"
                                 : std::isinf(number) ? "infinite"
                                                      : "too large"));
  }

  const Setup config_;
  Tree tree_;
  const Puct puct_;
  const Gumbel gumbel_;
  std::vector<float> noise_;     // [B, stride] noise of the roots' actions
  std::vector<int32_t> leaves_;  // [L, B] nodes selected in the current step
  std::vector<int32_t> paths_;   // [B, kPath] the last path walked, ended by kNone if it is shorter
  std::vector<uint64_t> keys_;   // [B] seeds of each row's random numbers
  std::vector<uint64_t> phase_mask_;
  native::ThreadPool pool_;
  std::atomic<int64_t> levels_{0};
  double seconds_ = 0;  // seconds spent in the trees
  int step_ = 0;
  int active_ = 0;  // trees of the current search
  bool begun_ = false, selected_ = false;
};

}  // namespace mcts
