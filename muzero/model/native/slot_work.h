// Memory for the intermediate results of a tile of rows. Included by one source file per kind of CPU; see
// slot_vectors.h.
#pragma once

#include "muzero/model/native/slot_vectors.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __asan_poison_memory_region(void const volatile*, unsigned long);
extern "C" void __asan_unpoison_memory_region(void const volatile*, unsigned long);
#endif

namespace slot_step {
namespace {

// Hands out consecutive pieces of memory; without memory, only counts the bytes.
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

// Intermediate results, named as in the torch modules where they have a name there. A name in `_act` is the input of a
// product, which bfloat16 kernels keep in bfloat16; T rows of a tile, E entries that the dynamics update together.
struct Work {
  Work(const Network& n, void* memory) {
    Scratch s(memory);
    const int64_t T = kTile, D = n.slot_dim, M = n.slot_hidden, H = n.hidden, E = n.entries(), C = n.shared;
    const int64_t P = n.players, B = n.touched_blocks, Z = n.block_size, egos = n.egos > 2 ? n.egos : 2;
    const int64_t blocks = B > P * n.blocks ? B : P * n.blocks;
    latent_and_summary_act = s.take<Act>(T * n.dynamics.rest_in_and_gather.inputs);
    old = s.take<float>(T * E * D);
    old_act = s.take<Act>(T * E * D);
    touched_slots_act = s.take<Act>(T * B * Z * D);
    touched_slots_seen = s.take<float>(T * B * Z * M);
    shared_seen = s.take<float>(T * C * M);
    block_parts_act = s.take<Act>(T * blocks * (2 + C) * M);
    blocks_out = s.take<float>(T * blocks * M);
    seen = s.take<float>(T * E * M);
    compared = s.take<float>(T * M);
    hidden = s.take<float>(T * H);
    hidden_act = s.take<Act>(T * H);
    consequences = s.take<float>(T * n.dynamics.consequences.outputs);
    passed_on = s.take<float>(T * M);
    slot_out_act = s.take<Act>(T * E * M);
    slot_change = s.take<float>(T * E * D);
    new_slots = s.take<float>(E * D);
    slots_act = s.take<Act>(T * n.slots * D);
    slots_seen = s.take<float>(T * n.slots * M);
    shared_act = s.take<Act>(T * C * D);
    pooled_act = s.take<Act>(T * P * n.pooled());
    turned_act = s.take<Act>(T * P * n.pooled());
    boards_out = s.take<float>(T * H);
    rest = s.take<float>(n.rest_dim());
    conditioned_act = s.take<Act>(T * egos * n.rest_dim());
    features = s.take<float>(T * egos * H);
    features_act = s.take<Act>(T * egos * H);
    mixed = s.take<float>(T * egos * H);
    numbers = s.take<float>(T * egos * n.value.outputs);
    outcomes = s.take<float>(T * (n.told() ? n.outcome.outputs : 0));
    kind_and_context = s.take<float>(T * n.policy.kind_and_context.outputs);
    blocks_act = s.take<Act>(T * P * n.blocks * M);
    around = s.take<float>(T * P * n.blocks * M);
    scores = s.take<float>(T * n.scored * n.policy.score.outputs);
    policy_hidden_act = s.take<Act>(T * n.scored * M);
    in_role = s.take<float>(T * n.scored * (n.pair_dim ? n.policy.in_role.outputs : 0));
    bytes = s.used();
  }

  // Results of the dynamics.
  Act *latent_and_summary_act, *old_act, *touched_slots_act, *hidden_act, *slot_out_act;
  float *old, *touched_slots_seen, *seen, *compared, *hidden, *consequences, *passed_on, *slot_change, *new_slots;
  // Results of the trunk.
  Act *block_parts_act, *slots_act, *shared_act, *pooled_act, *turned_act, *conditioned_act, *features_act, *blocks_act;
  float *shared_seen, *blocks_out, *slots_seen, *boards_out, *rest, *features, *mixed;
  // Results of the heads.
  Act* policy_hidden_act;
  float *numbers, *outcomes, *kind_and_context, *around, *scores, *in_role;
  int64_t bytes;
};

}  // namespace
}  // namespace slot_step
