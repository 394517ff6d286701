// Trunk and heads: from the next latents to policy logits, outcome logits, values and rewards. Included by one source file per kind of CPU; see
// slot_vectors.h.
#pragma once

#include "muzero/model/native/slot_tile.h"

namespace slot_step {
namespace {

class HeadsTile {
 public:
  explicit HeadsTile(const Tile& tile) : t_(tile), n_(tile.net), w_(tile.work) {}

  void run() {
    pool_boards();
    features();
    numbers(n_.value, 0);
    numbers(n_.reward, t_.num_values());
    if (n_.told()) outcomes();
    policy();
  }

 private:
  // Egos for which features are computed: all of them; or, if only the root's value is asked for, the root's player and
  // the mover, whose features the policy reads.
  int egos() const { return n_.egos == 1 ? 1 : t_.job.only_root ? 2 : n_.egos; }
  int own() const { return n_.egos > 1 && t_.job.only_root ? 1 : 0; }  // index of the mover among them
  int seat(int ego, int r) const {
    return t_.job.only_root && n_.egos > 1 ? (ego == 0 ? (n_.players - t_.to_play(r)) % n_.players : 0) : ego;
  }

  // SlotTrunk.split, and the pooling of SlotTrunk.forward: blocks, and for each player the sum of the player's blocks.
  void pool_boards() {
    const int D = n_.slot_dim, M = n_.slot_hidden, V = n_.player_dim, S = n_.slots, P = n_.players, C = n_.shared;
    const int blocks = P * n_.blocks, Z = n_.block_size, width = (2 + C) * M, pooled = n_.pooled();
    for (int r = 0; r < t_.rows; ++r) {
      to_act(w_.slots_act + r * S * D, t_.child(r), S * D);
      to_act(w_.shared_act + r * C * D, t_.child(r) + S * D + P * V, C * D);
    }
    product(n_.trunk.slot, w_.slots_act, D, t_.rows * S, w_.slots_seen, M);
    if (C) product(n_.trunk.slot, w_.shared_act, D, t_.rows * C, w_.shared_seen, M);
    for (int r = 0; r < t_.rows; ++r) {
      for (int b = 0; b < blocks; ++b) {
        block_parts(n_, w_.slots_seen + (r * S + b * Z) * M, w_.shared_seen + r * C * M,
                    w_.block_parts_act + (r * blocks + b) * width);
      }
    }
    product(n_.trunk.block, w_.block_parts_act, width, t_.rows * blocks, w_.blocks_out, M);
    for (int r = 0; r < t_.rows; ++r) {
      for (int p = 0; p < P; ++p) {
        Act* out = w_.pooled_act + (r * P + p) * pooled;
        if (n_.pairs) {
          const int of_player = n_.blocks * Z;
          for (int i = 0; i < M; i += kWidth) {
            Vec total{}, square{};
            for (int z = 0; z < of_player; ++z) {
              const Vec x = load(w_.slots_seen + (r * S + p * of_player + z) * M + i);
              total += x;
              square += x * x;
            }
            store_act(out + i, (total * total - square) * 0.5f * load(n_.trunk.pair_scale + i));
          }
          out += M;
        }
        for (int i = 0; i < M; i += kWidth) {
          Vec total{};
          for (int b = 0; b < n_.blocks; ++b) {
            const int at = ((r * P + p) * n_.blocks + b) * M + i;
            const Vec block = relu(load(w_.blocks_out + at));
            store_act(w_.blocks_act + at, block);
            total += block;
          }
          store_act(out + i, total);
        }
        to_act(out + M, t_.child(r) + S * D + p * V, V);
      }
    }
  }

  // EgoConditioning and the rest of SlotTrunk.forward: features [egos, rows, H], for every ego that is asked for.
  void features() {
    const int R = n_.rest_dim(), H = n_.hidden, P = n_.players, pooled = n_.pooled(), D = n_.slot_dim;
    if (!n_.turns) product(n_.trunk.boards, w_.pooled_act, P * pooled, t_.rows, w_.boards_out, H);
    for (int e = 0; e < egos(); ++e) {
      for (int r = 0; r < t_.rows; ++r) {
        const float* rest = t_.child(r) + n_.slots * D + P * n_.player_dim;
        const float* ego = n_.ego + seat(e, r) * R;
        for (int i = 0; i < R; i += kWidth) store(w_.rest + i, load(rest + i) + load(ego + i));
        layer_norm(n_.condition, w_.rest, R, w_.rest);
        to_act(w_.conditioned_act + (e * t_.rows + r) * R, w_.rest, R);
      }
      if (n_.turns) {
        for (int r = 0; r < t_.rows; ++r) {
          const int first = n_.egos > 1 ? seat(e, r) : 0;
          for (int p = 0; p < P; ++p) {
            __builtin_memcpy(w_.turned_act + (r * P + p) * pooled, w_.pooled_act + (r * P + (first + p) % P) * pooled,
                             sizeof(Act) * static_cast<unsigned>(pooled));
          }
        }
        product(n_.trunk.boards, w_.turned_act, P * pooled, t_.rows, w_.boards_out, H);
      }
      product(n_.trunk.rest, w_.conditioned_act + e * t_.rows * R, R, t_.rows, w_.features + e * t_.rows * H, H,
              w_.boards_out, H);
    }
    const int count = egos() * t_.rows;
    for (int i = 0; i < count * H; i += kWidth) {
      const Vec x = gelu(load(w_.features + i));
      store(w_.features + i, x);
      store_act(w_.features_act + i, x);
    }
    product(n_.trunk.mix, w_.features_act, H, count, w_.mixed, H);
    for (int i = 0; i < count * H; i += kWidth) {
      store_act(w_.features_act + i, load(w_.features + i) + gelu(load(w_.mixed + i)));
    }
  }

  // Expected numbers of the value head or the reward head, which the two write one behind the other.
  void numbers(const Linear& head, int offset) {
    const int width = head.outputs, P = n_.players;
    const int judged = n_.egos > 1 && t_.job.only_root ? 1 : egos();
    product(head, w_.features_act, n_.hidden, judged * t_.rows, w_.numbers, width);
    for (int r = 0; r < t_.rows; ++r) {
      float* out = t_.output(r) + n_.actions + n_.outcome_logits() + offset;
      const auto number = [&](int p) {
        const int at = n_.egos > 1 ? (p * t_.rows + r) * width : r * width + p * n_.bins;
        return expectation(n_, w_.numbers + at);
      };
      if (t_.job.only_root) {
        out[0] = number(n_.egos > 1 ? 0 : (P - t_.to_play(r)) % P);
      } else {
        for (int p = 0; p < P; ++p) out[p] = number(p);
      }
    }
  }

  // Logits of the outcomes of chance events, from the features of the player to move.
  void outcomes() {
    const int width = n_.outcome.outputs, H = n_.hidden;
    product(n_.outcome, w_.features_act + own() * t_.rows * H, H, t_.rows, w_.outcomes, width);
    for (int r = 0; r < t_.rows; ++r) {
      for (int o = 0; o < n_.outcomes; ++o) t_.output(r)[n_.actions + o] = w_.outcomes[r * width + o];
    }
  }

  // SlotPolicy.forward: policy logits.
  void policy() {
    const int D = n_.slot_dim, M = n_.slot_hidden, S = n_.slots, H = n_.hidden, Z = n_.block_size;
    const int blocks = n_.players * n_.blocks, scored = n_.scored, width = n_.policy.kind_and_context.outputs;
    product(n_.policy.kind_and_context, w_.features_act + own() * t_.rows * H, H, t_.rows, w_.kind_and_context, width);
    const int read = (scored + Z - 1) / Z;  // blocks of scored slots
    for (int r = 0; r < t_.rows && scored; ++r) {
      product(n_.policy.slot, w_.slots_act + r * S * D, D, scored, w_.slots_seen + r * scored * M, M);
      product(n_.policy.block, w_.blocks_act + r * blocks * M, M, read, w_.around + r * read * M, M);
      if (n_.pair_dim) {
        const int outputs = n_.policy.in_role.outputs;
        product(n_.policy.in_role, w_.slots_act + r * S * D, D, scored, w_.in_role + r * scored * outputs, outputs);
      }
      const float* factor = w_.kind_and_context + r * width + n_.kinds;
      for (int p = 0; p < scored; ++p) {
        for (int i = 0; i < M; i += kWidth) {
          const Vec seen = load(w_.slots_seen + (r * scored + p) * M + i);
          const Vec around = load(w_.around + (r * read + p / Z) * M + i) + load(factor + M + i);
          store_act(w_.policy_hidden_act + (r * scored + p) * M + i, relu(seen * load(factor + i) + seen + around));
        }
      }
    }
    const int roles = n_.policy.score.outputs;  // number of roles, padded
    if (scored) product(n_.policy.score, w_.policy_hidden_act, M, t_.rows * scored, w_.scores, roles);
    for (int r = 0; r < t_.rows; ++r) {
      const float* score = w_.scores + r * scored * roles;
      float* out = t_.output(r);
      for (int a = 0; a < n_.actions; ++a) {
        float logit = w_.kind_and_context[r * width + n_.dynamics.kinds[a]];
        for (int k = n_.policy.said_by_start[a]; k < n_.policy.said_by_start[a + 1]; ++k) {
          logit += score[n_.policy.said_by[k] / n_.roles * roles + n_.policy.said_by[k] % n_.roles];
        }
        out[a] = logit;
      }
      if (n_.pair_dim) add_pairs(r, out);
    }
  }

  // Adds the products of (place, role) pairs to the logits of the actions that touch both places.
  void add_pairs(int r, float* out) {
    const int Q = n_.pair_dim;
    const float* in_role = w_.in_role + r * n_.scored * n_.policy.in_role.outputs;
    for (int a = 0; a < n_.actions; ++a) {
      Vec total{};
      for (int i = 0; i < Q; i += kWidth) {
        Vec products{};
        for (int k = n_.policy.together_start[a]; k < n_.policy.together_start[a + 1]; ++k) {
          products +=
              load(in_role + n_.policy.together[2 * k] * Q + i) * load(in_role + n_.policy.together[2 * k + 1] * Q + i);
        }
        total += products * load(n_.policy.of_pairs + i);
      }
      out[a] += sum(total);
    }
  }

  const Tile& t_;
  const Network& n_;
  const Work& w_;
};

}  // namespace
}  // namespace slot_step
