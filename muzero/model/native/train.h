// Forward and backward passes of the parts of a slots network on a CPU, for the learner.
//
// muzero/model/slots.py and muzero/model/encoders.py define the network; layers have the same names here.
// muzero/model/native/slot_training.py hands parameters over and takes gradients back. A part (encoder, dynamics, heads)
// has its parameters in one array, in the order of `Layout`; gradients have the same order. Rows are computed in chunks
// of kTile, and everything that the backward pass needs again is saved chunk by chunk.
#pragma once

#include "muzero/model/native/slot_step.h"

namespace slot_step {

// Linear layer y = x W + b. Its parameters and gradients begin at `at`: W [inputs, outputs], then b [outputs].
struct Layer {
  Linear forward;   // W, packed
  Linear backward;  // W transposed, packed
  int64_t at = 0;
  bool biased = false;
};

// LayerNorm: weight [size], then bias [size], from `at` on.
struct Norm {
  LayerNorm forward;
  int64_t at = 0;
};

// Embeddings or other numbers that are looked up: the parameters themselves, from `at` on.
struct Numbers {
  const float* data = nullptr;
  int64_t at = 0;
};

// Parameters of ColumnsEncoder, and indices into observations. A token is the sum of the table's rows
// `obs[column] + shift` over its fields.
struct EncoderPart {
  const Network* net;
  int width;  // W, size of a token
  int row;    // numbers of an observation
  int table_rows;
  int slot_fields;                          // fields of a slot's token
  int others, own;                          // number of tokens of nobody, and of each player beside slots
  int alike_rows;                           // rows of `alike`; 0 without it
  int code_first, codes;                    // first row of the table for cards, and number of their codes
  const int32_t *slot_column, *slot_shift;  // [S, slot_fields], slots in the order of latents
  const int32_t *other_start, *other_column, *other_shift;  // start [others + 1] of each token's fields
  const int32_t *own_start, *own_column, *own_shift;        // start [P own + 1], tokens player by player
  const int32_t* card_column;                               // [S] column of each slot's card
  const int32_t* shared_column;                             // [C] column of each shared card
  Numbers table, alike, place;                              // [rows, W], [alike_rows, W], [C, W]
  Layer block, slot_own, slot_block, to_slot, rest_in, rest_out, player_in, player_out;
  Norm slot_norm, rest_norm, player_norm;
};

// Parameters of SlotDynamics, and the two layers of SlotTrunk that it uses.
struct DynamicsPart {
  const Network* net;
  Layer slot_in, compare, pass_on, rest_in, gather, hidden, consequences, slot_out, trunk_slot, trunk_block;
  Norm slot_norm, player_norm, rest_norm;
  Numbers role, role_factor;  // [A, E, M]
  Numbers moved;              // [A, K + C, E]
  Numbers kind, turn;         // [kinds, H], [P, H]
  Numbers outcome;            // [O, D]
};

// Parameters of EgoConditioning, SlotTrunk, SlotPolicy and the heads that are linear layers.
struct HeadsPart {
  const Network* net;
  int numbers;   // outputs of all heads of an ego together, padded
  int outcomes;  // outputs of the outcome head, padded; 0 without it
  Layer slot, block, boards, rest, mix;
  Layer all_numbers, outcome;
  Layer kind_and_context, policy_slot, policy_block, score;
  Layer in_role;  // only where slots are compared
  Norm condition;
  Numbers ego;         // [egos, C D + G]
  Numbers pair_scale;  // [M], only where boards read products of pairs of their slots
  Numbers of_pairs;    // [pair_dim], only where slots are compared
};

// One chunk of rows of each part. Pointers are to the chunk's first row; gradients of results come in with names in d_,
// and so do gradients of inputs go out.
struct EncoderRows {
  const int16_t* obs;  // [rows, row]
  int rows;
  float* latent;          // [rows, L]
  const float* d_latent;  // [rows, L]
};

struct DynamicsRows {
  const float* latent;  // [rows, L]
  const int64_t *action, *shift, *outcome;
  int rows;
  float* next;          // [rows, L]
  const float* d_next;  // [rows, L]
  float* d_latent;      // [rows, L]
};

struct HeadsRows {
  const float* latent;  // [rows, L]
  int rows;
  float *policy, *numbers, *outcome, *blocks, *own;                  // [rows, A], [rows, egos, numbers], ...
  const float *d_policy, *d_numbers, *d_outcome, *d_blocks, *d_own;  // the last three may be null
  float* d_latent;
};

constexpr int kMostPlayers = 8;
constexpr int kLosses = 7;  // kinds of losses of head_losses.py: policy, value, reward, winner, rank, points, outcome

// Range of the numbers that bins stand for.
struct Bins {
  float low, high;
};

// Sizes of what the losses of head_losses.py are computed from. `numbers` has for each ego: logits of values, rewards,
// points, winner and ranks.
struct LossPart {
  int actions, players, egos;
  int bins;                       // of each value, reward and number of points
  int numbers;                    // logits of an ego, padded
  int outcomes, outcome_columns;  // of chance events; columns are padded
  bool points, ranks;             // whether there are heads of points, and of winner and ranks
  Bins values, point_values;
};

// One chunk of predictions and targets; targets that are null are not compared. Losses and their gradients stand kind by
// kind, `stride` numbers apart.
struct LossRows {
  int rows;
  int64_t stride;
  const float *policy, *numbers, *outcome;
  const float *policy_target, *value_target, *reward_target, *winner_target, *rank_target, *points_target;
  const int64_t* outcome_target;
  const float* shares;  // [rows, P] or [P]
  int shares_step;
  float *losses, *value;
  const float* d_losses;
  float *d_policy, *d_numbers, *d_outcome;
};

// What SlotDecoder predicts of an observation: the fields of each slot, and how many cards of each block equal each shared
// card. Indices are columns of observations.
struct VisiblePart {
  int slots, fields, logits;            // logits of a slot: those of all its fields
  const int32_t* vocabulary;            // [fields]
  const int32_t* column;                // [S, fields]
  int blocks, block_size, shared;       // blocks of all players; shared is 0 if nothing is compared with shared cards
  const int32_t *card, *shared_column;  // [blocks, block_size], [shared]
  int row;                              // numbers of an observation
};

struct VisibleRows {
  int rows;
  const float *fields, *matches;  // [rows, S, logits], [rows, blocks, shared, block_size]
  const int16_t* obs;
  float* loss;
  const float* d_loss;
  float *d_fields, *d_matches;
};

// Code for one kind of CPU. Sizes are for one chunk: `saved` in floats, `scratch` in bytes.
struct TrainKernel {
  const char* name;
  int width, panel;
  int64_t (*encoder_saved)(const EncoderPart&);
  int64_t (*encoder_scratch)(const EncoderPart&);
  void (*encoder_forward)(const EncoderPart&, const EncoderRows&, float* saved, void* scratch);
  void (*encoder_backward)(const EncoderPart&, const EncoderRows&, float* saved, float* gradient, void* scratch);
  int64_t (*dynamics_saved)(const DynamicsPart&);
  int64_t (*dynamics_scratch)(const DynamicsPart&);
  void (*dynamics_forward)(const DynamicsPart&, const DynamicsRows&, float* saved, void* scratch);
  void (*dynamics_backward)(const DynamicsPart&, const DynamicsRows&, float* saved, float* gradient, void* scratch);
  int64_t (*heads_saved)(const HeadsPart&);
  int64_t (*heads_scratch)(const HeadsPart&);
  void (*heads_forward)(const HeadsPart&, const HeadsRows&, float* saved, void* scratch);
  void (*heads_backward)(const HeadsPart&, const HeadsRows&, float* saved, float* gradient, void* scratch);
  void (*losses_forward)(const LossPart&, const LossRows&);
  void (*losses_backward)(const LossPart&, const LossRows&);
  void (*visible_forward)(const VisiblePart&, const VisibleRows&);
  void (*visible_backward)(const VisiblePart&, const VisibleRows&);
};

extern const TrainKernel train_kernel_base, train_kernel_avx2, train_kernel_avx512;

}  // namespace slot_step
