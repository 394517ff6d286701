// Fuzz test of the native step of slots networks: random networks and requests. Nothing may trip a sanitizer, all kernels
// must give nearly the same outputs, a row must not depend on the others, and arrays that do not fit must be refused.
//
//   fuzz_slot_step [networks] [seed]      default 60: a few seconds under the sanitizers
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "muzero/model/native/slot_network.h"
#include "native/rng.h"
#include "tests/native/require.h"

namespace slot_step {
namespace {

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

Parts random_parts(Junk& junk) {
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

struct RequestRows {
  std::vector<float> latents;
  std::vector<int64_t> parent, action, shift, outcome, to_play;
};

// Latents of the new nodes and outputs, for the requests `from` to `end`.
std::vector<float> run_step(const SlotNetwork& network, RequestRows q, int from, int end, int batch, int nodes,
                            bool only_root) {
  const Network& n = network.network();
  const int width = n.actions + n.outcome_logits() + 2 * (only_root ? 1 : n.players), count = end - from;
  std::vector<float> outputs(static_cast<size_t>(count * width));
  Job job{};
  job.latents = q.latents.data();
  job.batch = batch;
  job.parent = q.parent.data() + from;
  job.action = q.action.data() + from;
  job.shift = q.shift.data() + from;
  job.outcome = q.outcome.data() + from;
  job.to_play = q.to_play.data() + from;
  job.count = count;
  job.first = 2;
  job.games = batch;
  job.outputs = outputs.data();
  job.only_root = only_root;
  REQUIRE(2 + (count - 1) / batch < nodes);
  network.run(job);
  const float* fresh = q.latents.data() + int64_t{2} * batch * n.latent_dim();
  std::vector<float> all;
  for (int r = 0; r < count; ++r) {
    all.insert(all.end(), fresh + int64_t{r} * n.latent_dim(), fresh + int64_t{r + 1} * n.latent_dim());
    all.insert(all.end(), outputs.begin() + r * width, outputs.begin() + (r + 1) * width);
  }
  return all;
}

void compare_kernels(const Parts& parts, Junk& junk) {
  const int batch = junk.between(1, 60), nodes = 4, count = junk.between(1, 2 * batch);
  const bool only_root = junk.below(2);
  SlotNetwork plain(kernel_base, parts.sizes, parts.index_tables());
  plain.load(parts.float_tables());
  const Network& n = plain.network();
  RequestRows q;
  for (int i = 0; i < nodes * batch * n.latent_dim(); ++i) q.latents.push_back(2 * junk.number());
  for (int r = 0; r < count; ++r) {
    q.parent.push_back(junk.below(2 * batch));
    q.action.push_back(junk.below(n.actions));
    q.shift.push_back(junk.below(n.players));
    q.outcome.push_back(junk.below(n.outcomes));
    q.to_play.push_back(junk.below(n.players));
  }
  const std::vector<float> expected = run_step(plain, q, 0, count, batch, nodes, only_root);
  for (const Kernel* kernel : kernels()) {
    SlotNetwork network(*kernel, parts.sizes, parts.index_tables());
    network.load(parts.float_tables());
    const std::vector<float> found = run_step(network, q, 0, count, batch, nodes, only_root);
    double off = 0, size = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      REQUIRE(std::isfinite(found[i]));
      REQUIRE(kernel->bf16 || std::abs(found[i] - expected[i]) < 1e-3f * (1 + std::abs(expected[i])));
      off += std::abs(found[i] - expected[i]);
      size += std::abs(expected[i]);
    }
    REQUIRE(off < (kernel->bf16 ? 0.05 : 1e-4) * size);
    const int from = junk.below(count), end = junk.between(from + 1, count);
    const std::vector<float> some = run_step(network, q, from, end, batch, nodes, only_root);
    const size_t row = found.size() / static_cast<size_t>(count);
    REQUIRE(std::equal(some.begin(), some.end(), found.begin() + static_cast<int64_t>(row) * from));
  }
  q.action[0] = n.actions;
  bool refused = false;
  try {
    run_step(plain, q, 0, count, batch, nodes, only_root);
  } catch (const std::out_of_range&) {
    refused = true;
  }
  REQUIRE(refused);
}

// Makes one size or array wrong, which must be refused.
void refuse_spoilt(Parts parts, Junk& junk) {
  const int way = junk.below(4);
  if (way == 0) {
    auto at = std::next(parts.sizes.begin(), junk.below(static_cast<int>(parts.sizes.size())));
    at->second = -1;
  } else if (way == 1) {
    auto at = std::next(parts.indices.begin(), junk.below(static_cast<int>(parts.indices.size())));
    at->second.push_back(0);
  } else if (way == 2) {
    parts.indices["dynamics.source"][0] = 1 << 20;
  } else {
    auto& numbers = parts.floats["dynamics.rest_in_and_gather.weight"];
    numbers.pop_back();
  }
  bool refused = false;
  try {
    SlotNetwork network(kernel_base, parts.sizes, parts.index_tables());
    network.load(parts.float_tables());
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  REQUIRE(refused);
}

void fuzz(int networks, uint64_t seed) {
  Junk junk{{native::make_key({seed, 79}), 0}};
  for (int i = 0; i < networks; ++i) {
    const Parts parts = random_parts(junk);
    compare_kernels(parts, junk);
    refuse_spoilt(parts, junk);
  }
  std::printf("%d networks by %zu kernels\n", networks, kernels().size());
}

}  // namespace
}  // namespace slot_step

int main(int argc, char** argv) {
  const int networks = argc > 1 ? std::atoi(argv[1]) : 60;
  const auto seed = static_cast<uint64_t>(argc > 2 ? std::atoll(argv[2]) : 1);
  slot_step::fuzz(networks, seed);
}
