// Settings of a search. mcts/__init__.py documents them for Python.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace mcts {

enum class Algorithm { kPuct, kGumbel };

struct Config {
  int batch = 1;
  int actions = 1;  // at most 64
  int players = 1;
  bool maxn = true;         // a value per player, each node's player maximises its own; else one value, the root's
  bool mover_frame = true;  // network outputs list players from the mover's seat on; else from the root player's
  int simulations = 1;
  int leaves = 1;  // selected per tree and step
  int threads = 1;
  Algorithm algorithm = Algorithm::kPuct;
  float discount = 1.0f;

  // PUCT.
  float pb_c_base = 19652.0f, pb_c_init = 1.25f;
  float dirichlet_alpha = 0.3f, dirichlet_fraction = 0.0f;
  bool neutral_unvisited = true;  // an unvisited child counts as its parent's value; else as the lowest seen
  float virtual_loss = 1.0f;      // how much a pending visit counts as the lowest value

  // Gumbel.
  int max_considered = 16;
  float gumbel_scale = 1.0f;
  float value_scale = 0.1f, maxvisit_init = 50.0f;
  bool rescale_values = true;  // to 0..1 in each node; else the weight is per unit of value

  // The game's phase table, [phases * actions]: which actions can be legal, what phase follows, whether the turn passes.
  int phases = 1;
  std::vector<uint8_t> possible, next_phase, turn_passes;

  int values() const { return maxn ? players : 1; }
  int steps() const { return (simulations + leaves - 1) / leaves; }
  int nodes() const { return 1 + steps() * leaves; }

  void check() const {
    const auto require = [](bool good, const char* name, const char* expected, double got) {
      if (good && std::isfinite(got)) return;
      throw std::invalid_argument(std::string(name) + ": expected " + expected + ", got " + std::to_string(got));
    };
    require(batch >= 1, "batch", "1 or more", batch);
    require(actions >= 1 && actions <= 64, "num_actions", "1 to 64", actions);
    require(players >= 1 && players <= 64, "num_players", "1 to 64", players);
    require(simulations >= 0 && simulations < 1 << 20, "simulations", "0 to 1048575", simulations);
    require(leaves >= 1 && leaves <= 4096, "leaves", "1 to 4096", leaves);
    require(threads >= 1 && threads <= 1024, "threads", "1 to 1024", threads);
    require(discount >= 0 && discount <= 1, "discount", "0 to 1", discount);
    require(pb_c_base > 0, "pb_c_base", "a positive number", pb_c_base);
    require(pb_c_init >= 0, "pb_c_init", "0 or more", pb_c_init);
    require(dirichlet_alpha > 0, "dirichlet_alpha", "a positive number", dirichlet_alpha);
    require(dirichlet_fraction >= 0 && dirichlet_fraction <= 1, "dirichlet_fraction", "0 to 1", dirichlet_fraction);
    require(virtual_loss >= 0 && virtual_loss <= 1, "virtual_loss", "0 to 1", virtual_loss);
    require(max_considered >= 1, "max_considered", "1 or more", max_considered);
    require(gumbel_scale >= 0, "gumbel_scale", "0 or more", gumbel_scale);
    require(value_scale >= 0, "value_scale", "0 or more", value_scale);
    require(maxvisit_init >= 0, "maxvisit_init", "0 or more", maxvisit_init);
    const size_t table = static_cast<size_t>(phases) * static_cast<size_t>(actions);
    if (phases < 1 || phases > 255 || possible.size() != table || next_phase.size() != table ||
        turn_passes.size() != table) {
      throw std::invalid_argument("phase table: expected 1 to 255 phases with an entry for each of " +
                                  std::to_string(actions) + " actions");
    }
    for (uint8_t phase : next_phase) require(phase < phases, "phase table", "a phase of the table", phase);
  }
};

}  // namespace mcts
