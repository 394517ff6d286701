// The dynamics: from parents, actions and outcomes of chance events to the next latents. Included by one source file per kind of CPU;
// see slot_vectors.h.
#pragma once

#include "muzero/model/native/slot_tile.h"

namespace slot_step {
namespace {

class DynamicsTile {
 public:
  explicit DynamicsTile(const Tile& tile) : t_(tile), n_(tile.net), w_(tile.work) {}

  void run() {
    read_latents();
    touched_blocks();
    consequences();
    write_latents();
  }

 private:
  // Copies the parts of the parents that the dynamics read: the touched slots, the shared cards, and the rest; and the
  // card that chance has shown.
  void read_latents() {
    const int D = n_.slot_dim, E = n_.entries(), K = n_.touches, tail = n_.players * n_.player_dim + n_.rest_dim();
    for (int r = 0; r < t_.rows; ++r) {
      const float* x = t_.parent(r);
      const float* rest = x + n_.slots * D + n_.players * n_.player_dim;
      to_act(w_.latent_and_summary_act + r * n_.dynamics.rest_in_and_gather.inputs, x + n_.slots * D, tail);
      float* old = w_.old + r * E * D;
      for (int k = 0; k < K; ++k) copy(old + k * D, x + n_.dynamics.touched[t_.action(r) * K + k] * D, D);
      copy(old + K * D, rest, n_.shared * D);
      if (n_.told()) copy(old + (E - 1) * D, n_.dynamics.outcome + t_.outcome(r) * D, D);
      to_act(w_.old_act + r * E * D, old, E * D);
      to_act(w_.shared_act + r * n_.shared * D, rest, n_.shared * D);
    }
  }

  // SlotTrunk.touched: the sum of the blocks that an action touches, the last M inputs of gather.
  void touched_blocks() {
    const int D = n_.slot_dim, M = n_.slot_hidden, B = n_.touched_blocks, Z = n_.block_size, C = n_.shared;
    const int width = (2 + C) * M;
    for (int r = 0; r < t_.rows; ++r) {
      for (int b = 0; b < B; ++b) {
        const int block = n_.trunk.blocks_of[t_.action(r) * B + b];
        to_act(w_.touched_slots_act + (r * B + b) * Z * D, t_.parent(r) + (block < 0 ? 0 : block) * Z * D, Z * D);
      }
    }
    product(n_.trunk.slot, w_.touched_slots_act, D, t_.rows * B * Z, w_.touched_slots_seen, M);
    if (C) product(n_.trunk.slot, w_.shared_act, D, t_.rows * C, w_.shared_seen, M);
    for (int r = 0; r < t_.rows; ++r) {
      for (int b = 0; b < B; ++b) {
        const int at = r * B + b;
        block_parts(n_, w_.touched_slots_seen + at * Z * M, w_.shared_seen + r * C * M,
                    w_.block_parts_act + at * width);
      }
    }
    product(n_.trunk.block, w_.block_parts_act, width, t_.rows * B, w_.blocks_out, M);
    for (int r = 0; r < t_.rows; ++r) {
      Act* out = w_.latent_and_summary_act + (r + 1) * n_.dynamics.rest_in_and_gather.inputs - M;
      for (int i = 0; i < M; i += kWidth) {
        Vec total{};
        for (int b = 0; b < B; ++b) {
          if (n_.trunk.blocks_of[t_.action(r) * B + b] >= 0) total += relu(load(w_.blocks_out + (r * B + b) * M + i));
        }
        store_act(out + i, total);
      }
    }
  }

  // SlotDynamics.forward up to slot_out: the summary of the touched slots, consequences, changes of slots.
  void consequences() {
    const int D = n_.slot_dim, M = n_.slot_hidden, E = n_.entries(), H = n_.hidden;
    const int inputs = n_.dynamics.rest_in_and_gather.inputs, players = n_.players * n_.player_dim;
    product(n_.dynamics.slot_in, w_.old_act, D, t_.rows * E, w_.seen, M);
    product(n_.dynamics.compare, w_.latent_and_summary_act + players, inputs, t_.rows, w_.compared, M);
    for (int r = 0; r < t_.rows; ++r) {
      const float* role = n_.dynamics.role + t_.action(r) * E * M;
      const float* factor = n_.dynamics.role_factor + t_.action(r) * E * M;
      Act* summary = w_.latent_and_summary_act + (r + 1) * inputs - 4 * M;
      for (int i = 0; i < M; i += kWidth) {
        Vec total{}, square{}, positive{};
        for (int e = 0; e < E; ++e) {
          float* at = w_.seen + (r * E + e) * M + i;
          const Vec seen = load(at) + load(role + e * M + i);
          store(at, seen);
          const Vec there = seen * load(factor + e * M + i);
          total += there;
          square += there * there;
          positive += relu(there);
        }
        store_act(summary + i, positive);
        store_act(summary + M + i, total * load(w_.compared + r * M + i));
        store_act(summary + 2 * M + i, (total * total - square) * 0.5f);
      }
    }
    product(n_.dynamics.rest_in_and_gather, w_.latent_and_summary_act, inputs, t_.rows, w_.hidden, H);
    for (int r = 0; r < t_.rows; ++r) {
      const float* kind = n_.dynamics.kind + n_.dynamics.kinds[t_.action(r)] * H;
      const float* turn = n_.dynamics.turn + t_.shift(r) * H;
      for (int i = 0; i < H; i += kWidth) {
        store_act(w_.hidden_act + r * H + i, gelu(load(w_.hidden + r * H + i) + load(kind + i) + load(turn + i)));
      }
    }
    product(n_.dynamics.hidden, w_.hidden_act, H, t_.rows, w_.hidden, H);
    for (int i = 0; i < t_.rows * H; i += kWidth) store_act(w_.hidden_act + i, gelu(load(w_.hidden + i)));
    product(n_.dynamics.consequences, w_.hidden_act, H, t_.rows, w_.consequences, n_.dynamics.consequences.outputs);
    if (n_.shared) product(n_.dynamics.pass_on, w_.shared_act, n_.shared * D, t_.rows, w_.passed_on, M);
    for (int r = 0; r < t_.rows; ++r) {
      const float* spread = w_.consequences + r * n_.dynamics.consequences.outputs + n_.global_dim;
      for (int i = 0; i < M; i += kWidth) {
        Vec spread_and_passed = load(spread + i);
        if (n_.shared) spread_and_passed += load(w_.passed_on + r * M + i);
        for (int e = 0; e < E; ++e) {
          const int at = (r * E + e) * M + i;
          store_act(w_.slot_out_act + at, relu(load(w_.seen + at) + spread_and_passed));
        }
      }
    }
    product(n_.dynamics.slot_out, w_.slot_out_act, M, t_.rows * E, w_.slot_change, D);
  }

  // The rest of SlotDynamics.forward: next latents, in the frame of the next player to move.
  void write_latents() {
    const int D = n_.slot_dim, V = n_.player_dim, E = n_.entries(), K = n_.touches, S = n_.slots, P = n_.players;
    const int width = n_.dynamics.consequences.outputs, G = n_.global_dim, M = n_.slot_hidden;
    for (int r = 0; r < t_.rows; ++r) {
      const int a = t_.action(r), s = t_.shift(r);
      const float* x = t_.parent(r);
      const float* change = w_.consequences + r * width;
      const float* old = w_.old + r * E * D;
      const float* moved = n_.dynamics.moved + a * E * E;
      float* y = t_.child(r);
      for (int e = 0; e < K + n_.shared; ++e) {
        float* to = w_.new_slots + e * D;
        if (e < K && !n_.dynamics.present[a * K + e]) {
          copy(to, old + e * D, D);
          continue;
        }
        for (int i = 0; i < D; i += kWidth) {
          Vec total = load(w_.slot_change + (r * E + e) * D + i);
          for (int f = 0; f < E; ++f) total += moved[e * E + f] * load(old + f * D + i);
          store(to + i, total);
        }
        layer_norm(n_.dynamics.slot_norm, to, D, to);
      }
      const int32_t* source = n_.dynamics.source + (a * P + s) * S;
      for (int p = 0; p < S; ++p) {
        copy(y + p * D, source[p] < S ? x + source[p] * D : w_.new_slots + (source[p] - S) * D, D);
      }
      x += S * D;
      y += S * D;
      for (int p = 0; p < P && V; ++p) {
        const int from = (p + s) % P;
        for (int i = 0; i < V; i += kWidth) {
          store(y + p * V + i, load(x + from * V + i) + load(change + G + M + from * V + i));
        }
        layer_norm(n_.dynamics.player_norm, y + p * V, V, y + p * V);
      }
      x += P * V + n_.shared * D;
      y += P * V;
      copy(y, w_.new_slots + K * D, n_.shared * D);
      y += n_.shared * D;
      for (int i = 0; i < G; i += kWidth) store(y + i, load(x + i) + load(change + i));
      layer_norm(n_.dynamics.rest_norm, y, G, y);
    }
  }

  const Tile& t_;
  const Network& n_;
  const Work& w_;
};

}  // namespace
}  // namespace slot_step
