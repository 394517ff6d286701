// Fuzz test of the native step of slots networks: random networks and requests. Nothing may trip a sanitizer, all kernels
// must give nearly the same outputs, a row must not depend on the others, and arrays that do not fit must be refused.
//
//   fuzz_slot_step [networks] [seed]      default 60: a few seconds under the sanitizers
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tests/native/random_network.h"
#include "tests/native/require.h"

namespace slot_step {
namespace {

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
