// What the trees ask of the network.
#pragma once

#include <cstdint>

namespace mcts {

// Evaluations that the network has to make in one step, [L, B].
struct Requests {
  int64_t* parent;  // index into hidden states laid out [nodes, B], of a decision node
  int64_t* action;
  int64_t* shift;    // number of seats by which the turn moves on, 0 where the player goes on
  int64_t* to_play;  // seat to move at the new node, relative to the root's player
  int64_t* outcome;  // outcome of the chance event after the action, 0 where it is not told
};

}  // namespace mcts
