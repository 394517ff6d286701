// GameInfo: everything that a game declares about itself for a number of players and a rule set, without a table.
#pragma once

#include <type_traits>

#include "env/bots/bot.h"
#include "env/game.h"

namespace env {

struct GameInfo {
  std::string name;
  int version, num_players, num_actions, num_phases, min_players, max_players;
  std::string why_players;  // reason why there are not fewer or more players
  int num_pools, num_card_kinds, score_scale;
  int num_outcomes, num_draws;  // outcomes of chance events; most cards that a step deals to a hand at once
  ObservationSpec observation;
  std::vector<std::string> action_names, phase_names, stat_names;
  std::vector<std::vector<PhaseRule>> phase_table;    // [num_phases][num_actions] consequences of actions
  std::vector<std::vector<ChanceRule>> chance_rules;  // [num_phases][num_actions] events that may follow
  std::vector<ActionShape> action_shapes;
  std::vector<std::vector<int>> symmetric_blocks;
  std::vector<RuleDoc> rules;
  std::vector<std::string> presets;
  std::vector<BotDoc> bots;
  int state_bytes;
  bool symmetric;  // whether slots may be relabelled

  // Slots of one player.
  int slots() const {
    size_t count = 0;
    for (const auto& block : symmetric_blocks) count += block.size();
    return static_cast<int>(count);
  }
};

template <class Game, class = void>
struct CanRelabel : std::false_type {};
template <class Game>
struct CanRelabel<Game, std::void_t<decltype(&Game::relabel)>> : std::true_type {};

template <class Game>
void require_players(int players) {
  if (players >= Game::kMinPlayers && players <= Game::kMaxPlayers) return;
  throw std::invalid_argument("num_players: expected " + std::to_string(Game::kMinPlayers) + " to " +
                              std::to_string(Game::kMaxPlayers) + ", got " + std::to_string(players) + " (" +
                              Game::kWhyPlayers + ")");
}

// Refuses new names of a player's slots unless each occurs once and blocks stay together.
inline void require_slot_names(const GameInfo& info, const int8_t* to) {
  const int slots = info.slots();
  std::vector<int> block_of(static_cast<size_t>(slots), -1), taken(static_cast<size_t>(slots), 0);
  for (size_t b = 0; b < info.symmetric_blocks.size(); ++b) {
    for (const int slot : info.symmetric_blocks[b]) block_of[static_cast<size_t>(slot)] = static_cast<int>(b);
  }
  for (const auto& block : info.symmetric_blocks) {
    for (const int slot : block) {
      const int name = to[slot];
      const bool good = name >= 0 && name < slots && !taken[static_cast<size_t>(name)]++ &&
                        block_of[static_cast<size_t>(name)] == block_of[static_cast<size_t>(to[block[0]])];
      if (!good) {
        throw std::invalid_argument("to: expected each of 0 to " + std::to_string(slots - 1) +
                                    " once, the slots of a block in one block, got " + std::to_string(name) +
                                    " for slot " + std::to_string(slot));
      }
    }
  }
}

template <class Game>
GameInfo make_info(const typename Game::Rules& rules, int players, bool counts) {
  GameInfo info{Game::kName,
                Game::kVersion,
                players,
                Game::kNumActions,
                Game::kNumPhases,
                Game::kMinPlayers,
                Game::kMaxPlayers,
                Game::kWhyPlayers,
                Game::kPools,
                Game::kCardKinds,
                Game::kScoreScale,
                Game::kOutcomes,
                Game::kDraws,
                Game::observation(players, counts),
                {},
                {},
                Game::stat_names(players),
                {},
                {},
                {},
                Game::symmetric_blocks(),
                describe_rules(rules),
                {},
                Game::Bots::list(),
                static_cast<int>(sizeof(Game)),
                CanRelabel<Game>::value};
  for (const auto& preset : Game::Rules::presets()) info.presets.push_back(preset.first);
  for (int a = 0; a < Game::kNumActions; ++a) {
    info.action_names.push_back(Game::action_name(a));
    info.action_shapes.push_back(Game::action_shape(players, a));
  }
  for (int p = 0; p < Game::kNumPhases; ++p) {
    info.phase_names.push_back(Game::phase_name(p));
    info.phase_table.emplace_back();
    info.chance_rules.emplace_back();
    for (int a = 0; a < Game::kNumActions; ++a) {
      info.phase_table.back().push_back(Game::phase_rule(players, p, a));
      info.chance_rules.back().push_back(Game::chance_rule(players, p, a));
    }
  }
  return info;
}

}  // namespace env
