// One imagined move of a slots latent, and what the network says of the position it leads to, on a CPU.
//
// muzero/model/latents.py defines the network; muzero/model/native/slot_step.py lays its weights out for this. Every row is computed on its
// own, in an order that depends on nothing but the network: the same row gives the same bytes in any batch.
#pragma once

#include <cstdint>

#define BELIEF_INLINE inline __attribute__((always_inline))

namespace slot_step {

// A matrix product's weights, packed for a kernel: panels of up to Kernel::panel vectors of outputs, in each panel input
// by input (bfloat16: pairs of inputs).
struct Matrix {
  const void* weights = nullptr;
  const float* bias = nullptr;  // of all outputs; zeros if there is none
  int inputs = 0;
  int outputs = 0;  // a multiple of kAlign, as the rows of results are
};

struct Norm {
  const float* scale = nullptr;
  const float* shift = nullptr;
};

// Sizes are as in latents.py: P players, S slots, D slot, V player, C shared cards, G global part, M hidden units of a
// slot, H hidden units, A actions, K slots touched by an action.
struct Network {
  int players, slots, slot_dim, player_dim, shared, global_dim, slot_hidden, hidden, actions;
  int bins;            // of the support, padded to kAlign with bins that nothing falls into
  int touches;         // K
  int touched_blocks;  // most of an action
  int blocks;          // of a player
  int block_size;      // slots
  int kinds;           // of actions, padded to kAlign
  int roles;
  int scored;    // places that some action touches
  int egos;      // P with ego conditioning, else 1
  bool turns;    // an ego is shown its own board first
  bool pairs;    // boards see products of pairs of their slots
  int pair_dim;  // of a slot in a role, compared with others; 0: not compared

  Matrix look, block, slot_in, compare, pass_on, enter, hidden_layer, consequences, slot_out;
  Matrix boards, rest, mix, value;
  Matrix speak, policy_slot, policy_block, score, in_role;
  Norm slot_norm, player_norm, rest_norm, condition;

  const float* role;         // [A, K + C, M]
  const float* role_factor;  // [A, K + C, M], 0 where the entry does not count
  const float* moved;        // [A, K + C, K + C], likewise
  const float* kind;         // [kinds, H]
  const float* turn;         // [P, H]
  const float* ego;          // [egos, C D + G]
  const float* pair_scale;   // [M]
  const float* of_pairs;     // [pair_dim]
  const float* support;      // [bins], padded with zeros

  const int32_t* touched;    // [A, K] places
  const int32_t* present;    // [A, K] whether the entry counts
  const int32_t* source;     // [A, P, S] old place, or S + k
  const int32_t* blocks_of;  // [A, touched_blocks], -1: none
  const int32_t* kind_of;    // [A]
  const int32_t* said;       // [said_from[A]] places in roles that speak of an action, place * roles + role
  const int32_t* said_from;  // [A + 1]
  const int32_t* both;       // [both_from[A], 2] pairs of them
  const int32_t* both_from;  // [A + 1]

  BELIEF_INLINE int rest_dim() const { return shared * slot_dim + global_dim; }
  BELIEF_INLINE int entries() const { return touches + shared; }
  BELIEF_INLINE int latent_dim() const { return slots * slot_dim + players * player_dim + rest_dim(); }
  BELIEF_INLINE int pooled() const { return slot_hidden * (pairs ? 2 : 1) + player_dim; }
};

// What a simulation step asks for, row by row.
struct Job {
  float* latents;  // [nodes, batch, L]
  int64_t batch;
  const int64_t *parent, *action, *shift, *to_play;  // [count]
  int64_t count;
  int64_t first, games;  // row r becomes node first + r / games of game r % games
  float* outputs;        // [count, A + 2 values]
  bool only_root;        // one value, the root player's; else one per player
};

constexpr int kAlign = 16;  // sizes of parts are multiples of it
constexpr int kTile = 48;   // rows computed together

// How the step is computed on some kind of CPU.
struct Kernel {
  const char* name;
  int width;                           // floats in a vector
  int panel;                           // vectors in a panel
  bool bf16;                           // products of bfloat16 numbers, added up in single precision
  int64_t (*scratch)(const Network&);  // bytes
  void (*run)(const Network&, const Job&, void* scratch);
};

// Those for AVX-512 are compiled where BELIEF_AVX512 is defined.
extern const Kernel kernel_base, kernel_avx512, kernel_bf16;

}  // namespace slot_step
