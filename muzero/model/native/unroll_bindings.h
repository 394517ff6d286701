// Python bindings of the unrolled network: encoder and K steps of the dynamics for a batch of windows, in one pass over
// their rows. A window's rows are computed one after the other while they are in the cache.
#pragma once

#include "muzero/model/native/train_bindings.h"

namespace slot_step {

// Windows and what is computed for them; null where a pass does not need it.
struct Windows {
  int64_t rows = 0, steps = 0, latent_dim = 0;                            // B, K, L
  const int16_t* obs = nullptr;                                           // [B, row] first observations
  const int64_t *action = nullptr, *shift = nullptr, *outcome = nullptr;  // [K, B]
  float *of_encoder = nullptr, *of_dynamics = nullptr;  // saved results: [chunks, ...], [K, chunks, ...]
  float* latents = nullptr;                             // [K + 1, B, L]

  int64_t row(int64_t step, int64_t at) const { return step * rows + at; }
};

// Gradients of the latents: of all, of those of the first windows, and of one latent of each window.
struct WindowGradients {
  const float* all = nullptr;     // [K + 1, B, L]
  const float* some = nullptr;    // [K + 1, few, L]
  const float* picked = nullptr;  // [B, L]
  const int64_t* at = nullptr;    // [B] which latent of each window `picked` is about
  int64_t few = 0;
  float share = 1;  // share of a gradient that goes through a step of the dynamics
};

inline Windows windows_of(SlotTrainer& t, const EncoderWeights& encoder, const DynamicsWeights& dynamics,
                          const Input& obs, const Input& action, const Input& shift, const Input& outcome,
                          const Array& of_encoder, const Array& of_dynamics) {
  Windows w;
  w.rows = rows_of(obs);
  w.steps = rows_of(action);
  w.latent_dim = encoder.part.net->latent_dim();
  w.obs = data_of<int16_t>(obs, "obs", {w.rows, encoder.part.row});
  w.action = data_of<int64_t>(action, "action", {w.steps, w.rows});
  w.shift = data_of<int64_t>(shift, "shift", {w.steps, w.rows});
  w.outcome = data_of<int64_t>(outcome, "outcome", {w.steps, w.rows});
  const int64_t chunks = SlotTrainer::chunks(w.rows);
  w.of_encoder = data_of<float>(of_encoder, "of_encoder", {chunks * t.kernel().encoder_saved(encoder.part)});
  w.of_dynamics =
      data_of<float>(of_dynamics, "of_dynamics", {w.steps * chunks * t.kernel().dynamics_saved(dynamics.part)});
  return w;
}

inline void unroll_forward(SlotTrainer& t, const EncoderPart& encoder, const DynamicsPart& dynamics, const Windows& w) {
  const TrainKernel& kernel = t.kernel();
  t.require_codes(w.rows, w.obs);
  t.require_steps(w.steps * w.rows, w.action, w.shift, w.outcome);
  const int64_t L = w.latent_dim, chunks = SlotTrainer::chunks(w.rows);
  const int64_t of_encoder = kernel.encoder_saved(encoder), of_dynamics = kernel.dynamics_saved(dynamics);
  const int64_t scratch = std::max(kernel.encoder_scratch(encoder), kernel.dynamics_scratch(dynamics));
  t.forward(w.rows, scratch, [&](int64_t at, int count, void* memory) {
    const int64_t chunk = at / kTile;
    kernel.encoder_forward(encoder, {w.obs + at * encoder.row, count, w.latents + at * L, nullptr},
                           w.of_encoder + chunk * of_encoder, memory);
    for (int64_t k = 0; k < w.steps; ++k) {
      const int64_t row = w.row(k, at);
      const DynamicsRows rows{w.latents + row * L,
                              w.action + row,
                              w.shift + row,
                              w.outcome + row,
                              count,
                              w.latents + w.row(k + 1, at) * L,
                              nullptr,
                              nullptr};
      kernel.dynamics_forward(dynamics, rows, w.of_dynamics + (k * chunks + chunk) * of_dynamics, memory);
    }
  });
}

// Gradient of a chunk's latents after step k, [count, L]: what is given for them, and the part of `below`, the gradient
// that came through the next step, or null.
inline void add_gradients(const Windows& w, const WindowGradients& d, int64_t k, int64_t at, int count,
                          const float* below, float* out) {
  const int64_t L = w.latent_dim;
  for (int64_t r = 0; r < count; ++r) {
    const int64_t row = at + r;
    const float* all = d.all + w.row(k, row) * L;
    float* to = out + r * L;
    if (below) {
      for (int64_t i = 0; i < L; ++i) to[i] = all[i] + d.share * below[r * L + i];
    } else {
      std::copy_n(all, L, to);
    }
    if (d.some && row < d.few) {
      const float* some = d.some + (k * d.few + row) * L;
      for (int64_t i = 0; i < L; ++i) to[i] += some[i];
    }
    if (d.picked && d.at[row] == k) {
      for (int64_t i = 0; i < L; ++i) to[i] += d.picked[row * L + i];
    }
  }
}

inline void unroll_backward(SlotTrainer& t, const EncoderPart& encoder, const DynamicsPart& dynamics, const Windows& w,
                            const WindowGradients& d, float* encoder_sums, bool encoder_fresh, float* dynamics_sums,
                            bool dynamics_fresh) {
  const TrainKernel& kernel = t.kernel();
  const int64_t L = w.latent_dim, chunks = SlotTrainer::chunks(w.rows);
  const int64_t of_encoder = kernel.encoder_saved(encoder), of_dynamics = kernel.dynamics_saved(dynamics);
  const int64_t gradients = (2 * kTile * L * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
  const int64_t scratch = gradients + std::max(kernel.encoder_scratch(encoder), kernel.dynamics_scratch(dynamics));
  t.in_groups(
      w.rows, scratch,
      [&](int64_t group) {
        if (encoder_fresh) std::fill_n(encoder_sums + group * t.encoder.size(), t.encoder.size(), 0.0f);
        if (dynamics_fresh) std::fill_n(dynamics_sums + group * t.dynamics.size(), t.dynamics.size(), 0.0f);
      },
      [&](int64_t at, int count, void* memory, int64_t group) {
        auto* d_next = static_cast<float*>(memory);
        float* d_latent = d_next + kTile * L;
        void* rest = static_cast<char*>(memory) + gradients;
        const int64_t chunk = at / kTile;
        for (int64_t k = w.steps; k >= 0; --k) {
          add_gradients(w, d, k, at, count, k < w.steps ? d_latent : nullptr, d_next);
          if (!k) break;
          const int64_t row = w.row(k - 1, at);
          const DynamicsRows rows{
              w.latents + row * L, w.action + row, w.shift + row, w.outcome + row, count, nullptr, d_next, d_latent};
          kernel.dynamics_backward(dynamics, rows, w.of_dynamics + ((k - 1) * chunks + chunk) * of_dynamics,
                                   dynamics_sums + group * t.dynamics.size(), rest);
        }
        kernel.encoder_backward(encoder, {w.obs + at * encoder.row, count, nullptr, d_next},
                                w.of_encoder + chunk * of_encoder, encoder_sums + group * t.encoder.size(), rest);
      });
}

inline void bind_unroll(nanobind::module_& m) {
  namespace nb = nanobind;
  using namespace nb::literals;
  m.def(
      "unroll_forward",
      [](SlotTrainer& t, const EncoderWeights& encoder, const DynamicsWeights& dynamics, const Input& obs,
         const Input& action, const Input& shift, const Input& outcome, const Array& of_encoder,
         const Array& of_dynamics, const Array& latents) {
        Windows w = windows_of(t, encoder, dynamics, obs, action, shift, outcome, of_encoder, of_dynamics);
        w.latents = data_of<float>(latents, "latents", {w.steps + 1, w.rows, w.latent_dim});
        nb::gil_scoped_release release;
        unroll_forward(t, encoder.part, dynamics.part, w);
      },
      "trainer"_a, "encoder"_a, "dynamics"_a, "obs"_a, "action"_a, "shift"_a, "outcome"_a, "of_encoder"_a,
      "of_dynamics"_a, "latents"_a);
  m.def(
      "unroll_backward",
      [](SlotTrainer& t, const EncoderWeights& encoder, const DynamicsWeights& dynamics, const Input& obs,
         const Input& action, const Input& shift, const Input& outcome, const Array& of_encoder,
         const Array& of_dynamics, const Array& latents, const Input& d_latents, const std::optional<Input>& d_some,
         const std::optional<Input>& d_picked, const Input& at, float share, const Array& encoder_sums,
         bool encoder_fresh, const Array& dynamics_sums, bool dynamics_fresh) {
        Windows w = windows_of(t, encoder, dynamics, obs, action, shift, outcome, of_encoder, of_dynamics);
        w.latents = data_of<float>(latents, "latents", {w.steps + 1, w.rows, w.latent_dim});
        WindowGradients d;
        d.all = data_of<float>(d_latents, "d_latents", {w.steps + 1, w.rows, w.latent_dim});
        d.few = d_some && d_some->ndim() == 3 ? static_cast<int64_t>(d_some->shape(1)) : 0;
        if (d.few > w.rows) throw std::invalid_argument("d_some: expected windows of the batch, got more");
        d.some = data_or_null(d_some, "d_some", {w.steps + 1, d.few, w.latent_dim});
        d.picked = data_or_null(d_picked, "d_picked", {w.rows, w.latent_dim});
        d.at = data_of<int64_t>(at, "at", {w.rows});
        d.share = share;
        float* of_enc = data_of<float>(encoder_sums, "encoder_sums", {SlotTrainer::kGroups * t.encoder.size()});
        float* of_dyn = data_of<float>(dynamics_sums, "dynamics_sums", {SlotTrainer::kGroups * t.dynamics.size()});
        nb::gil_scoped_release release;
        unroll_backward(t, encoder.part, dynamics.part, w, d, of_enc, encoder_fresh, of_dyn, dynamics_fresh);
      },
      "trainer"_a, "encoder"_a, "dynamics"_a, "obs"_a, "action"_a, "shift"_a, "outcome"_a, "of_encoder"_a,
      "of_dynamics"_a, "latents"_a, "d_latents"_a, "d_some"_a.none(), "d_picked"_a.none(), "at"_a, "share"_a,
      "encoder_sums"_a, "encoder_fresh"_a, "dynamics_sums"_a, "dynamics_fresh"_a);
  m.def(
      "copy_indexed",
      [](SlotTrainer& t, const Input& from, const Input& index, const Array& to) {
        const auto size = static_cast<int64_t>(from.size()), count = static_cast<int64_t>(index.size());
        if (size < 1 || size > INT32_MAX) throw std::invalid_argument("source: expected 1 to 2^31 - 1 numbers");
        const float* source = data_of<float>(from, "source", {size});
        const int32_t* entries = data_of<int32_t>(index, "index", {count});
        float* out = data_of<float>(to, "target", {count});
        nb::gil_scoped_release release;
        t.copy_indexed(size, source, count, entries, out);
      },
      "trainer"_a, "source"_a, "index"_a, "target"_a);
}

}  // namespace slot_step
