// Python bindings of the search (module mcts._native).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>

#include "mcts/search.h"
#include "native/arrays.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mcts {
namespace {

using native::Array;
using native::data_of;
using native::Input;

// ---- settings -----------------------------------------------------------------------------------------------

// The double that is written as this float is: 0.1 for 0.1f, where a cast gives 0.10000000149.
double as_written(float number) {
  char text[32];
  for (int digits = 6; digits <= 9; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, static_cast<double>(number));
    if (std::strtof(text, nullptr) == number) break;
  }
  return std::strtod(text, nullptr);
}

[[noreturn]] void refuse(const char* name, const std::string& expected, nb::handle got) {
  throw SettingError(name, expected, nb::repr(got).c_str());
}

// Sets one setting of a Config from a Python object.
struct Assign {
  Config& config;
  std::string setting;
  nb::handle value;
  bool found = false;

  template <class Enum>
  void choice(const char* name, Enum Config::* field, const Choices& choices, const char*) {
    if (!mine(name)) return;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (nb::isinstance<nb::str>(value) && nb::cast<std::string>(value) == choices[i]) {
        config.*field = static_cast<Enum>(i);
        return;
      }
    }
    refuse(name, text_of(choices), value);
  }

  void integer(const char* name, int Config::* field, const Range& range, const char*) {
    if (!mine(name)) return;
    int number = 0;
    const bool whole = PyIndex_Check(value.ptr()) && !nb::isinstance<nb::bool_>(value);
    if (!whole || !nb::try_cast(nb::int_(value), number) || !range.contains(number)) refuse(name, range.text(), value);
    config.*field = number;
  }

  void real(const char* name, float Config::* field, const Range& range, const char*) {
    if (!mine(name)) return;
    const bool numeric = PyFloat_Check(value.ptr()) || PyIndex_Check(value.ptr());
    if (!numeric || nb::isinstance<nb::bool_>(value)) refuse(name, range.text(), value);
    const auto number = static_cast<float>(nb::cast<double>(nb::float_(value)));
    if (!range.contains(static_cast<double>(number))) refuse(name, range.text(), value);
    config.*field = number;
  }

  void flag(const char* name, bool Config::* field, const char*) {
    if (!mine(name)) return;
    if (!nb::isinstance<nb::bool_>(value)) refuse(name, "true or false", value);
    config.*field = nb::cast<bool>(value);
  }

 private:
  bool mine(const char* name) {
    found = found || setting == name;
    return setting == name;
  }
};

// Description of a setting, for documentation and for checks outside the search.
struct Field {
  std::string name;
  nb::object default_value;
  std::optional<double> low, high;  // range of a number; without `high` there is no upper limit
  bool low_excluded = false;
  Choices choices;       // names that a text setting may have
  std::string expected;  // range or choices in words
  std::string meaning;
};

struct Describe {
  std::vector<Field> fields;
  Config config;

  template <class Enum>
  void choice(const char* name, Enum Config::* field, const Choices& choices, const char* meaning) {
    const std::string& chosen = choices[static_cast<size_t>(config.*field)];
    fields.push_back({name, nb::cast(chosen), {}, {}, false, choices, text_of(choices), meaning});
  }
  void integer(const char* name, int Config::* field, const Range& range, const char* meaning) {
    number(name, nb::cast(config.*field), range, meaning);
  }
  void real(const char* name, float Config::* field, const Range& range, const char* meaning) {
    number(name, nb::cast(as_written(config.*field)), range, meaning);
  }
  void flag(const char* name, bool Config::* field, const char* meaning) {
    fields.push_back({name, nb::cast(config.*field), {}, {}, false, {}, "true or false", meaning});
  }

 private:
  void number(const char* name, nb::object value, const Range& range, const char* meaning) {
    std::optional<double> high;
    if (std::isfinite(range.high)) high = range.high;
    fields.push_back({name, std::move(value), range.low, high, range.low_excluded, {}, range.text(), meaning});
  }
};

// Binds every setting as a read-only property, and collects the signature of the constructor.
struct BindProperties {
  nb::class_<Config>& config;
  std::string signature = "def __init__(self, *";

  template <class Enum>
  void choice(const char* name, Enum Config::* field, const Choices& choices, const char* meaning) {
    config.def_prop_ro(
        name, [field, choices](const Config& c) { return choices[static_cast<size_t>(c.*field)]; }, meaning);
    add(name, "str");
  }
  void integer(const char* name, int Config::* field, const Range&, const char* meaning) {
    config.def_prop_ro(name, [field](const Config& c) { return c.*field; }, meaning);
    add(name, "int");
  }
  void real(const char* name, float Config::* field, const Range&, const char* meaning) {
    config.def_prop_ro(name, [field](const Config& c) { return as_written(c.*field); }, meaning);
    add(name, "float");
  }
  void flag(const char* name, bool Config::* field, const char* meaning) {
    config.def_prop_ro(name, [field](const Config& c) { return c.*field; }, meaning);
    add(name, "bool");
  }

 private:
  void add(const char* name, const char* type) { signature += std::string(", ") + name + ": " + type + " = ..."; }
};

Config make_config(const nb::kwargs& settings) {
  Config config;
  for (auto [name, value] : settings) {
    Assign assign{config, nb::cast<std::string>(name), value};
    Config::visit(assign);
    if (assign.found) continue;
    Describe known;
    Config::visit(known);
    std::string names;
    for (const Field& field : known.fields) names += (names.empty() ? "" : ", ") + field.name;
    throw nb::type_error(("Config: expected settings among " + names + ", got " + assign.setting).c_str());
  }
  return config;
}

std::string text_of(const Config& config) {
  Describe values;
  values.config = config;
  Config::visit(values);
  std::string text;
  for (const Field& field : values.fields) {
    text += (text.empty() ? "" : ", ") + field.name + "=" + nb::repr(field.default_value).c_str();
  }
  return "Config(" + text + ")";
}

void bind_config(nb::module_& m) {
  nb::class_<Field>(m, "Field")
      .def_ro("name", &Field::name)
      .def_ro("default", &Field::default_value)
      .def_ro("low", &Field::low)
      .def_ro("high", &Field::high)
      .def_ro("low_excluded", &Field::low_excluded)
      .def_ro("choices", &Field::choices)
      .def_ro("expected", &Field::expected)
      .def_ro("meaning", &Field::meaning);

  nb::class_<Config> config(m, "Config");
  BindProperties bound{config};
  Config::visit(bound);
  static const std::string signature = bound.signature + ") -> None";
  config
      .def(
          "__init__", [](Config* self, const nb::kwargs& settings) { new (self) Config(make_config(settings)); },
          nb::sig(signature.c_str()))
      .def("__repr__", [](const Config& c) { return text_of(c); })
      .def(
          "__eq__",
          [](const Config& c, nb::handle other) {
            return nb::isinstance<Config>(other) && text_of(c) == text_of(nb::cast<const Config&>(other));
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def(
          "__hash__", [](const Config& c) { return std::hash<std::string>{}(text_of(c)); },
          nb::sig("def __hash__(self) -> int"))
      .def_static("fields", [] {
        Describe all;
        Config::visit(all);
        return all.fields;
      });
}

// ---- trees --------------------------------------------------------------------------------------------------

// Fields of a tree as arrays, for tests and debugging: views that are valid while the search lives.
nb::dict tree_arrays(nb::handle self) {
  const Tree& t = nb::cast<const Search&>(self).tree();
  const auto B = static_cast<size_t>(t.batch), N = static_cast<size_t>(t.nodes);
  const auto E = static_cast<size_t>(t.stride), V = static_cast<size_t>(t.values);
  // Shape of a view: [B, N], or [B, N, width] if there is a width; `step` entries from node to node.
  const auto view = [&](const auto* first, int64_t step, size_t width = 0) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(first)>>;
    const std::vector<size_t> shape{B, N, width};
    const std::vector<int64_t> strides{t.nodes * step, step, 1};
    return nb::ndarray<nb::numpy, const T>(first, width ? 3 : 2, shape.data(), self, strides.data()).cast();
  };
  const Node* n = t.node.data();
  const int64_t words = sizeof(Node) / sizeof(int32_t), bytes = sizeof(Node);
  nb::dict fields;
  fields["parent"] = view(&n->parent, words);
  fields["edge"] = view(&n->edge, words);
  fields["visits"] = view(&n->visits, words);
  fields["to_play"] = view(&n->to_play, bytes);
  fields["phase"] = view(&n->phase, bytes);
  fields["chance"] = view(&n->chance, bytes);
  fields["value"] = view(t.value, t.block, V);
  fields["reward"] = view(t.reward, t.block, V);
  fields["child"] = view(t.child, t.block, E);
  fields["edge_visits"] = view(t.edge_visits, t.block, E);
  fields["prior"] = view(t.prior, t.block, E);
  fields["q"] = view(t.q, t.block, E);
  return fields;
}

Requests requests_of(const Search& s, const Array& parent, const Array& action, const Array& shift,
                     const Array& to_play, const Array& outcome) {
  const native::Shape shape = {int64_t{s.config().leaves} * s.active()};
  return {data_of<int64_t>(parent, "parent", shape), data_of<int64_t>(action, "action", shape),
          data_of<int64_t>(shift, "shift", shape), data_of<int64_t>(to_play, "to_play", shape),
          data_of<int64_t>(outcome, "outcome", shape)};
}

const float* outputs_of(const Search& s, const Input& outputs) {
  const Setup& c = s.config();
  return data_of<float>(outputs, "outputs", {int64_t{c.leaves} * s.active(), c.width()});
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // workers keep their agents until the interpreter ends, which is no leak
  bind_config(m);
  m.def("considered_visits", &considered_visits, "considered"_a, "simulations"_a);

  nb::class_<Search>(m, "Search")
      .def(
          "__init__",
          [](Search* self, const Config& config, int batch, int num_actions, int num_players, bool mover_frame,
             int phases, const std::vector<uint8_t>& possible, const std::vector<uint8_t>& next_phase,
             const std::vector<uint8_t>& turn_passes, const std::vector<uint8_t>& leaves_round,
             const std::vector<uint8_t>& last_phase, int num_outcomes, int num_pools,
             const std::vector<uint8_t>& chance, const std::vector<uint8_t>& pool, int touches,
             const std::vector<int>& action_kind, const std::vector<int>& action_slots,
             const std::vector<int>& action_roles, const std::vector<int>& block_of) {
            Setup setup;
            static_cast<Config&>(setup) = config;
            setup.batch = batch;
            setup.actions = num_actions;
            setup.players = num_players;
            setup.mover_frame = mover_frame;
            setup.phases = phases;
            setup.possible = possible;
            setup.next_phase = next_phase;
            setup.turn_passes = turn_passes;
            setup.leaves_round = leaves_round;
            setup.last_phase = last_phase;
            setup.outcomes = num_outcomes;
            setup.pools = num_pools;
            setup.chance = chance;
            setup.pool = pool;
            setup.touches = touches;
            setup.action_kind = action_kind;
            setup.action_slots = action_slots;
            setup.action_roles = action_roles;
            setup.block_of = block_of;
            new (self) Search(setup);
          },
          nb::kw_only(), "config"_a, "batch"_a, "num_actions"_a, "num_players"_a, "mover_frame"_a, "phases"_a,
          "possible"_a, "next_phase"_a, "turn_passes"_a, "leaves_round"_a, "last_phase"_a, "num_outcomes"_a,
          "num_pools"_a, "chance"_a, "pool"_a, "touches"_a, "action_kind"_a, "action_slots"_a, "action_roles"_a,
          "block_of"_a)
      .def_prop_ro("steps", [](const Search& s) { return s.config().steps(); })
      .def_prop_ro("nodes", [](const Search& s) { return s.config().nodes(); })
      .def_prop_ro("levels", &Search::levels)
      .def_prop_ro("seconds", &Search::seconds)
      .def_prop_ro("bytes", [](const Search& s) { return s.tree().bytes(); })
      .def("tree", [](nb::handle self) { return tree_arrays(self); })
      .def(
          "begin",
          [](Search& s, const Input& outputs, const Input& legal, const Input& phase, const Input& keys,
             const std::optional<Input>& noise, const std::optional<Input>& counts, const std::optional<Input>& classes,
             const std::optional<Input>& absent) {
            const Setup& c = s.config();
            const auto count = std::clamp<int64_t>(outputs.ndim() ? outputs.shape(0) : 0, 1, c.batch);
            const float* o = data_of<float>(outputs, "outputs", {count, c.actions + c.values()});
            const uint64_t* l = data_of<uint64_t>(legal, "legal", {count});
            const int8_t* p = data_of<int8_t>(phase, "phase", {count});
            const uint64_t* k = data_of<uint64_t>(keys, "keys", {count});
            const float* n = noise ? data_of<float>(*noise, "noise", {count, c.actions}) : nullptr;
            const float* seen = counts ? data_of<float>(*counts, "counts", {count, c.pools, c.outcomes - 1}) : nullptr;
            const uint8_t* same = classes ? data_of<uint8_t>(*classes, "classes", {count, c.slots()}) : nullptr;
            const uint64_t* away = absent ? data_of<uint64_t>(*absent, "absent", {count}) : nullptr;
            nb::gil_scoped_release release;
            s.begin(static_cast<int>(count), o, l, p, k, n, seen, same, away);
          },
          "outputs"_a, "legal"_a, "phase"_a, "keys"_a, "noise"_a.none(), "counts"_a.none(), "classes"_a.none(),
          "absent"_a.none())
      .def(
          "select",
          [](Search& s, const Array& parent, const Array& action, const Array& shift, const Array& to_play,
             const Array& outcome) {
            const Requests requests = requests_of(s, parent, action, shift, to_play, outcome);
            nb::gil_scoped_release release;
            s.select(requests);
          },
          "parent"_a, "action"_a, "shift"_a, "to_play"_a, "outcome"_a)
      .def(
          "expand",
          [](Search& s, const Input& outputs) {
            const float* numbers = outputs_of(s, outputs);
            nb::gil_scoped_release release;
            s.expand(numbers);
          },
          "outputs"_a)
      .def(
          "expand_and_select",
          [](Search& s, const Input& outputs, const Array& parent, const Array& action, const Array& shift,
             const Array& to_play, const Array& outcome) {
            const float* numbers = outputs_of(s, outputs);
            const Requests requests = requests_of(s, parent, action, shift, to_play, outcome);
            nb::gil_scoped_release release;
            s.expand_and_select(numbers, requests);
          },
          "outputs"_a, "parent"_a, "action"_a, "shift"_a, "to_play"_a, "outcome"_a)
      .def(
          "targets",
          [](Search& s, const Array& policy, const Array& values) {
            const Setup& c = s.config();
            s.targets(data_of<float>(policy, "policy", {s.active(), c.actions}),
                      data_of<float>(values, "values", {s.active(), c.values()}));
          },
          "policy"_a, "values"_a)
      .def(
          "root_actions",
          [](Search& s, const Array& visits, const Array& q) {
            const Setup& c = s.config();
            s.root_actions(data_of<float>(visits, "visits", {s.active(), c.actions}),
                           data_of<float>(q, "q", {s.active(), c.actions}));
          },
          "visits"_a, "q"_a)
      .def(
          "choose",
          [](Search& s, float temperature, const Array& out) {
            s.choose(temperature, data_of<int64_t>(out, "out", {s.active()}));
          },
          "temperature"_a, "out"_a);
}

}  // namespace mcts
