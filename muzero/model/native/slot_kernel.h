// Kernel of the whole step. Included by one source file per kind of CPU; slot_vectors.h says what that forbids.
#pragma once

#include "muzero/model/native/slot_dynamics.h"
#include "muzero/model/native/slot_heads.h"

namespace slot_step {
namespace {

int64_t scratch(const Network& net) { return Work(net, nullptr).bytes; }

void run(const Network& net, const Job& job, void* memory) {
  const Work work(net, memory);
  for (int64_t from = 0; from < job.count; from += kTile) {
    const int64_t left = job.count - from;
    const Tile tile{net, job, work, from, static_cast<int>(left < kTile ? left : kTile)};
    if (!job.only_heads) DynamicsTile(tile).run();
    HeadsTile(tile).run();
  }
}

}  // namespace
}  // namespace slot_step
