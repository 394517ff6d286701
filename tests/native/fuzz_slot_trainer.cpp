// Fuzz test of the learner's passes: random networks and rows. Nothing may trip a sanitizer, all kernels must give nearly
// the same results and gradients, any number of threads the same bytes, and codes that do not exist must be refused.
//
//   fuzz_slot_trainer [networks] [seed]      default 40: a few seconds under the sanitizers
#include <cstdio>
#include <cstdlib>

#include "muzero/model/native/slot_trainer.h"
#include "tests/native/random_network.h"
#include "tests/native/require.h"

namespace slot_step {
namespace {

using Values = std::vector<float>;

// Adds a random encoder, and heads.
void add_encoder(Parts& parts, Junk& junk) {
  Sizes& s = parts.sizes;
  const int row = junk.between(4, 40), codes = 6;
  s["heads.numbers"] = kAlign * junk.between(1, 4);
  s["encoder.width"] = kAlign * junk.between(1, 3);
  s["encoder.row"] = row;
  s["encoder.slot_fields"] = junk.between(1, 3);
  s["encoder.others"] = junk.between(1, 5);
  s["encoder.own"] = s["player_dim"] ? junk.between(1, 3) : 0;
  s["encoder.alike_rows"] = junk.below(2) ? s["block_size"] + 1 : 0;
  s["encoder.table_rows"] = 40;
  s["encoder.code_first"] = junk.below(20);
  s["encoder.codes"] = codes;
  const auto fill = [&](const std::string& name, int count, int end) {
    std::vector<int32_t>& to = parts.indices["encoder." + name];
    for (int i = 0; i < count; ++i) to.push_back(junk.below(end));
  };
  const auto tokens = [&](const std::string& name, int count) {
    std::vector<int32_t>& start = parts.indices["encoder." + name + "_start"];
    start.push_back(0);
    for (int i = 0; i < count; ++i) start.push_back(start.back() + junk.between(1, 3));
    const int fields = start.back();
    fill(name + "_column", fields, row);
    fill(name + "_shift", fields, 40 - codes);
  };
  fill("slot_column", s["slots"] * s["encoder.slot_fields"], row);
  fill("slot_shift", s["slots"] * s["encoder.slot_fields"], 40 - codes);
  tokens("other", s["encoder.others"]);
  tokens("own", s["players"] * s["encoder.own"]);
  fill("card_column", s["encoder.alike_rows"] ? s["slots"] : 0, row);
  fill("shared_column", s["shared"], row);
  for (int i = 0; i < row; ++i) {
    parts.indices["encoder.columns"].push_back(i);
    parts.indices["encoder.limits"].push_back(codes);
  }
}

Values random_values(int64_t count, Junk& junk) {
  Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(junk.number());
  return values;
}

struct Inputs {
  int rows;
  std::vector<int16_t> obs;
  std::vector<int64_t> action, shift, outcome;
  Values latent, encoder, dynamics, heads, d_latent, d_policy, d_numbers, d_outcome, d_blocks, d_own;
};

// Results and gradients of all parts, one behind the other.
Values run_all(const Parts& parts, const std::string& kernel_name, int threads, const Inputs& in) {
  SlotTrainer trainer(kernel_name, parts.sizes, parts.index_tables(), threads);
  const TrainKernel& kernel = trainer.kernel();
  const Network& n = trainer.network();
  const int64_t L = n.latent_dim(), rows = in.rows, chunks = SlotTrainer::chunks(rows);
  Values all;
  const auto keep = [&](const Values& values) { all.insert(all.end(), values.begin(), values.end()); };
  const auto run = [&](auto& layout, const Values& theta, auto saved_size, auto scratch_size, auto forward,
                       auto backward, auto chunk_of) {
    using Weights = typename std::decay_t<decltype(layout)>::Weights;
    const Weights weights(layout, kernel, theta.data());
    const int64_t size = saved_size(weights.part), scratch = scratch_size(weights.part);
    native::AlignedVector<float> saved(static_cast<size_t>(chunks * size));
    Values gradient(static_cast<size_t>(layout.size()));
    Values sums(static_cast<size_t>(SlotTrainer::kGroups * layout.size()), 7.0f);  // what was there does not count
    trainer.forward(rows, scratch, [&](int64_t at, int count, void* memory) {
      forward(weights.part, chunk_of(at, count), saved.data() + at / kTile * size, memory);
    });
    for (const bool fresh : {true, false}) {
      trainer.backward(rows, scratch, layout.size(), sums.data(), fresh,
                       [&](int64_t at, int count, void* memory, float* to) {
                         backward(weights.part, chunk_of(at, count), saved.data() + at / kTile * size, to, memory);
                       });
    }
    trainer.add_up(layout.size(), sums.data(), gradient.data());
    keep(gradient);
  };
  trainer.require_codes(rows, in.obs.data());
  trainer.require_steps(rows, in.action.data(), in.shift.data(), in.outcome.data());
  Values latent(in.latent.size()), next(in.latent.size()), d_latent(in.latent.size());
  run(trainer.encoder, in.encoder, kernel.encoder_saved, kernel.encoder_scratch, kernel.encoder_forward,
      kernel.encoder_backward, [&](int64_t at, int count) {
        return EncoderRows{in.obs.data() + at * trainer.encoder.part.row, count, latent.data() + at * L,
                           in.d_latent.data() + at * L};
      });
  keep(latent);
  run(trainer.dynamics, in.dynamics, kernel.dynamics_saved, kernel.dynamics_scratch, kernel.dynamics_forward,
      kernel.dynamics_backward, [&](int64_t at, int count) {
        return DynamicsRows{in.latent.data() + at * L,
                            in.action.data() + at,
                            in.shift.data() + at,
                            in.outcome.data() + at,
                            count,
                            next.data() + at * L,
                            in.d_latent.data() + at * L,
                            d_latent.data() + at * L};
      });
  keep(next);
  keep(d_latent);
  const HeadsPart& heads = trainer.heads.part;
  const int64_t numbers = int64_t{n.egos} * heads.numbers, blocks = int64_t{n.players} * n.blocks * n.slot_hidden;
  Values policy(in.d_policy.size()), all_numbers(in.d_numbers.size()), outcome(in.d_outcome.size()),
      all_blocks(in.d_blocks.size()), own(in.d_own.size());
  run(trainer.heads, in.heads, kernel.heads_saved, kernel.heads_scratch, kernel.heads_forward, kernel.heads_backward,
      [&](int64_t at, int count) {
        HeadsRows chunk{};
        chunk.latent = in.latent.data() + at * L;
        chunk.rows = count;
        chunk.policy = policy.data() + at * n.actions;
        chunk.numbers = all_numbers.data() + at * numbers;
        chunk.outcome = heads.outcomes ? outcome.data() + at * heads.outcomes : nullptr;
        chunk.blocks = all_blocks.data() + at * blocks;
        chunk.own = own.data() + at * n.hidden;
        chunk.d_policy = in.d_policy.data() + at * n.actions;
        chunk.d_numbers = in.d_numbers.data() + at * numbers;
        chunk.d_outcome = heads.outcomes ? in.d_outcome.data() + at * heads.outcomes : nullptr;
        chunk.d_blocks = in.d_blocks.data() + at * blocks;
        chunk.d_own = in.d_own.data() + at * n.hidden;
        chunk.d_latent = d_latent.data() + at * L;
        return chunk;
      });
  for (const Values* values : {&policy, &all_numbers, &outcome, &all_blocks, &own, &d_latent}) keep(*values);
  return all;
}

// Losses of random predictions and their gradients, one behind the other. All arrays are as large as they must be.
Values run_losses(const TrainKernel& kernel, Junk junk) {
  LossPart p{};
  p.actions = junk.between(1, 64);
  p.players = junk.between(1, kMostPlayers);
  p.egos = junk.below(2) ? p.players : 1;
  p.bins = junk.between(2, 50);
  p.points = junk.below(2);
  p.ranks = junk.below(2);
  const int seats = p.egos > 1 ? 1 : p.players;
  const int used = (p.points ? 3 : 2) * seats * p.bins + (p.ranks ? p.players * (1 + p.players) : 0);
  p.numbers = (used + kAlign - 1) / kAlign * kAlign;
  p.outcomes = junk.between(2, 20);
  p.outcome_columns = (p.outcomes + kAlign - 1) / kAlign * kAlign;
  p.values = {-2.0f, 2.0f};
  p.point_values = {-60.0f, 60.0f};
  const int64_t rows = junk.between(1, kTile), P = p.players;
  const bool compares_policy = junk.below(2), same = junk.below(2);
  const Values policy = random_values(rows * p.actions, junk), numbers = random_values(rows * p.egos * p.numbers, junk),
               outcome = random_values(rows * p.outcome_columns, junk), value = random_values(rows * P, junk),
               reward = random_values(rows * P, junk), winner = random_values(rows * P, junk),
               rank = random_values(rows * P * P, junk), points = random_values(rows * P, junk),
               to_policy = random_values(rows * p.actions, junk), shares = random_values((same ? 1 : rows) * P, junk),
               d_losses = random_values(rows * kLosses, junk);
  std::vector<int64_t> codes;
  for (int64_t r = 0; r < rows; ++r) codes.push_back(junk.below(p.outcomes));
  Values losses(static_cast<size_t>(rows * kLosses)), judged(static_cast<size_t>(rows)), d_policy(policy.size()),
      d_numbers(numbers.size()), d_outcome(outcome.size());
  LossRows in{};
  in.rows = static_cast<int>(rows);
  in.stride = rows;
  in.policy = policy.data();
  in.numbers = numbers.data();
  in.outcome = outcome.data();
  in.policy_target = compares_policy ? to_policy.data() : nullptr;
  in.value_target = value.data();
  in.reward_target = reward.data();
  in.winner_target = p.ranks ? winner.data() : nullptr;
  in.rank_target = p.ranks ? rank.data() : nullptr;
  in.points_target = p.points ? points.data() : nullptr;
  in.outcome_target = codes.data();
  in.shares = shares.data();
  in.shares_step = same ? 0 : p.players;
  in.losses = losses.data();
  in.value = judged.data();
  in.d_losses = d_losses.data();
  in.d_policy = d_policy.data();
  in.d_numbers = d_numbers.data();
  in.d_outcome = d_outcome.data();
  kernel.losses_forward(p, in);
  kernel.losses_backward(p, in);
  Values all;
  for (const Values* values : {&losses, &judged, &d_policy, &d_numbers, &d_outcome})
    all.insert(all.end(), values->begin(), values->end());
  return all;
}

// Losses of what random observations show, and their gradients.
Values run_visible(const TrainKernel& kernel, Junk junk) {
  VisiblePart p{};
  p.row = junk.between(4, 40);
  p.slots = junk.between(1, 20);
  p.fields = junk.between(1, 3);
  p.shared = junk.below(3);
  p.blocks = junk.between(1, 6);
  p.block_size = junk.between(1, 4);
  const auto indices = [&](int count, int end) {
    std::vector<int32_t> out;
    for (int i = 0; i < count; ++i) out.push_back(junk.below(end));
    return out;
  };
  std::vector<int32_t> vocabulary;
  for (int f = 0; f < p.fields; ++f) vocabulary.push_back(junk.between(2, 20));
  for (const int32_t codes : vocabulary) p.logits += codes;
  const std::vector<int32_t> column = indices(p.slots * p.fields, p.row),
                             card = indices(p.blocks * p.block_size, p.row), shared = indices(p.shared, p.row);
  p.vocabulary = vocabulary.data();
  p.column = column.data();
  p.card = card.data();
  p.shared_column = shared.data();
  const int64_t rows = junk.between(1, kTile);
  std::vector<int16_t> obs;
  for (int64_t i = 0; i < rows * p.row; ++i) obs.push_back(static_cast<int16_t>(junk.below(2)));
  const Values fields = random_values(rows * p.slots * p.logits, junk),
               matches = random_values(rows * p.blocks * p.shared * p.block_size, junk),
               d_loss = random_values(rows, junk);
  Values loss(static_cast<size_t>(rows)), d_fields(fields.size()), d_matches(matches.size());
  VisibleRows in{};
  in.rows = static_cast<int>(rows);
  in.fields = fields.data();
  in.matches = matches.data();
  in.obs = obs.data();
  in.loss = loss.data();
  in.d_loss = d_loss.data();
  in.d_fields = d_fields.data();
  in.d_matches = d_matches.data();
  kernel.visible_forward(p, in);
  kernel.visible_backward(p, in);
  Values all;
  for (const Values* values : {&loss, &d_fields, &d_matches}) all.insert(all.end(), values->begin(), values->end());
  return all;
}

void require_near(const Values& found, const Values& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t k = 0; k < found.size(); ++k) {
    REQUIRE(std::isfinite(found[k]));
    REQUIRE(std::abs(found[k] - expected[k]) < 1e-4f * (1.0f + std::abs(expected[k])));
  }
}

void fuzz_losses(int inputs, uint64_t seed) {
  for (int i = 0; i < inputs; ++i) {
    const Junk junk{{native::make_key({seed, 89, static_cast<uint64_t>(i)}), 0}};
    for (const TrainKernel* kernel : train_kernels()) {
      require_near(run_losses(*kernel, junk), run_losses(train_kernel_base, junk));
      require_near(run_visible(*kernel, junk), run_visible(train_kernel_base, junk));
    }
  }
  std::printf("%d losses by %zu kernels\n", 2 * inputs, train_kernels().size());
}

void fuzz(int networks, uint64_t seed) {
  Junk junk{{native::make_key({seed, 83}), 0}};
  for (int i = 0; i < networks; ++i) {
    Parts parts = random_parts(junk);
    add_encoder(parts, junk);
    const SlotTrainer layout("base", parts.sizes, parts.index_tables(), 1);
    const Network& n = layout.network();
    const HeadsPart& heads = layout.heads.part;
    Inputs in;
    in.rows = junk.between(1, 3 * kTile);
    const int64_t rows = in.rows, L = n.latent_dim();
    for (int64_t k = 0; k < rows * layout.encoder.part.row; ++k) in.obs.push_back(static_cast<int16_t>(junk.below(6)));
    for (int64_t r = 0; r < rows; ++r) {
      in.action.push_back(junk.below(n.actions));
      in.shift.push_back(junk.below(n.players));
      in.outcome.push_back(junk.below(n.outcomes));
    }
    in.latent = random_values(rows * L, junk);
    in.d_latent = random_values(rows * L, junk);
    in.encoder = random_values(layout.encoder.size(), junk);
    in.dynamics = random_values(layout.dynamics.size(), junk);
    in.heads = random_values(layout.heads.size(), junk);
    in.d_policy = random_values(rows * n.actions, junk);
    in.d_numbers = random_values(rows * n.egos * heads.numbers, junk);
    in.d_outcome = random_values(rows * heads.outcomes, junk);
    in.d_blocks = random_values(rows * n.players * n.blocks * n.slot_hidden, junk);
    in.d_own = random_values(rows * n.hidden, junk);
    const Values expected = run_all(parts, "base", 1, in);
    for (const TrainKernel* kernel : train_kernels()) {
      const Values found = run_all(parts, kernel->name, junk.between(1, 3), in);
      double off = 0, size = 0;
      for (size_t k = 0; k < found.size(); ++k) {
        REQUIRE(std::isfinite(found[k]));
        off += std::abs(found[k] - expected[k]);
        size += std::abs(expected[k]);
      }
      REQUIRE(off < 0.01 * size);  // a ReLU may be on the other side of 0 by a rounding error
      if (kernel == &train_kernel_base) REQUIRE(found == expected);
    }
    in.obs[static_cast<size_t>(junk.below(static_cast<int>(in.obs.size())))] = 6;
    bool refused = false;
    try {
      run_all(parts, "base", 1, in);
    } catch (const std::out_of_range&) {
      refused = true;
    }
    REQUIRE(refused);
  }
  std::printf("%d networks by %zu kernels\n", networks, train_kernels().size());
}

}  // namespace
}  // namespace slot_step

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 40;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  slot_step::fuzz_losses(5 * count, seed);
  slot_step::fuzz(count, seed);
}
