// Settings of a search: the name, default, range and meaning of each is written here, once. Python reads them through
// `mcts.Config`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace mcts {

// A setting that is out of range; the message names the setting, what was expected and what was given.
struct SettingError : std::invalid_argument {
  SettingError(const std::string& name, const std::string& expected, const std::string& got)
      : std::invalid_argument(name + ": expected " + expected + ", got " + got) {}
};

// Range of the numbers from `low` to `high`; `low` itself belongs to it unless it is excluded.
struct Range {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  bool low_excluded = false;

  bool contains(double number) const {
    return std::isfinite(number) && (low_excluded ? number > low : number >= low) && number <= high;
  }

  std::string text() const {
    const bool bounded = std::isfinite(high);
    if (low_excluded) return "more than " + short_text(low) + (bounded ? ", at most " + short_text(high) : "");
    return short_text(low) + (bounded ? " to " + short_text(high) : " or more");
  }

 private:
  // Text of a number, without decimals where there are none.
  static std::string short_text(double number) {
    return number == std::floor(number) ? std::to_string(static_cast<int64_t>(number)) : std::to_string(number);
  }
};

enum class Algorithm { kGumbel, kPuct };
enum class Backup { kMaxn, kEgo };
enum class Unvisited { kNeutral, kLowest };
enum class ChanceSource { kLearned, kExact, kUniform, kCards };
enum class ChanceChoice { kSpread, kPrior };

// Choices are members of an enum, named in its order.
using Choices = std::vector<std::string>;

inline std::string text_of(const Choices& choices) {
  std::string text = choices[0];
  for (size_t i = 1; i < choices.size(); ++i) text += (i + 1 < choices.size() ? ", " : " or ") + choices[i];
  return text;
}

// Settings that the user of a search may choose, whatever the game.
struct Config {
  Algorithm algorithm = Algorithm::kGumbel;
  int simulations = 16;
  Backup backup = Backup::kMaxn;
  int leaves = 1;
  float discount = 0.997f;
  float pb_c_base = 19652.0f, pb_c_init = 1.25f;
  float dirichlet_alpha = 0.3f, dirichlet_fraction = 0.25f;
  Unvisited unvisited = Unvisited::kNeutral;
  float virtual_loss = 1.0f;
  int max_considered = 8;
  float gumbel_scale = 1.0f;
  float value_scale = 0.1f, maxvisit_init = 50.0f;
  bool rescale_values = true;
  float visit_trust = 1.0f, value_visits = 0.0f;
  ChanceSource chance_source = ChanceSource::kLearned;
  ChanceChoice chance_choice = ChanceChoice::kSpread;
  float no_event = 1.0f;
  bool correct_luck = false;
  int tree_threads = 1;

  // Shows every setting to a visitor, which has the members `choice`, `integer`, `real` and `flag`.
  template <class Visitor>
  static void visit(Visitor&& v) {
    const Range from_zero{0}, share{0, 1}, positive{0, std::numeric_limits<double>::infinity(), true};
    v.choice("algorithm", &Config::algorithm, Choices{"gumbel", "puct"}, "how actions are selected");
    v.integer("simulations", &Config::simulations, Range{0, (1 << 20) - 1},
              "nodes added to each tree, rounded up to a multiple of leaves; 0 gives the prior");
    v.choice("backup", &Config::backup, Choices{"maxn", "ego"},
             "maxn: a value per player, and each node's player maximises its own; ego: one value, the root player's, "
             "never inverted");
    v.integer("leaves", &Config::leaves, Range{1, 4096},
              "leaves selected per tree and step; more than one keeps a small batch busy");
    v.real("discount", &Config::discount, Range{0, 1, true}, "discount of values one action later");
    v.real("pb_c_base", &Config::pb_c_base, positive, "puct: visits after which exploration grows");
    v.real("pb_c_init", &Config::pb_c_init, from_zero, "puct: weight of exploration");
    v.real("dirichlet_alpha", &Config::dirichlet_alpha, positive, "puct: concentration of the root noise");
    v.real("dirichlet_fraction", &Config::dirichlet_fraction, share, "puct: share of the root noise in the prior");
    v.choice("unvisited", &Config::unvisited, Choices{"neutral", "lowest"},
             "puct: value of an unvisited action: its parent's (neutral) or the lowest of its siblings (lowest)");
    v.real("virtual_loss", &Config::virtual_loss, share,
           "puct with several leaves: how much a pending visit counts as the lowest value");
    v.integer("max_considered", &Config::max_considered, Range{1}, "gumbel: actions considered at the root");
    v.real("gumbel_scale", &Config::gumbel_scale, from_zero, "gumbel: scale of the root noise; 0 for evaluation");
    v.real("value_scale", &Config::value_scale, from_zero, "gumbel: weight of values against the prior");
    v.real("maxvisit_init", &Config::maxvisit_init, from_zero,
           "gumbel: visits added to those of the most visited action in the weight of values");
    v.flag("rescale_values", &Config::rescale_values,
           "gumbel: rescale the values of a node to 0..1 before they are weighted, so that its best action stands out "
           "by as much whether it is better by a lot or by chance; otherwise the weight is per unit of value");
    v.real("visit_trust", &Config::visit_trust, from_zero,
           "gumbel: how much each visit of the most visited action adds to the weight of values; 1 in the paper");
    v.real("value_visits", &Config::value_visits, from_zero,
           "gumbel: visits at which an action's value counts half, the other half being the node's mixed value, "
           "which stands for untried actions; 0 trusts a single visit fully");
    v.choice("chance_source", &Config::chance_source, Choices{"learned", "exact", "uniform", "cards"},
             "probabilities of the outcomes of a chance event: as the network expects after the action (learned), in "
             "proportion to the unseen cards, without those drawn on the path (exact), equal (uniform), or in "
             "proportion to the unseen cards as the network believes them to be at the root (cards); that no outcome "
             "is seen is as likely as the network says");
    v.choice("chance_choice", &Config::chance_choice, Choices{"spread", "prior"},
             "which outcome a visit of a chance node follows: stratified draws, which are unbiased (spread), or the "
             "highest probability / (visits + 1), as in Stochastic MuZero (prior)");
    v.real("no_event", &Config::no_event, share,
           "probability of outcome 0 above which there is no chance node: the afterstate is the next position; 1 for "
           "always a chance node");
    v.flag(
        "correct_luck", &Config::correct_luck,
        "leave the luck of outcomes out of the values that are backed up through a chance node: the network's value of "
        "the position after the outcome is subtracted and that of the afterstate added, so that what remains is what "
        "the search below has found; otherwise few visits judge an action by the cards that they happened to draw");
    v.integer("tree_threads", &Config::tree_threads, Range{1, 1024}, "threads that share the trees of a batch");
  }

  int steps() const { return (simulations + leaves - 1) / leaves; }
  int nodes() const { return 1 + steps() * leaves; }

  // Refuses values out of range.
  void check() const { visit(Checker{*this}); }

 private:
  struct Checker {
    const Config& config;

    template <class Enum>
    void choice(const char*, Enum Config::*, const Choices&, const char*) const {}
    void integer(const char* name, int Config::* field, const Range& range, const char*) const {
      if (!range.contains(config.*field)) throw SettingError(name, range.text(), std::to_string(config.*field));
    }
    void real(const char* name, float Config::* field, const Range& range, const char*) const {
      const auto number = static_cast<double>(config.*field);
      if (!range.contains(number)) throw SettingError(name, range.text(), std::to_string(number));
    }
    void flag(const char*, bool Config::*, const char*) const {}
  };
};

// A search's settings together with the trees that it is made for.
struct Setup : Config {
  int batch = 1;
  int actions = 1;  // number of actions, at most 64
  int players = 1;
  bool mover_frame = true;  // network outputs list players from the mover's seat on; otherwise from the root player's

  // The game's phase table, [phases * actions]: which actions can be legal, which phase follows, whether the turn
  // passes.
  int phases = 1;
  std::vector<uint8_t> possible, next_phase, turn_passes;
  // Actions by which a player leaves the round and is passed over until nobody is left, and the phase that follows if
  // they leave one player; both are empty if there are no such actions.
  std::vector<uint8_t> leaves_round, last_phase;

  // Chance events. Outcomes have codes: 0 if nothing happened or was seen, otherwise 1 to outcomes - 1.
  int outcomes = 1;             // number of codes, at most 64; 1 makes no chance nodes
  int pools = 1;                // number of sets of cards that events draw from
  std::vector<uint8_t> chance;  // [phases * actions] whether an event may follow; not read without outcomes
  std::vector<uint8_t> pool;    // [phases * actions] set of cards that the event draws from

  // Equivalent actions, which are searched as one: see equivalence.h. There is no such table if block_of is empty.
  int touches = 0;                // most slots that an action touches, K
  std::vector<int> action_kind;   // [actions]
  std::vector<int> action_slots;  // [actions * K] slots touched, counted from the mover's first one on; -1 fills up
  std::vector<int> action_roles;  // [actions * K] role of each of them
  std::vector<int> block_of;      // [slots of a player] symmetric block that a slot belongs to

  bool maxn() const { return backup == Backup::kMaxn; }
  int values() const { return maxn() ? players : 1; }
  // Numbers per row that `expand` takes: logits, outcome logits if there are outcomes, values, rewards.
  int width() const { return actions + (outcomes > 1 ? outcomes : 0) + 2 * values(); }
  // Whether `begin` must be told how many cards of each kind are unseen.
  bool needs_counts() const {
    return outcomes > 1 && (chance_source == ChanceSource::kExact || chance_source == ChanceSource::kCards);
  }
  int slots() const { return players * static_cast<int>(block_of.size()); }

  void check() const {
    const auto require = [](const char* name, int got, const Range& range) {
      if (!range.contains(got)) throw SettingError(name, range.text(), std::to_string(got));
    };
    require("batch", batch, {1});
    require("num_actions", actions, {1, 64});
    require("num_players", players, {1, 64});
    Config::check();
    const size_t table = static_cast<size_t>(phases) * static_cast<size_t>(actions);
    if (phases < 1 || phases > 255 || possible.size() != table || next_phase.size() != table ||
        turn_passes.size() != table) {
      throw std::invalid_argument("phase table: expected 1 to 255 phases with an entry for each of " +
                                  std::to_string(actions) + " actions");
    }
    const bool leaving = !leaves_round.empty() || !last_phase.empty();
    if (leaving && (leaves_round.size() != table || last_phase.size() != table)) {
      throw std::invalid_argument("phase table: expected leaves_round and last_phase for each of " +
                                  std::to_string(phases) + " phases and " + std::to_string(actions) + " actions");
    }
    for (const auto& following : {next_phase, last_phase}) {
      for (uint8_t phase : following) {
        if (phase >= phases) throw SettingError("phase table", "a phase of the table", std::to_string(phase));
      }
    }
    check_chance(table);
    if (!block_of.empty()) check_equivalence();
  }

 private:
  void check_chance(size_t table) const {
    const Range codes{1, 64};
    if (!codes.contains(outcomes)) throw SettingError("num_outcomes", codes.text(), std::to_string(outcomes));
    if (outcomes == 1) return;
    if (chance.size() != table || pool.size() != table) {
      throw std::invalid_argument("phase table: expected chance and pool for each of " + std::to_string(phases) +
                                  " phases and " + std::to_string(actions) + " actions, because there are " +
                                  std::to_string(outcomes) + " outcomes");
    }
    for (uint8_t row : pool) {
      if (row >= pools) throw SettingError("phase table: pool", Range{0, pools - 1.0}.text(), std::to_string(row));
    }
  }

  void check_equivalence() const {
    const auto A = static_cast<size_t>(actions), K = static_cast<size_t>(std::max(touches, 0));
    const auto per = static_cast<int>(block_of.size());
    const auto require = [](const char* name, int got, const Range& range) {
      if (!range.contains(got)) throw SettingError(name, range.text(), std::to_string(got));
    };
    require("action table: slots of a player", per, {1, 255});
    require("action table: slots per action", touches, {0});
    if (action_kind.size() != A || action_slots.size() != A * K || action_roles.size() != A * K) {
      throw std::invalid_argument("action table: expected kind, slots and roles of " + std::to_string(actions) +
                                  " actions");
    }
    for (int block : block_of) require("action table: block_of", block, {0, per - 1.0});
    for (size_t i = 0; i < A * K; ++i) {
      require("action table: slots", action_slots[i], {-1, slots() - 1.0});
      if (action_slots[i] >= 0) require("action table: roles", action_roles[i], {0, 255});
    }
  }
};

}  // namespace mcts
