// Sizes, indices and weights of random slots networks, for fuzz tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muzero/model/native/slot_network.h"
#include "native/rng.h"

namespace slot_step {

struct Junk {
  native::Rng rng;

  int below(int n) { return static_cast<int>(rng.below(static_cast<uint32_t>(n))); }
  int between(int low, int high) { return low + below(high - low + 1); }
  float number() { return 2 * static_cast<float>(rng.uniform()) - 1; }
};

// Sizes, indices and weights of a network, as Python hands them over.
struct Parts {
  Sizes sizes;
  std::map<std::string, std::vector<int32_t>> indices;
  std::map<std::string, std::vector<float>> floats;

  Indices index_tables() const {
    Indices tables;
    for (const auto& [name, numbers] : indices) tables[name] = {numbers.data(), static_cast<int64_t>(numbers.size())};
    return tables;
  }
  Floats float_tables() const {
    Floats tables;
    for (const auto& [name, numbers] : floats) tables[name] = {numbers.data(), static_cast<int64_t>(numbers.size())};
    return tables;
  }
};

inline Parts random_parts(Junk& junk) {
  Parts parts;
  Sizes& s = parts.sizes;
  s["players"] = junk.between(1, 4);
  s["blocks"] = junk.between(1, 4);
  s["block_size"] = junk.between(1, 3);
  s["slots"] = s["players"] * s["blocks"] * s["block_size"];
  s["slot_dim"] = kAlign * junk.between(1, 2);
  s["player_dim"] = kAlign * junk.between(0, 2);
  s["shared"] = junk.between(0, 2);
  s["global_dim"] = kAlign * junk.between(1, 4);
  s["slot_hidden"] = kAlign * junk.between(1, 3);
  s["hidden"] = kAlign * junk.between(1, 7);
  s["actions"] = junk.between(1, 20);
  s["bins"] = kAlign * junk.between(1, 3);
  s["touches"] = junk.between(1, std::min(4, s["slots"]));
  s["touched_blocks"] = junk.between(1, 3);
  s["kinds"] = kAlign;
  s["roles"] = junk.between(1, 5);
  s["outcomes"] = junk.below(2) ? junk.between(2, 20) : 1;
  s["scored"] = junk.between(0, s["slots"]);
  s["egos"] = junk.below(2) ? s["players"] : 1;
  s["turns"] = junk.below(2);
  s["pairs"] = junk.below(2);
  s["pair_dim"] = kAlign * junk.below(2);

  const int A = s["actions"], K = s["touches"], S = s["slots"], P = s["players"];
  const auto fill = [&](const char* name, int count, int low, int end) {
    for (int i = 0; i < count; ++i) parts.indices[name].push_back(junk.between(low, end - 1));
    parts.indices[name];
  };
  fill("dynamics.touched", A * K, 0, S);
  fill("dynamics.present", A * K, 0, 2);
  fill("dynamics.source", A * P * S, 0, S + K);
  fill("trunk.blocks_of", A * s["touched_blocks"], -1, P * s["blocks"]);
  fill("dynamics.kinds", A, 0, kAlign);
  const int places = s["scored"] * s["roles"];
  for (const char* name : {"policy.said_by", "policy.together"}) {
    std::vector<int32_t>& from = parts.indices[std::string(name) + "_start"];
    from.push_back(0);
    for (int a = 0; a < A; ++a) from.push_back(from.back() + (places ? junk.below(4) : 0));
    fill(name, from.back() * (std::string(name) == "policy.together" ? 2 : 1), 0, places);
  }

  const int D = s["slot_dim"], M = s["slot_hidden"], H = s["hidden"], C = s["shared"], N = s["bins"], O = s["outcomes"],
            E = K + C + (O > 1);
  const int V = P * s["player_dim"], R = C * D + s["global_dim"];
  const auto weigh = [&](const std::string& name, int inputs, int outputs, bool bias) {
    const float scale = 1 / std::sqrt(static_cast<float>(inputs));
    for (int i = 0; i < inputs * outputs; ++i) parts.floats[name + ".weight"].push_back(scale * junk.number());
    for (int i = 0; i < outputs && bias; ++i) parts.floats[name + ".bias"].push_back(junk.number());
    parts.floats[name + ".weight"];
  };
  weigh("trunk.slot", D, M, true);
  weigh("trunk.block", (2 + C) * M, M, true);
  weigh("dynamics.slot_in", D, M, true);
  weigh("dynamics.compare", R, M, true);
  weigh("dynamics.pass_on", C * D, M, false);
  weigh("dynamics.rest_in_and_gather", V + R + 4 * M, H, true);
  weigh("dynamics.hidden", H, H, true);
  weigh("dynamics.consequences", H, s["global_dim"] + M + V, true);
  weigh("dynamics.slot_out", M, D, true);
  weigh("trunk.boards", P * ((s["pairs"] ? 2 : 1) * M + s["player_dim"]), H, true);
  weigh("trunk.rest", R, H, false);
  weigh("trunk.mix", H, H, true);
  for (const char* head : {"value", "reward"}) weigh(head, H, N * (s["egos"] > 1 ? 1 : P), true);
  weigh("outcome", H, O, true);
  weigh("policy.kind_and_context", H, kAlign + 2 * M, true);
  weigh("policy.slot", D, M, true);
  weigh("policy.block", M, M, false);
  weigh("policy.score", M, s["roles"], true);
  weigh("policy.in_role", D, s["roles"] * s["pair_dim"], true);
  const std::pair<const char*, int> rows[] = {{"dynamics.slot_norm.weight", D},
                                              {"dynamics.slot_norm.bias", D},
                                              {"dynamics.player_norm.weight", V / P},
                                              {"dynamics.player_norm.bias", V / P},
                                              {"dynamics.rest_norm.weight", R - C * D},
                                              {"dynamics.rest_norm.bias", R - C * D},
                                              {"condition.norm.weight", R},
                                              {"condition.norm.bias", R},
                                              {"dynamics.role", A * E * M},
                                              {"dynamics.role_factor", A * E * M},
                                              {"dynamics.moved", A * E * E},
                                              {"dynamics.kind", kAlign * H},
                                              {"dynamics.turn", P * H},
                                              {"dynamics.outcome", O > 1 ? O * D : 0},
                                              {"condition.ego", s["egos"] * R},
                                              {"trunk.pair_scale", s["pairs"] ? M : 0},
                                              {"policy.of_pairs", s["pair_dim"]},
                                              {"support", N}};
  for (const auto& [name, size] : rows) {
    parts.floats[name];
    for (int i = 0; i < size; ++i) parts.floats[name].push_back(junk.number());
  }
  return parts;
}

}  // namespace slot_step
