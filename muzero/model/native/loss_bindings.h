// Python bindings of the losses of the heads' predictions.
#pragma once

#include <nanobind/stl/pair.h>

#include "muzero/model/native/train_bindings.h"

namespace slot_step {

// Predictions [B, ...] as heads_forward writes them.
struct Predicted {
  const Input &policy, &numbers;
  const std::optional<Input>& outcome;
};

// Targets as in head_losses.py; those that are missing are not compared.
struct Targets {
  const Input &value, &reward, &shares;
  const std::optional<Input>&policy, &winner, &rank, &points, &outcome;
};

inline LossRows loss_rows(const LossPart& part, const Predicted& predicted, const Targets& targets) {
  const int64_t rows = rows_of(predicted.numbers), P = part.players, A = part.actions;
  LossRows all{};
  all.stride = rows;
  all.policy = data_of<float>(predicted.policy, "policy", {rows, A});
  all.numbers = data_of<float>(predicted.numbers, "numbers", {rows, part.egos, part.numbers});
  all.outcome = data_or_null(predicted.outcome, "outcome", {rows, part.outcome_columns});
  all.value_target = data_of<float>(targets.value, "value target", {rows, P});
  all.reward_target = data_of<float>(targets.reward, "reward target", {rows, P});
  const bool same = rows_of(targets.shares) == 1;
  all.shares = data_of<float>(targets.shares, "shares", {same ? 1 : rows, P});
  all.shares_step = same ? 0 : part.players;
  all.policy_target = data_or_null(targets.policy, "policy target", {rows, A});
  if (part.ranks && targets.winner && targets.rank) {
    all.winner_target = data_of<float>(*targets.winner, "winner target", {rows, P});
    all.rank_target = data_of<float>(*targets.rank, "rank target", {rows, P, P});
  }
  if (part.points) all.points_target = data_or_null(targets.points, "points target", {rows, P});
  if (targets.outcome && all.outcome) {
    all.outcome_target = data_of<int64_t>(*targets.outcome, "outcome target", {rows});
    for (int64_t r = 0; r < rows; ++r) {
      if (all.outcome_target[r] < 0 || all.outcome_target[r] >= part.outcomes)
        throw std::out_of_range("outcome target " + std::to_string(r) + ": expected 0 to " +
                                std::to_string(part.outcomes - 1) + ", got " + std::to_string(all.outcome_target[r]));
    }
  }
  return all;
}

// Calls a kernel's function for every chunk of rows.
inline void for_losses(SlotTrainer& t, const LossPart& part, const LossRows& all,
                       void (*run)(const LossPart&, const LossRows&)) {
  const int64_t P = part.players, A = part.actions, N = int64_t{part.egos} * part.numbers, O = part.outcome_columns;
  const auto from = [](auto* data, int64_t at) { return data ? data + at : nullptr; };
  t.forward(all.stride, 0, [&](int64_t at, int count, void*) {
    LossRows rows = all;
    rows.rows = count;
    rows.policy = from(all.policy, at * A);
    rows.numbers = from(all.numbers, at * N);
    rows.outcome = from(all.outcome, at * O);
    rows.policy_target = from(all.policy_target, at * A);
    rows.value_target = from(all.value_target, at * P);
    rows.reward_target = from(all.reward_target, at * P);
    rows.winner_target = from(all.winner_target, at * P);
    rows.rank_target = from(all.rank_target, at * P * P);
    rows.points_target = from(all.points_target, at * P);
    rows.outcome_target = from(all.outcome_target, at);
    rows.shares = from(all.shares, at * all.shares_step);
    rows.losses = from(all.losses, at);
    rows.value = from(all.value, at);
    rows.d_losses = from(all.d_losses, at);
    rows.d_policy = from(all.d_policy, at * A);
    rows.d_numbers = from(all.d_numbers, at * N);
    rows.d_outcome = from(all.d_outcome, at * O);
    run(part, rows);
  });
}

inline LossPart loss_part(const std::map<std::string, int>& sizes, std::pair<float, float> values,
                          std::pair<float, float> points) {
  const auto size = [&](const char* name, int low, int high) {
    const auto found = sizes.find(name);
    const int number = found == sizes.end() ? low - 1 : found->second;
    if (number < low || number > high)
      throw std::invalid_argument(std::string("sizes: ") + name + ": expected " + std::to_string(low) + " to " +
                                  std::to_string(high) + ", got " + std::to_string(number));
    return number;
  };
  constexpr int kMany = 1 << 20;
  LossPart p{};
  p.actions = size("actions", 1, kMany);
  p.players = size("players", 1, kMostPlayers);
  p.egos = size("egos", 1, p.players);
  p.bins = size("bins", 2, kMany / 32);
  p.points = size("points", 0, 1) == 1;
  p.ranks = size("ranks", 0, 1) == 1;
  const int seats = p.egos > 1 ? 1 : p.players;
  if (p.egos > 1 && p.egos != p.players) throw std::invalid_argument("sizes: egos: expected 1 or all players");
  const int needed = (p.points ? 3 : 2) * seats * p.bins + (p.ranks ? p.players * (1 + p.players) : 0);
  p.numbers = size("numbers", needed, kMany);
  p.outcomes = size("outcomes", 1, kMany);
  p.outcome_columns = size("outcome_columns", 0, kMany);
  if (p.outcome_columns && p.outcome_columns < p.outcomes)
    throw std::invalid_argument("sizes: outcome_columns: too few");
  if (!(values.first < values.second && points.first < points.second))
    throw std::invalid_argument("range of bins: expected the lower number first");
  p.values = {values.first, values.second};
  p.point_values = {points.first, points.second};
  return p;
}

// Part of the decoder's losses, with the indices that it points to.
class Visible {
 public:
  Visible(int row, const Input& vocabulary, const Input& columns, const Input& cards, const Input& shared) {
    part.row = row;
    part.slots = static_cast<int>(rows_of(columns));
    part.fields = static_cast<int>(rows_of(vocabulary));
    part.blocks = static_cast<int>(rows_of(cards));
    part.block_size = cards.ndim() == 2 ? static_cast<int>(cards.shape(1)) : 0;
    part.shared = static_cast<int>(rows_of(shared));
    vocabulary_ = kept(vocabulary, "vocabulary", {part.fields}, 1 << 15);
    column_ = kept(columns, "columns", {part.slots, part.fields}, row - 1);
    card_ = kept(cards, "cards", {part.blocks, part.block_size}, row - 1);
    shared_ = kept(shared, "shared", {part.shared}, row - 1);
    if (!part.slots || !part.fields) throw std::invalid_argument("columns: expected slots with fields");
    for (const int32_t codes : vocabulary_) part.logits += codes;
    part.vocabulary = vocabulary_.data();
    part.column = column_.data();
    part.card = card_.data();
    part.shared_column = shared_.data();
  }
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;

  VisiblePart part{};

  // Checks the codes that the losses use as indices.
  void require_codes(int64_t rows, const int16_t* obs) const {
    for (int64_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < column_.size(); ++i) {
        const int code = obs[r * part.row + column_[i]], codes = vocabulary_[i % vocabulary_.size()];
        if (code < 0 || code >= codes)
          throw std::out_of_range("observation " + std::to_string(r) + ", column " + std::to_string(column_[i]) +
                                  ": expected a code from 0 to " + std::to_string(codes - 1) + ", got " +
                                  std::to_string(code));
      }
    }
  }

 private:
  static std::vector<int32_t> kept(const Input& array, const char* name, const native::Shape& shape, int most) {
    const int32_t* data = data_of<int32_t>(array, name, shape);
    std::vector<int32_t> out(data, data + array.size());
    for (const int32_t number : out) {
      if (number < 0 || number > most)
        throw std::invalid_argument(std::string(name) + ": expected numbers from 0 to " + std::to_string(most) +
                                    ", got " + std::to_string(number));
    }
    return out;
  }

  std::vector<int32_t> vocabulary_, column_, card_, shared_;
};

inline VisibleRows visible_rows(const Visible& visible, const Input& fields, const std::optional<Input>& matches,
                                const Input& obs) {
  const VisiblePart& p = visible.part;
  const int64_t rows = rows_of(fields);
  VisibleRows all{};
  all.rows = static_cast<int>(rows);
  all.fields = data_of<float>(fields, "fields", {rows, p.slots, p.logits});
  if (p.shared) {
    if (!matches) throw std::invalid_argument("matches: expected an array");
    all.matches = data_of<float>(*matches, "matches", {rows, p.blocks, p.shared * p.block_size});
  }
  all.obs = data_of<int16_t>(obs, "obs", {rows, p.row});
  return all;
}

inline void for_visible(SlotTrainer& t, const Visible& visible, const VisibleRows& all,
                        void (*run)(const VisiblePart&, const VisibleRows&)) {
  const VisiblePart& p = visible.part;
  const int64_t F = int64_t{p.slots} * p.logits, M = int64_t{p.blocks} * p.shared * p.block_size;
  const auto from = [](auto* data, int64_t at) { return data ? data + at : nullptr; };
  visible.require_codes(all.rows, all.obs);
  t.forward(all.rows, 0, [&](int64_t at, int count, void*) {
    VisibleRows rows = all;
    rows.rows = count;
    rows.fields = all.fields + at * F;
    rows.matches = from(all.matches, at * M);
    rows.obs = all.obs + at * p.row;
    rows.loss = from(all.loss, at);
    rows.d_loss = from(all.d_loss, at);
    rows.d_fields = from(all.d_fields, at * F);
    rows.d_matches = from(all.d_matches, at * M);
    run(p, rows);
  });
}

inline void bind_visible(nanobind::module_& m) {
  namespace nb = nanobind;
  using namespace nb::literals;
  nb::class_<Visible>(m, "Visible")
      .def(nb::init<int, const Input&, const Input&, const Input&, const Input&>(), "row"_a, "vocabulary"_a,
           "columns"_a, "cards"_a, "shared"_a);
  m.def(
      "visible_forward",
      [](SlotTrainer& t, const Visible& visible, const Input& fields, const std::optional<Input>& matches,
         const Input& obs, const Array& loss) {
        VisibleRows rows = visible_rows(visible, fields, matches, obs);
        rows.loss = data_of<float>(loss, "loss", {rows.rows});
        nb::gil_scoped_release release;
        for_visible(t, visible, rows, t.kernel().visible_forward);
      },
      "trainer"_a, "visible"_a, "fields"_a, "matches"_a.none(), "obs"_a, "loss"_a);
  m.def(
      "visible_backward",
      [](SlotTrainer& t, const Visible& visible, const Input& fields, const std::optional<Input>& matches,
         const Input& obs, const Input& d_loss, const Array& d_fields, const std::optional<Array>& d_matches) {
        VisibleRows rows = visible_rows(visible, fields, matches, obs);
        const VisiblePart& p = visible.part;
        rows.d_loss = data_of<float>(d_loss, "d_loss", {rows.rows});
        rows.d_fields = data_of<float>(d_fields, "d_fields", {rows.rows, p.slots, p.logits});
        rows.d_matches = data_or_null(d_matches, "d_matches", {rows.rows, p.blocks, p.shared * p.block_size});
        if (p.shared && !rows.d_matches) throw std::invalid_argument("d_matches: expected an array");
        nb::gil_scoped_release release;
        for_visible(t, visible, rows, t.kernel().visible_backward);
      },
      "trainer"_a, "visible"_a, "fields"_a, "matches"_a.none(), "obs"_a, "d_loss"_a, "d_fields"_a,
      "d_matches"_a.none());
}

inline void bind_losses(nanobind::module_& m) {
  namespace nb = nanobind;
  using namespace nb::literals;
  using Maybe = std::optional<Input>;
  nb::class_<LossPart>(m, "LossPart")
      .def(
          "__init__",
          [](LossPart* self, const std::map<std::string, int>& sizes, std::pair<float, float> values,
             std::pair<float, float> points) { new (self) LossPart(loss_part(sizes, values, points)); },
          "sizes"_a, "values"_a, "points"_a);
  m.def(
      "losses_forward",
      [](SlotTrainer& t, const LossPart& part, const Input& policy, const Input& numbers, const Maybe& outcome,
         const Input& value_target, const Input& reward_target, const Input& shares, const Maybe& policy_target,
         const Maybe& winner_target, const Maybe& rank_target, const Maybe& points_target, const Maybe& outcome_target,
         const Array& losses, const Array& value) {
        LossRows rows = loss_rows(part, {policy, numbers, outcome},
                                  {value_target, reward_target, shares, policy_target, winner_target, rank_target,
                                   points_target, outcome_target});
        rows.losses = data_of<float>(losses, "losses", {kLosses, rows.stride});
        rows.value = data_of<float>(value, "value", {rows.stride});
        nb::gil_scoped_release release;
        for_losses(t, part, rows, t.kernel().losses_forward);
      },
      "trainer"_a, "part"_a, "policy"_a, "numbers"_a, "outcome"_a.none(), "value_target"_a, "reward_target"_a,
      "shares"_a, "policy_target"_a.none(), "winner_target"_a.none(), "rank_target"_a.none(), "points_target"_a.none(),
      "outcome_target"_a.none(), "losses"_a, "value"_a);
  m.def(
      "losses_backward",
      [](SlotTrainer& t, const LossPart& part, const Input& policy, const Input& numbers, const Maybe& outcome,
         const Input& value_target, const Input& reward_target, const Input& shares, const Maybe& policy_target,
         const Maybe& winner_target, const Maybe& rank_target, const Maybe& points_target, const Maybe& outcome_target,
         const Input& d_losses, const Array& d_policy, const Array& d_numbers, const std::optional<Array>& d_outcome) {
        LossRows rows = loss_rows(part, {policy, numbers, outcome},
                                  {value_target, reward_target, shares, policy_target, winner_target, rank_target,
                                   points_target, outcome_target});
        rows.d_losses = data_of<float>(d_losses, "d_losses", {kLosses, rows.stride});
        rows.d_policy = data_of<float>(d_policy, "d_policy", {rows.stride, part.actions});
        rows.d_numbers = data_of<float>(d_numbers, "d_numbers", {rows.stride, part.egos, part.numbers});
        rows.d_outcome = data_or_null(d_outcome, "d_outcome", {rows.stride, part.outcome_columns});
        if (rows.outcome_target && !rows.d_outcome) throw std::invalid_argument("d_outcome: expected an array");
        nb::gil_scoped_release release;
        for_losses(t, part, rows, t.kernel().losses_backward);
      },
      "trainer"_a, "part"_a, "policy"_a, "numbers"_a, "outcome"_a.none(), "value_target"_a, "reward_target"_a,
      "shares"_a, "policy_target"_a.none(), "winner_target"_a.none(), "rank_target"_a.none(), "points_target"_a.none(),
      "outcome_target"_a.none(), "d_losses"_a, "d_policy"_a, "d_numbers"_a, "d_outcome"_a.none());
}

}  // namespace slot_step
