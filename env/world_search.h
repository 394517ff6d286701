// Search over sampled worlds with the real rules: information-set UCT, and UCT in worlds in which everything is known.
//
// A world is a copy of a table in which everything that the player to decide cannot know is dealt anew, the future
// included (`determinize`). A walk goes down a tree in one world: at every decision the action with the highest upper
// confidence bound (UCB1), untried ones first; from the first position that the tree does not know on, a bot plays to the end of
// the round or game. The value of the walk for each player is what the rules paid plus the weighted change of the score
// margin; every decision of the walk counts it for the player who made it.
//
// INFORMATION SETS (worlds = 0; Cowling, Powley and Whitehouse, Information Set Monte Carlo Tree Search, 2012). Every
// walk has a world of its own, and all walks share one tree. Positions that look alike are one node: to the player at the
// root (single observer), or to the player whose decision it is (`own_views`, multiple observers). An action's bound
// takes the logarithm of how often the action was available there, since the worlds of a node may allow different actions.
// Equivalent actions are one action where the node knows what its player sees.
//
// PERFECT INFORMATION (worlds > 0; PIMC, determinised UCT). Every world has a tree of its own, with an equal share of the
// walks, in which nodes are lines of play: all players see all cards and the future. Values are averaged over the worlds.
// Such players believe that they will know what they do not know (strategy fusion, Frank and Basin 1998).
//
// Trees are functions of the table's moment and the seed alone: the batch and the number of threads do not matter.
#pragma once

#include <cmath>
#include <limits>

#include "env/vec_env.h"

namespace env {

struct WorldSearchOptions {
  int iterations = 256;      // walks, over all worlds
  int worlds = 0;            // worlds with a tree each; 0: one tree of information sets
  bool own_views = false;    // nodes are what their own player sees, instead of what the player at the root sees
  bool until_round = true;   // whether walks end with the round
  double exploration = 0.7;  // weight of the bound, with values scaled to 0..1 in each tree
  double margin = 4;         // weight of the score margin in score scales; winning instead of losing is worth 2
  uint64_t seed = 0;
  std::shared_ptr<Bot> playout;    // plays walks to their end
  std::shared_ptr<Bot> opponents;  // plays all seats but the root's; null: they search too
};

template <class Game>
class WorldSearch {
 public:
  using Rules = typename Game::Rules;

  WorldSearch(const Rules& rules, const GameInfo& info, const WorldSearchOptions& options)
      : rules_(rules), options_(options), classes_(info), slots_(info.slots()), shapes_(info.action_shapes) {}

  // Searches from a table whose game is not over. visits [A]: walks through each action; values [A]: their mean value to
  // the player to move (mean over the worlds that tried the action), NaN for actions that were never tried.
  void run(const Game& root, int32_t* visits, float* values) {
    const int trees = options_.worlds ? std::min(options_.worlds, options_.iterations) : 1;
    const uint64_t key = make_key({options_.seed, root.rng.key, root.decisions});
    double sums[kActions] = {};
    int counted[kActions] = {};
    std::fill_n(visits, kActions, 0);
    seat_ = root.to_play();
    root.scores(start_);
    for (int tree = 0; tree < trees; ++tree) {
      const int walks = options_.iterations / trees + (tree < options_.iterations % trees);
      clear(walks);
      Game dealt = root;
      for (int walk = 0; walk < walks; ++walk) {
        const auto t = static_cast<uint64_t>(tree), w = static_cast<uint64_t>(walk);
        if (walk == 0 || !options_.worlds) {
          dealt = root;
          dealt.determinize(rules_, seat_, make_key({key, t, w, 0}));
        }
        Game world = dealt;
        go(world, make_key({key, t, w, 1}));
      }
      for (int a = 0; a < kActions; ++a) {
        const Edge& edge = edges_[static_cast<size_t>(a)];
        if (!edge.visits) continue;
        visits[a] += static_cast<int32_t>(edge.visits);
        sums[a] += edge.sum / edge.visits;
        ++counted[a];
      }
    }
    for (int a = 0; a < kActions; ++a) {
      values[a] = counted[a] ? static_cast<float>(sums[a] / counted[a]) : std::numeric_limits<float>::quiet_NaN();
    }
  }

 private:
  static constexpr int kActions = Game::kNumActions;
  static constexpr uint32_t kNone = 0xffffffff;

  struct Edge {
    uint32_t visits = 0, available = 0;
    double sum = 0;  // values of the walks for the player who decides here
  };
  struct Node {
    uint64_t key;
    uint64_t actions;  // one action of each set of equivalent ones; all that are legal in the world where 0
  };
  struct Decision {
    uint32_t node;
    int action, player;
  };

  void clear(int walks) {
    size_t size = 4;
    while (size < 2 * static_cast<size_t>(walks + 1)) size *= 2;
    index_.assign(size, kNone);
    nodes_.clear();
    edges_.clear();
    low_ = std::numeric_limits<double>::infinity();
    high_ = -low_;
  }

  // One walk, which changes the world.
  void go(Game& world, uint64_t key) {
    Rng rng{key, 0};
    double paid[Game::kMaxPlayers] = {};
    uint64_t line = 0;  // hash of the actions so far
    bool inside = true;
    path_.clear();
    while (!world.done()) {
      const int mover = world.to_play();
      int action;
      if (options_.opponents && mover != seat_) {
        action = ask(*options_.opponents, world, key);
      } else {
        uint32_t node = kNone;
        if (inside) inside = find(world, line, node);
        action = inside ? select(node, world, rng) : ask(*options_.playout, world, key);
        if (inside) path_.push_back({node, action, mover});
      }
      line = make_key({line, static_cast<uint64_t>(action)});
      world.step(rules_, action);
      float rewards[Game::kMaxPlayers];
      world.rewards(rules_, rewards);
      for (int p = 0; p < world.players(); ++p) paid[p] += rewards[p];
      if (options_.until_round && world.standing_changed()) break;
    }
    add_margins(world, paid);
    for (const Decision& made : path_) {
      Edge& edge = edges_[made.node * size_t{kActions} + static_cast<size_t>(made.action)];
      ++edge.visits;
      edge.sum += paid[made.player];
    }
    for (int p = 0; p < world.players(); ++p) {
      low_ = std::min(low_, paid[p]);
      high_ = std::max(high_, paid[p]);
    }
  }

  void add_margins(const Game& world, double* paid) const {
    const int players = world.players();
    int32_t scores[Game::kMaxPlayers];
    world.scores(scores);
    int sum = 0;
    for (int p = 0; p < players; ++p) sum += scores[p] -= start_[p];
    for (int p = 0; p < players; ++p) {
      const double others = static_cast<double>(sum - scores[p]) / (players - 1);
      paid[p] += options_.margin * (others - scores[p]) / Game::kScoreScale;
    }
  }

  // Finds the node of a position and returns whether it was there; adds it if not. The root is always there.
  bool find(const Game& world, uint64_t line, uint32_t& node) {
    const int mover = world.to_play(), viewer = options_.own_views ? mover : seat_;
    int16_t row[Game::kMaxWidth];
    uint64_t key = line;
    if (!options_.worlds) {
      world.observe(rules_, viewer, row, true);
      key = hash_of(row) + static_cast<uint64_t>(mover);
    }
    const size_t mask = index_.size() - 1;
    size_t at = mix(key) & mask;
    while (index_[at] != kNone && nodes_[index_[at]].key != key) at = (at + 1) & mask;
    node = index_[at];
    if (node != kNone) return true;
    node = index_[at] = static_cast<uint32_t>(nodes_.size());
    const bool seen = !options_.worlds && viewer == mover;
    nodes_.push_back({key, seen ? first_of_kind(row, world.legal(rules_)) : 0});
    edges_.resize(edges_.size() + kActions);
    return node == 0;
  }

  uint64_t hash_of(const int16_t* row) const {
    uint64_t hash = 0;
    const int width = classes_.width();
    for (int i = 0; i < width; i += 4) {
      uint64_t word = 0;
      std::memcpy(&word, row + i, sizeof(int16_t) * static_cast<size_t>(std::min(4, width - i)));
      hash = mix(hash + kGamma * (word + 1));
    }
    return hash;
  }

  // The first of each set of legal actions that do the same to slots which the player cannot tell apart.
  uint64_t first_of_kind(const int16_t* row, uint64_t legal) const {
    uint8_t classes[256];
    classes_.write(row, classes);
    uint64_t seen[kActions], first = 0;
    int count = 0;
    for (uint64_t left = legal; left; left &= left - 1) {
      const int action = __builtin_ctzll(left);
      const ActionShape& shape = shapes_[static_cast<size_t>(action)];
      uint64_t touched = 0;
      for (const auto& [slot, role] : shape.slots) {
        const auto board = static_cast<uint64_t>(slot / slots_), code = static_cast<uint64_t>(classes[slot]);
        touched += make_key({static_cast<uint64_t>(role), board, code});
      }
      const uint64_t name = make_key({static_cast<uint64_t>(shape.kind), touched});
      if (std::find(seen, seen + count, name) != seen + count) continue;
      seen[count++] = name;
      first |= uint64_t{1} << action;
    }
    return first;
  }

  int select(uint32_t node, const Game& world, Rng& rng) {
    Edge* edge = edges_.data() + node * size_t{kActions};
    const uint64_t legal = nodes_[node].actions ? nodes_[node].actions : world.legal(rules_);
    uint64_t untried = 0;
    for (uint64_t left = legal; left; left &= left - 1) {
      const int a = __builtin_ctzll(left);
      ++edge[a].available;
      if (!edge[a].visits) untried |= uint64_t{1} << a;
    }
    if (untried) return random_bit(untried, rng);
    const double range = high_ > low_ ? high_ - low_ : 1;
    int best = -1;
    double highest = 0;
    for (uint64_t left = legal; left; left &= left - 1) {
      const int a = __builtin_ctzll(left);
      const double mean = (edge[a].sum / edge[a].visits - low_) / range;
      const double bound = mean + options_.exploration * std::sqrt(std::log(edge[a].available) / edge[a].visits);
      if (best < 0 || bound > highest) best = a, highest = bound;
    }
    return best;
  }

  int ask(const Bot& bot, const Game& world, uint64_t key) const {
    int16_t row[Game::kMaxWidth];
    world.observe(rules_, world.to_play(), row, true);
    Rng rng{make_key({key, world.decisions}), 0};
    return bot.choose(row, world.legal(rules_), rng);
  }

  const Rules& rules_;
  const WorldSearchOptions& options_;
  const SlotClasses classes_;
  const int slots_;  // slots of a player
  const std::vector<ActionShape> shapes_;
  int seat_ = 0;
  int32_t start_[Game::kMaxPlayers] = {};
  double low_ = 0, high_ = 0;  // range of the values in this tree
  std::vector<uint32_t> index_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;  // [nodes, actions] statistics of actions
  std::vector<Decision> path_;
};

// Searches some tables of an environment. visits, values: [rows, A].
template <class Game>
void search_worlds(const VecEnv<Game>& env, const std::vector<int>& rows, const WorldSearchOptions& options,
                   int threads, int32_t* visits, float* values) {
  for (const int row : rows) {
    if (row < 0 || row >= env.options().num_envs || env.table(row).done()) {
      throw std::invalid_argument("rows: expected tables whose game is not over, got " + std::to_string(row));
    }
  }
  native::ThreadPool pool(std::min(threads, static_cast<int>(rows.size())));
  pool.split(static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
    WorldSearch<Game> search(env.rules(), env.info(), options);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * Game::kNumActions;
      search.run(env.table(rows[static_cast<size_t>(i)]), visits + at, values + at);
    }
  });
}

}  // namespace env
