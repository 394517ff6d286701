// Python bindings of the native step of slots networks (module muzero.model.native._native).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "muzero/model/native/loss_bindings.h"
#include "muzero/model/native/slot_network.h"
#include "muzero/model/native/unroll_bindings.h"
#include "native/arrays.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slot_step {
NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // workers keep their agents until the interpreter ends, which is no leak
  m.def("kernels", [] {
    std::vector<std::string> names;
    for (const Kernel* kernel : kernels()) names.emplace_back(kernel->name);
    return names;
  });

  nb::class_<SlotNetwork>(m, "SlotNetwork")
      .def(
          "__init__",
          [](SlotNetwork* self, const std::string& kernel, const Sizes& sizes,
             const std::map<std::string, Input>& indices) {
            new (self) SlotNetwork(kernel_named(kernel), sizes, tables_of<int32_t>(indices));
          },
          "kernel"_a, "sizes"_a, "indices"_a)
      .def(
          "load",
          [](SlotNetwork& s, const std::map<std::string, Input>& weights) { s.load(tables_of<float>(weights)); },
          "weights"_a)
      .def(
          "advance",
          [](const SlotNetwork& s, const Array& latents, const Input& parent, const Input& action, const Input& shift,
             const Input& outcome, const Input& to_play, int64_t first, int64_t games, bool only_root,
             const Array& outputs) {
            const Network& n = s.network();
            const auto nodes = static_cast<int64_t>(latents.ndim() ? latents.shape(0) : 0);
            const auto batch = static_cast<int64_t>(latents.ndim() > 1 ? latents.shape(1) : 0);
            const auto count = static_cast<int64_t>(parent.ndim() ? parent.shape(0) : 0);
            const int values = only_root ? 1 : n.players;
            Job job{};
            job.latents = data_of<float>(latents, "latents", {nodes, batch, n.latent_dim()});
            job.batch = batch;
            job.parent = data_of<int64_t>(parent, "parent", {count});
            job.action = data_of<int64_t>(action, "action", {count});
            job.shift = data_of<int64_t>(shift, "shift", {count});
            job.outcome = data_of<int64_t>(outcome, "outcome", {count});
            job.to_play = data_of<int64_t>(to_play, "to_play", {count});
            job.count = count;
            job.first = first;
            job.games = games;
            job.outputs = data_of<float>(outputs, "outputs", {count, n.actions + n.outcome_logits() + 2 * values});
            job.only_root = only_root;
            if (games < 1 || games > batch || first < 1 || first + (count - 1) / games >= nodes) {
              throw std::invalid_argument("first, games: expected room for " + std::to_string(count) + " rows of " +
                                          std::to_string(games) + " games from node " + std::to_string(first) +
                                          " on, got " + std::to_string(nodes) + " nodes of " + std::to_string(batch));
            }
            nb::gil_scoped_release release;
            s.run(job);
          },
          "latents"_a, "parent"_a, "action"_a, "shift"_a, "outcome"_a, "to_play"_a, "first"_a, "games"_a, "only_root"_a,
          "outputs"_a)
      .def(
          "evaluate",
          [](const SlotNetwork& s, const Array& latents, const Input& to_play, bool only_root, const Array& outputs) {
            const Network& n = s.network();
            const auto count = static_cast<int64_t>(latents.ndim() ? latents.shape(0) : 0);
            const int values = only_root ? 1 : n.players;
            Job job{};
            job.latents = data_of<float>(latents, "latents", {count, n.latent_dim()});
            job.to_play = data_of<int64_t>(to_play, "to_play", {count});
            job.batch = job.games = job.count = count;
            job.outputs = data_of<float>(outputs, "outputs", {count, n.actions + n.outcome_logits() + 2 * values});
            job.only_heads = true;
            job.only_root = only_root;
            for (int64_t r = 0; r < count; ++r) {
              if (job.to_play[r] < 0 || job.to_play[r] >= n.players)
                throw std::out_of_range("row " + std::to_string(r) +
                                        ": no such player: " + std::to_string(job.to_play[r]));
            }
            nb::gil_scoped_release release;
            s.run(job);
          },
          "latents"_a, "to_play"_a, "only_root"_a, "outputs"_a);

  m.def("train_kernels", [] {
    std::vector<std::string> names;
    for (const TrainKernel* kernel : train_kernels()) names.emplace_back(kernel->name);
    return names;
  });
  bind_trainer(m);
  bind_unroll(m);
  bind_losses(m);
  bind_visible(m);
}

}  // namespace slot_step
