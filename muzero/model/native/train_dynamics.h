// Dynamics of a chunk of rows, with gradients. Included by one source file per kind of CPU; see slot_vectors.h.
#pragma once

#include "muzero/model/native/train_math.h"

namespace slot_step {
namespace {

// Results of the forward pass that the backward pass reads; E entries that are updated together, K + C of them kept.
struct DynamicsSaved {
  DynamicsSaved(const DynamicsPart& part, void* memory) {
    const Network& n = *part.net;
    Scratch s(memory);
    const int64_t T = kTile, D = n.slot_dim, M = n.slot_hidden, H = n.hidden, E = n.entries(), C = n.shared;
    const int64_t B = n.touched_blocks, kept = n.touches + C;
    block_seen = s.take<float>(T * B * n.block_size * M);
    shared_seen = s.take<float>(T * C * M);
    blocks = s.take<float>(T * B * M);
    seen = s.take<float>(T * E * M);
    compared = s.take<float>(T * M);
    summary = s.take<float>(T * 4 * M);
    before = s.take<float>(T * H);
    hidden = s.take<float>(T * H);
    second_before = s.take<float>(T * H);
    second = s.take<float>(T * H);
    slot_inputs = s.take<float>(T * kept * M);
    slots_normalised = s.take<float>(T * kept * D);
    slots_scale = s.take<float>(T * kept);
    players_normalised = s.take<float>(T * n.players * n.player_dim);
    players_scale = s.take<float>(T * n.players);
    rest_normalised = s.take<float>(T * n.global_dim);
    rest_scale = s.take<float>(T);
    bytes = s.used();
  }
  float *block_seen, *shared_seen, *blocks, *seen, *compared, *summary;
  float *before, *hidden, *second_before, *second;  // before and after the two GELUs
  float* slot_inputs;                               // inputs of slot_out
  float *slots_normalised, *slots_scale, *players_normalised, *players_scale, *rest_normalised, *rest_scale;
  int64_t bytes;
};

struct DynamicsWork {
  DynamicsWork(const DynamicsPart& part, void* memory) {
    const Network& n = *part.net;
    Scratch s(memory);
    const int64_t T = kTile, D = n.slot_dim, M = n.slot_hidden, H = n.hidden, E = n.entries(), C = n.shared;
    const int64_t B = n.touched_blocks, kept = n.touches + C, tail = n.players * n.player_dim + n.rest_dim();
    old = s.take<float>(T * E * D);
    block_slots = s.take<float>(T * B * n.block_size * D);
    shared = s.take<float>(T * C * D);
    parts = s.take<float>(T * B * (2 + C) * M);
    tails = s.take<float>(T * tail);
    consequences = s.take<float>(T * part.consequences.forward.outputs);
    passed_on = s.take<float>(T * M);
    slot_change = s.take<float>(T * kept * D);
    line = s.take<float>(D > n.global_dim ? D : n.global_dim);
    new_slots = s.take<float>(kept * D);
    d_old = s.take<float>(T * E * D);
    d_slot_inputs = s.take<float>(T * kept * M);
    d_seen = s.take<float>(T * E * M);
    d_summary = s.take<float>(T * 4 * M);
    d_compared = s.take<float>(T * M);
    d_hidden = s.take<float>(T * H);
    d_second = s.take<float>(T * H);
    d_tails = s.take<float>(T * tail);
    d_blocks = s.take<float>(T * B * M);
    d_parts = s.take<float>(T * B * (2 + C) * M);
    d_block_seen = s.take<float>(T * B * n.block_size * M);
    d_shared_seen = s.take<float>(T * C * M);
    d_block_slots = s.take<float>(T * B * n.block_size * D);
    d_shared = s.take<float>(T * C * D);
    bytes = s.used();
  }
  float *old, *block_slots, *shared, *parts, *tails, *consequences, *passed_on, *slot_change, *line, *new_slots;
  float *d_old, *d_slot_inputs, *d_seen, *d_summary, *d_compared, *d_hidden, *d_second, *d_tails, *d_blocks, *d_parts;
  float *d_block_seen, *d_shared_seen, *d_block_slots, *d_shared;
  int64_t bytes;
};

class DynamicsChunk {
 public:
  DynamicsChunk(const DynamicsPart& part, const DynamicsRows& rows, float* saved, void* scratch)
      : p_(part), n_(*part.net), in_(rows), T_(rows.rows), s_(part, saved), w_(part, scratch) {}

  void run_forward() {
    read_latents();
    touched_blocks();
    summary();
    consequences();
    write_latents();
  }

  void run_backward(float* gradient) {
    g_ = gradient;
    read_latents();
    block_inputs();
    latents_backward();
    consequences_backward();
    summary_backward();
    blocks_backward();
    write_gradient();
  }

 private:
  int action(int r) const { return static_cast<int>(in_.action[r]); }
  int shift(int r) const { return static_cast<int>(in_.shift[r]); }
  int outcome(int r) const { return static_cast<int>(in_.outcome[r]); }
  bool counts(int a, int e) const { return e >= K_ || n_.dynamics.present[a * K_ + e]; }

  // Copies the parts of the latents that are read: touched slots, shared cards, the card that chance shows, players and
  // rest, and the slots of the touched blocks.
  void read_latents() {
    for (int r = 0; r < T_; ++r) {
      const float* x = in_.latent + r * L_;
      const float* rest = x + S_ * D_ + P_ * V_;
      copy(w_.tails + r * tail_, x + S_ * D_, tail_);
      copy(w_.shared + r * C_ * D_, rest, C_ * D_);
      float* old = w_.old + r * E_ * D_;
      for (int k = 0; k < K_; ++k) copy(old + k * D_, x + n_.dynamics.touched[action(r) * K_ + k] * D_, D_);
      copy(old + K_ * D_, rest, C_ * D_);
      if (n_.told()) copy(old + (E_ - 1) * D_, p_.outcome.data + outcome(r) * D_, D_);
      for (int b = 0; b < B_; ++b) {
        const int block = n_.trunk.blocks_of[action(r) * B_ + b];
        copy(w_.block_slots + (r * B_ + b) * Z_ * D_, x + (block < 0 ? 0 : block) * Z_ * D_, Z_ * D_);
      }
    }
  }

  void block_inputs() {
    for (int at = 0; at < T_ * B_; ++at) {
      block_parts(n_, s_.block_seen + at * Z_ * M_, s_.shared_seen + at / B_ * C_ * M_, w_.parts + at * width_);
    }
  }

  // SlotTrunk.touched: the sum of the blocks that an action touches, the last quarter of the summary.
  void touched_blocks() {
    forward(p_.trunk_slot, w_.block_slots, D_, T_ * B_ * Z_, s_.block_seen, M_);
    if (C_) forward(p_.trunk_slot, w_.shared, D_, T_ * C_, s_.shared_seen, M_);
    block_inputs();
    forward(p_.trunk_block, w_.parts, width_, T_ * B_, s_.blocks, M_);
    for (int r = 0; r < T_; ++r) {
      for (int i = 0; i < M_; i += kWidth) {
        Vec total{};
        for (int b = 0; b < B_; ++b) {
          float* at = s_.blocks + (r * B_ + b) * M_ + i;
          const bool touched = n_.trunk.blocks_of[action(r) * B_ + b] >= 0;
          store(at, touched ? relu(load(at)) : Vec{});
          total += load(at);
        }
        store(s_.summary + (r * 4 + 3) * M_ + i, total);
      }
    }
  }

  void summary() {
    forward(p_.slot_in, w_.old, D_, T_ * E_, s_.seen, M_);
    forward(p_.compare, w_.tails + P_ * V_, tail_, T_, s_.compared, M_);
    for (int r = 0; r < T_; ++r) {
      const int64_t row = int64_t{action(r)} * E_ * M_;
      for (int i = 0; i < M_; i += kWidth) {
        Vec total{}, square{}, positive{};
        for (int e = 0; e < E_; ++e) {
          float* at = s_.seen + (r * E_ + e) * M_ + i;
          const Vec seen = load(at) + load(p_.role.data + row + e * M_ + i);
          store(at, seen);
          if (!counts(action(r), e)) continue;
          const Vec there = seen * load(p_.role_factor.data + row + e * M_ + i);
          total += there;
          square += there * there;
          positive += relu(there);
        }
        float* to = s_.summary + r * 4 * M_ + i;
        store(to, positive);
        store(to + M_, total * load(s_.compared + r * M_ + i));
        store(to + 2 * M_, (total * total - square) * 0.5f);
      }
    }
  }

  void consequences() {
    forward(p_.rest_in, w_.tails, tail_, T_, s_.before, H_);
    forward(p_.gather, s_.summary, 4 * M_, T_, s_.before, H_, s_.before, H_);
    for (int r = 0; r < T_; ++r) {
      const float* kind = p_.kind.data + n_.dynamics.kinds[action(r)] * H_;
      const float* turn = p_.turn.data + shift(r) * H_;
      for (int i = 0; i < H_; i += kWidth)
        store(s_.before + r * H_ + i, load(s_.before + r * H_ + i) + load(kind + i) + load(turn + i));
    }
    gelu_all(s_.before, s_.hidden, T_ * H_);
    forward(p_.hidden, s_.hidden, H_, T_, s_.second_before, H_);
    gelu_all(s_.second_before, s_.second, T_ * H_);
    forward(p_.consequences, s_.second, H_, T_, w_.consequences, width_out_);
    if (C_) forward(p_.pass_on, w_.shared, C_ * D_, T_, w_.passed_on, M_);
    for (int r = 0; r < T_; ++r) {
      for (int i = 0; i < M_; i += kWidth) {
        Vec spread = load(w_.consequences + r * width_out_ + G_ + i);
        if (C_) spread += load(w_.passed_on + r * M_ + i);
        for (int e = 0; e < kept_; ++e) {
          store(s_.slot_inputs + (r * kept_ + e) * M_ + i, relu(load(s_.seen + (r * E_ + e) * M_ + i) + spread));
        }
      }
    }
    forward(p_.slot_out, s_.slot_inputs, M_, T_ * kept_, w_.slot_change, D_);
  }

  void write_latents() {
    for (int r = 0; r < T_; ++r) {
      const int a = action(r), s = shift(r);
      const float* x = in_.latent + r * L_;
      const float* change = w_.consequences + r * width_out_;
      const float* old = w_.old + r * E_ * D_;
      const float* moved = p_.moved.data + int64_t{a} * kept_ * E_;
      float* y = in_.next + r * L_;
      for (int e = 0; e < kept_; ++e) {
        float* to = w_.new_slots + e * D_;
        if (!counts(a, e)) {
          copy(to, old + e * D_, D_);
          continue;
        }
        for (int i = 0; i < D_; i += kWidth) {
          Vec total = load(w_.slot_change + (r * kept_ + e) * D_ + i);
          for (int f = 0; f < E_; ++f) {
            if (counts(a, f)) total += moved[e * E_ + f] * load(old + f * D_ + i);
          }
          store(w_.line + i, total);
        }
        const int at = r * kept_ + e;
        norm_forward(p_.slot_norm.forward, w_.line, D_, to, s_.slots_normalised + at * D_, s_.slots_scale + at);
      }
      const int32_t* source = n_.dynamics.source + (a * P_ + s) * S_;
      for (int p = 0; p < S_; ++p) {
        copy(y + p * D_, source[p] < S_ ? x + source[p] * D_ : w_.new_slots + (source[p] - S_) * D_, D_);
      }
      x += S_ * D_;
      y += S_ * D_;
      for (int p = 0; p < P_ && V_; ++p) {
        const int from = (p + s) % P_;
        float* to = y + p * V_;
        for (int i = 0; i < V_; i += kWidth)
          store(to + i, load(x + from * V_ + i) + load(change + G_ + M_ + from * V_ + i));
        const int at = r * P_ + p;
        norm_forward(p_.player_norm.forward, to, V_, to, s_.players_normalised + at * V_, s_.players_scale + at);
      }
      x += P_ * V_ + C_ * D_;
      y += P_ * V_;
      copy(y, w_.new_slots + K_ * D_, C_ * D_);
      y += C_ * D_;
      for (int i = 0; i < G_; i += kWidth) store(w_.line + i, load(x + i) + load(change + i));
      norm_forward(p_.rest_norm.forward, w_.line, G_, y, s_.rest_normalised + r * G_, s_.rest_scale + r);
    }
  }

  // From the gradient of the next latents to those of the consequences, of the changes of slots, and directly to those
  // of the latents and of the old entries.
  void latents_backward() {
    for (int r = 0; r < T_; ++r) {
      const int a = action(r), s = shift(r);
      const float* old = w_.old + r * E_ * D_;
      const float* moved = p_.moved.data + int64_t{a} * kept_ * E_;
      float* d_moved = g_ + p_.moved.at + int64_t{a} * kept_ * E_;
      const float* dy = in_.d_next + r * L_;
      float* dx = in_.d_latent + r * L_;
      float* d_new = w_.slot_change + r * kept_ * D_;  // from here on gradients
      float* d_old = w_.d_old + r * E_ * D_;
      float* d_change = w_.consequences + r * width_out_;
      clear(dx, S_ * D_);
      clear(d_new, K_ * D_);
      clear(d_old, E_ * D_);
      const int32_t* source = n_.dynamics.source + (a * P_ + s) * S_;
      for (int p = 0; p < S_; ++p) {
        add(source[p] < S_ ? dx + source[p] * D_ : d_new + (source[p] - S_) * D_, dy + p * D_, D_);
      }
      dx += S_ * D_;
      dy += S_ * D_;
      for (int p = 0; p < P_ && V_; ++p) {
        const int from = (p + s) % P_, at = r * P_ + p;
        norm_backward(p_.player_norm, g_, dy + p * V_, s_.players_normalised + at * V_, s_.players_scale[at], V_,
                      dx + from * V_);
        copy(d_change + G_ + M_ + from * V_, dx + from * V_, V_);
      }
      dx += P_ * V_;
      dy += P_ * V_;
      copy(d_new + K_ * D_, dy, C_ * D_);
      clear(dx, C_ * D_);
      norm_backward(p_.rest_norm, g_, dy + C_ * D_, s_.rest_normalised + r * G_, s_.rest_scale[r], G_, dx + C_ * D_);
      copy(d_change, dx + C_ * D_, G_);
      for (int e = 0; e < kept_; ++e) {
        float* d = d_new + e * D_;
        if (!counts(a, e)) {
          add(d_old + e * D_, d, D_);
          clear(d, D_);
          continue;
        }
        const int at = r * kept_ + e;
        norm_backward(p_.slot_norm, g_, d, s_.slots_normalised + at * D_, s_.slots_scale[at], D_, d);
        for (int f = 0; f < E_; ++f) {
          if (!counts(a, f)) continue;
          Vec dot{};
          for (int i = 0; i < D_; i += kWidth) {
            dot += load(d + i) * load(old + f * D_ + i);
            store(d_old + f * D_ + i, load(d_old + f * D_ + i) + moved[e * E_ + f] * load(d + i));
          }
          d_moved[e * E_ + f] += sum(dot);
        }
      }
    }
  }

  void consequences_backward() {
    backward(p_.slot_out, g_, s_.slot_inputs, M_, w_.slot_change, D_, T_ * kept_, w_.d_slot_inputs, M_);
    clear(w_.d_seen, T_ * E_ * M_);
    for (int r = 0; r < T_; ++r) {
      for (int i = 0; i < M_; i += kWidth) {
        Vec d_spread{};
        for (int e = 0; e < kept_; ++e) {
          if (!counts(action(r), e)) continue;
          const int at = (r * kept_ + e) * M_ + i;
          const Vec d = where_positive(load(s_.slot_inputs + at), load(w_.d_slot_inputs + at));
          store(w_.d_seen + (r * E_ + e) * M_ + i, d);
          d_spread += d;
        }
        store(w_.consequences + r * width_out_ + G_ + i, d_spread);
      }
    }
    if (C_) backward(p_.pass_on, g_, w_.shared, C_ * D_, w_.consequences + G_, width_out_, T_, w_.d_shared, C_ * D_);
    backward(p_.consequences, g_, s_.second, H_, w_.consequences, width_out_, T_, w_.d_second, H_);
    gelu_backward(s_.second_before, w_.d_second, T_ * H_);
    backward(p_.hidden, g_, s_.hidden, H_, w_.d_second, H_, T_, w_.d_hidden, H_);
    gelu_backward(s_.before, w_.d_hidden, T_ * H_);
    for (int r = 0; r < T_; ++r) {
      add(g_ + p_.kind.at + n_.dynamics.kinds[action(r)] * H_, w_.d_hidden + r * H_, H_);
      add(g_ + p_.turn.at + shift(r) * H_, w_.d_hidden + r * H_, H_);
    }
    backward(p_.gather, g_, s_.summary, 4 * M_, w_.d_hidden, H_, T_, w_.d_summary, 4 * M_);
    backward(p_.rest_in, g_, w_.tails, tail_, w_.d_hidden, H_, T_, w_.d_tails, tail_);
  }

  void summary_backward() {
    for (int r = 0; r < T_; ++r) {
      const int a = action(r);
      const int64_t row = int64_t{a} * E_ * M_;
      for (int i = 0; i < M_; i += kWidth) {
        const float* d = w_.d_summary + r * 4 * M_ + i;
        const Vec d_positive = load(d), d_product = load(d + M_), d_pairs = load(d + 2 * M_);
        Vec total{};
        for (int e = 0; e < E_; ++e) {
          if (counts(a, e))
            total += load(s_.seen + (r * E_ + e) * M_ + i) * load(p_.role_factor.data + row + e * M_ + i);
        }
        store(w_.d_compared + r * M_ + i, d_product * total);
        const Vec d_total = d_product * load(s_.compared + r * M_ + i) + d_pairs * total;
        for (int e = 0; e < E_; ++e) {
          if (!counts(a, e)) continue;
          const Vec seen = load(s_.seen + (r * E_ + e) * M_ + i);
          const Vec factor = load(p_.role_factor.data + row + e * M_ + i), there = seen * factor;
          const Vec d_there = d_total - d_pairs * there + where_positive(there, d_positive);
          float* to = w_.d_seen + (r * E_ + e) * M_ + i;
          const Vec d_seen = load(to) + d_there * factor;
          store(to, d_seen);
          float* d_factor = g_ + p_.role_factor.at + row + e * M_ + i;
          store(d_factor, load(d_factor) + d_there * seen);
          float* d_role = g_ + p_.role.at + row + e * M_ + i;
          store(d_role, load(d_role) + d_seen);
        }
      }
    }
    backward(p_.compare, g_, w_.tails + P_ * V_, tail_, w_.d_compared, M_, T_, w_.d_tails + P_ * V_, tail_, true);
    backward(p_.slot_in, g_, w_.old, D_, w_.d_seen, M_, T_ * E_, w_.d_old, D_, true);
  }

  void blocks_backward() {
    for (int r = 0; r < T_; ++r) {
      for (int b = 0; b < B_; ++b) {
        const int at = (r * B_ + b) * M_;
        for (int i = 0; i < M_; i += kWidth) {
          store(w_.d_blocks + at + i,
                where_positive(load(s_.blocks + at + i), load(w_.d_summary + (r * 4 + 3) * M_ + i)));
        }
      }
    }
    backward(p_.trunk_block, g_, w_.parts, width_, w_.d_blocks, M_, T_ * B_, w_.d_parts, width_);
    clear(w_.d_shared_seen, T_ * C_ * M_);
    for (int at = 0; at < T_ * B_; ++at) {
      block_parts_backward(n_, s_.block_seen + at * Z_ * M_, s_.shared_seen + at / B_ * C_ * M_,
                           w_.d_parts + at * width_, w_.d_block_seen + at * Z_ * M_,
                           w_.d_shared_seen + at / B_ * C_ * M_);
    }
    backward(p_.trunk_slot, g_, w_.block_slots, D_, w_.d_block_seen, M_, T_ * B_ * Z_, w_.d_block_slots, D_);
    if (C_) backward(p_.trunk_slot, g_, w_.shared, D_, w_.d_shared_seen, M_, T_ * C_, w_.d_shared, D_, true);
  }

  // Adds what came through the copies of `read_latents` to the gradient of the latents.
  void write_gradient() {
    for (int r = 0; r < T_; ++r) {
      float* dx = in_.d_latent + r * L_;
      const float* d_old = w_.d_old + r * E_ * D_;
      for (int k = 0; k < K_; ++k) add(dx + n_.dynamics.touched[action(r) * K_ + k] * D_, d_old + k * D_, D_);
      for (int b = 0; b < B_; ++b) {
        const int block = n_.trunk.blocks_of[action(r) * B_ + b];
        if (block >= 0) add(dx + block * Z_ * D_, w_.d_block_slots + (r * B_ + b) * Z_ * D_, Z_ * D_);
      }
      if (n_.told()) add(g_ + p_.outcome.at + outcome(r) * D_, d_old + (E_ - 1) * D_, D_);
      dx += S_ * D_;
      add(dx, w_.d_tails + r * tail_, tail_);
      dx += P_ * V_;
      add(dx, d_old + K_ * D_, C_ * D_);
      add(dx, w_.d_shared + r * C_ * D_, C_ * D_);
    }
  }

  const DynamicsPart& p_;
  const Network& n_;
  const DynamicsRows& in_;
  const int T_;  // rows
  const DynamicsSaved s_;
  const DynamicsWork w_;
  float* g_ = nullptr;
  const int P_ = n_.players, S_ = n_.slots, D_ = n_.slot_dim, V_ = n_.player_dim, C_ = n_.shared, M_ = n_.slot_hidden,
            H_ = n_.hidden, E_ = n_.entries(), K_ = n_.touches, G_ = n_.global_dim, L_ = n_.latent_dim(),
            B_ = n_.touched_blocks, Z_ = n_.block_size, kept_ = K_ + C_, tail_ = P_ * V_ + n_.rest_dim(),
            width_ = (2 + C_) * M_, width_out_ = p_.consequences.forward.outputs;
};

}  // namespace
}  // namespace slot_step
