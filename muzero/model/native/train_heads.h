// Trunk, policy and heads of a chunk of rows, with gradients. Included by one source file per kind of CPU; see
// slot_vectors.h.
#pragma once

#include "muzero/model/native/train_math.h"

namespace slot_step {
namespace {

// Results of the forward pass that the backward pass reads. Egos are the slowest index, then rows.
struct HeadsSaved {
  HeadsSaved(const HeadsPart& part, void* memory) {
    const Network& n = *part.net;
    Scratch s(memory);
    const int64_t T = kTile, M = n.slot_hidden, H = n.hidden, E = n.egos;
    seen = s.take<float>(T * n.slots * M);
    shared_seen = s.take<float>(T * n.shared * M);
    blocks = s.take<float>(T * n.players * n.blocks * M);
    pooled = s.take<float>(T * n.players * n.pooled());
    normalised = s.take<float>(E * T * n.rest_dim());
    scale = s.take<float>(E * T);
    before = s.take<float>(E * T * H);
    features = s.take<float>(E * T * H);
    mixed = s.take<float>(E * T * H);
    mixed_features = s.take<float>(E * T * H);
    kind_and_context = s.take<float>(T * part.kind_and_context.forward.outputs);
    policy_seen = s.take<float>(T * n.scored * M);
    policy_hidden = s.take<float>(T * n.scored * M);
    in_role = s.take<float>(T * n.scored * n.roles * n.pair_dim);
    bytes = s.used();
  }
  float *seen, *shared_seen, *blocks, *pooled, *normalised, *scale;
  float *before, *features;       // before and after the first GELU
  float *mixed, *mixed_features;  // output of mix, and features with its GELU added
  float *kind_and_context, *policy_seen, *policy_hidden, *in_role;
  int64_t bytes;
};

struct HeadsWork {
  HeadsWork(const HeadsPart& part, void* memory) {
    const Network& n = *part.net;
    Scratch s(memory);
    const int64_t T = kTile, D = n.slot_dim, M = n.slot_hidden, H = n.hidden, C = n.shared, E = n.egos;
    const int64_t blocks = n.players * n.blocks, read = (n.scored + n.block_size - 1) / n.block_size;
    slots = s.take<float>(T * n.slots * D);
    shared = s.take<float>(T * C * D);
    parts = s.take<float>(T * blocks * (2 + C) * M);
    boards_out = s.take<float>(T * H);
    conditioned = s.take<float>(E * T * n.rest_dim());
    sum = s.take<float>(n.rest_dim());
    scored_slots = s.take<float>(T * n.scored * D);
    scored_blocks = s.take<float>(T * read * M);
    around = s.take<float>(T * read * M);
    scores = s.take<float>(T * n.scored * part.score.forward.outputs);
    d_features = s.take<float>(E * T * H);
    d_mixed = s.take<float>(E * T * H);
    d_kind_and_context = s.take<float>(T * part.kind_and_context.forward.outputs);
    d_policy_hidden = s.take<float>(T * n.scored * M);
    d_scored_slots = s.take<float>(T * n.scored * D);
    d_scored_blocks = s.take<float>(T * read * M);
    turned = s.take<float>(T * n.players * n.pooled());
    d_turned = s.take<float>(T * n.players * n.pooled());
    d_in_role = s.take<float>(T * n.scored * n.roles * n.pair_dim);
    d_pooled = s.take<float>(T * n.players * n.pooled());
    d_conditioned = s.take<float>(E * T * n.rest_dim());
    d_blocks = s.take<float>(T * blocks * M);
    d_parts = s.take<float>(T * blocks * (2 + C) * M);
    d_seen = s.take<float>(T * n.slots * M);
    d_shared_seen = s.take<float>(T * C * M);
    d_slots = s.take<float>(T * n.slots * D);
    d_shared = s.take<float>(T * C * D);
    bytes = s.used();
  }
  float *slots, *shared, *parts, *boards_out, *conditioned, *sum, *scored_slots, *scored_blocks, *around, *scores;
  float *d_features, *d_mixed, *d_kind_and_context, *d_policy_hidden, *d_scored_slots, *d_scored_blocks, *d_pooled;
  float *turned, *d_turned, *d_in_role;
  float *d_conditioned, *d_blocks, *d_parts, *d_seen, *d_shared_seen, *d_slots, *d_shared;
  int64_t bytes;
};

class HeadsChunk {
 public:
  HeadsChunk(const HeadsPart& part, const HeadsRows& rows, float* saved, void* scratch)
      : p_(part), n_(*part.net), in_(rows), T_(rows.rows), s_(part, saved), w_(part, scratch) {}

  void run_forward() {
    read_slots();
    pool();
    condition();
    gelu_all(s_.before, s_.features, int64_t{E_} * T_ * H_);
    forward(p_.mix, s_.features, H_, E_ * T_, s_.mixed, H_);
    for (int i = 0; i < E_ * T_ * H_; i += kWidth)
      store(s_.mixed_features + i, load(s_.features + i) + gelu(load(s_.mixed + i)));
    for (int e = 0; e < E_; ++e)
      forward(p_.all_numbers, s_.mixed_features + e * T_ * H_, H_, T_, in_.numbers + e * p_.numbers, E_ * p_.numbers);
    if (in_.outcome) forward(p_.outcome, s_.mixed_features, H_, T_, in_.outcome, p_.outcomes);
    if (in_.own) copy(in_.own, s_.mixed_features, T_ * H_);
    if (in_.blocks) copy(in_.blocks, s_.blocks, T_ * blocks_ * M_);
    if (in_.policy) policy();
  }

  void run_backward(float* gradient) {
    g_ = gradient;
    read_slots();
    block_inputs();
    heads_backward();
    policy_backward();
    trunk_backward();
    boards_backward();
    write_gradient();
  }

 private:
  const float* rest(int r) const { return in_.latent + r * L_ + S_ * D_ + P_ * V_; }

  void read_slots() {
    for (int r = 0; r < T_; ++r) {
      copy(w_.slots + r * S_ * D_, in_.latent + r * L_, S_ * D_);
      copy(w_.shared + r * C_ * D_, rest(r), C_ * D_);
      copy(w_.scored_slots + r * n_.scored * D_, in_.latent + r * L_, n_.scored * D_);
    }
  }

  void block_inputs() {
    for (int r = 0; r < T_; ++r) {
      for (int b = 0; b < blocks_; ++b) {
        block_parts(n_, s_.seen + (r * S_ + b * Z_) * M_, s_.shared_seen + r * C_ * M_,
                    w_.parts + (r * blocks_ + b) * width_);
      }
    }
  }

  // SlotTrunk.split and the pooling of SlotTrunk.forward.
  void pool() {
    forward(p_.slot, w_.slots, D_, T_ * S_, s_.seen, M_);
    if (C_) forward(p_.slot, w_.shared, D_, T_ * C_, s_.shared_seen, M_);
    block_inputs();
    forward(p_.block, w_.parts, width_, T_ * blocks_, s_.blocks, M_);
    for (int i = 0; i < T_ * blocks_ * M_; i += kWidth) store(s_.blocks + i, relu(load(s_.blocks + i)));
    for (int r = 0; r < T_; ++r) {
      for (int p = 0; p < P_; ++p) {
        float* out = s_.pooled + (r * P_ + p) * pooled_;
        if (n_.pairs) {
          for (int i = 0; i < M_; i += kWidth) store(out + i, pairs(r, p, i) * load(p_.pair_scale.data + i));
          out += M_;
        }
        for (int i = 0; i < M_; i += kWidth) {
          Vec total{};
          for (int b = 0; b < n_.blocks; ++b) total += load(s_.blocks + ((r * P_ + p) * n_.blocks + b) * M_ + i);
          store(out + i, total);
        }
        copy(out + M_, in_.latent + r * L_ + S_ * D_ + p * V_, V_);
      }
    }
  }

  // Sum of the products of all pairs of a player's slots, and the sum of the slots.
  Vec pairs(int r, int p, int i, Vec* sum_of_slots = nullptr) const {
    Vec total{}, square{};
    for (int z = 0; z < of_player_; ++z) {
      const Vec x = load(s_.seen + (r * S_ + p * of_player_ + z) * M_ + i);
      total += x;
      square += x * x;
    }
    if (sum_of_slots) *sum_of_slots = total;
    return (total * total - square) * 0.5f;
  }

  // Boards as an ego sees them, its own first.
  void turn_boards(int ego, const float* from, float* to) const {
    for (int r = 0; r < T_; ++r) {
      for (int p = 0; p < P_; ++p)
        copy(to + (r * P_ + p) * pooled_, from + (r * P_ + (ego + p) % P_) * pooled_, pooled_);
    }
  }

  // EgoConditioning, and the sum that SlotTrunk.forward passes through its first GELU.
  void condition() {
    if (!n_.turns) forward(p_.boards, s_.pooled, P_ * pooled_, T_, w_.boards_out, H_);
    for (int e = 0; e < E_; ++e) {
      if (n_.turns) {
        turn_boards(e, s_.pooled, w_.turned);
        forward(p_.boards, w_.turned, P_ * pooled_, T_, w_.boards_out, H_);
      }
      for (int r = 0; r < T_; ++r) {
        const int at = e * T_ + r;
        for (int i = 0; i < R_; i += kWidth) store(w_.sum + i, load(rest(r) + i) + load(p_.ego.data + e * R_ + i));
        norm_forward(p_.condition.forward, w_.sum, R_, w_.conditioned + at * R_, s_.normalised + at * R_,
                     s_.scale + at);
      }
      forward(p_.rest, w_.conditioned + e * T_ * R_, R_, T_, s_.before + e * T_ * H_, H_, w_.boards_out, H_);
    }
  }

  // SlotPolicy.forward.
  void policy() {
    const int width = p_.kind_and_context.forward.outputs, scored = n_.scored, roles = p_.score.forward.outputs;
    forward(p_.kind_and_context, s_.mixed_features, H_, T_, s_.kind_and_context, width);
    if (scored) {
      forward(p_.policy_slot, w_.scored_slots, D_, T_ * scored, s_.policy_seen, M_);
      read_blocks();
      forward(p_.policy_block, w_.scored_blocks, M_, T_ * read_, w_.around, M_);
      for (int r = 0; r < T_; ++r) {
        const float* factor = s_.kind_and_context + r * width + n_.kinds;
        for (int s = 0; s < scored; ++s) {
          for (int i = 0; i < M_; i += kWidth) {
            const Vec seen = load(s_.policy_seen + (r * scored + s) * M_ + i);
            const Vec around = load(w_.around + (r * read_ + s / Z_) * M_ + i) + load(factor + M_ + i);
            store(s_.policy_hidden + (r * scored + s) * M_ + i, relu(seen * load(factor + i) + seen + around));
          }
        }
      }
      forward(p_.score, s_.policy_hidden, M_, T_ * scored, w_.scores, roles);
    }
    for (int r = 0; r < T_; ++r) {
      const float* score = w_.scores + r * scored * roles;
      for (int a = 0; a < n_.actions; ++a) {
        float logit = s_.kind_and_context[r * width + n_.dynamics.kinds[a]];
        for (int k = n_.policy.said_by_start[a]; k < n_.policy.said_by_start[a + 1]; ++k) {
          logit += score[n_.policy.said_by[k] / n_.roles * roles + n_.policy.said_by[k] % n_.roles];
        }
        in_.policy[r * n_.actions + a] = logit;
      }
    }
    if (Q_) {
      forward(p_.in_role, w_.scored_slots, D_, T_ * scored, s_.in_role, n_.roles * Q_);
      each_pair([&](int r, int a, const float* one, const float* other, int64_t, int64_t) {
        Vec total{};
        for (int i = 0; i < Q_; i += kWidth) total += load(one + i) * load(other + i) * load(p_.of_pairs.data + i);
        in_.policy[r * n_.actions + a] += sum(total);
      });
    }
  }

  // Calls visit(row, action, one, other, where one is, where other is) for the (slot, role) pairs that actions compare.
  template <class Visit>
  void each_pair(Visit&& visit) const {
    for (int r = 0; r < T_; ++r) {
      const int64_t row = int64_t{r} * n_.scored * n_.roles * Q_;
      for (int a = 0; a < n_.actions; ++a) {
        for (int k = n_.policy.together_start[a]; k < n_.policy.together_start[a + 1]; ++k) {
          const int64_t one = row + n_.policy.together[2 * k] * Q_, other = row + n_.policy.together[2 * k + 1] * Q_;
          visit(r, a, s_.in_role + one, s_.in_role + other, one, other);
        }
      }
    }
  }

  void read_blocks() {
    for (int r = 0; r < T_; ++r) copy(w_.scored_blocks + r * read_ * M_, s_.blocks + r * blocks_ * M_, read_ * M_);
  }

  void heads_backward() {
    for (int e = 0; e < E_; ++e) {
      backward(p_.all_numbers, g_, s_.mixed_features + e * T_ * H_, H_, in_.d_numbers + e * p_.numbers, E_ * p_.numbers,
               T_, w_.d_features + e * T_ * H_, H_);
    }
    if (in_.d_outcome) {
      backward(p_.outcome, g_, s_.mixed_features, H_, in_.d_outcome, p_.outcomes, T_, w_.d_features, H_, true);
    }
    if (in_.d_own) add(w_.d_features, in_.d_own, T_ * H_);
  }

  void policy_backward() {
    const int width = p_.kind_and_context.forward.outputs, scored = n_.scored, roles = p_.score.forward.outputs;
    clear(w_.d_kind_and_context, T_ * width);
    clear(w_.scores, T_ * scored * roles);
    for (int r = 0; r < T_; ++r) {
      float* d_score = w_.scores + r * scored * roles;
      for (int a = 0; a < n_.actions; ++a) {
        const float d = in_.d_policy[r * n_.actions + a];
        w_.d_kind_and_context[r * width + n_.dynamics.kinds[a]] += d;
        for (int k = n_.policy.said_by_start[a]; k < n_.policy.said_by_start[a + 1]; ++k) {
          d_score[n_.policy.said_by[k] / n_.roles * roles + n_.policy.said_by[k] % n_.roles] += d;
        }
      }
    }
    clear(w_.d_blocks, T_ * blocks_ * M_);
    if (scored) {
      backward(p_.score, g_, s_.policy_hidden, M_, w_.scores, roles, T_ * scored, w_.d_policy_hidden, M_);
      clear(w_.around, T_ * read_ * M_);  // from here on the gradient of `around`
      for (int r = 0; r < T_; ++r) {
        const float* factor = s_.kind_and_context + r * width + n_.kinds;
        float* d_factor = w_.d_kind_and_context + r * width + n_.kinds;
        for (int i = 0; i < M_; i += kWidth) {
          Vec d_factors{}, d_context{};
          for (int s = 0; s < scored; ++s) {
            const int at = (r * scored + s) * M_ + i;
            const Vec d = where_positive(load(s_.policy_hidden + at), load(w_.d_policy_hidden + at));
            float* around = w_.around + (r * read_ + s / Z_) * M_ + i;
            store(around, load(around) + d);
            d_context += d;
            d_factors += d * load(s_.policy_seen + at);
            store(w_.d_policy_hidden + at, d + d * load(factor + i));  // from here on the gradient of policy_seen
          }
          store(d_factor + i, d_factors);
          store(d_factor + M_ + i, d_context);
        }
      }
      backward(p_.policy_slot, g_, w_.scored_slots, D_, w_.d_policy_hidden, M_, T_ * scored, w_.d_scored_slots, D_);
      if (Q_) pairs_backward();
      read_blocks();
      backward(p_.policy_block, g_, w_.scored_blocks, M_, w_.around, M_, T_ * read_, w_.d_scored_blocks, M_);
      for (int r = 0; r < T_; ++r) add(w_.d_blocks + r * blocks_ * M_, w_.d_scored_blocks + r * read_ * M_, read_ * M_);
    }
    backward(p_.kind_and_context, g_, s_.mixed_features, H_, w_.d_kind_and_context, width, T_, w_.d_features, H_, true);
  }

  void pairs_backward() {
    const int outputs = n_.roles * Q_;
    clear(w_.d_in_role, int64_t{T_} * n_.scored * outputs);
    float* d_of_pairs = g_ + p_.of_pairs.at;
    each_pair([&](int r, int a, const float* one, const float* other, int64_t at_one, int64_t at_other) {
      const float d = in_.d_policy[r * n_.actions + a];
      for (int i = 0; i < Q_; i += kWidth) {
        const Vec x = load(one + i), y = load(other + i), scale = load(p_.of_pairs.data + i) * d;
        store(d_of_pairs + i, load(d_of_pairs + i) + x * y * d);
        store(w_.d_in_role + at_one + i, load(w_.d_in_role + at_one + i) + y * scale);
        store(w_.d_in_role + at_other + i, load(w_.d_in_role + at_other + i) + x * scale);
      }
    });
    backward(p_.in_role, g_, w_.scored_slots, D_, w_.d_in_role, outputs, T_ * n_.scored, w_.d_scored_slots, D_, true);
  }

  // From the gradient of the features to those of the pooled boards and of the conditioned rest.
  void trunk_backward() {
    const int64_t all_features = int64_t{E_} * T_ * H_;
    copy(w_.d_mixed, w_.d_features, static_cast<int>(all_features));
    gelu_backward(s_.mixed, w_.d_mixed, all_features);
    backward(p_.mix, g_, s_.features, H_, w_.d_mixed, H_, E_ * T_, w_.d_features, H_, true);
    gelu_backward(s_.before, w_.d_features, all_features);
    if (n_.turns) {
      clear(w_.d_pooled, T_ * P_ * pooled_);
      for (int e = 0; e < E_; ++e) {
        turn_boards(e, s_.pooled, w_.turned);
        backward(p_.boards, g_, w_.turned, P_ * pooled_, w_.d_features + e * T_ * H_, H_, T_, w_.d_turned,
                 P_ * pooled_);
        turn_boards((P_ - e) % P_, w_.d_turned, w_.turned);  // back
        add(w_.d_pooled, w_.turned, T_ * P_ * pooled_);
      }
    } else {
      float* d_boards = w_.boards_out;
      copy(d_boards, w_.d_features, T_ * H_);
      for (int e = 1; e < E_; ++e) add(d_boards, w_.d_features + e * T_ * H_, T_ * H_);
      backward(p_.boards, g_, s_.pooled, P_ * pooled_, d_boards, H_, T_, w_.d_pooled, P_ * pooled_);
    }
    const LayerNorm& norm = p_.condition.forward;
    for (int at = 0; at < E_ * T_; ++at) {
      for (int i = 0; i < R_; i += kWidth) {
        store(w_.conditioned + at * R_ + i,
              load(s_.normalised + at * R_ + i) * load(norm.weight + i) + load(norm.bias + i));
      }
    }
    backward(p_.rest, g_, w_.conditioned, R_, w_.d_features, H_, E_ * T_, w_.d_conditioned, R_);
    for (int e = 0; e < E_; ++e) {
      for (int r = 0; r < T_; ++r) {
        float* d = w_.d_conditioned + (e * T_ + r) * R_;
        norm_backward(p_.condition, g_, d, s_.normalised + (e * T_ + r) * R_, s_.scale[e * T_ + r], R_, d);
        add(g_ + p_.ego.at + e * R_, d, R_);
      }
    }
  }

  // From the gradient of the pooled boards to that of the slots.
  void boards_backward() {
    if (in_.d_blocks) add(w_.d_blocks, in_.d_blocks, T_ * blocks_ * M_);
    for (int r = 0; r < T_; ++r) {
      for (int p = 0; p < P_; ++p) {
        for (int b = 0; b < n_.blocks; ++b) {
          add(w_.d_blocks + ((r * P_ + p) * n_.blocks + b) * M_, w_.d_pooled + (r * P_ + p) * pooled_ + own_pairs_, M_);
        }
      }
    }
    for (int i = 0; i < T_ * blocks_ * M_; i += kWidth)
      store(w_.d_blocks + i, where_positive(load(s_.blocks + i), load(w_.d_blocks + i)));
    backward(p_.block, g_, w_.parts, width_, w_.d_blocks, M_, T_ * blocks_, w_.d_parts, width_);
    clear(w_.d_shared_seen, T_ * C_ * M_);
    for (int r = 0; r < T_; ++r) {
      for (int b = 0; b < blocks_; ++b) {
        const int at = (r * S_ + b * Z_) * M_;
        block_parts_backward(n_, s_.seen + at, s_.shared_seen + r * C_ * M_, w_.d_parts + (r * blocks_ + b) * width_,
                             w_.d_seen + at, w_.d_shared_seen + r * C_ * M_);
      }
    }
    if (n_.pairs) board_pairs_backward();
    backward(p_.slot, g_, w_.slots, D_, w_.d_seen, M_, T_ * S_, w_.d_slots, D_);
    if (C_) backward(p_.slot, g_, w_.shared, D_, w_.d_shared_seen, M_, T_ * C_, w_.d_shared, D_);
  }

  void board_pairs_backward() {
    float* d_scale = g_ + p_.pair_scale.at;
    for (int r = 0; r < T_; ++r) {
      for (int p = 0; p < P_; ++p) {
        for (int i = 0; i < M_; i += kWidth) {
          Vec total;
          const Vec products = pairs(r, p, i, &total), d = load(w_.d_pooled + (r * P_ + p) * pooled_ + i);
          store(d_scale + i, load(d_scale + i) + d * products);
          const Vec scaled = d * load(p_.pair_scale.data + i);
          for (int z = 0; z < of_player_; ++z) {
            const int at = (r * S_ + p * of_player_ + z) * M_ + i;
            store(w_.d_seen + at, load(w_.d_seen + at) + scaled * (total - load(s_.seen + at)));
          }
        }
      }
    }
  }

  void write_gradient() {
    for (int r = 0; r < T_; ++r) {
      float* to = in_.d_latent + r * L_;
      copy(to, w_.d_slots + r * S_ * D_, S_ * D_);
      add(to, w_.d_scored_slots + r * n_.scored * D_, n_.scored * D_);
      to += S_ * D_;
      for (int p = 0; p < P_; ++p, to += V_) copy(to, w_.d_pooled + (r * P_ + p) * pooled_ + own_pairs_ + M_, V_);
      copy(to, w_.d_conditioned + r * R_, R_);
      for (int e = 1; e < E_; ++e) add(to, w_.d_conditioned + (e * T_ + r) * R_, R_);
      add(to, w_.d_shared + r * C_ * D_, C_ * D_);
    }
  }

  const HeadsPart& p_;
  const Network& n_;
  const HeadsRows& in_;
  const int T_;  // rows
  const HeadsSaved s_;
  const HeadsWork w_;
  float* g_ = nullptr;
  const int P_ = n_.players, S_ = n_.slots, D_ = n_.slot_dim, V_ = n_.player_dim, C_ = n_.shared, M_ = n_.slot_hidden,
            H_ = n_.hidden, E_ = n_.egos, R_ = n_.rest_dim(), L_ = n_.latent_dim(), Z_ = n_.block_size,
            blocks_ = P_ * n_.blocks, pooled_ = n_.pooled(), width_ = (2 + C_) * M_, read_ = (n_.scored + Z_ - 1) / Z_,
            Q_ = n_.pair_dim, of_player_ = n_.blocks * Z_, own_pairs_ = n_.pairs ? M_ : 0;
};

}  // namespace
}  // namespace slot_step
