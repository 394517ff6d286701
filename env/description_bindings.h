// Python bindings of what a game declares about itself (GameInfo and its parts).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "env/slot_classes.h"
#include "native/arrays.h"

namespace env {

namespace nb = nanobind;

inline void bind_description(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<Field>(m, "Field")
      .def_ro("name", &Field::name)
      .def_ro("vocabulary", &Field::vocabulary)
      .def_ro("place", &Field::place)
      .def_ro("seat", &Field::seat)
      .def_ro("card", &Field::card)
      .def_ro("absent", &Field::absent);
  nb::class_<TokenGroup>(m, "TokenGroup")
      .def_ro("name", &TokenGroup::name)
      .def_ro("count", &TokenGroup::count)
      .def_ro("fields", &TokenGroup::fields)
      .def_ro("slots", &TokenGroup::slots)
      .def_ro("per_player", &TokenGroup::per_player)
      .def_ro("owner_only", &TokenGroup::owner_only)
      .def_ro("offset", &TokenGroup::offset);
  nb::class_<ActionShape>(m, "ActionShape").def_ro("kind", &ActionShape::kind).def_ro("slots", &ActionShape::slots);
  nb::class_<PhaseRule>(m, "PhaseRule")
      .def_ro("possible", &PhaseRule::possible)
      .def_ro("next_phase", &PhaseRule::next_phase)
      .def_ro("turn_passes", &PhaseRule::turn_passes)
      .def_ro("leaves_round", &PhaseRule::leaves_round)
      .def_ro("last_phase", &PhaseRule::last_phase);
  nb::class_<ChanceRule>(m, "ChanceRule")
      .def_ro("possible", &ChanceRule::possible)
      .def_ro("pool", &ChanceRule::pool)
      .def_ro("seen_by_all", &ChanceRule::seen_by_all);
  nb::class_<RuleDoc>(m, "RuleDoc")
      .def_ro("name", &RuleDoc::name)
      .def_ro("expected", &RuleDoc::expected)
      .def_ro("meaning", &RuleDoc::meaning)
      .def_ro("value", &RuleDoc::value)
      .def_ro("default", &RuleDoc::default_value);
  nb::class_<BotParameter>(m, "BotParameter")
      .def_ro("name", &BotParameter::name)
      .def_ro("value", &BotParameter::value)
      .def_ro("low", &BotParameter::low)
      .def_ro("high", &BotParameter::high)
      .def_ro("meaning", &BotParameter::meaning);
  nb::class_<BotDoc>(m, "BotDoc")
      .def_ro("name", &BotDoc::name)
      .def_ro("idea", &BotDoc::idea)
      .def_ro("parameters", &BotDoc::parameters);
  nb::class_<GameInfo>(m, "GameInfo")
      .def_ro("name", &GameInfo::name)
      .def_ro("version", &GameInfo::version)
      .def_ro("num_players", &GameInfo::num_players)
      .def_ro("num_actions", &GameInfo::num_actions)
      .def_ro("num_phases", &GameInfo::num_phases)
      .def_ro("min_players", &GameInfo::min_players)
      .def_ro("max_players", &GameInfo::max_players)
      .def_ro("why_players", &GameInfo::why_players)
      .def_ro("score_scale", &GameInfo::score_scale)
      .def_ro("num_pools", &GameInfo::num_pools)
      .def_ro("num_card_kinds", &GameInfo::num_card_kinds)
      .def_ro("num_outcomes", &GameInfo::num_outcomes)
      .def_ro("num_draws", &GameInfo::num_draws)
      .def_prop_ro("groups", [](const GameInfo& i) { return i.observation.groups; })
      .def_prop_ro("width", [](const GameInfo& i) { return i.observation.width; })
      .def_ro("action_names", &GameInfo::action_names)
      .def_ro("phase_names", &GameInfo::phase_names)
      .def_ro("stat_names", &GameInfo::stat_names)
      .def_ro("phase_table", &GameInfo::phase_table)
      .def_ro("chance_rules", &GameInfo::chance_rules)
      .def_ro("action_shapes", &GameInfo::action_shapes)
      .def_ro("symmetric_blocks", &GameInfo::symmetric_blocks)
      .def_ro("rules", &GameInfo::rules)
      .def_ro("presets", &GameInfo::presets)
      .def_ro("bots", &GameInfo::bots)
      .def_ro("state_bytes", &GameInfo::state_bytes)
      .def_ro("symmetric", &GameInfo::symmetric);
  nb::class_<SlotClasses>(m, "SlotClasses")
      .def(nb::init<const GameInfo&>(), "info"_a)
      .def_prop_ro("slots", &SlotClasses::slots)
      .def(
          "write",
          [](const SlotClasses& classes, const native::Input& rows, const native::Array& out) {
            const auto count = static_cast<int64_t>(rows.ndim() ? rows.shape(0) : 0);
            const int16_t* from = native::data_of<int16_t>(rows, "rows", {count, classes.width()});
            uint8_t* to = native::data_of<uint8_t>(out, "out", {count, classes.slots()});
            nb::gil_scoped_release release;
            for (int64_t i = 0; i < count; ++i) classes.write(from + i * classes.width(), to + i * classes.slots());
          },
          "rows"_a, "out"_a);
}

}  // namespace env
