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
  const auto view = [&](const auto& field, std::vector<size_t> shape) {
    using T = typename std::decay_t<decltype(field)>::value_type;
    return nb::ndarray<nb::numpy, const T>(field.data(), shape.size(), shape.data(), self).cast();
  };
  const auto B = static_cast<size_t>(t.batch), N = static_cast<size_t>(t.nodes);
  const auto E = static_cast<size_t>(t.stride), V = static_cast<size_t>(t.values);
  nb::dict fields;
  fields["parent"] = view(t.parent, {B, N});
  fields["action"] = view(t.action, {B, N});
  fields["visits"] = view(t.visits, {B, N});
  fields["to_play"] = view(t.to_play, {B, N});
  fields["phase"] = view(t.phase, {B, N});
  fields["value"] = view(t.value, {B, N, V});
  fields["reward"] = view(t.reward, {B, N, V});
  fields["child"] = view(t.child, {B, N, E});
  fields["edge_visits"] = view(t.edge_visits, {B, N, E});
  fields["prior"] = view(t.prior, {B, N, E});
  fields["q"] = view(t.q, {B, N, E});
  return fields;
}

}  // namespace

NB_MODULE(_native, m) {
  m.def("considered_visits", &considered_visits, "considered"_a, "simulations"_a);

  nb::class_<Search>(m, "Search")
      .def(
          "__init__",
          [](Search* self, int batch, int num_actions, int num_players, int simulations, const std::string& algorithm,
             bool maxn, bool mover_frame, int leaves, int threads, float discount, float pb_c_base, float pb_c_init,
             float dirichlet_alpha, float dirichlet_fraction, bool neutral_unvisited, float virtual_loss,
             int max_considered, float gumbel_scale, float value_scale, float maxvisit_init, int phases,
             const std::vector<uint8_t>& possible, const std::vector<uint8_t>& next_phase,
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
            c.phases = phases;
            c.possible = possible;
            c.next_phase = next_phase;
            c.turn_passes = turn_passes;
            new (self) Search(c);
          },
          nb::kw_only(), "batch"_a, "num_actions"_a, "num_players"_a, "simulations"_a, "algorithm"_a, "maxn"_a,
          "mover_frame"_a, "leaves"_a, "threads"_a, "discount"_a, "pb_c_base"_a, "pb_c_init"_a, "dirichlet_alpha"_a,
          "dirichlet_fraction"_a, "neutral_unvisited"_a, "virtual_loss"_a, "max_considered"_a, "gumbel_scale"_a,
          "value_scale"_a, "maxvisit_init"_a, "phases"_a, "possible"_a, "next_phase"_a, "turn_passes"_a)
      .def_prop_ro("steps", [](const Search& s) { return s.config().steps(); })
      .def_prop_ro("nodes", [](const Search& s) { return s.config().nodes(); })
      .def_prop_ro("levels", &Search::levels)
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
            const native::Shape shape = {int64_t{s.config().leaves} * s.active()};
            const Requests requests{data_of<int64_t>(parent, "parent", shape),
                                    data_of<int64_t>(action, "action", shape), data_of<int64_t>(shift, "shift", shape),
                                    data_of<int64_t>(to_play, "to_play", shape)};
            nb::gil_scoped_release release;
            s.select(requests);
          },
          "parent"_a, "action"_a, "shift"_a, "to_play"_a)
      .def(
          "expand",
          [](Search& s, const Input& outputs) {
            const Config& c = s.config();
            const float* o =
                data_of<float>(outputs, "outputs", {int64_t{c.leaves} * s.active(), c.actions + 2 * c.values()});
            nb::gil_scoped_release release;
            s.expand(o);
          },
          "outputs"_a)
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
