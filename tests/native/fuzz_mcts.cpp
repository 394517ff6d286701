// Fuzz test of the tree search: random settings, masks, phases, network outputs and orders of calls. Nothing may crash,
// hang or trip a sanitizer, wrong input must be refused, and the statistics of the trees must add up after every step.
//
//   fuzz_mcts [searches in thousands] [seed]      default 5: a few seconds under the sanitizers
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "mcts/search.h"
#include "tests/native/require.h"

namespace mcts {
namespace {

// Largest number that the search accepts from a network.
constexpr float kHuge = 1e30f;

struct Junk {
  native::Rng rng;

  int below(int n) { return static_cast<int>(rng.below(static_cast<uint32_t>(n))); }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool chance(int one_in) { return below(one_in) == 0; }
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(rng.uniform()); }

  // An output that a network might give; one in `wild` is unusually large or small.
  float number(int wild) {
    if (!chance(wild)) return uniform(-2, 2);
    const float kinds[] = {0.0f, 1e-30f, -1e9f, 1e20f, kHuge, -kHuge};
    return kinds[below(6)];
  }
  float unsound() {
    const float kinds[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 3e38f, -3e38f};
    return kinds[below(5)];
  }
  int setting() {
    const int kinds[] = {-2147483647 - 1, -1, 0, 1, 65, 4097, 2147483647};
    return kinds[below(7)];
  }
};

struct Tally {
  int64_t refused_settings = 0, searches = 0, refused_roots = 0, steps = 0, refused_answers = 0, refused_calls = 0,
          leaves_met = 0, chance_nodes = 0, joined = 0;
};

// Adds slots in symmetric blocks, and which of them each action touches.
void add_action_table(Setup& c, Junk& junk) {
  const int blocks = junk.between(1, 4), size = junk.chance(20) ? 60 : junk.between(1, 4);
  for (int slot = 0; slot < blocks * size; ++slot) c.block_of.push_back(slot / size);
  c.touches = junk.between(0, 3);
  for (int a = 0; a < c.actions; ++a) {
    c.action_kind.push_back(junk.below(2));
    for (int k = 0; k < c.touches; ++k) {
      const bool touched = !junk.chance(4);
      c.action_slots.push_back(touched ? junk.below(junk.chance(3) ? c.slots() : blocks * size) : -1);
      c.action_roles.push_back(touched ? junk.below(2) : -1);
    }
  }
}

Setup sound_setup(Junk& junk) {
  Setup c;
  c.tree_threads = junk.chance(8) ? junk.between(2, 3) : 1;
  c.batch = c.tree_threads > 1 ? junk.between(30, 80) : junk.between(1, 6);
  c.actions = junk.chance(8) ? junk.between(1, 64) : junk.between(1, 9);
  c.players = junk.chance(20) ? 64 : junk.between(1, 4);
  c.backup = junk.chance(4) ? Backup::kEgo : Backup::kMaxn;
  c.mover_frame = !junk.chance(3);
  c.simulations = junk.chance(20) ? junk.between(50, 200) : junk.between(0, 20);
  c.leaves = junk.chance(3) ? junk.between(2, 9) : 1;
  c.algorithm = junk.chance(2) ? Algorithm::kPuct : Algorithm::kGumbel;
  c.discount = junk.chance(3) ? 1.0f : junk.uniform(0.001f, 1);
  c.pb_c_base = std::exp(junk.uniform(-10, 20));
  c.pb_c_init = junk.chance(5) ? 0.0f : std::exp(junk.uniform(-5, 5));
  c.dirichlet_alpha = std::exp(junk.uniform(-2, 4));
  c.dirichlet_fraction = junk.chance(2) ? 0.0f : junk.uniform(0, 1);
  c.unvisited = junk.chance(2) ? Unvisited::kNeutral : Unvisited::kLowest;
  c.virtual_loss = junk.uniform(0, 1);
  c.max_considered = junk.between(1, 20);
  c.gumbel_scale = junk.chance(3) ? 0.0f : std::exp(junk.uniform(-3, 3));
  c.value_scale = junk.chance(5) ? 0.0f : std::exp(junk.uniform(-5, 3));
  c.rescale_values = junk.chance(2);
  c.maxvisit_init = junk.chance(5) ? 0.0f : std::exp(junk.uniform(-3, 6));
  c.visit_trust = junk.chance(2) ? 1.0f : std::exp(junk.uniform(-3, 3));
  c.value_visits = junk.chance(2) ? 0.0f : std::exp(junk.uniform(-3, 3));
  c.chance_source = static_cast<ChanceSource>(junk.below(4));
  c.chance_choice = static_cast<ChanceChoice>(junk.below(2));
  c.outcomes = junk.chance(3) ? 1 : junk.chance(10) ? 64 : junk.between(2, 9);
  c.pools = junk.between(1, 3);
  c.phases = junk.chance(20) ? 255 : junk.between(1, 5);
  for (int phase = 0; phase < c.phases; ++phase) {
    const int always = junk.below(c.actions);
    for (int a = 0; a < c.actions; ++a) {
      c.possible.push_back(a == always || junk.chance(2));
      c.next_phase.push_back(static_cast<uint8_t>(junk.below(c.phases)));
      c.turn_passes.push_back(junk.chance(2));
      c.chance.push_back(junk.chance(2));
      c.pool.push_back(static_cast<uint8_t>(junk.below(c.pools)));
    }
  }
  if (junk.chance(3)) {
    for (size_t i = 0; i < c.possible.size(); ++i) {
      c.leaves_round.push_back(junk.chance(3));
      c.last_phase.push_back(static_cast<uint8_t>(junk.below(c.phases)));
    }
  }
  if (junk.chance(2)) add_action_table(c, junk);
  return c;
}

// Makes one setting wrong, or at least unusual. Sizes stay small to save memory.
void spoil(Setup& c, Junk& junk) {
  float* const numbers[] = {&c.discount,           &c.pb_c_base,    &c.pb_c_init,    &c.dirichlet_alpha,
                            &c.dirichlet_fraction, &c.virtual_loss, &c.gumbel_scale, &c.value_scale,
                            &c.maxvisit_init,      &c.visit_trust,  &c.value_visits};
  switch (junk.below(15)) {
    case 0:
      c.batch = junk.between(-3, 0);
      break;
    case 1:
      c.actions = junk.setting();
      break;
    case 2:
      c.players = junk.setting();
      break;
    case 3:
      c.simulations = junk.chance(2) ? junk.between(-3, -1) : 1 << 20;
      break;
    case 4:
      c.leaves = junk.setting();
      break;
    case 5:
      c.tree_threads = junk.chance(2) ? junk.between(-1, 0) : 1025;
      break;
    case 6:
      c.max_considered = junk.setting();
      break;
    case 7:
      c.phases = junk.setting();
      break;
    case 8:
      c.next_phase[static_cast<size_t>(junk.below(static_cast<int>(c.next_phase.size())))] = 255;
      break;
    case 9:
      std::fill_n(c.possible.begin() + static_cast<int64_t>(junk.below(c.phases)) * c.actions, c.actions, uint8_t{0});
      break;
    case 10:
      (junk.chance(2) ? c.possible : c.last_phase.empty() ? c.turn_passes : c.last_phase).pop_back();
      break;
    case 11:
      c.outcomes = junk.setting();
      break;
    case 12:
      (junk.chance(2) ? c.chance : c.pool).pop_back();
      break;
    case 13:
      if (c.block_of.empty()) add_action_table(c, junk);
      (junk.chance(2)                              ? c.block_of[0]
       : !c.action_slots.empty() && junk.chance(2) ? c.action_slots[0]
                                                   : c.touches) = junk.setting();
      break;
    default:
      *numbers[junk.below(11)] = junk.chance(2)   ? -1.0f
                                 : junk.chance(2) ? kInfinity
                                                  : std::numeric_limits<float>::quiet_NaN();
  }
}

// Nodes of a game's tree, parents before children.
std::vector<int32_t> nodes_of(const Tree& t, int game) {
  std::vector<int32_t> nodes = {kRoot};
  for (size_t i = 0; i < nodes.size(); ++i) {
    REQUIRE(nodes.size() <= static_cast<size_t>(t.nodes));
    const size_t e = t.edge(t.at(game, nodes[i]));
    for (int a = 0; a < t.stride; ++a) {
      const int32_t child = t.child[e + static_cast<size_t>(a)];
      if (child == kNone) continue;
      REQUIRE(child > nodes[i] && child < t.nodes);
      nodes.push_back(child);
    }
  }
  return nodes;
}

// Checks everything that holds in a tree between two steps; `made` is its number of simulations.
void check_tree(const Search& search, int game, int64_t made, bool noise_given, bool joins, uint64_t absent) {
  const Setup& c = search.config();
  const Tree& t = search.tree();
  const auto V = static_cast<size_t>(t.values);
  const std::vector<int32_t> nodes = nodes_of(t, game);
  const auto placed = static_cast<int64_t>(nodes.size());
  REQUIRE(placed <= 1 + made && (c.leaves > 1 || placed == 1 + made));
  REQUIRE(t.node[t.at(game, kRoot)].visits == 1 + made);
  REQUIRE(t.node[t.at(game, kRoot)].parent == kNone);
  REQUIRE(t.node[t.at(game, kRoot)].to_play == 0);
  double largest = 1;  // largest number in the tree: rounding errors are relative to it
  for (int32_t node : nodes) {
    const size_t n = t.at(game, node);
    largest = std::max(largest, std::abs(static_cast<double>(t.node[n].raw_value)));
    for (size_t v = t.per_value(n); v < t.per_value(n) + V; ++v) {
      REQUIRE(std::isfinite(t.value[v]) && std::isfinite(t.reward[v]));
      largest =
          std::max({largest, std::abs(static_cast<double>(t.value[v])), std::abs(static_cast<double>(t.reward[v]))});
    }
  }
  int64_t ended = 0;
  std::vector<uint64_t> away(static_cast<size_t>(t.nodes));  // players who are passed over at each node
  away[kRoot] = absent;
  for (int32_t node : nodes) {
    const size_t n = t.at(game, node), e = t.edge(n), judged = c.maxn() ? t.node[n].to_play : 0;
    const bool noisy = node == kRoot && noise_given;
    REQUIRE(t.node[n].expanded && t.node[n].evaluated == t.node[n].visits);
    const int edges = t.node[n].chance ? c.outcomes : c.actions;
    REQUIRE(!t.node[n].chance || (c.outcomes > 1 && node != kRoot));
    REQUIRE(t.node[n].legal != 0 && (edges == 64 || t.node[n].legal >> edges == 0));
    REQUIRE(t.node[n].to_play < c.players && t.node[n].phase < c.phases);
    float prior = 0, below = 0;
    double sum = 0;
    for (int a = 0; a < t.stride; ++a) REQUIRE(a < edges || t.child[e + static_cast<size_t>(a)] == kNone);
    for (int a = 0; a < edges; ++a) {
      const size_t at = e + static_cast<size_t>(a);
      const bool legal = t.node[n].legal >> a & 1;
      prior += t.prior[at];
      below += t.edge_visits[at];
      REQUIRE(std::isfinite(t.q[at]) && t.edge_values[at] == t.edge_visits[at]);
      REQUIRE(legal || noisy || t.prior[at] == 0);
      if (t.child[at] == kNone) {
        REQUIRE(t.edge_visits[at] == 0 && t.q[at] == 0);
        continue;
      }
      const size_t b = t.at(game, t.child[at]);
      REQUIRE(legal && t.node[b].parent == node && t.node[b].edge == a);
      REQUIRE(t.edge_visits[at] == static_cast<float>(t.node[b].visits));
      if (t.node[n].chance) {
        REQUIRE(!t.node[b].chance && t.node[b].phase == t.node[n].phase && t.node[b].to_play == t.node[n].to_play);
        away[static_cast<size_t>(t.child[at])] = away[static_cast<size_t>(node)];
      } else {
        const auto rule = static_cast<size_t>(t.node[n].phase * c.actions + a);
        uint64_t& gone = away[static_cast<size_t>(t.child[at])] = away[static_cast<size_t>(node)];
        int left = 0;
        for (int p = 0; p < c.players; ++p) left += !(gone >> p & 1);
        const bool leaves = !c.leaves_round.empty() && c.leaves_round[rule];
        if (leaves) {
          left -= !(gone >> t.node[n].to_play & 1);
          gone |= uint64_t{1} << t.node[n].to_play;
        }
        REQUIRE(t.node[b].phase == (leaves && left == 1 ? c.last_phase[rule] : c.next_phase[rule]));
        if (left == 0) gone = 0;
        int seat = t.node[n].to_play + (c.turn_passes[rule] ? 1 : 0);
        while (c.turn_passes[rule] && (gone >> seat % c.players & 1)) ++seat;
        REQUIRE(t.node[b].to_play == seat % c.players);
        REQUIRE((t.node[b].chance == 1) == (c.outcomes > 1 && c.chance[rule]));
      }
      for (int next = 0; next < c.actions && !t.node[b].chance; ++next) {
        const bool possible = c.possible[static_cast<size_t>(t.node[b].phase * c.actions + next)],
                   open = t.node[b].legal >> next & 1;
        REQUIRE(open == possible || (joins && possible));
      }
      const float discount = t.node[b].chance ? 1.0f : c.discount;
      const float q = t.reward[t.per_value(b) + judged] + discount * t.value[t.per_value(b) + judged];
      REQUIRE(std::abs(static_cast<double>(t.q[at] - q)) <= 1e-5 * largest);
      sum += static_cast<double>(t.edge_visits[at]) * static_cast<double>(t.q[at]);
    }
    REQUIRE(t.node[n].open ? noisy || std::abs(prior - 1) < 1e-4f : prior == 0 && below == 0);
    const auto own = static_cast<double>(t.node[n].visits) - static_cast<double>(below);
    REQUIRE(own >= 1 && (own == 1 || (c.leaves > 1 && node != kRoot)));
    ended += static_cast<int64_t>(own);
    const double mean = (own * static_cast<double>(t.node[n].raw_value) + sum) / t.node[n].visits;
    REQUIRE(std::abs(static_cast<double>(t.value[t.per_value(n) + judged]) - mean) <= 1e-3 * largest);
  }
  REQUIRE(ended == 1 + made);
}

// Drives one search object through many calls, some of them wrong, and keeps track of what each call must do.
class Session {
 public:
  Session(const Setup& config, Junk& junk, Tally& tally)
      : search_(config),
        c_(search_.config()),
        junk_(junk),
        tally_(tally),
        wild_(junk.chance(3) ? 10 : 1000),
        bad_(junk.chance(3) ? 300 : 1 << 30),
        requests_(5 * static_cast<size_t>(c_.leaves) * static_cast<size_t>(c_.batch)) {}

  void run() {
    if (junk_.chance(2)) begin();
    for (int calls = junk_.between(1, 6 * c_.steps() + 5); calls > 0; --calls) {
      if (junk_.chance(15)) {
        out_of_order();
      } else if (!begun_ || junk_.chance(40)) {
        begin();
      } else if (selected_) {
        expand();
      } else if (step_ < c_.steps()) {
        select();
      } else {
        begin();
      }
      if (begun_ && junk_.chance(4)) results();
    }
  }

 private:
  int64_t entries() const { return int64_t{c_.leaves} * active_; }
  int64_t made() const { return int64_t{step_} * c_.leaves; }

  void begin() {
    const int A = c_.actions, V = c_.values(), count = junk_.between(1, c_.batch);
    std::vector<float> outputs(static_cast<size_t>(count) * static_cast<size_t>(A + V)), noise;
    std::vector<uint64_t> legal(static_cast<size_t>(count));
    std::vector<int8_t> phase(static_cast<size_t>(count));
    std::vector<uint64_t> keys(static_cast<size_t>(count));
    std::vector<float> counts(static_cast<size_t>(count * c_.pools * (c_.outcomes - 1)));
    std::vector<uint8_t> classes(static_cast<size_t>(count * c_.slots()));
    for (float& n : counts) n = static_cast<float>(junk_.below(7)) / 2;
    for (uint8_t& own : classes) own = static_cast<uint8_t>(junk_.chance(10) ? junk_.below(256) : junk_.below(2));
    const bool joins = junk_.chance(3) ? false : c_.slots() > 0, counted = c_.needs_counts() || junk_.chance(2);
    bool refused_before = false, refused = false;
    const bool forgotten = counted && c_.needs_counts() && junk_.chance(30);
    if (!counts.empty() && counted && junk_.chance(40))
      counts[junk_.rng.next() % counts.size()] = -1, refused_before = true;
    refused_before = refused_before || forgotten;
    const int wrong_game = junk_.chance(20) ? junk_.below(count) : -1;
    for (int game = 0; game < count; ++game) {
      const auto g = static_cast<size_t>(game);
      const uint64_t known = A < 64 ? (uint64_t{1} << A) - 1 : ~uint64_t{0};
      legal[g] = (junk_.rng.next() & known) | uint64_t{1} << junk_.below(A);
      phase[g] = static_cast<int8_t>(junk_.below(std::min(c_.phases, 128)));
      keys[g] = junk_.rng.next();
      if (game == wrong_game) {
        if (junk_.chance(3)) {
          legal[g] = 0;
        } else if (A < 64 && junk_.chance(2)) {
          legal[g] |= uint64_t{1} << junk_.between(A, 63);
        } else {
          phase[g] = static_cast<int8_t>(c_.phases > 127 ? -1 : c_.phases);
        }
        refused_before = true;
      }
      for (int i = 0; i < A + V; ++i) {
        const bool bad = junk_.chance(bad_);
        outputs[g * static_cast<size_t>(A + V) + static_cast<size_t>(i)] = bad ? junk_.unsound() : junk_.number(wild_);
        refused = refused || (bad && (i >= A || (legal[g] >> i & 1)));
      }
    }
    noise_given_ = junk_.chance(4);
    if (noise_given_) {
      noise.resize(static_cast<size_t>(count) * static_cast<size_t>(A));
      for (float& x : noise) x = junk_.uniform(0, 1);
    }
    std::vector<uint64_t> absent(static_cast<size_t>(count));
    const bool tells = !c_.leaves_round.empty() && junk_.chance(2);
    for (uint64_t& who : absent) who = tells ? junk_.rng.next() % (uint64_t{1} << (c_.players - 1)) << 1 : 0;
    if (tells && junk_.chance(30)) {
      absent[junk_.rng.next() % absent.size()] |= c_.players < 64 && junk_.chance(2) ? uint64_t{1} << c_.players : 1;
      refused_before = true;
    }
    const bool before = noise_given_before_;
    try {
      search_.begin(count, outputs.data(), legal.data(), phase.data(), keys.data(),
                    noise_given_ ? noise.data() : nullptr, counted && !forgotten ? counts.data() : nullptr,
                    joins ? classes.data() : nullptr, tells ? absent.data() : nullptr);
      REQUIRE(!refused && !refused_before);
    } catch (const std::invalid_argument&) {
      REQUIRE(refused || refused_before);
      ++tally_.refused_roots;
      noise_given_ = before;
      if (!refused_before) begun_ = false;  // otherwise the current search is untouched
      return;
    }
    noise_given_before_ = noise_given_;
    joins_ = joins;
    absent_ = absent;
    for (int game = 0; game < count; ++game) {
      tally_.joined += search_.tree().node[search_.tree().at(game, kRoot)].legal != legal[static_cast<size_t>(game)];
    }
    ++tally_.searches;
    begun_ = true;
    selected_ = false;
    step_ = 0;
    active_ = count;
    check();
  }

  Requests requests() {
    int64_t* at = requests_.data();
    return {at, at + entries(), at + 2 * entries(), at + 3 * entries(), at + 4 * entries()};
  }

  void select() {
    search_.select(requests());
    selected_ = true;
    const Requests r = requests();
    const Tree& t = search_.tree();
    for (int64_t i = 0; i < entries(); ++i) {
      const int64_t node = r.parent[i] / c_.batch, game = r.parent[i] % c_.batch;
      REQUIRE(game == i % active_ && node >= 0 && node <= made());
      REQUIRE(r.action[i] >= 0 && r.action[i] < c_.actions);
      const size_t parent = t.at(static_cast<int>(game), static_cast<int32_t>(node));
      REQUIRE(t.node[parent].expanded && !t.node[parent].chance && (t.node[parent].legal >> r.action[i] & 1));
      REQUIRE(r.outcome[i] >= 0 && r.outcome[i] < c_.outcomes);
      REQUIRE(r.to_play[i] == (t.node[parent].to_play + r.shift[i]) % c_.players);
    }
  }

  void expand() {
    const int A = c_.actions, V = c_.values();
    const int O = c_.outcomes > 1 ? c_.outcomes : 0;
    const auto width = static_cast<size_t>(A + O + 2 * V);
    std::vector<float> outputs(static_cast<size_t>(entries()) * width);
    const Requests r = requests();
    const Tree& t = search_.tree();
    std::vector<size_t> answered;
    bool refused = false;
    for (int64_t i = 0; i < entries(); ++i) {
      const int game = static_cast<int>(r.parent[i] % c_.batch);
      const size_t parent = t.at(game, static_cast<int32_t>(r.parent[i] / c_.batch));
      size_t node = t.at(game, t.child[t.edge(parent) + static_cast<size_t>(r.action[i])]);
      if (t.node[node].expanded) {  // the request is for an outcome below
        REQUIRE(t.node[node].chance);
        node = t.at(game, t.child[t.edge(node) + static_cast<size_t>(r.outcome[i])]);
      }
      tally_.chance_nodes += t.node[node].chance;
      const bool again = std::find(answered.begin(), answered.end(), node) != answered.end();
      answered.push_back(node);
      tally_.leaves_met += again;
      for (int k = 0; k < A + O + 2 * V; ++k) {
        const bool bad = junk_.chance(bad_);
        outputs[static_cast<size_t>(i) * width + static_cast<size_t>(k)] = bad ? junk_.unsound() : junk_.number(wild_);
        const bool read =
            k >= A + O || (k >= A ? t.node[node].chance : !t.node[node].chance && (t.node[node].legal >> k & 1));
        refused = refused || (bad && !again && read);
      }
    }
    try {
      search_.expand(outputs.data());
      REQUIRE(!refused);
    } catch (const std::invalid_argument&) {
      REQUIRE(refused);
      ++tally_.refused_answers;
      begun_ = false;
      return;
    }
    selected_ = false;
    ++step_;
    ++tally_.steps;
    check();
  }

  void out_of_order() {
    const bool may_select = begun_ && !selected_ && step_ < c_.steps();
    try {
      if (!begun_ && junk_.chance(3)) {
        junk_.chance(2) ? search_.targets(nullptr, nullptr) : search_.root_actions(nullptr, nullptr);
      } else if (!begun_ && junk_.chance(2)) {
        search_.choose(0, nullptr);
      } else if (!may_select && junk_.chance(2)) {
        search_.select(requests());
      } else if (!begun_ || !selected_) {
        search_.expand(nullptr);
      } else {
        search_.select(requests());
      }
      REQUIRE(false);
    } catch (const std::logic_error& error) {
      REQUIRE(dynamic_cast<const std::invalid_argument*>(&error) == nullptr);
      ++tally_.refused_calls;
    }
    if (begun_ && !selected_) check();
  }

  void check() {
    for (int game = 0; game < active_; ++game)
      check_tree(search_, game, made(), given(), joins_, absent_[static_cast<size_t>(game)]);
  }
  bool given() const { return noise_given_ && c_.algorithm == Algorithm::kPuct && c_.dirichlet_fraction > 0; }

  void results() {
    const auto n = static_cast<size_t>(active_), A = static_cast<size_t>(c_.actions);
    const auto V = static_cast<size_t>(c_.values());
    std::vector<float> policy(n * A), visits(n * A), values(n * V), q(n * A);
    search_.targets(policy.data(), values.data());
    search_.root_actions(visits.data(), q.data());
    std::vector<int64_t> actions(n);
    const float kinds[] = {0.0f, 1.0f, 0.1f, 1e6f, -1.0f, std::numeric_limits<float>::quiet_NaN()};
    const float temperature = kinds[junk_.below(6)];
    try {
      search_.choose(temperature, actions.data());
      REQUIRE(temperature >= 0);
    } catch (const std::invalid_argument&) {
      REQUIRE(!(temperature >= 0));
      ++tally_.refused_calls;
      return;
    }
    const int64_t total = made() + (selected_ ? c_.leaves : 0);
    for (size_t game = 0; game < n; ++game) {
      float shares = 0, sum = 0;
      for (size_t a = 0; a < A; ++a) {
        shares += policy[game * A + a];
        sum += visits[game * A + a];
        REQUIRE(policy[game * A + a] >= 0 && std::isfinite(q[game * A + a]));
      }
      if (!given() || total > 0) REQUIRE(std::abs(shares - 1) < 1e-4f);
      REQUIRE(joins_ ? std::abs(sum - static_cast<float>(total)) < 1e-3f : sum == static_cast<float>(total));
      const int64_t action = actions[game];
      REQUIRE(action >= 0 && action < c_.actions);
      const size_t root = search_.tree().at(static_cast<int>(game), kRoot);
      REQUIRE(search_.tree().node[root].legal >> action & 1);
      const bool tried = visits[game * A + static_cast<size_t>(action)] > 0;
      REQUIRE(tried || total == 0);
    }
  }

  Search search_;
  const Setup& c_;
  Junk& junk_;
  Tally& tally_;
  const int wild_, bad_;           // one in so many outputs is unusual, or to be refused
  std::vector<int64_t> requests_;  // [5, L * B] requests of the search
  std::vector<uint64_t> absent_;   // players who are passed over at the roots
  bool begun_ = false, selected_ = false, noise_given_ = false, noise_given_before_ = false, joins_ = false;
  int step_ = 0, active_ = 0;
};

void fuzz(int64_t searches, uint64_t seed) {
  Junk junk{{native::make_key({seed, 78}), 0}};
  Tally tally;
  while (tally.searches < searches) {
    Setup setup = sound_setup(junk);
    const bool spoilt = junk.chance(4);
    if (spoilt) spoil(setup, junk);
    try {
      Session(setup, junk, tally).run();
    } catch (const std::invalid_argument&) {
      REQUIRE(spoilt);
      ++tally.refused_settings;
    }
  }
  std::printf(
      "%lld searches, %lld steps; refused: %lld settings, %lld roots, %lld answers, %lld calls; leaves that met: "
      "%lld; chance nodes: %lld; roots with equivalent actions: %lld\n",
      static_cast<long long>(tally.searches), static_cast<long long>(tally.steps),
      static_cast<long long>(tally.refused_settings), static_cast<long long>(tally.refused_roots),
      static_cast<long long>(tally.refused_answers), static_cast<long long>(tally.refused_calls),
      static_cast<long long>(tally.leaves_met), static_cast<long long>(tally.chance_nodes),
      static_cast<long long>(tally.joined));
  REQUIRE(tally.steps && tally.refused_settings && tally.refused_roots && tally.refused_answers &&
          tally.refused_calls && tally.leaves_met && tally.chance_nodes && tally.joined);
}

}  // namespace
}  // namespace mcts

int main(int argc, char** argv) {
  const int64_t thousands = argc > 1 ? std::atoll(argv[1]) : 5;
  const auto seed = static_cast<uint64_t>(argc > 2 ? std::atoll(argv[2]) : 1);
  mcts::fuzz(thousands * 1000, seed);
}
