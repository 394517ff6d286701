// The weights of a slots network, laid out for a kernel, and checks of everything that Python hands over.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "muzero/model/native/slot_step.h"
#include "native/flush.h"

namespace slot_step {

// The kernels that this CPU can run: the fastest for single precision first, the one for bfloat16, if any, last.
inline std::vector<const Kernel*> kernels() {
  std::vector<const Kernel*> found;
#if defined(BELIEF_AVX512)
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
  if (wide) found.push_back(&kernel_avx512);
#endif
#if defined(BELIEF_AVX2)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
    found.push_back(&kernel_avx2);
  }
#endif
  found.push_back(&kernel_base);
#if defined(BELIEF_AVX512)
  if (wide && __builtin_cpu_supports("avx512bf16")) found.push_back(&kernel_bf16);
#endif
  return found;
}

inline const Kernel& kernel_named(const std::string& name) {
  std::string known;
  for (const Kernel* kernel : kernels()) {
    if (kernel->name == name) return *kernel;
    known += (known.empty() ? "" : ", ") + std::string(kernel->name);
  }
  throw std::invalid_argument("kernel: expected one of " + known + ", got '" + name + "'");
}

// Array of any shape, stored row by row.
template <class T>
struct Table {
  const T* data = nullptr;
  int64_t size = 0;
};

using Sizes = std::map<std::string, int>;
using Floats = std::map<std::string, Table<float>>;
using Indices = std::map<std::string, Table<int32_t>>;

class SlotNetwork {
 public:
  // Sizes and indices are named as the fields of Network; weights come with `load`.
  SlotNetwork(const Kernel& kernel, const Sizes& sizes, const Indices& indices) : kernel_(kernel), net_() {
    const auto size = [&](const char* name, int low, int multiple = 1) {
      const auto found = sizes.find(name);
      if (found == sizes.end()) throw std::invalid_argument(std::string("sizes: ") + name + " is missing");
      if (found->second < low || found->second % multiple) {
        throw std::invalid_argument(std::string(name) + ": expected a multiple of " + std::to_string(multiple) +
                                    ", at least " + std::to_string(low) + ", got " + std::to_string(found->second));
      }
      return found->second;
    };
    Network& n = net_;
    n.players = size("players", 1);
    n.slots = size("slots", 1);
    n.slot_dim = size("slot_dim", kAlign, kAlign);
    n.player_dim = size("player_dim", 0, kAlign);
    n.shared = size("shared", 0);
    n.global_dim = size("global_dim", kAlign, kAlign);
    n.slot_hidden = size("slot_hidden", kAlign, kAlign);
    n.hidden = size("hidden", kAlign, kAlign);
    n.actions = size("actions", 1);
    n.bins = size("bins", kAlign, kAlign);
    n.touches = size("touches", 1);
    n.touched_blocks = size("touched_blocks", 1);
    n.blocks = size("blocks", 1);
    n.block_size = size("block_size", 1);
    n.kinds = size("kinds", kAlign, kAlign);
    n.roles = size("roles", 1);
    n.outcomes = size("outcomes", 1);
    n.scored = size("scored", 0);
    n.egos = size("egos", 1);
    n.turns = size("turns", 0) != 0;
    n.pairs = size("pairs", 0) != 0;
    n.pair_dim = size("pair_dim", 0, kAlign);
    if (n.players * n.blocks * n.block_size != n.slots)
      throw std::invalid_argument("slots: expected players x blocks x block_size");
    if (n.egos != 1 && n.egos != n.players) throw std::invalid_argument("egos: expected 1 or one per player");
    if (n.scored > n.slots) throw std::invalid_argument("scored: expected at most as many as slots");

    const int A = n.actions, K = n.touches, R = n.scored * n.roles;
    n.dynamics.touched = keep(indices, "dynamics.touched", A * K, 0, n.slots);
    n.dynamics.present = keep(indices, "dynamics.present", A * K, 0, 2);
    n.dynamics.source = keep(indices, "dynamics.source", A * n.players * n.slots, 0, n.slots + K);
    n.dynamics.kinds = keep(indices, "dynamics.kinds", A, 0, n.kinds);
    n.trunk.blocks_of = keep(indices, "trunk.blocks_of", A * n.touched_blocks, -1, n.players * n.blocks);
    n.policy.said_by_start = keep_starts(indices, "policy.said_by_start");
    n.policy.said_by = keep(indices, "policy.said_by", n.policy.said_by_start[A], 0, R);
    n.policy.together_start = keep_starts(indices, "policy.together_start");
    n.policy.together = keep(indices, "policy.together", 2 * n.policy.together_start[A], 0, R);
  }

  SlotNetwork(const SlotNetwork&) = delete;
  SlotNetwork& operator=(const SlotNetwork&) = delete;

  // Takes the network's weights, or newer ones. The weights of a layer are NAME.weight [outputs, inputs] and, unless it
  // has no bias, NAME.bias.
  void load(const Floats& floats) {
    Network& n = net_;
    const int A = n.actions, E = n.entries(), M = n.slot_hidden, H = n.hidden, D = n.slot_dim, R = n.rest_dim();
    const int V = n.players * n.player_dim, C = n.shared, heads = n.egos > 1 ? 1 : n.players;

    Dynamics& dynamics = n.dynamics;
    dynamics.slot_in = linear(floats, "dynamics.slot_in", D, M);
    dynamics.compare = linear(floats, "dynamics.compare", R, M);
    if (C) dynamics.pass_on = linear(floats, "dynamics.pass_on", C * D, M);
    dynamics.rest_in_and_gather = linear(floats, "dynamics.rest_in_and_gather", V + R + 4 * M, H);
    dynamics.hidden = linear(floats, "dynamics.hidden", H, H);
    dynamics.consequences = linear(floats, "dynamics.consequences", H, n.global_dim + M + V);
    dynamics.slot_out = linear(floats, "dynamics.slot_out", M, D);
    dynamics.slot_norm = layer_norm(floats, "dynamics.slot_norm", D);
    if (n.player_dim) dynamics.player_norm = layer_norm(floats, "dynamics.player_norm", n.player_dim);
    dynamics.rest_norm = layer_norm(floats, "dynamics.rest_norm", n.global_dim);
    dynamics.role = keep(floats, "dynamics.role", A * E * M);
    dynamics.role_factor = keep(floats, "dynamics.role_factor", A * E * M);
    dynamics.moved = keep(floats, "dynamics.moved", A * E * E);
    dynamics.kind = keep(floats, "dynamics.kind", n.kinds * H);
    dynamics.turn = keep(floats, "dynamics.turn", n.players * H);
    dynamics.outcome = keep(floats, "dynamics.outcome", n.told() ? n.outcomes * D : 0);

    Trunk& trunk = n.trunk;
    trunk.slot = linear(floats, "trunk.slot", D, M);
    trunk.block = linear(floats, "trunk.block", (2 + C) * M, M);
    trunk.boards = linear(floats, "trunk.boards", n.players * n.pooled(), H);
    trunk.rest = linear(floats, "trunk.rest", R, H);
    trunk.mix = linear(floats, "trunk.mix", H, H);
    trunk.pair_scale = keep(floats, "trunk.pair_scale", n.pairs ? M : 0);

    Policy& policy = n.policy;
    policy.kind_and_context = linear(floats, "policy.kind_and_context", H, n.kinds + 2 * M);
    policy.slot = linear(floats, "policy.slot", D, M);
    policy.block = linear(floats, "policy.block", M, M);
    policy.score = linear(floats, "policy.score", M, n.roles);
    if (n.pair_dim) policy.in_role = linear(floats, "policy.in_role", D, n.roles * n.pair_dim);
    policy.of_pairs = keep(floats, "policy.of_pairs", n.pair_dim);

    n.value = linear(floats, "value", H, heads * n.bins);
    n.reward = linear(floats, "reward", H, heads * n.bins);
    if (n.told()) n.outcome = linear(floats, "outcome", H, n.outcomes);
    n.condition = layer_norm(floats, "condition.norm", R);
    n.ego = keep(floats, "condition.ego", n.egos * R);
    n.support = keep(floats, "support", n.bins);
    loaded_ = true;
  }

  const Network& network() const { return net_; }
  const Kernel& kernel() const { return kernel_; }

  // Computes the rows of a job; denormal numbers count as 0. Several threads may call this at once.
  void run(const Job& job) const {
    if (!loaded_) throw std::logic_error("load weights first");
    for (int64_t r = 0; r < job.count && !job.only_heads; ++r) {
      const bool known = job.parent[r] >= 0 && job.parent[r] < job.first * job.batch && job.action[r] >= 0 &&
                         job.action[r] < net_.actions && job.shift[r] >= 0 && job.shift[r] < net_.players &&
                         job.outcome[r] >= 0 && job.outcome[r] < net_.outcomes && job.to_play[r] >= 0 &&
                         job.to_play[r] < net_.players;
      if (!known) {
        throw std::out_of_range("row " + std::to_string(r) +
                                ": no such parent, action, shift, outcome or player: " + std::to_string(job.parent[r]) +
                                ", " + std::to_string(job.action[r]) + ", " + std::to_string(job.shift[r]) + ", " +
                                std::to_string(job.outcome[r]) + ", " + std::to_string(job.to_play[r]));
      }
    }
    thread_local std::unique_ptr<char[]> memory;
    thread_local size_t size = 0;
    const auto wanted = static_cast<size_t>(kernel_.scratch(net_)) + 64;
    if (size < wanted) {
      memory.reset(new char[wanted]);
      size = wanted;
    }
    const auto at = reinterpret_cast<uintptr_t>(memory.get());
    const native::FlushDenormals flush;
    kernel_.run(net_, job, memory.get() + (64 - at % 64));
  }

 private:
  template <class T>
  static const Table<T>& entry(const std::map<std::string, Table<T>>& tables, const std::string& name, int64_t size) {
    const auto found = tables.find(name);
    if (found == tables.end()) throw std::invalid_argument(name + " is missing");
    if (found->second.size != size) {
      throw std::invalid_argument(name + ": expected " + std::to_string(size) + " numbers, got " +
                                  std::to_string(found->second.size));
    }
    return found->second;
  }

  const int32_t* keep(const Indices& tables, const std::string& name, int64_t size, int low, int end) {
    const Table<int32_t>& table = entry(tables, name, size);
    for (int64_t i = 0; i < size; ++i) {
      if (table.data[i] < low || table.data[i] >= end) {
        throw std::invalid_argument(name + ": expected numbers from " + std::to_string(low) + " to " +
                                    std::to_string(end - 1) + ", got " + std::to_string(table.data[i]));
      }
    }
    std::vector<int32_t>& kept = indices_[name];
    kept.assign(table.data, table.data + size);
    return kept.data();
  }

  // Start of each action's part of a list, and the end of the last part.
  const int32_t* keep_starts(const Indices& tables, const std::string& name) {
    const int32_t* starts = keep(tables, name, net_.actions + 1, 0, 1 << 24);
    for (int a = 0; a < net_.actions; ++a) {
      if (starts[0] != 0 || starts[a] > starts[a + 1])
        throw std::invalid_argument(name + ": expected ascending numbers");
    }
    return starts;
  }

  const float* keep(const Floats& tables, const std::string& name, int64_t size) {
    const Table<float>& table = entry(tables, name, size);
    std::vector<float>& kept = floats_[name];
    kept.assign(table.data, table.data + size);
    return kept.data();
  }

  LayerNorm layer_norm(const Floats& floats, const std::string& name, int size) {
    return {keep(floats, name + ".weight", size), keep(floats, name + ".bias", size)};
  }

  // Packs weights: [outputs, inputs] as torch lays them out -> panels, outputs padded with zeros.
  Linear linear(const Floats& floats, const std::string& name, int inputs, int outputs) {
    const float* w = entry(floats, name + ".weight", int64_t{inputs} * outputs).data;
    const int padded = (outputs + kAlign - 1) / kAlign * kAlign, width = kernel_.width, pair = kernel_.bf16 ? 2 : 1;
    const auto count = static_cast<size_t>(inputs) * static_cast<size_t>(padded);
    std::vector<char>& packed = packed_[name];
    packed.resize(count * (kernel_.bf16 ? 2 : 4));
    char* to = packed.data();
    for (int first = 0; first < padded;) {
      const int vectors = std::min((padded - first) / width, kernel_.panel);
      for (int k = 0; k < inputs; k += pair) {
        for (int out = first; out < first + vectors * width; ++out) {
          for (int i = k; i < k + pair; ++i) {
            const float number = out < outputs ? w[int64_t{out} * inputs + i] : 0.0f;
            if (kernel_.bf16) {
              const uint16_t half = rounded(number);
              std::memcpy(to, &half, 2);
            } else {
              std::memcpy(to, &number, 4);
            }
            to += kernel_.bf16 ? 2 : 4;
          }
        }
      }
      first += vectors * width;
    }
    std::vector<float>& bias = floats_[name + ".bias"];
    bias.assign(static_cast<size_t>(padded), 0.0f);
    if (floats.count(name + ".bias")) {
      std::memcpy(bias.data(), entry(floats, name + ".bias", outputs).data,
                  sizeof(float) * static_cast<size_t>(outputs));
    }
    return {packed.data(), bias.data(), inputs, padded};
  }

  // Rounds to the nearest bfloat16, ties to even.
  static uint16_t rounded(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if (x != x) return 0x7fff;  // NaN stays NaN
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }

  const Kernel& kernel_;
  Network net_;
  bool loaded_ = false;
  std::map<std::string, std::vector<char>> packed_;
  std::map<std::string, std::vector<float>> floats_;
  std::map<std::string, std::vector<int32_t>> indices_;
};

}  // namespace slot_step
