// The Python face of the search (module mcts._native).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "mcts/search.h"
#include "native/arrays.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mcts {
namespace {

using native::Array;
using native::data_of;
using native::Input;

Algorithm algorithm_named(const std::string& name) {
  if (name == "puct") return Algorithm::kPuct;
  if (name == "gumbel") return Algorithm::kGumbel;
  throw std::invalid_argument("algorithm: expected puct or gumbel, got '" + name + "'");
}

// The fields of a tree as arrays for tests and debugging: views that are valid while the search lives.
nb::dict tree_arrays(nb::handle self) {
  const Tree& t = nb::cast<const Search&>(self).tree();
  const auto B = static_cast<size_t>(t.batch), N = static_cast<size_t>(t.nodes);
  const auto E = static_cast<size_t>(t.stride), V = static_cast<size_t>(t.values);
  // [B, N], or [B, N, width] if there is a width; `step` entries from node to node.
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
  fields["action"] = view(&n->action, words);
  fields["visits"] = view(&n->visits, words);
  fields["to_play"] = view(&n->to_play, bytes);
  fields["phase"] = view(&n->phase, bytes);
  fields["value"] = view(t.value, t.block, V);
  fields["reward"] = view(t.reward, t.block, V);
  fields["child"] = view(t.child, t.block, E);
  fields["edge_visits"] = view(t.edge_visits, t.block, E);
  fields["prior"] = view(t.prior, t.block, E);
  fields["q"] = view(t.q, t.block, E);
  return fields;
}

Requests requests_of(const Search& s, const Array& parent, const Array& action, const Array& shift,
                     const Array& to_play) {
  const native::Shape shape = {int64_t{s.config().leaves} * s.active()};
  return {data_of<int64_t>(parent, "parent", shape), data_of<int64_t>(action, "action", shape),
          data_of<int64_t>(shift, "shift", shape), data_of<int64_t>(to_play, "to_play", shape)};
}

const float* answers_of(const Search& s, const Input& outputs) {
  const Config& c = s.config();
  return data_of<float>(outputs, "outputs", {int64_t{c.leaves} * s.active(), c.actions + 2 * c.values()});
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // what lives until the interpreter ends is no leak: workers keep their agents
  m.def("considered_visits", &considered_visits, "considered"_a, "simulations"_a);

  nb::class_<Search>(m, "Search")
      .def(
          "__init__",
          [](Search* self, int batch, int num_actions, int num_players, int simulations, const std::string& algorithm,
             bool maxn, bool mover_frame, int leaves, int threads, float discount, float pb_c_base, float pb_c_init,
             float dirichlet_alpha, float dirichlet_fraction, bool neutral_unvisited, float virtual_loss,
             int max_considered, float gumbel_scale, float value_scale, float maxvisit_init, bool rescale_values,
             int phases, const std::vector<uint8_t>& possible, const std::vector<uint8_t>& next_phase,
             const std::vector<uint8_t>& turn_passes) {
            Config c;
            c.batch = batch;
            c.actions = num_actions;
            c.players = num_players;
            c.simulations = simulations;
            c.algorithm = algorithm_named(algorithm);
            c.maxn = maxn;
            c.mover_frame = mover_frame;
            c.leaves = leaves;
            c.threads = threads;
            c.discount = discount;
            c.pb_c_base = pb_c_base;
            c.pb_c_init = pb_c_init;
            c.dirichlet_alpha = dirichlet_alpha;
            c.dirichlet_fraction = dirichlet_fraction;
            c.neutral_unvisited = neutral_unvisited;
            c.virtual_loss = virtual_loss;
            c.max_considered = max_considered;
            c.gumbel_scale = gumbel_scale;
            c.value_scale = value_scale;
            c.maxvisit_init = maxvisit_init;
            c.rescale_values = rescale_values;
            c.phases = phases;
            c.possible = possible;
            c.next_phase = next_phase;
            c.turn_passes = turn_passes;
            new (self) Search(c);
          },
          nb::kw_only(), "batch"_a, "num_actions"_a, "num_players"_a, "simulations"_a, "algorithm"_a, "maxn"_a,
          "mover_frame"_a, "leaves"_a, "threads"_a, "discount"_a, "pb_c_base"_a, "pb_c_init"_a, "dirichlet_alpha"_a,
          "dirichlet_fraction"_a, "neutral_unvisited"_a, "virtual_loss"_a, "max_considered"_a, "gumbel_scale"_a,
          "value_scale"_a, "maxvisit_init"_a, "rescale_values"_a, "phases"_a, "possible"_a, "next_phase"_a,
          "turn_passes"_a)
      .def_prop_ro("steps", [](const Search& s) { return s.config().steps(); })
      .def_prop_ro("nodes", [](const Search& s) { return s.config().nodes(); })
      .def_prop_ro("levels", &Search::levels)
      .def_prop_ro("seconds", &Search::seconds)
      .def_prop_ro("bytes", [](const Search& s) { return s.tree().bytes(); })
      .def("tree", [](nb::handle self) { return tree_arrays(self); })
      .def(
          "begin",
          [](Search& s, const Input& outputs, const Input& legal, const Input& phase, const Input& keys,
             const std::optional<Input>& noise) {
            const Config& c = s.config();
            const auto count = std::clamp<int64_t>(outputs.ndim() ? outputs.shape(0) : 0, 1, c.batch);
            const float* o = data_of<float>(outputs, "outputs", {count, c.actions + c.values()});
            const bool* l = data_of<bool>(legal, "legal", {count, c.actions});
            const int8_t* p = data_of<int8_t>(phase, "phase", {count});
            const uint64_t* k = data_of<uint64_t>(keys, "keys", {count});
            const float* n = noise ? data_of<float>(*noise, "noise", {count, c.actions}) : nullptr;
            nb::gil_scoped_release release;
            s.begin(static_cast<int>(count), o, l, p, k, n);
          },
          "outputs"_a, "legal"_a, "phase"_a, "keys"_a, "noise"_a.none())
      .def(
          "select",
          [](Search& s, const Array& parent, const Array& action, const Array& shift, const Array& to_play) {
            const Requests requests = requests_of(s, parent, action, shift, to_play);
            nb::gil_scoped_release release;
            s.select(requests);
          },
          "parent"_a, "action"_a, "shift"_a, "to_play"_a)
      .def(
          "expand",
          [](Search& s, const Input& outputs) {
            const float* answers = answers_of(s, outputs);
            nb::gil_scoped_release release;
            s.expand(answers);
          },
          "outputs"_a)
      .def(
          "expand_and_select",
          [](Search& s, const Input& outputs, const Array& parent, const Array& action, const Array& shift,
             const Array& to_play) {
            const float* answers = answers_of(s, outputs);
            const Requests requests = requests_of(s, parent, action, shift, to_play);
            nb::gil_scoped_release release;
            s.expand_and_select(answers, requests);
          },
          "outputs"_a, "parent"_a, "action"_a, "shift"_a, "to_play"_a)
      .def(
          "results",
          [](Search& s, const Array& policy, const Array& visits, const Array& values, const Array& q) {
            const Config& c = s.config();
            s.results(data_of<float>(policy, "policy", {s.active(), c.actions}),
                      data_of<float>(visits, "visits", {s.active(), c.actions}),
                      data_of<float>(values, "values", {s.active(), c.values()}),
                      data_of<float>(q, "q", {s.active(), c.actions}));
          },
          "policy"_a, "visits"_a, "values"_a, "q"_a)
      .def(
          "choose",
          [](Search& s, float temperature, const Array& out) {
            s.choose(temperature, data_of<int64_t>(out, "out", {s.active()}));
          },
          "temperature"_a, "out"_a);
}

}  // namespace mcts
