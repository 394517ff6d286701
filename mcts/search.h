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

#include "mcts/chance.h"
#include "mcts/checks.h"
#include "mcts/equivalence.h"
#include "mcts/noise.h"
#include "mcts/requests.h"
#include "mcts/select.h"
#include "mcts/turns.h"
#include "native/thread_pool.h"

namespace mcts {

inline constexpr int kAhead = 2;  // games between a prefetch and its use
inline constexpr int kPath = 6;   // nodes of a path that are prefetched

class Search {
 public:
  explicit Search(const Setup& setup)
      : config_((setup.check(), setup)),
        tree_(config_.batch, config_.nodes(), config_.actions, config_.outcomes, config_.values()),
        puct_(config_),
        gumbel_(config_),
        turns_(config_, tree_),
        chance_(config_, tree_),
        equivalence_(config_, tree_),
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
  // counts [B, pools, outcomes - 1] or null: unseen cards of each kind. classes [B, slots] or null: classes of the slots,
  // by which equivalent actions are joined. absent [B] or null: players who are passed over, a bit for each, counted
  // from the root's player.
  void begin(int count, const float* outputs, const uint64_t* legal, const int8_t* phase, const uint64_t* keys,
             const float* noise = nullptr, const float* counts = nullptr, const uint8_t* classes = nullptr,
             const uint64_t* absent = nullptr) {
    const int A = config_.actions, V = config_.values();
    check_roots(config_, count, legal, phase, counts, classes);
    check_absent(config_, count, absent);
    begun_ = false;
    step_ = 0;
    levels_ = 0;
    equivalence_.begin(classes != nullptr);
    selected_ = false;
    active_ = count;
    keys_.assign(keys, keys + count);
    each_game([&](int game) {
      const size_t root = tree_.at(game, kRoot);
      tree_.clear(root);
      tree_.node[root].legal = legal[game];
      tree_.node[root].phase = static_cast<uint8_t>(phase[game]);
      tree_.node[root].to_play = 0;
      turns_.begin(game, absent ? absent[game] : 0);
      chance_.begin(game, keys[game], counts ? counts + static_cast<size_t>(game) * chance_.game_counts() : nullptr);
      if (classes) equivalence_.set_root(game, classes);
      const float* out = outputs + static_cast<int64_t>(game) * (A + V);
      fill(game, root, out, out + A);
      open(game, root);
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

  // Training targets. policy [B, A]: visit shares (PUCT) or the improved policy (Gumbel), in equal parts for equivalent
  // actions. values [B, V]: search values of the roots.
  void targets(float* policy, float* values) {
    (void)active();
    const int A = config_.actions, V = config_.values();
    each_game([&](int game) {
      const size_t root = tree_.at(game, kRoot);
      float target[kMaxEdges];
      policy_target(root, target);
      equivalence_.share_out(game, target, policy + static_cast<int64_t>(game) * A);
      std::copy_n(&tree_.value[tree_.per_value(root)], V, values + static_cast<int64_t>(game) * V);
    });
  }

  // Statistics of the root's actions. visits [B, A], in equal parts for equivalent actions. q [B, A]: values of the
  // actions tried, for the root's player; 0 for the others.
  void root_actions(float* visits, float* q) {
    (void)active();
    const int A = config_.actions;
    each_game([&](int game) {
      const size_t e = tree_.edge(tree_.at(game, kRoot));
      const int64_t row = static_cast<int64_t>(game) * A;
      equivalence_.share_out(game, &tree_.edge_visits[e], visits + row);
      for (int a = 0; a < A; ++a) q[row + a] = tree_.q[e + static_cast<size_t>(equivalence_.representative(game, a))];
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
      const Node& asked = tree_.node[tree_.at(game, node)];
      const Node& above = tree_.node[tree_.at(game, asked.parent)];
      const Node& moved = above.chance ? above : asked;  // its edge is an action, its parent a decision node
      requests.parent[at] = static_cast<int64_t>(moved.parent) * config_.batch + game;
      requests.action[at] = moved.edge;
      const int shift = asked.to_play - tree_.node[tree_.at(game, moved.parent)].to_play;
      requests.shift[at] = shift < 0 ? shift + config_.players : shift;
      requests.to_play[at] = asked.to_play;
      requests.outcome[at] = above.chance ? asked.edge : 0;
    }
    levels_.fetch_add(levels, std::memory_order_relaxed);
  }

  void expand_in(int game, const float* outputs) {
    const int width = config_.width(), V = config_.values();
    for (int leaf = 0; leaf < config_.leaves; ++leaf) {
      const size_t at = static_cast<size_t>(leaf) * static_cast<size_t>(active_) + static_cast<size_t>(game);
      const size_t node = tree_.at(game, leaves_[at]);
      const float* out = outputs + static_cast<int64_t>(at) * width;
      const float* values = out + width - 2 * V;
      if (!tree_.node[node].expanded) {
        fill_players(game, "reward", values + V, tree_.node[node].to_play, &tree_.reward[tree_.per_value(node)]);
        // Nothing happens here, in all likelihood: the afterstate is the next position.
        if (tree_.node[node].chance && chance_.none(out + config_.actions) > config_.no_event)
          tree_.node[node].chance = 0;
        tree_.node[node].chance ? fill_chance(game, node, out + config_.actions, values)
                                : fill(game, node, out, values);
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
      if (!tree_.node[n].open) open(game, n);
      const int edge = tree_.node[n].chance                    ? chance_.choose(n)
                       : config_.algorithm == Algorithm::kPuct ? puct_.choose(tree_, n)
                       : node == kRoot                         ? gumbel_.choose_root(tree_, n, noise(game))
                                                               : gumbel_.choose(tree_, n);
      const size_t e = tree_.edge(n) + static_cast<size_t>(edge);
      ++tree_.node[n].visits;
      tree_.edge_visits[e] += 1;
      const int32_t next = tree_.child[e];
      if (next == kNone) {
        add_node(game, node, edge, fresh);
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

  // Adds the node below an action, which is a chance node if an event may follow, or below an outcome.
  void add_node(int game, int32_t parent, int edge, int32_t fresh) {
    const size_t up = tree_.at(game, parent), n = tree_.at(game, fresh);
    tree_.clear(n);
    chance_.add(up, edge, n);
    Node& node = tree_.node[n];
    const Node& above = tree_.node[up];
    node.parent = parent;
    node.edge = edge;
    turns_.add(up, edge, n, node);
    node.chance = !above.chance && config_.outcomes > 1 && config_.chance[table(above.phase, edge)];
    node.legal = phase_mask_[node.phase];
  }

  // Stores the network outputs of a decision node. Most nodes are never walked on from: what only a walk reads is
  // computed when the first one comes by, in `open`.
  void fill(int game, size_t node, const float* logits, const float* values) {
    const size_t e = tree_.edge(node);
    for (int a = 0; a < config_.actions; ++a) {
      if (!sound(logits[a]) && (tree_.node[node].legal >> a & 1)) refuse_output(game, "policy logit", a, logits[a]);
      tree_.logit[e + static_cast<size_t>(a)] = tree_.node[node].legal >> a & 1 ? logits[a] : -1e9f;
    }
    for (int a = config_.actions; a < tree_.stride; ++a) tree_.logit[e + static_cast<size_t>(a)] = -1e9f;
    float* value = &tree_.value[tree_.per_value(node)];
    fill_players(game, "value", values, tree_.node[node].to_play, value);
    std::copy_n(value, config_.values(), &tree_.raw[tree_.per_value(node)]);
    tree_.node[node].raw_value = value[judge(config_, tree_, node)];
    tree_.node[node].expanded = 1;
  }

  // Joins the equivalent actions of a decision node and computes their priors.
  void open(int game, size_t node) {
    const size_t e = tree_.edge(node);
    if (equivalence_.on()) tree_.node[node].legal = equivalence_.merge(game, node, &tree_.logit[e]);
    softmax(&tree_.logit[e], tree_.node[node].legal, &tree_.prior[e], tree_.stride);
    tree_.node[node].open = 1;
  }

  // Stores the network outputs of a chance node, whose value contains the reward: the edge into it has none.
  void fill_chance(int game, size_t node, const float* logits, const float* values) {
    for (int c = 0; c < config_.outcomes; ++c) {
      if (!sound(logits[c])) refuse_output(game, "outcome logit", c, logits[c]);
    }
    tree_.node[node].legal = chance_.priors(game, node, logits, &tree_.prior[tree_.edge(node)]);
    float* value = &tree_.value[tree_.per_value(node)];
    float* reward = &tree_.reward[tree_.per_value(node)];
    fill_players(game, "value", values, tree_.node[node].to_play, value);
    for (int v = 0; v < config_.values(); ++v) {
      value[v] = reward[v] + config_.discount * value[v];
      reward[v] = 0;
    }
    std::copy_n(value, config_.values(), &tree_.raw[tree_.per_value(node)]);
    tree_.node[node].raw_value = value[judge(config_, tree_, node)];
    tree_.node[node].expanded = tree_.node[node].open = 1;
  }

  // Stores one number per player, given from the seat `from` on, by seat relative to the root's player.
  void fill_players(int game, const char* what, const float* given, int from, float* out) const {
    const int V = config_.values();
    for (int k = 0; k < V; ++k) {
      if (!sound(given[k])) refuse_output(game, what, k, given[k]);
      const int seat = config_.maxn() && config_.mover_frame ? from + k : k;
      out[seat < V ? seat : seat - V] = given[k];
    }
  }

  // Backs up the value of a node to the root.
  void backward(int game, size_t node) {
    const int V = config_.values();
    float returns[kMaxEdges];
    std::copy_n(&tree_.value[tree_.per_value(node)], V, returns);
    ++tree_.node[node].evaluated;  // a value counts once for each leaf of a step that met here
    while (tree_.node[node].parent != kNone) {
      const size_t up = tree_.at(game, tree_.node[node].parent);
      const float* reward = &tree_.reward[tree_.per_value(node)];
      const float* below = &tree_.value[tree_.per_value(node)];
      const float discount = tree_.node[node].chance ? 1.0f : config_.discount;
      float* value = &tree_.value[tree_.per_value(up)];
      const bool corrects = config_.correct_luck && tree_.node[up].chance;
      const auto count = static_cast<float>(tree_.node[up].evaluated++);
      for (int v = 0; v < V; ++v) {
        returns[v] = reward[v] + discount * returns[v];
        if (corrects) returns[v] += tree_.raw[tree_.per_value(up) + static_cast<size_t>(v)] - expected(node, v);
        value[v] = (value[v] * count + returns[v]) / (count + 1.0f);
      }
      const size_t e = tree_.edge(up) + static_cast<size_t>(tree_.node[node].edge);
      const int v = judge(config_, tree_, up);
      tree_.q[e] = reward[v] + discount * below[v];
      tree_.edge_values[e] += 1;
      node = up;
    }
  }

  // Value of a node, seen from its parent, as the network alone would have it.
  float expected(size_t node, int v) const {
    const size_t at = tree_.per_value(node) + static_cast<size_t>(v);
    return tree_.reward[at] + config_.discount * tree_.raw[at];
  }

  // ---- the root --------------------------------------------------------------------------------------------
  void add_noise(int game, size_t root, const float* given) {
    float* own = noise(game);
    const int A = config_.actions;
    native::Rng rng{keys_[static_cast<size_t>(game)], 0};
    if (config_.algorithm == Algorithm::kGumbel) {
      for (int a = 0; a < A; ++a) own[a] = (given ? given[a] : gumbel_noise(rng)) * config_.gumbel_scale;
      return;
    }
    if (config_.dirichlet_fraction == 0) return;
    if (given) {
      for (int a = 0; a < A; ++a) own[a] = tree_.node[root].legal >> a & 1 ? given[a] : 0.0f;
      for (int a = 0; a < A; ++a) {
        const int same = equivalence_.representative(game, a);
        if (same != a) own[same] += given[a];
      }
    } else {
      dirichlet_noise(rng, static_cast<double>(config_.dirichlet_alpha), tree_.node[root].legal, A, own);
    }
    const size_t e = tree_.edge(root);
    for (int a = 0; a < A; ++a) {
      float& prior = tree_.prior[e + static_cast<size_t>(a)];
      prior = (1 - config_.dirichlet_fraction) * prior + config_.dirichlet_fraction * own[a];
    }
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
    float score[kMaxEdges];
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
    for (int a = 0; a < config_.actions; ++a) score[a] = std::log(score[a]) / temperature + gumbel_noise(rng);
    return best_action(score, tree_.node[root].legal);
  }

  const Setup config_;
  Tree tree_;
  const Puct puct_;
  const Gumbel gumbel_;
  Turns turns_;
  Chance chance_;
  Equivalence equivalence_;
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
