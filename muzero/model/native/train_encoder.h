// Encoder of a chunk of observations, with gradients. Included by one source file per kind of CPU; see slot_vectors.h.
#pragma once

#include "muzero/model/native/train_math.h"

namespace slot_step {
namespace {

// Results of the forward pass that the backward pass reads. Entries are the slots of all rows, then their shared cards.
struct EncoderSaved {
  EncoderSaved(const EncoderPart& part, void* memory) {
    const Network& n = *part.net;
    Scratch s(memory);
    const int64_t T = kTile, W = part.width, entries = n.slots + n.shared, blocks = n.players * n.blocks;
    tokens = s.take<float>(T * entries * W);
    block_before = s.take<float>(T * blocks * W);
    blocks_out = s.take<float>(T * blocks * W);
    entry_before = s.take<float>(T * entries * W);
    entry_hidden = s.take<float>(T * entries * W);
    entry_normalised = s.take<float>(T * entries * n.slot_dim);
    entry_scale = s.take<float>(T * entries);
    other_tokens = s.take<float>(T * part.others * W);
    rest_before = s.take<float>(T * part.rest_in.forward.outputs);
    rest_hidden = s.take<float>(T * part.rest_in.forward.outputs);
    rest_normalised = s.take<float>(T * n.global_dim);
    rest_scale = s.take<float>(T);
    own_tokens = s.take<float>(T * n.players * part.own * W);
    player_before = s.take<float>(T * n.players * part.player_in.forward.outputs);
    player_hidden = s.take<float>(T * n.players * part.player_in.forward.outputs);
    player_normalised = s.take<float>(T * n.players * n.player_dim);
    player_scale = s.take<float>(T * n.players);
    bytes = s.used();
  }
  float *tokens, *block_before, *blocks_out, *entry_before, *entry_hidden, *entry_normalised, *entry_scale;
  float *other_tokens, *rest_before, *rest_hidden, *rest_normalised, *rest_scale;
  float *own_tokens, *player_before, *player_hidden, *player_normalised, *player_scale;
  int64_t bytes;
};

struct EncoderWork {
  EncoderWork(const EncoderPart& part, void* memory) {
    const Network& n = *part.net;
    Scratch s(memory);
    const int64_t T = kTile, W = part.width, entries = n.slots + n.shared, blocks = n.players * n.blocks;
    parts = s.take<float>(T * blocks * 2 * W);
    around = s.take<float>(T * blocks * W);
    vectors = s.take<float>(T * entries * n.slot_dim);
    rest = s.take<float>(T * n.global_dim);
    players = s.take<float>(T * n.players * n.player_dim);
    d_entries = s.take<float>(T * entries * W);
    d_tokens = s.take<float>(T * entries * W);
    d_blocks = s.take<float>(T * blocks * W);
    d_parts = s.take<float>(T * blocks * 2 * W);
    d_rest = s.take<float>(T * part.rest_in.forward.outputs);
    d_other_tokens = s.take<float>(T * part.others * W);
    d_players = s.take<float>(T * n.players * part.player_in.forward.outputs);
    d_own_tokens = s.take<float>(T * n.players * part.own * W);
    bytes = s.used();
  }
  float *parts, *around, *vectors, *rest, *players;
  float *d_entries, *d_tokens, *d_blocks, *d_parts, *d_rest, *d_other_tokens, *d_players, *d_own_tokens;
  int64_t bytes;
};

class EncoderChunk {
 public:
  EncoderChunk(const EncoderPart& part, const EncoderRows& rows, float* saved, void* scratch)
      : p_(part), n_(*part.net), in_(rows), T_(rows.rows), s_(part, saved), w_(part, scratch) {}

  void run_forward() {
    embed();
    block_inputs();
    forward(p_.block, w_.parts, 2 * W_, T_ * blocks_, s_.block_before, W_);
    gelu_all(s_.block_before, s_.blocks_out, int64_t{T_} * blocks_ * W_);
    forward(p_.slot_own, s_.tokens, W_, T_ * entries_, s_.entry_before, W_);
    forward(p_.slot_block, s_.blocks_out, W_, T_ * blocks_, w_.around, W_);
    for (int at = 0; at < T_ * S_; ++at) add(s_.entry_before + at * W_, w_.around + at / Z_ * W_, W_);
    gelu_all(s_.entry_before, s_.entry_hidden, int64_t{T_} * entries_ * W_);
    forward(p_.to_slot, s_.entry_hidden, W_, T_ * entries_, w_.vectors, D_);
    for (int at = 0; at < T_ * entries_; ++at) {
      norm_forward(p_.slot_norm.forward, w_.vectors + at * D_, D_, latent_of(in_.latent, at),
                   s_.entry_normalised + at * D_, s_.entry_scale + at);
    }
    const int hidden = p_.rest_in.forward.outputs;
    forward(p_.rest_in, s_.other_tokens, p_.others * W_, T_, s_.rest_before, hidden);
    gelu_all(s_.rest_before, s_.rest_hidden, int64_t{T_} * hidden);
    forward(p_.rest_out, s_.rest_hidden, hidden, T_, w_.rest, G_);
    for (int r = 0; r < T_; ++r) {
      norm_forward(p_.rest_norm.forward, w_.rest + r * G_, G_, in_.latent + (r + 1) * L_ - G_,
                   s_.rest_normalised + r * G_, s_.rest_scale + r);
    }
    if (!V_) return;
    const int inner = p_.player_in.forward.outputs;
    forward(p_.player_in, s_.own_tokens, p_.own * W_, T_ * P_, s_.player_before, inner);
    gelu_all(s_.player_before, s_.player_hidden, int64_t{T_} * P_ * inner);
    forward(p_.player_out, s_.player_hidden, inner, T_ * P_, w_.players, V_);
    for (int at = 0; at < T_ * P_; ++at) {
      norm_forward(p_.player_norm.forward, w_.players + at * V_, V_, in_.latent + at / P_ * L_ + S_ * D_ + at % P_ * V_,
                   s_.player_normalised + at * V_, s_.player_scale + at);
    }
  }

  void run_backward(float* gradient) {
    g_ = gradient;
    rest_backward();
    if (V_) players_backward();
    entries_backward();
    embedding_backward();
  }

 private:
  const int16_t* obs(int r) const { return in_.obs + r * p_.row; }

  // Vector of an entry in latents, or in gradients of latents.
  template <class Float>
  Float* latent_of(Float* latents, int at) const {
    if (at < T_ * S_) return latents + at / S_ * L_ + at % S_ * D_;
    at -= T_ * S_;
    return latents + at / C_ * L_ + S_ * D_ + P_ * V_ + at % C_ * D_;
  }

  // Row of the table for each field of a token: f(row).
  template <class Visit>
  void each_field(int r, const int32_t* column, const int32_t* shift, int from, int to, Visit&& visit) const {
    for (int f = from; f < to; ++f) visit(obs(r)[column[f]] + shift[f]);
  }

  void sum_rows(int r, const int32_t* column, const int32_t* shift, int from, int to, float* token) const {
    clear(token, W_);
    each_field(r, column, shift, from, to, [&](int row) { add(token, p_.table.data + row * W_, W_); });
  }

  // Number of cards in a slot's block that equal its own; 0 where there is no visible card.
  int equal(int r, int s) const {
    const int16_t card = obs(r)[p_.card_column[s]];
    int count = 0;
    for (int z = s / Z_ * Z_; z < (s / Z_ + 1) * Z_; ++z) count += obs(r)[p_.card_column[z]] == card;
    return card > 0 ? count : 0;
  }

  int shared_row(int r, int c) const {
    const int code = obs(r)[p_.shared_column[c]];
    return p_.code_first + (code < p_.codes ? code : 0);
  }

  void embed() {
    for (int r = 0; r < T_; ++r) {
      for (int s = 0; s < S_; ++s) {
        float* token = s_.tokens + (r * S_ + s) * W_;
        sum_rows(r, p_.slot_column, p_.slot_shift, s * p_.slot_fields, (s + 1) * p_.slot_fields, token);
        if (p_.alike_rows) add(token, p_.alike.data + equal(r, s) * W_, W_);
      }
      for (int c = 0; c < C_; ++c) {
        float* token = s_.tokens + (T_ * S_ + r * C_ + c) * W_;
        copy(token, p_.table.data + shared_row(r, c) * W_, W_);
        add(token, p_.place.data + c * W_, W_);
      }
      for (int t = 0; t < p_.others; ++t) {
        sum_rows(r, p_.other_column, p_.other_shift, p_.other_start[t], p_.other_start[t + 1],
                 s_.other_tokens + (r * p_.others + t) * W_);
      }
      for (int t = 0; t < P_ * p_.own && V_; ++t) {
        sum_rows(r, p_.own_column, p_.own_shift, p_.own_start[t], p_.own_start[t + 1],
                 s_.own_tokens + (r * P_ * p_.own + t) * W_);
      }
    }
  }

  void block_inputs() {
    for (int at = 0; at < T_ * blocks_; ++at) {
      for (int i = 0; i < W_; i += kWidth) {
        Vec total{}, square{};
        for (int z = 0; z < Z_; ++z) {
          const Vec x = load(s_.tokens + (at * Z_ + z) * W_ + i);
          total += x;
          square += x * x;
        }
        store(w_.parts + at * 2 * W_ + i, total);
        store(w_.parts + (at * 2 + 1) * W_ + i, (total * total - square) * 0.5f);
      }
    }
  }

  void rest_backward() {
    const int hidden = p_.rest_in.forward.outputs;
    for (int r = 0; r < T_; ++r) {
      norm_backward(p_.rest_norm, g_, in_.d_latent + (r + 1) * L_ - G_, s_.rest_normalised + r * G_, s_.rest_scale[r],
                    G_, w_.rest + r * G_);
    }
    backward(p_.rest_out, g_, s_.rest_hidden, hidden, w_.rest, G_, T_, w_.d_rest, hidden);
    gelu_backward(s_.rest_before, w_.d_rest, int64_t{T_} * hidden);
    backward(p_.rest_in, g_, s_.other_tokens, p_.others * W_, w_.d_rest, hidden, T_, w_.d_other_tokens, p_.others * W_);
  }

  void players_backward() {
    const int inner = p_.player_in.forward.outputs;
    for (int at = 0; at < T_ * P_; ++at) {
      norm_backward(p_.player_norm, g_, in_.d_latent + at / P_ * L_ + S_ * D_ + at % P_ * V_,
                    s_.player_normalised + at * V_, s_.player_scale[at], V_, w_.players + at * V_);
    }
    backward(p_.player_out, g_, s_.player_hidden, inner, w_.players, V_, T_ * P_, w_.d_players, inner);
    gelu_backward(s_.player_before, w_.d_players, int64_t{T_} * P_ * inner);
    backward(p_.player_in, g_, s_.own_tokens, p_.own * W_, w_.d_players, inner, T_ * P_, w_.d_own_tokens, p_.own * W_);
  }

  void entries_backward() {
    for (int at = 0; at < T_ * entries_; ++at) {
      norm_backward(p_.slot_norm, g_, latent_of(in_.d_latent, at), s_.entry_normalised + at * D_, s_.entry_scale[at],
                    D_, w_.vectors + at * D_);
    }
    backward(p_.to_slot, g_, s_.entry_hidden, W_, w_.vectors, D_, T_ * entries_, w_.d_entries, W_);
    gelu_backward(s_.entry_before, w_.d_entries, int64_t{T_} * entries_ * W_);
    backward(p_.slot_own, g_, s_.tokens, W_, w_.d_entries, W_, T_ * entries_, w_.d_tokens, W_);
    for (int at = 0; at < T_ * blocks_; ++at) {
      copy(w_.around + at * W_, w_.d_entries + at * Z_ * W_, W_);
      for (int z = 1; z < Z_; ++z) add(w_.around + at * W_, w_.d_entries + (at * Z_ + z) * W_, W_);
    }
    backward(p_.slot_block, g_, s_.blocks_out, W_, w_.around, W_, T_ * blocks_, w_.d_blocks, W_);
    gelu_backward(s_.block_before, w_.d_blocks, int64_t{T_} * blocks_ * W_);
    block_inputs();
    backward(p_.block, g_, w_.parts, 2 * W_, w_.d_blocks, W_, T_ * blocks_, w_.d_parts, 2 * W_);
    for (int at = 0; at < T_ * blocks_; ++at) {
      for (int i = 0; i < W_; i += kWidth) {
        const Vec d_pairs = load(w_.d_parts + (at * 2 + 1) * W_ + i);
        const Vec d_total = load(w_.d_parts + at * 2 * W_ + i) + d_pairs * load(w_.parts + at * 2 * W_ + i);
        for (int z = 0; z < Z_; ++z) {
          float* to = w_.d_tokens + (at * Z_ + z) * W_ + i;
          store(to, load(to) + d_total - d_pairs * load(s_.tokens + (at * Z_ + z) * W_ + i));
        }
      }
    }
  }

  void embedding_backward() {
    float* table = g_ + p_.table.at;
    const auto scatter = [&](int r, const int32_t* column, const int32_t* shift, int from, int to, const float* d) {
      each_field(r, column, shift, from, to, [&](int row) { add(table + row * W_, d, W_); });
    };
    for (int r = 0; r < T_; ++r) {
      for (int s = 0; s < S_; ++s) {
        const float* d = w_.d_tokens + (r * S_ + s) * W_;
        scatter(r, p_.slot_column, p_.slot_shift, s * p_.slot_fields, (s + 1) * p_.slot_fields, d);
        if (p_.alike_rows) add(g_ + p_.alike.at + equal(r, s) * W_, d, W_);
      }
      for (int c = 0; c < C_; ++c) {
        const float* d = w_.d_tokens + (T_ * S_ + r * C_ + c) * W_;
        add(table + shared_row(r, c) * W_, d, W_);
        add(g_ + p_.place.at + c * W_, d, W_);
      }
      for (int t = 0; t < p_.others; ++t) {
        scatter(r, p_.other_column, p_.other_shift, p_.other_start[t], p_.other_start[t + 1],
                w_.d_other_tokens + (r * p_.others + t) * W_);
      }
      for (int t = 0; t < P_ * p_.own && V_; ++t) {
        scatter(r, p_.own_column, p_.own_shift, p_.own_start[t], p_.own_start[t + 1],
                w_.d_own_tokens + (r * P_ * p_.own + t) * W_);
      }
    }
  }

  const EncoderPart& p_;
  const Network& n_;
  const EncoderRows& in_;
  const int T_;  // rows
  const EncoderSaved s_;
  const EncoderWork w_;
  float* g_ = nullptr;
  const int P_ = n_.players, S_ = n_.slots, D_ = n_.slot_dim, V_ = n_.player_dim, C_ = n_.shared, G_ = n_.global_dim,
            L_ = n_.latent_dim(), Z_ = n_.block_size, blocks_ = P_ * n_.blocks, entries_ = S_ + C_, W_ = p_.width;
};

}  // namespace
}  // namespace slot_step
