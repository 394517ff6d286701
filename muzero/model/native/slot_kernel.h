// The step itself. Included by one source file per kind of CPU; muzero/model/native/slot_vectors.h says what that forbids.
#pragma once

#include "muzero/model/native/slot_vectors.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __asan_poison_memory_region(void const volatile*, unsigned long);
extern "C" void __asan_unpoison_memory_region(void const volatile*, unsigned long);
#endif

namespace slot_step {
namespace {

void layer_norm(const Norm& norm, const float* x, int n, float* y) {
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
    store(y + i, (load(x + i) - mean) * scale * load(norm.scale + i) + load(norm.shift + i));
  }
}

// The mean of a distribution over the support, given as logits.
float expectation(const Network& net, const float* logits) {
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

// What blocks of slots look like, before the layer that reads it: sums over the slots of ReLUs, of products of pairs, and
// of products with each shared card. seen [size, M], cards [C, M] -> parts [(2 + C) M]
void block_parts(const Network& net, const float* seen, const float* cards, Act* parts) {
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
    for (int c = 0; c < net.shared; ++c) store_act(parts + (2 + c) * M + i, total * load(cards + c * M + i));
  }
}

// Hands out memory; with no memory behind it, counts.
class Scratch {
 public:
  explicit Scratch(void* memory) : at_(static_cast<char*>(memory)) {}

  template <class T>
  T* take(int64_t count) {
    char* here = at_ ? at_ + used_ : nullptr;
    const int64_t size = count * static_cast<int64_t>(sizeof(T));
    used_ += (size + 63) / 64 * 64;
#if defined(__SANITIZE_ADDRESS__)
    if (at_) __asan_unpoison_memory_region(here, static_cast<unsigned long>(size));
    if (at_) __asan_poison_memory_region(at_ + used_, 64);
    used_ += 64;
#endif
    return reinterpret_cast<T*>(here);
  }

  int64_t used() const { return used_; }

 private:
  char* at_;
  int64_t used_ = 0;
};

// What is computed on the way, for the rows of a tile.
struct Work {
  Work(const Network& n, void* memory) {
    Scratch s(memory);
    const int64_t T = kTile, D = n.slot_dim, M = n.slot_hidden, H = n.hidden, E = n.entries(), C = n.shared;
    const int64_t P = n.players, B = n.touched_blocks, Z = n.block_size, egos = n.egos > 2 ? n.egos : 2;
    enter = s.take<Act>(T * n.enter.inputs);
    old = s.take<float>(T * E * D);
    old_act = s.take<Act>(T * E * D);
    there = s.take<Act>(T * B * Z * D);
    there_seen = s.take<float>(T * B * Z * M);
    cards = s.take<float>(T * C * M);
    parts = s.take<Act>(T * (B > P * n.blocks ? B : P * n.blocks) * (2 + C) * M);
    blocks = s.take<float>(T * (B > P * n.blocks ? B : P * n.blocks) * M);
    seen = s.take<float>(T * E * M);
    compared = s.take<float>(T * M);
    hidden = s.take<float>(T * H);
    hidden_act = s.take<Act>(T * H);
    told = s.take<float>(T * n.consequences.outputs);
    passed = s.take<float>(T * M);
    answer = s.take<Act>(T * E * M);
    change = s.take<float>(T * E * D);
    fresh = s.take<float>(E * D);
    slots = s.take<Act>(T * n.slots * D);
    slots_seen = s.take<float>(T * n.slots * M);
    shared = s.take<Act>(T * C * D);
    pooled = s.take<Act>(T * P * n.pooled());
    turned = s.take<Act>(T * P * n.pooled());
    base = s.take<float>(T * H);
    joined = s.take<float>(n.rest_dim());
    conditioned = s.take<Act>(T * egos * n.rest_dim());
    features = s.take<float>(T * egos * H);
    features_act = s.take<Act>(T * egos * H);
    mixed = s.take<float>(T * egos * H);
    values = s.take<float>(T * egos * n.value.outputs);
    spoken = s.take<float>(T * n.speak.outputs);
    blocks_act = s.take<Act>(T * P * n.blocks * M);
    around = s.take<float>(T * P * n.blocks * M);
    scores = s.take<float>(T * n.scored * n.score.outputs);
    hints = s.take<Act>(T * n.scored * M);
    in_role = s.take<float>(T * n.scored * (n.pair_dim ? n.in_role.outputs : 0));
    bytes = s.used();
  }

  Act *enter, *old_act, *there, *parts, *hidden_act, *answer, *slots, *shared, *pooled, *turned, *conditioned,
      *features_act, *blocks_act, *hints;
  float *old, *there_seen, *cards, *blocks, *seen, *compared, *hidden, *told, *passed, *change, *fresh, *slots_seen,
      *base, *joined, *features, *mixed, *values, *spoken, *around, *scores, *in_role;
  int64_t bytes;
};

// A tile of rows: those of a job from `from` on.
class Tile {
 public:
  Tile(const Network& net, const Job& job, const Work& work, int64_t from, int rows)
      : n_(net), j_(job), w_(work), from_(from), rows_(rows) {}

  void run() {
    gather();
    touched_blocks();
    imagine();
    write();
    boards();
    features();
    values();
    policy();
  }

 private:
  const float* parent(int r) const { return j_.latents + j_.parent[from_ + r] * n_.latent_dim(); }
  int action(int r) const { return static_cast<int>(j_.action[from_ + r]); }
  int shift(int r) const { return static_cast<int>(j_.shift[from_ + r]); }
  int to_play(int r) const { return static_cast<int>(j_.to_play[from_ + r]); }
  int num_values() const { return j_.only_root ? 1 : n_.players; }
  float* child(int r) const {
    const int64_t row = from_ + r;
    return j_.latents + ((j_.first + row / j_.games) * j_.batch + row % j_.games) * n_.latent_dim();
  }
  float* output(int r) const { return j_.outputs + (from_ + r) * (n_.actions + 2 * num_values()); }

  // What the move starts from: the slots it touches, the shared cards, and the rest.
  void gather() {
    const int D = n_.slot_dim, E = n_.entries(), K = n_.touches, tail = n_.players * n_.player_dim + n_.rest_dim();
    for (int r = 0; r < rows_; ++r) {
      const float* x = parent(r);
      const float* rest = x + n_.slots * D + n_.players * n_.player_dim;
      to_act(w_.enter + r * n_.enter.inputs, x + n_.slots * D, tail);
      float* old = w_.old + r * E * D;
      for (int k = 0; k < K; ++k) copy(old + k * D, x + n_.touched[action(r) * K + k] * D, D);
      copy(old + K * D, rest, n_.shared * D);
      to_act(w_.old_act + r * E * D, old, E * D);
      to_act(w_.shared + r * n_.shared * D, rest, n_.shared * D);
    }
  }

  // The sum of the blocks that an action touches, as the last M inputs of the layer `enter`.
  void touched_blocks() {
    const int D = n_.slot_dim, M = n_.slot_hidden, B = n_.touched_blocks, Z = n_.block_size, C = n_.shared;
    const int width = (2 + C) * M;
    for (int r = 0; r < rows_; ++r) {
      for (int b = 0; b < B; ++b) {
        const int block = n_.blocks_of[action(r) * B + b];
        to_act(w_.there + (r * B + b) * Z * D, parent(r) + (block < 0 ? 0 : block) * Z * D, Z * D);
      }
    }
    product(n_.look, w_.there, D, rows_ * B * Z, w_.there_seen, M);
    if (C) product(n_.look, w_.shared, D, rows_ * C, w_.cards, M);
    for (int r = 0; r < rows_; ++r) {
      for (int b = 0; b < B; ++b) {
        const int at = r * B + b;
        block_parts(n_, w_.there_seen + at * Z * M, w_.cards + r * C * M, w_.parts + at * width);
      }
    }
    product(n_.block, w_.parts, width, rows_ * B, w_.blocks, M);
    for (int r = 0; r < rows_; ++r) {
      Act* out = w_.enter + (r + 1) * n_.enter.inputs - M;
      for (int i = 0; i < M; i += kWidth) {
        Vec total{};
        for (int b = 0; b < B; ++b) {
          if (n_.blocks_of[action(r) * B + b] >= 0) total += relu(load(w_.blocks + (r * B + b) * M + i));
        }
        store_act(out + i, total);
      }
    }
  }

  // From the summary of what is touched to the consequences.
  void imagine() {
    const int D = n_.slot_dim, M = n_.slot_hidden, E = n_.entries(), H = n_.hidden;
    const int inputs = n_.enter.inputs, players = n_.players * n_.player_dim;
    product(n_.slot_in, w_.old_act, D, rows_ * E, w_.seen, M);
    product(n_.compare, w_.enter + players, inputs, rows_, w_.compared, M);
    for (int r = 0; r < rows_; ++r) {
      const float* role = n_.role + action(r) * E * M;
      const float* factor = n_.role_factor + action(r) * E * M;
      Act* summary = w_.enter + (r + 1) * inputs - 4 * M;
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
    product(n_.enter, w_.enter, inputs, rows_, w_.hidden, H);
    for (int r = 0; r < rows_; ++r) {
      const float* kind = n_.kind + n_.kind_of[action(r)] * H;
      const float* turn = n_.turn + shift(r) * H;
      for (int i = 0; i < H; i += kWidth) {
        store_act(w_.hidden_act + r * H + i, gelu(load(w_.hidden + r * H + i) + load(kind + i) + load(turn + i)));
      }
    }
    product(n_.hidden_layer, w_.hidden_act, H, rows_, w_.hidden, H);
    for (int i = 0; i < rows_ * H; i += kWidth) store_act(w_.hidden_act + i, gelu(load(w_.hidden + i)));
    product(n_.consequences, w_.hidden_act, H, rows_, w_.told, n_.consequences.outputs);
    if (n_.shared) product(n_.pass_on, w_.shared, n_.shared * D, rows_, w_.passed, M);
    for (int r = 0; r < rows_; ++r) {
      const float* spread = w_.told + r * n_.consequences.outputs + n_.global_dim;
      for (int i = 0; i < M; i += kWidth) {
        Vec news = load(spread + i);
        if (n_.shared) news += load(w_.passed + r * M + i);
        for (int e = 0; e < E; ++e) {
          const int at = (r * E + e) * M + i;
          store_act(w_.answer + at, relu(load(w_.seen + at) + news));
        }
      }
    }
    product(n_.slot_out, w_.answer, M, rows_ * E, w_.change, D);
  }

  // The next latent, in the frame of the next player to move, and the rewards.
  void write() {
    const int D = n_.slot_dim, V = n_.player_dim, E = n_.entries(), K = n_.touches, S = n_.slots, P = n_.players;
    const int told = n_.consequences.outputs, G = n_.global_dim, M = n_.slot_hidden;
    for (int r = 0; r < rows_; ++r) {
      const int a = action(r), s = shift(r);
      const float* x = parent(r);
      const float* news = w_.told + r * told;
      const float* old = w_.old + r * E * D;
      const float* moved = n_.moved + a * E * E;
      float* y = child(r);
      for (int e = 0; e < E; ++e) {
        float* to = w_.fresh + e * D;
        if (e < K && !n_.present[a * K + e]) {
          copy(to, old + e * D, D);
          continue;
        }
        for (int i = 0; i < D; i += kWidth) {
          Vec total = load(w_.change + (r * E + e) * D + i);
          for (int f = 0; f < E; ++f) total += moved[e * E + f] * load(old + f * D + i);
          store(to + i, total);
        }
        layer_norm(n_.slot_norm, to, D, to);
      }
      const int32_t* source = n_.source + (a * P + s) * S;
      for (int p = 0; p < S; ++p) {
        copy(y + p * D, source[p] < S ? x + source[p] * D : w_.fresh + (source[p] - S) * D, D);
      }
      x += S * D;
      y += S * D;
      for (int p = 0; p < P && V; ++p) {
        const int from = (p + s) % P;
        for (int i = 0; i < V; i += kWidth) {
          store(y + p * V + i, load(x + from * V + i) + load(news + G + M + from * V + i));
        }
        layer_norm(n_.player_norm, y + p * V, V, y + p * V);
      }
      x += P * V + n_.shared * D;
      y += P * V;
      copy(y, w_.fresh + K * D, n_.shared * D);
      y += n_.shared * D;
      for (int i = 0; i < G; i += kWidth) store(y + i, load(x + i) + load(news + i));
      layer_norm(n_.rest_norm, y, G, y);

      const float* rewards = news + G + M + P * V;
      float* out = output(r) + n_.actions + num_values();
      if (j_.only_root) {
        out[0] = expectation(n_, rewards + (P - to_play(r) + s) % P * n_.bins);
      } else {
        for (int p = 0; p < P; ++p) out[p] = expectation(n_, rewards + p * n_.bins);
      }
    }
  }

  // Of the new latents: blocks, and per player what they come to.
  void boards() {
    const int D = n_.slot_dim, M = n_.slot_hidden, V = n_.player_dim, S = n_.slots, P = n_.players, C = n_.shared;
    const int blocks = P * n_.blocks, Z = n_.block_size, width = (2 + C) * M, pooled = n_.pooled();
    for (int r = 0; r < rows_; ++r) {
      to_act(w_.slots + r * S * D, child(r), S * D);
      to_act(w_.shared + r * C * D, child(r) + S * D + P * V, C * D);
    }
    product(n_.look, w_.slots, D, rows_ * S, w_.slots_seen, M);
    if (C) product(n_.look, w_.shared, D, rows_ * C, w_.cards, M);
    for (int r = 0; r < rows_; ++r) {
      for (int b = 0; b < blocks; ++b) {
        block_parts(n_, w_.slots_seen + (r * S + b * Z) * M, w_.cards + r * C * M, w_.parts + (r * blocks + b) * width);
      }
    }
    product(n_.block, w_.parts, width, rows_ * blocks, w_.blocks, M);
    for (int r = 0; r < rows_; ++r) {
      for (int p = 0; p < P; ++p) {
        Act* out = w_.pooled + (r * P + p) * pooled;
        if (n_.pairs) {
          const int of_player = n_.blocks * Z;
          for (int i = 0; i < M; i += kWidth) {
            Vec total{}, square{};
            for (int z = 0; z < of_player; ++z) {
              const Vec x = load(w_.slots_seen + (r * S + p * of_player + z) * M + i);
              total += x;
              square += x * x;
            }
            store_act(out + i, (total * total - square) * 0.5f * load(n_.pair_scale + i));
          }
          out += M;
        }
        for (int i = 0; i < M; i += kWidth) {
          Vec total{};
          for (int b = 0; b < n_.blocks; ++b) {
            const int at = ((r * P + p) * n_.blocks + b) * M + i;
            const Vec block = relu(load(w_.blocks + at));
            store_act(w_.blocks_act + at, block);
            total += block;
          }
          store_act(out + i, total);
        }
        to_act(out + M, child(r) + S * D + p * V, V);
      }
    }
  }

  int egos() const { return n_.egos == 1 ? 1 : j_.only_root ? 2 : n_.egos; }
  int own() const { return n_.egos > 1 && j_.only_root ? 1 : 0; }  // the mover's among them
  int seat(int ego, int r) const {
    return j_.only_root && n_.egos > 1 ? (ego == 0 ? (n_.players - to_play(r)) % n_.players : 0) : ego;
  }

  // What the heads read, for every ego that is asked: [egos, rows, H].
  void features() {
    const int R = n_.rest_dim(), H = n_.hidden, P = n_.players, pooled = n_.pooled(), D = n_.slot_dim;
    if (!n_.turns) product(n_.boards, w_.pooled, P * pooled, rows_, w_.base, H);
    for (int e = 0; e < egos(); ++e) {
      for (int r = 0; r < rows_; ++r) {
        const float* rest = child(r) + n_.slots * D + P * n_.player_dim;
        const float* ego = n_.ego + seat(e, r) * R;
        for (int i = 0; i < R; i += kWidth) store(w_.joined + i, load(rest + i) + load(ego + i));
        layer_norm(n_.condition, w_.joined, R, w_.joined);
        to_act(w_.conditioned + (e * rows_ + r) * R, w_.joined, R);
      }
      if (n_.turns) {
        for (int r = 0; r < rows_; ++r) {
          const int first = n_.egos > 1 ? seat(e, r) : 0;
          for (int p = 0; p < P; ++p) {
            __builtin_memcpy(w_.turned + (r * P + p) * pooled, w_.pooled + (r * P + (first + p) % P) * pooled,
                             sizeof(Act) * static_cast<unsigned>(pooled));
          }
        }
        product(n_.boards, w_.turned, P * pooled, rows_, w_.base, H);
      }
      product(n_.rest, w_.conditioned + e * rows_ * R, R, rows_, w_.features + e * rows_ * H, H, w_.base, H);
    }
    const int count = egos() * rows_;
    for (int i = 0; i < count * H; i += kWidth) {
      const Vec x = gelu(load(w_.features + i));
      store(w_.features + i, x);
      store_act(w_.features_act + i, x);
    }
    product(n_.mix, w_.features_act, H, count, w_.mixed, H);
    for (int i = 0; i < count * H; i += kWidth) {
      store_act(w_.features_act + i, load(w_.features + i) + gelu(load(w_.mixed + i)));
    }
  }

  void values() {
    const int width = n_.value.outputs, P = n_.players;
    const int judged = n_.egos > 1 && j_.only_root ? 1 : egos();
    product(n_.value, w_.features_act, n_.hidden, judged * rows_, w_.values, width);
    for (int r = 0; r < rows_; ++r) {
      float* out = output(r) + n_.actions;
      const auto value = [&](int p) {
        const int at = n_.egos > 1 ? (p * rows_ + r) * width : r * width + p * n_.bins;
        return expectation(n_, w_.values + at);
      };
      if (j_.only_root) {
        out[0] = value(n_.egos > 1 ? 0 : (P - to_play(r)) % P);
      } else {
        for (int p = 0; p < P; ++p) out[p] = value(p);
      }
    }
  }

  void policy() {
    const int D = n_.slot_dim, M = n_.slot_hidden, S = n_.slots, H = n_.hidden, Z = n_.block_size;
    const int blocks = n_.players * n_.blocks, scored = n_.scored, spoken = n_.speak.outputs;
    product(n_.speak, w_.features_act + own() * rows_ * H, H, rows_, w_.spoken, spoken);
    const int read = (scored + Z - 1) / Z;  // blocks
    for (int r = 0; r < rows_ && scored; ++r) {
      product(n_.policy_slot, w_.slots + r * S * D, D, scored, w_.slots_seen + r * scored * M, M);
      product(n_.policy_block, w_.blocks_act + r * blocks * M, M, read, w_.around + r * read * M, M);
      if (n_.pair_dim) {
        const int width = n_.in_role.outputs;
        product(n_.in_role, w_.slots + r * S * D, D, scored, w_.in_role + r * scored * width, width);
      }
      const float* factor = w_.spoken + r * spoken + n_.kinds;
      for (int p = 0; p < scored; ++p) {
        for (int i = 0; i < M; i += kWidth) {
          const Vec seen = load(w_.slots_seen + (r * scored + p) * M + i);
          const Vec around = load(w_.around + (r * read + p / Z) * M + i) + load(factor + M + i);
          store_act(w_.hints + (r * scored + p) * M + i, relu(seen * load(factor + i) + seen + around));
        }
      }
    }
    const int width = n_.score.outputs;
    if (scored) product(n_.score, w_.hints, M, rows_ * scored, w_.scores, width);
    for (int r = 0; r < rows_; ++r) {
      const float* score = w_.scores + r * scored * width;
      float* out = output(r);
      for (int a = 0; a < n_.actions; ++a) {
        float logit = w_.spoken[r * spoken + n_.kind_of[a]];
        for (int k = n_.said_from[a]; k < n_.said_from[a + 1]; ++k) {
          logit += score[n_.said[k] / n_.roles * width + n_.said[k] % n_.roles];
        }
        out[a] = logit;
      }
      if (n_.pair_dim) compare(r, out);
    }
  }

  // Adds what pairs of places in roles say of the actions that touch both.
  void compare(int r, float* out) {
    const int Q = n_.pair_dim;
    const float* in_role = w_.in_role + r * n_.scored * n_.in_role.outputs;
    for (int a = 0; a < n_.actions; ++a) {
      Vec total{};
      for (int i = 0; i < Q; i += kWidth) {
        Vec products{};
        for (int k = n_.both_from[a]; k < n_.both_from[a + 1]; ++k) {
          products += load(in_role + n_.both[2 * k] * Q + i) * load(in_role + n_.both[2 * k + 1] * Q + i);
        }
        total += products * load(n_.of_pairs + i);
      }
      out[a] += sum(total);
    }
  }

  const Network& n_;
  const Job& j_;
  const Work& w_;
  const int64_t from_;
  const int rows_;
};

int64_t scratch(const Network& net) { return Work(net, nullptr).bytes; }

void run(const Network& net, const Job& job, void* memory) {
  const Work work(net, memory);
  for (int64_t from = 0; from < job.count; from += kTile) {
    const int64_t left = job.count - from;
    Tile(net, job, work, from, static_cast<int>(left < kTile ? left : kTile)).run();
  }
}

}  // namespace
}  // namespace slot_step
