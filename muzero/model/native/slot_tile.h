// A tile of rows, and layers that several parts of the network use. Included by one source file per kind of CPU; see
// slot_vectors.h.
#pragma once

#include "muzero/model/native/slot_work.h"

namespace slot_step {
namespace {

BELIEF_INLINE void layer_norm(const LayerNorm& norm, const float* x, int n, float* y) {
  Vec total{};
  for (int i = 0; i < n; i += kWidth) total += load(x + i);
  const float mean = sum(total) / static_cast<float>(n);
  Vec square{};
  for (int i = 0; i < n; i += kWidth) {
    const Vec d = load(x + i) - mean;
    square += d * d;
  }
  const float scale = 1.0f / __builtin_sqrtf(sum(square) / static_cast<float>(n) + 1e-5f);
  for (int i = 0; i < n; i += kWidth) {
    store(y + i, (load(x + i) - mean) * scale * load(norm.weight + i) + load(norm.bias + i));
  }
}

// Mean of a distribution over the support that is given as logits.
BELIEF_INLINE float expectation(const Network& net, const float* logits) {
  Vec most = load(logits);
  for (int i = kWidth; i < net.bins; i += kWidth) most = larger(most, load(logits + i));
  const float top = largest(most);
  Vec total{}, weighted{};
  for (int i = 0; i < net.bins; i += kWidth) {
    const Vec p = exp(load(logits + i) - top);
    total += p;
    weighted += p * load(net.support + i);
  }
  return sum(weighted) / sum(total);
}

// Inputs of the layer trunk.block for one block: sums over its slots of ReLUs, of products of pairs, and of products
// with each shared card. seen [block_size, M], shared_seen [C, M] -> parts [(2 + C) M]
void block_parts(const Network& net, const float* seen, const float* shared_seen, Act* parts) {
  const int M = net.slot_hidden;
  for (int i = 0; i < M; i += kWidth) {
    Vec total{}, square{}, positive{};
    for (int z = 0; z < net.block_size; ++z) {
      const Vec x = load(seen + z * M + i);
      total += x;
      square += x * x;
      positive += relu(x);
    }
    store_act(parts + i, positive);
    store_act(parts + M + i, (total * total - square) * 0.5f);
    for (int c = 0; c < net.shared; ++c) store_act(parts + (2 + c) * M + i, total * load(shared_seen + c * M + i));
  }
}

// Tile of the rows of a job from `from` on.
struct Tile {
  const Network& net;
  const Job& job;
  const Work& work;
  const int64_t from;
  const int rows;

  const float* parent(int r) const { return job.latents + job.parent[from + r] * net.latent_dim(); }
  int action(int r) const { return static_cast<int>(job.action[from + r]); }
  int shift(int r) const { return static_cast<int>(job.shift[from + r]); }
  int outcome(int r) const { return static_cast<int>(job.outcome[from + r]); }
  int to_play(int r) const { return static_cast<int>(job.to_play[from + r]); }
  int num_values() const { return job.only_root ? 1 : net.players; }
  float* child(int r) const {
    const int64_t row = from + r;
    return job.latents + ((job.first + row / job.games) * job.batch + row % job.games) * net.latent_dim();
  }
  float* output(int r) const {
    return job.outputs + (from + r) * (net.actions + net.outcome_logits() + 2 * num_values());
  }
};

}  // namespace
}  // namespace slot_step
