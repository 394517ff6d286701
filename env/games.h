// The list of games: the one place where they meet. A new game is one include of each kind and one line below.
#pragma once

#include "env/bots/kuhn.h"
#include "env/bots/lama.h"
#include "env/bots/skipbo.h"
#include "env/bots/skyjo.h"
#include "env/contract.h"
#include "env/games/kuhn_check.h"
#include "env/games/kuhn_knowledge.h"
#include "env/games/lama_check.h"
#include "env/games/lama_knowledge.h"
#include "env/games/skipbo_check.h"
#include "env/games/skipbo_knowledge.h"
#include "env/games/skyjo_check.h"
#include "env/games/skyjo_knowledge.h"
#include "env/vec_env.h"

namespace env {

// Calls visit(a value-initialised game) for every game.
template <class Visitor>
void for_each_game(Visitor&& visit) {
  visit_game<Skyjo>(visit);
  visit_game<Lama>(visit);
  visit_game<Skipbo>(visit);
  visit_game<Kuhn>(visit);
}

// Calls visit(a value-initialised game) for the game with the given name, or throws.
template <class Visitor>
void for_game(const std::string& name, Visitor&& visit) {
  bool found = false;
  std::string known;
  for_each_game([&](auto game) {
    using Game = decltype(game);
    known += std::string(" ") + Game::kName;
    if (name != Game::kName) return;
    found = true;
    visit(game);
  });
  if (!found) throw std::invalid_argument("no game is called '" + name + "'; there are:" + known);
}

inline std::unique_ptr<AnyVecEnv> make_vec_env(const std::string& name, const Options& options) {
  std::unique_ptr<AnyVecEnv> made;
  for_game(name, [&](auto game) { made = std::make_unique<VecEnv<decltype(game)>>(options); });
  return made;
}

// Describes a game without dealing a table.
inline GameInfo describe_game(const std::string& name, int players, const std::string& preset, const RuleList& changes,
                              bool counts) {
  std::unique_ptr<GameInfo> info;
  for_game(name, [&](auto game) {
    using Game = decltype(game);
    require_players<Game>(players);
    const auto rules = make_rules<typename Game::Rules>(preset, changes, players);
    info = std::make_unique<GameInfo>(make_info<Game>(rules, players, counts));
  });
  return *info;
}

}  // namespace env
