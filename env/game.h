// The contract every game fulfils. Nothing outside a game's own files (games/NAME.h, bots/NAME.h) knows
// the name of a game; the rest of the house is built from what is declared here. docs/new_game.md says how to add one,
// games/card_game.h has what all of them so far answer alike.
//
// A game `G` is a plain struct: its data members are the complete state of one table, it has no padding (so a
// state is compared, saved and copied as bytes) and it owns no memory. It provides
//
//   constants   kName, kVersion, kNumActions (<= 64), kNumPhases, kMaxWidth of an observation, kPools, kCardKinds,
//               kMinPlayers, kMaxPlayers, kWhyPlayers (why not fewer or more)
//   types       Rules             a rule set; see RuleVisitor below
//               Bots              hand-written players; see bots/bot.h
//   play        void reset(const Rules&, int players, uint64_t key)      deals the first round
//               void step(const Rules&, int action)                      action must be legal
//               uint64_t legal(const Rules&) const                       bit a = action a; 0 when finished
//   questions   int to_play() const, phase() const, players() const      the last mover once finished
//               bool done() const, truncated() const                     truncated implies done
//               bool standing_changed() const                            scores may differ from before the last step
//               void scores(int32_t*) const                              [P] match totals so far
//               void ranks(int8_t*) const                                [P] 1 = best, ties share the better rank
//               void rewards(const Rules&, float*) const                 [P] of the last step: a win pays +1 in all, shared by
//                                                                        tied winners, a loss -1, a draw nothing
//               void stats(int32_t*) const                               one per name in stat_names(), "decisions" among them
//   knowledge   void observe(const Rules&, int seat, int16_t*) const     what the seat may see, and nothing else
//               void unseen_counts(int seat, int16_t*) const             [kPools, kCardKinds] exact belief
//               void determinize(const Rules&, int seat, uint64_t key)   resamples all that the seat cannot know
//   safety      std::string check(const Rules&, int players) const       "" or why this is no state of the game
//               StateFields inspect() const                              everything, hidden cards included, by name
//   people      std::string render(const Rules&, int seat) const         seat -1 shows only what is public
//               std::string last_event() const                           what the last mover did, in words, public parts only
//               static std::string action_name(int action), phase_name(int phase)
//   description static ObservationSpec observation(int players, bool counts)
//               static PhaseRule phase_rule(int players, int phase, int action)
//               static ActionShape action_shape(int players, int action)
//               static std::vector<std::vector<int>> symmetric_blocks()  of a player's slots: blocks may trade places,
//                                                                        and so may the slots of a block
//               static std::vector<std::string> stat_names(int players)
//   symmetry    static void relabel(const int8_t* to, int players, int16_t* row)
//               optional, for games that do not care which block, or which slot of a block, is which: what the row would
//               be if each slot s of every player were called to[s]
//
// All randomness of a game comes from `rng`, keyed by (seed, deal, episode); `decisions` counts the steps of the
// episode. Those two members name the moment, and hand-written players draw their own randomness from them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "native/rng.h"

namespace env {

using native::kGamma;
using native::make_key;
using native::mix;
using native::Rng;

// Observations are rows of int16: groups of tokens, each a contiguous block [count, fields.size()].
struct Field {
  std::string name;
  int vocabulary;      // values are 0..vocabulary-1
  bool place = false;  // it names a slot, or a block of slots, which the game's symmetries relabel
  bool seat = false;   // it names the token's player, counted from the observer: it changes with whose turn it is
  bool card = false;   // it shows a card, in the code of the slots' cards: in a slot, or in a place that all share
};

struct TokenGroup {
  std::string name;
  int count;
  std::vector<Field> fields;
  // Slots are the places that actions are aimed at and that a structured latent keeps apart. They are numbered
  // through all slot groups, in order. The tokens of a per-player group stand seat by seat from the observer's.
  bool slots = false, per_player = false;
  bool owner_only = false;  // slots, some of which only their player sees, such as cards in hand
  int offset = 0;           // of the block in the row; filled in by ObservationSpec
};

struct ObservationSpec {
  std::vector<TokenGroup> groups;
  int width = 0;

  explicit ObservationSpec(std::vector<TokenGroup> blocks) : groups(std::move(blocks)) {
    for (TokenGroup& group : groups) {
      group.offset = width;
      width += group.count * static_cast<int>(group.fields.size());
    }
  }
};

// What an action is about: its kind, and the slots it may change, each with the role it has in that. Actions of one
// kind differ in their slots only. Seats are relative: slots of the mover come first.
struct ActionShape {
  int kind = 0;
  std::vector<std::pair<int, int>> slots;  // (slot, role)
};

// What normally follows an action, for search inside a learned model, where the real rules are unknown. Where
// the rules depend on the state (the end of a round, say) this is the usual case.
struct PhaseRule {
  bool possible = false;  // can the action be legal in the phase?
  int next_phase = 0;
  bool turn_passes = false;
};

// A state spelled out for tests and debugging: names and lists of numbers. It shows hidden cards.
using StateFields = std::vector<std::pair<std::string, std::vector<int64_t>>>;

// ---------------------------------------------------------------------------------------------------------
// Rule sets as data. `Rules::visit(visitor)` names every option once; reading, printing and documenting follow.

using RuleValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

struct RuleDoc {
  std::string name, expected, meaning;
  RuleValue value;
};

inline std::string to_text(const RuleValue& value) {
  struct {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const {
      char text[32];
      std::snprintf(text, sizeof text, "%.9g", v);
      return text;
    }
    std::string operator()(const std::string& v) const { return "'" + v + "'"; }
    std::string operator()(const std::vector<int64_t>& v) const {
      std::string text = "[";
      for (size_t i = 0; i < v.size(); ++i) text += (i ? ", " : "") + std::to_string(v[i]);
      return text + "]";
    }
  } print;
  return std::visit(print, value);
}

// A rule set that cannot be played; the message names the field.
struct RuleError : std::invalid_argument {
  RuleError(const std::string& field, const std::string& expected, const std::string& got)
      : std::invalid_argument("rule '" + field + "': expected " + expected + ", got " + got) {}
};

// Collects the options as RuleDocs (mode get), or assigns one of them (mode set).
class RuleVisitor {
 public:
  RuleVisitor() = default;
  RuleVisitor(std::string name, RuleValue value) : name_(std::move(name)), value_(std::move(value)), set_(true) {}

  template <class Enum>
  void choice(const char* name, Enum& field, const std::vector<std::string>& names, const char* meaning) {
    std::string expected = "one of";
    for (size_t i = 0; i < names.size(); ++i) expected += (i ? ", " : " ") + names[i];
    if (!mine(name, names[static_cast<size_t>(field)], expected, meaning)) return;
    const auto* text = std::get_if<std::string>(&value_);
    for (size_t i = 0; text && i < names.size(); ++i) {
      if (names[i] == *text) return void(field = static_cast<Enum>(i));
    }
    throw RuleError(name, expected, to_text(value_));
  }

  void flag(const char* name, bool& field, const char* meaning) {
    if (!mine(name, field, "true or false", meaning)) return;
    const auto* v = std::get_if<bool>(&value_);
    if (!v) throw RuleError(name, "true or false", to_text(value_));
    field = *v;
  }

  void integer(const char* name, int& field, int low, int high, const char* meaning) {
    const std::string expected = "an integer from " + std::to_string(low) + " to " + std::to_string(high);
    if (!mine(name, static_cast<int64_t>(field), expected, meaning)) return;
    const auto* v = std::get_if<int64_t>(&value_);
    if (!v || *v < low || *v > high) throw RuleError(name, expected, to_text(value_));
    field = static_cast<int>(*v);
  }

  void real(const char* name, double& field, double low, double high, const char* meaning) {
    const std::string expected = "a number from " + to_text(low) + " to " + to_text(high);
    if (!mine(name, field, expected, meaning)) return;
    double v;
    if (const auto* whole = std::get_if<int64_t>(&value_)) {
      v = static_cast<double>(*whole);
    } else if (const auto* number = std::get_if<double>(&value_)) {
      v = *number;
    } else {
      throw RuleError(name, expected, to_text(value_));
    }
    if (!(v >= low && v <= high)) throw RuleError(name, expected, to_text(value_));
    field = v;
  }

  template <size_t N>
  void counts(const char* name, int (&field)[N], int high, const char* meaning) {
    const std::string expected = std::to_string(N) + " integers from 0 to " + std::to_string(high);
    if (!mine(name, std::vector<int64_t>(field, field + N), expected, meaning)) return;
    const auto* v = std::get_if<std::vector<int64_t>>(&value_);
    bool good = v && v->size() == N;
    for (size_t i = 0; good && i < N; ++i) good = (*v)[i] >= 0 && (*v)[i] <= high;
    if (!good) throw RuleError(name, expected, to_text(value_));
    for (size_t i = 0; i < N; ++i) field[i] = static_cast<int>((*v)[i]);
  }

  bool found() const { return found_; }
  const std::vector<RuleDoc>& docs() const { return docs_; }

 private:
  bool mine(const char* name, RuleValue current, const std::string& expected, const char* meaning) {
    if (!set_) docs_.push_back({name, expected, meaning, std::move(current)});
    if (!set_ || name_ != name) return false;
    return found_ = true;
  }

  std::string name_;
  RuleValue value_;
  bool set_ = false, found_ = false;
  std::vector<RuleDoc> docs_;
};

using RuleList = std::vector<std::pair<std::string, RuleValue>>;

template <class Rules>
std::vector<RuleDoc> describe_rules(Rules rules) {
  RuleVisitor visitor;
  rules.visit(visitor);
  return visitor.docs();
}

// The preset, then the changes in order; refuses unknown names, bad values and impossible combinations.
template <class Rules>
Rules make_rules(const std::string& preset, const RuleList& changes, int players) {
  Rules rules;
  auto apply = [&rules](const std::string& name, const RuleValue& value) {
    RuleVisitor visitor(name, value);
    rules.visit(visitor);
    if (visitor.found()) return;
    std::string known = "one of";
    for (const RuleDoc& doc : describe_rules(rules)) known += " " + doc.name;
    throw RuleError(name, known, "an unknown option");
  };
  bool found = false;
  std::string names = "one of";
  for (const auto& [name, settings] : Rules::presets()) {
    names += " " + name;
    if (name != preset) continue;
    found = true;
    for (const auto& [key, value] : settings) apply(key, value);
  }
  if (!found) throw RuleError("preset", names, "'" + preset + "'");
  for (const auto& [key, value] : changes) apply(key, value);
  rules.prepare(players);
  return rules;
}

// Identifies a rule set in saved states.
template <class Rules>
uint64_t rules_fingerprint(const Rules& rules) {
  uint64_t hash = 0;
  for (const RuleDoc& doc : describe_rules(rules)) {
    for (char c : doc.name + "=" + to_text(doc.value) + ";") {
      hash = mix(hash + kGamma * (static_cast<uint8_t>(c) + 1));
    }
  }
  return hash;
}

}  // namespace env
