// The list of games: the one place where they meet. A new game is one include of each kind and one line below.
#pragma once

#include "env/bots/lama.h"
#include "env/bots/skipbo.h"
#include "env/bots/skyjo.h"
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
  visit(Skyjo{});
  visit(Lama{});
  visit(Skipbo{});
}

inline std::unique_ptr<AnyVecEnv> make_vec_env(const std::string& name, const Options& options) {
  std::unique_ptr<AnyVecEnv> made;
  std::string known;
  for_each_game([&](auto game) {
    using Game = decltype(game);
    known += std::string(" ") + Game::kName;
    if (name == Game::kName) made = std::make_unique<VecEnv<Game>>(options);
  });
  if (!made) throw std::invalid_argument("no game is called '" + name + "'; there are:" + known);
  return made;
}

}  // namespace env
