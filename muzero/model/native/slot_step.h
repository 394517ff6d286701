// The recurrent step of a slots network on a CPU: the latent after an action, and the network's outputs for it.
//
// muzero/model/slots.py defines the network; layers have the same names here. muzero/model/native/slot_step.py hands
// the weights over. Every row is computed on its own, in an order that depends on the network alone: the same row gives
// the same bytes in any batch.
#pragma once

#include <cstdint>

#define BELIEF_INLINE inline __attribute__((always_inline))

namespace slot_step {

// Weights of a linear layer, packed for a kernel: panels of up to Kernel::panel vectors of outputs; in each panel input
// by input (bfloat16: pairs of inputs).
struct Linear {
  const void* weights = nullptr;
  const float* bias = nullptr;  // biases of all outputs; zeros if the layer has none
  int inputs = 0;
  int outputs = 0;  // number of outputs: a multiple of kAlign, as the rows of results are
};

struct LayerNorm {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

// Weights and indices of SlotDynamics.
struct Dynamics {
  Linear slot_in, compare, pass_on, hidden, consequences, slot_out;
  Linear rest_in_and_gather;  // one product for two layers whose outputs are added
  LayerNorm slot_norm, player_norm, rest_norm;
  const float* role;         // [A, E, M] embedding of each entry's role
  const float* role_factor;  // [A, E, M] factors of each entry's role, 0 where the entry does not count
  const float* moved;        // [A, E, E] weights of old entries in new ones, 0 where the old one does not count
  const float* outcome;      // [O, D] cards that chance events show, 0 for code 0
  const float* kind;         // [kinds, H] embeddings of the kinds of actions
  const float* turn;         // [P, H] embeddings of the turn
  const int32_t* touched;    // [A, K] places that an action touches
  const int32_t* present;    // [A, K] whether the entry counts
  const int32_t* source;     // [A, P, S] old place of each slot, or S + k
  const int32_t* kinds;      // [A] kind of each action
};

// Weights and indices of SlotTrunk.
struct Trunk {
  Linear slot, block, boards, rest, mix;
  const float* pair_scale;   // [M] factors of the products of pairs
  const int32_t* blocks_of;  // [A, touched_blocks] blocks that an action touches; -1 for none
};

// Weights and indices of SlotPolicy.
struct Policy {
  Linear slot, block, score, in_role;
  Linear kind_and_context;       // the layers `kind` and `context` in one product
  const float* of_pairs;         // [pair_dim] weights of the products of pairs
  const int32_t* said_by;        // [said_by_start[A]] (place, role) pairs that score an action, as place * roles + role
  const int32_t* said_by_start;  // [A + 1] where each action's part of said_by starts
  const int32_t* together;       // [together_start[A], 2] (place, role) pairs that score an action by their product
  const int32_t* together_start;  // [A + 1] where each action's part of together starts
};

// Sizes are named as in slots.py: P players, S slots, D slot, V player, C shared cards, G global part, M hidden units
// of a slot, H hidden units, A actions, K slots touched by an action, O outcome codes of chance events, E entries that the
// dynamics update together: the touched slots, the shared cards and, if O > 1, the card that a chance event shows.
struct Network {
  int players, slots, slot_dim, player_dim, shared, global_dim, slot_hidden, hidden, actions;
  int bins;            // bins of the support, padded to kAlign with bins of probability 0
  int touches;         // K, slots touched by an action
  int touched_blocks;  // largest number of blocks that an action touches
  int blocks;          // blocks of a player
  int block_size;      // slots of a block
  int kinds;           // kinds of actions, padded to kAlign
  int roles;
  int outcomes;  // O; 1 if the dynamics are told no outcomes
  int scored;    // number of places that some action touches
  int egos;      // number of egos: P with ego conditioning, otherwise 1
  bool turns;    // whether an ego is shown its own board first
  bool pairs;    // whether boards read products of pairs of their slots
  int pair_dim;  // size of the vector of a slot in a role that is compared with other slots; 0: slots are not compared

  Dynamics dynamics;
  Trunk trunk;
  Policy policy;
  Linear value, reward, outcome;  // heads; `outcome` only if O > 1
  LayerNorm condition;
  const float* ego;      // [egos, C D + G] sum of the embeddings that the conditioning adds for each ego
  const float* support;  // [bins] values of the support, padded with zeros

  BELIEF_INLINE int rest_dim() const { return shared * slot_dim + global_dim; }
  BELIEF_INLINE bool told() const { return outcomes > 1; }
  BELIEF_INLINE int entries() const { return touches + shared + (told() ? 1 : 0); }
  BELIEF_INLINE int outcome_logits() const { return told() ? outcomes : 0; }
  BELIEF_INLINE int latent_dim() const { return slots * slot_dim + players * player_dim + rest_dim(); }
  BELIEF_INLINE int pooled() const { return slot_hidden * (pairs ? 2 : 1) + player_dim; }
};

// Rows that one simulation step of a search asks for.
struct Job {
  float* latents;  // [nodes, batch, L] latents of all nodes
  int64_t batch;
  const int64_t *parent, *action, *shift, *outcome, *to_play;  // [count] requests of the search
  int64_t count;
  int64_t first, games;  // row r becomes node first + r / games of game r % games
  float* outputs;        // [count, A + O + 2 values] logits, outcome logits (none if O = 1), values, rewards
  bool only_heads;       // whether the latents of the rows are there already and only outputs are wanted
  bool only_root;        // whether only the root player's value is wanted; otherwise one value per player
};

constexpr int kAlign = 16;  // alignment: sizes of parts are multiples of it
constexpr int kTile = 48;   // rows computed together

// Code for one kind of CPU.
struct Kernel {
  const char* name;
  int width;                           // floats in a vector
  int panel;                           // vectors in a panel
  bool bf16;                           // whether products are of bfloat16 numbers, added up in single precision
  int64_t (*scratch)(const Network&);  // bytes of memory that `run` needs
  void (*run)(const Network&, const Job&, void* scratch);
};

// The kernels for AVX-512 are compiled where BELIEF_AVX512 is defined, the one for AVX2 where BELIEF_AVX2 is: where
// everything else, the base kernel too, is compiled for any CPU.
extern const Kernel kernel_base, kernel_avx2, kernel_avx512, kernel_bf16;

}  // namespace slot_step
