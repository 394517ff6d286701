// Python bindings of SlotTrainer.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "muzero/model/native/slot_trainer.h"
#include "native/arrays.h"

namespace slot_step {

using native::Array;
using native::data_of;
using native::Input;

template <class T>
std::map<std::string, Table<T>> tables_of(const std::map<std::string, Input>& arrays) {
  std::map<std::string, Table<T>> tables;
  for (const auto& [name, array] : arrays) {
    native::Shape shape;
    for (size_t i = 0; i < array.ndim(); ++i) shape.push_back(static_cast<int64_t>(array.shape(i)));
    tables[name] = {data_of<T>(array, name.c_str(), shape), static_cast<int64_t>(array.size())};
  }
  return tables;
}

inline int64_t rows_of(const Input& array) { return static_cast<int64_t>(array.ndim() ? array.shape(0) : 0); }

inline const float* data_or_null(const std::optional<Input>& array, const char* name, const native::Shape& shape) {
  return array ? data_of<float>(*array, name, shape) : nullptr;
}

inline float* data_or_null(const std::optional<Array>& array, const char* name, const native::Shape& shape) {
  return array ? data_of<float>(*array, name, shape) : nullptr;
}

template <class Part>
void bind_weights(nanobind::module_& m, const char* name) {
  namespace nb = nanobind;
  using Weights = typename Layout<Part>::Weights;
  nb::class_<Weights>(m, name);
}

inline std::vector<std::tuple<std::string, int64_t, int64_t>> listed(const std::vector<Field>& fields) {
  std::vector<std::tuple<std::string, int64_t, int64_t>> out;
  for (const Field& field : fields) out.emplace_back(field.name, field.rows, field.columns);
  return out;
}

using EncoderWeights = Layout<EncoderPart>::Weights;
using DynamicsWeights = Layout<DynamicsPart>::Weights;
using HeadsWeights = Layout<HeadsPart>::Weights;

// Sums of the parameters' gradients that a backward pass adds to, or sets if they are fresh; none in a forward pass.
struct Gradient {
  std::optional<Array> sums;
  bool fresh = false;
};

// Without `saved`, for results that need no gradient, what a chunk saves stays in the scratch memory.
inline void encoder_pass(SlotTrainer& t, const EncoderWeights& weights, const Input& obs,
                         const std::optional<Array>& saved, const std::optional<Array>& latent,
                         const std::optional<Input>& d_latent, const Gradient& gradient) {
  const EncoderPart& part = weights.part;
  const TrainKernel& kernel = t.kernel();
  const int64_t rows = rows_of(obs), L = part.net->latent_dim(), size = kernel.encoder_saved(part);
  const int16_t* seen = data_of<int16_t>(obs, "obs", {rows, part.row});
  float* kept = data_or_null(saved, "saved", {SlotTrainer::chunks(rows) * size});
  float* out = data_or_null(latent, "latent", {rows, L});
  const float* d_out = data_or_null(d_latent, "d_latent", {rows, L});
  float* sums = data_or_null(gradient.sums, "sums", {SlotTrainer::kGroups * t.encoder.size()});
  nanobind::gil_scoped_release release;
  t.require_codes(rows, seen);
  const auto chunk = [&](int64_t at, int count) {
    return EncoderRows{seen + at * part.row, count, out ? out + at * L : nullptr, d_out ? d_out + at * L : nullptr};
  };
  const int64_t scratch = (kernel.encoder_scratch(part) + 63) / 64 * 64;
  if (sums) {
    t.backward(rows, scratch, t.encoder.size(), sums, gradient.fresh,
               [&](int64_t at, int count, void* memory, float* to) {
                 kernel.encoder_backward(part, chunk(at, count), kept + at / kTile * size, to, memory);
               });
  } else {
    const int64_t room = kept ? 0 : size * static_cast<int64_t>(sizeof(float));
    t.forward(rows, scratch + room, [&](int64_t at, int count, void* memory) {
      float* here = kept ? kept + at / kTile * size : reinterpret_cast<float*>(static_cast<char*>(memory) + scratch);
      kernel.encoder_forward(part, chunk(at, count), here, memory);
    });
  }
}

inline void dynamics_pass(SlotTrainer& t, const DynamicsWeights& weights, const Input& latent, const Input& action,
                          const Input& shift, const Input& outcome, const Array& saved,
                          const std::optional<Array>& next, const std::optional<Input>& d_next,
                          const std::optional<Array>& d_latent, const Gradient& gradient) {
  const DynamicsPart& part = weights.part;
  const TrainKernel& kernel = t.kernel();
  const int64_t rows = rows_of(latent), L = part.net->latent_dim(), size = kernel.dynamics_saved(part);
  const float* x = data_of<float>(latent, "latent", {rows, L});
  const int64_t* actions = data_of<int64_t>(action, "action", {rows});
  const int64_t* shifts = data_of<int64_t>(shift, "shift", {rows});
  const int64_t* outcomes = data_of<int64_t>(outcome, "outcome", {rows});
  float* kept = data_of<float>(saved, "saved", {SlotTrainer::chunks(rows) * size});
  float* y = data_or_null(next, "next", {rows, L});
  const float* dy = data_or_null(d_next, "d_next", {rows, L});
  float* dx = data_or_null(d_latent, "d_latent", {rows, L});
  float* sums = data_or_null(gradient.sums, "sums", {SlotTrainer::kGroups * t.dynamics.size()});
  nanobind::gil_scoped_release release;
  t.require_steps(rows, actions, shifts, outcomes);
  const auto chunk = [&](int64_t at, int count) {
    return DynamicsRows{x + at * L,
                        actions + at,
                        shifts + at,
                        outcomes + at,
                        count,
                        y ? y + at * L : nullptr,
                        dy ? dy + at * L : nullptr,
                        dx ? dx + at * L : nullptr};
  };
  const int64_t scratch = kernel.dynamics_scratch(part);
  if (sums) {
    t.backward(rows, scratch, t.dynamics.size(), sums, gradient.fresh,
               [&](int64_t at, int count, void* memory, float* to) {
                 kernel.dynamics_backward(part, chunk(at, count), kept + at / kTile * size, to, memory);
               });
  } else {
    t.forward(rows, scratch, [&](int64_t at, int count, void* memory) {
      kernel.dynamics_forward(part, chunk(at, count), kept + at / kTile * size, memory);
    });
  }
}

// Results of the heads, or their gradients.
template <class A>
struct HeadsArrays {
  const std::optional<A>&policy, &numbers, &outcome, &blocks, &own;
};

inline void heads_pass(SlotTrainer& t, const HeadsWeights& weights, const Input& latent, const Array& saved,
                       const HeadsArrays<Array>& out, const HeadsArrays<Input>& d_out,
                       const std::optional<Array>& d_latent, const Gradient& gradient) {
  const HeadsPart& part = weights.part;
  const TrainKernel& kernel = t.kernel();
  const Network& n = *part.net;
  const int64_t rows = rows_of(latent), L = n.latent_dim(), size = kernel.heads_saved(part);
  const int64_t A = n.actions, numbers = int64_t{n.egos} * part.numbers, O = part.outcomes, H = n.hidden;
  const int64_t blocks = int64_t{n.players} * n.blocks * n.slot_hidden;
  const float* x = data_of<float>(latent, "latent", {rows, L});
  float* kept = data_of<float>(saved, "saved", {SlotTrainer::chunks(rows) * size});
  HeadsRows all{};
  all.policy = data_or_null(out.policy, "policy", {rows, A});
  all.numbers = data_or_null(out.numbers, "numbers", {rows, numbers});
  all.outcome = data_or_null(out.outcome, "outcome", {rows, O});
  all.blocks = data_or_null(out.blocks, "blocks", {rows, blocks});
  all.own = data_or_null(out.own, "own", {rows, H});
  all.d_policy = data_or_null(d_out.policy, "d_policy", {rows, A});
  all.d_numbers = data_or_null(d_out.numbers, "d_numbers", {rows, numbers});
  all.d_outcome = data_or_null(d_out.outcome, "d_outcome", {rows, O});
  all.d_blocks = data_or_null(d_out.blocks, "d_blocks", {rows, blocks});
  all.d_own = data_or_null(d_out.own, "d_own", {rows, H});
  all.d_latent = data_or_null(d_latent, "d_latent", {rows, L});
  float* sums = data_or_null(gradient.sums, "sums", {SlotTrainer::kGroups * t.heads.size()});
  nanobind::gil_scoped_release release;
  const auto from = [](auto* data, int64_t at) { return data ? data + at : nullptr; };
  const auto chunk = [&](int64_t at, int count) {
    HeadsRows rows_here = all;
    rows_here.latent = x + at * L;
    rows_here.rows = count;
    rows_here.policy = from(all.policy, at * A);
    rows_here.numbers = from(all.numbers, at * numbers);
    rows_here.outcome = from(all.outcome, at * O);
    rows_here.blocks = from(all.blocks, at * blocks);
    rows_here.own = from(all.own, at * H);
    rows_here.d_policy = from(all.d_policy, at * A);
    rows_here.d_numbers = from(all.d_numbers, at * numbers);
    rows_here.d_outcome = from(all.d_outcome, at * O);
    rows_here.d_blocks = from(all.d_blocks, at * blocks);
    rows_here.d_own = from(all.d_own, at * H);
    rows_here.d_latent = from(all.d_latent, at * L);
    return rows_here;
  };
  const int64_t scratch = kernel.heads_scratch(part);
  if (sums) {
    t.backward(rows, scratch, t.heads.size(), sums, gradient.fresh,
               [&](int64_t at, int count, void* memory, float* to) {
                 kernel.heads_backward(part, chunk(at, count), kept + at / kTile * size, to, memory);
               });
  } else {
    t.forward(rows, scratch, [&](int64_t at, int count, void* memory) {
      kernel.heads_forward(part, chunk(at, count), kept + at / kTile * size, memory);
    });
  }
}

template <class Layout>
auto pack(const SlotTrainer& t, const Layout& layout, const Input& theta) {
  if (!layout.size()) throw std::invalid_argument("this part of the network is not there");
  return std::make_unique<typename Layout::Weights>(layout, t.kernel(),
                                                    data_of<float>(theta, "theta", {layout.size()}));
}

inline void bind_trainer(nanobind::module_& m) {
  namespace nb = nanobind;
  using namespace nb::literals;
  using MaybeInput = std::optional<Input>;
  using MaybeArray = std::optional<Array>;
  bind_weights<EncoderPart>(m, "EncoderWeights");
  bind_weights<DynamicsPart>(m, "DynamicsWeights");
  bind_weights<HeadsPart>(m, "HeadsWeights");
  m.attr("CHUNK") = kTile;
  m.attr("GRADIENT_GROUPS") = SlotTrainer::kGroups;
  nb::class_<SlotTrainer>(m, "SlotTrainer")
      .def(
          "__init__",
          [](SlotTrainer* self, const std::string& kernel, const Sizes& sizes,
             const std::map<std::string, Input>& indices, int threads) {
            if (threads < 1 || threads > 1024)
              throw std::invalid_argument("threads: expected 1 to 1024, got " + std::to_string(threads));
            new (self) SlotTrainer(kernel, sizes, tables_of<int32_t>(indices), threads);
          },
          "kernel"_a, "sizes"_a, "indices"_a, "threads"_a)
      .def_rw("threads", &SlotTrainer::threads)
      .def("encoder_layout", [](const SlotTrainer& t) { return listed(t.encoder.fields()); })
      .def("dynamics_layout", [](const SlotTrainer& t) { return listed(t.dynamics.fields()); })
      .def("heads_layout", [](const SlotTrainer& t) { return listed(t.heads.fields()); })
      .def("encoder_saved", [](const SlotTrainer& t) { return t.kernel().encoder_saved(t.encoder.part); })
      .def("dynamics_saved", [](const SlotTrainer& t) { return t.kernel().dynamics_saved(t.dynamics.part); })
      .def("heads_saved", [](const SlotTrainer& t) { return t.kernel().heads_saved(t.heads.part); })
      .def(
          "pack_encoder", [](const SlotTrainer& t, const Input& theta) { return pack(t, t.encoder, theta); }, "theta"_a)
      .def(
          "pack_dynamics", [](const SlotTrainer& t, const Input& theta) { return pack(t, t.dynamics, theta); },
          "theta"_a)
      .def(
          "pack_heads", [](const SlotTrainer& t, const Input& theta) { return pack(t, t.heads, theta); }, "theta"_a)
      .def(
          "encoder_forward",
          [](SlotTrainer& t, const EncoderWeights& weights, const Input& obs, const std::optional<Array>& saved,
             const Array& latent) { encoder_pass(t, weights, obs, saved, latent, std::nullopt, {}); },
          "weights"_a, "obs"_a, "saved"_a.none(), "latent"_a)
      .def(
          "encoder_backward",
          [](SlotTrainer& t, const EncoderWeights& weights, const Input& obs, const Array& saved, const Input& d_latent,
             const Array& sums,
             bool fresh) { encoder_pass(t, weights, obs, saved, std::nullopt, d_latent, {sums, fresh}); },
          "weights"_a, "obs"_a, "saved"_a, "d_latent"_a, "sums"_a, "fresh"_a)
      .def(
          "dynamics_forward",
          [](SlotTrainer& t, const DynamicsWeights& weights, const Input& latent, const Input& action,
             const Input& shift, const Input& outcome, const Array& saved, const Array& next) {
            dynamics_pass(t, weights, latent, action, shift, outcome, saved, next, std::nullopt, std::nullopt, {});
          },
          "weights"_a, "latent"_a, "action"_a, "shift"_a, "outcome"_a, "saved"_a, "next"_a)
      .def(
          "dynamics_backward",
          [](SlotTrainer& t, const DynamicsWeights& weights, const Input& latent, const Input& action,
             const Input& shift, const Input& outcome, const Array& saved, const Input& d_next, const Array& d_latent,
             const Array& sums, bool fresh) {
            dynamics_pass(t, weights, latent, action, shift, outcome, saved, std::nullopt, d_next, d_latent,
                          {sums, fresh});
          },
          "weights"_a, "latent"_a, "action"_a, "shift"_a, "outcome"_a, "saved"_a, "d_next"_a, "d_latent"_a, "sums"_a,
          "fresh"_a)
      .def(
          "heads_forward",
          [](SlotTrainer& t, const HeadsWeights& weights, const Input& latent, const Array& saved,
             const MaybeArray& policy, const MaybeArray& numbers, const MaybeArray& outcome, const MaybeArray& blocks,
             const MaybeArray& own) {
            const MaybeInput none;
            heads_pass(t, weights, latent, saved, {policy, numbers, outcome, blocks, own},
                       {none, none, none, none, none}, std::nullopt, {});
          },
          "weights"_a, "latent"_a, "saved"_a, "policy"_a, "numbers"_a, "outcome"_a.none(), "blocks"_a.none(),
          "own"_a.none())
      .def(
          "heads_backward",
          [](SlotTrainer& t, const HeadsWeights& weights, const Input& latent, const Array& saved,
             const MaybeInput& policy, const MaybeInput& numbers, const MaybeInput& outcome, const MaybeInput& blocks,
             const MaybeInput& own, const Array& d_latent, const Array& sums, bool fresh) {
            const MaybeArray none;
            heads_pass(t, weights, latent, saved, {none, none, none, none, none},
                       {policy, numbers, outcome, blocks, own}, d_latent, {sums, fresh});
          },
          "weights"_a, "latent"_a, "saved"_a, "d_policy"_a, "d_numbers"_a, "d_outcome"_a.none(), "d_blocks"_a.none(),
          "d_own"_a.none(), "d_latent"_a, "sums"_a, "fresh"_a)
      .def(
          "add_up",
          [](SlotTrainer& t, const Input& sums, const Array& gradient) {
            const auto size = static_cast<int64_t>(gradient.size());
            const float* from = data_of<float>(sums, "sums", {SlotTrainer::kGroups * size});
            float* to = data_of<float>(gradient, "gradient", {size});
            nb::gil_scoped_release release;
            t.add_up(size, from, to);
          },
          "sums"_a, "gradient"_a);
}

}  // namespace slot_step
