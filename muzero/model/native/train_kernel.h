// Functions of a kernel for the learner. Included by one source file per kind of CPU; slot_vectors.h says what that
// forbids.
#pragma once

#include "muzero/model/native/train_dynamics.h"
#include "muzero/model/native/train_encoder.h"
#include "muzero/model/native/train_heads.h"
#include "muzero/model/native/train_losses.h"

namespace slot_step {
namespace {

template <class Saved, class Part>
int64_t floats_saved(const Part& part) {
  return Saved(part, nullptr).bytes / static_cast<int64_t>(sizeof(float));
}

template <class Work, class Part>
int64_t scratch_bytes(const Part& part) {
  return Work(part, nullptr).bytes;
}

template <class Chunk, class Part, class Rows>
void chunk_forward(const Part& part, const Rows& rows, float* saved, void* scratch) {
  Chunk(part, rows, saved, scratch).run_forward();
}

template <class Chunk, class Part, class Rows>
void chunk_backward(const Part& part, const Rows& rows, float* saved, float* gradient, void* scratch) {
  Chunk(part, rows, saved, scratch).run_backward(gradient);
}

void losses_forward(const LossPart& part, const LossRows& rows) { LossChunk(part, rows).run_forward(); }

void losses_backward(const LossPart& part, const LossRows& rows) { LossChunk(part, rows).run_backward(); }

void visible_forward(const VisiblePart& part, const VisibleRows& rows) { VisibleChunk(part, rows).run_forward(); }

void visible_backward(const VisiblePart& part, const VisibleRows& rows) { VisibleChunk(part, rows).run_backward(); }

constexpr TrainKernel train_kernel(const char* name) {
  return {name,
          kWidth,
          kPanel,
          floats_saved<EncoderSaved, EncoderPart>,
          scratch_bytes<EncoderWork, EncoderPart>,
          chunk_forward<EncoderChunk, EncoderPart, EncoderRows>,
          chunk_backward<EncoderChunk, EncoderPart, EncoderRows>,
          floats_saved<DynamicsSaved, DynamicsPart>,
          scratch_bytes<DynamicsWork, DynamicsPart>,
          chunk_forward<DynamicsChunk, DynamicsPart, DynamicsRows>,
          chunk_backward<DynamicsChunk, DynamicsPart, DynamicsRows>,
          floats_saved<HeadsSaved, HeadsPart>,
          scratch_bytes<HeadsWork, HeadsPart>,
          chunk_forward<HeadsChunk, HeadsPart, HeadsRows>,
          chunk_backward<HeadsChunk, HeadsPart, HeadsRows>,
          losses_forward,
          losses_backward,
          visible_forward,
          visible_backward};
}

}  // namespace
}  // namespace slot_step
