// Rule sets as data. `Rules::visit(visitor)` names every option once; reading, printing and documenting options follow
// from it. A game's `Rules` has
//   template <class Visitor> void visit(Visitor&)                      one call per option, see RuleVisitor
//   static std::vector<std::pair<std::string, RuleList>> presets()     named rule sets, as changes of the defaults
//   void prepare(int players)                                          refuses impossible rules, derives the rest
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
using native::mix;

using RuleValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

struct RuleDoc {
  std::string name, expected, meaning;
  RuleValue value, default_value;
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
    if (!set_) docs_.push_back({name, expected, meaning, std::move(current), {}});
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
  RuleVisitor visitor, defaults;
  Rules unchanged;
  rules.visit(visitor);
  unchanged.visit(defaults);
  std::vector<RuleDoc> docs = visitor.docs();
  for (size_t i = 0; i < docs.size(); ++i) docs[i].default_value = defaults.docs()[i].value;
  return docs;
}

// Rules of a named rule set, changed by the options in order; refuses unknown names, bad values and impossible combinations.
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

// Writes the cards of a deck in ascending order, as codes from 1, and returns how many there are. A deck of fewer cards
// than `least`, or of more than there is room for, is refused; `parts` says what `least` is made of.
template <size_t kKinds, size_t kMaxCards>
int sort_deck(const int (&deck)[kKinds], uint8_t (&sorted)[kMaxCards], int least, const std::string& parts) {
  size_t size = 0;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (int i = 0; i < deck[kind]; ++i, ++size) {
      if (size < kMaxCards) sorted[size] = static_cast<uint8_t>(kind + 1);
    }
  }
  if (size < static_cast<size_t>(least) || size > kMaxCards) {
    throw RuleError(
        "deck",
        "between " + std::to_string(least) + " (" + parts + ") and " + std::to_string(kMaxCards) + " cards in all",
        std::to_string(size));
  }
  return static_cast<int>(size);
}

// Hash that identifies a rule set in saved states.
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
