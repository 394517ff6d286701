// B search trees in flat arrays, one arena for the life of a search.
//
// Node 0 of a tree is its root; the node that simulation step s adds as its l-th leaf is node 1 + s L + l, so that the
// hidden state of a node lies where that step's network call puts it and nothing is ever moved.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace mcts {

inline constexpr int32_t kRoot = 0;
inline constexpr int32_t kNone = -1;  // no child there yet

struct Tree {
  int batch, nodes, actions, stride, values;

  // Per node, [B, N].
  std::vector<int32_t> parent;     // kNone at the root
  std::vector<int32_t> action;     // taken at the parent to come here
  std::vector<int32_t> visits;     // selections that came through or ended here, pending ones included
  std::vector<int32_t> evaluated;  // values that came back
  std::vector<uint64_t> legal;     // bit per action
  std::vector<uint8_t> to_play;    // seat relative to the root's player
  std::vector<uint8_t> phase;
  std::vector<uint8_t> expanded;  // its network outputs have arrived
  std::vector<float> raw_value;   // the network's, for the player to move
  // Per node and player, [B, N, V].
  std::vector<float> value;   // mean of the returns seen
  std::vector<float> reward;  // on the edge from the parent
  // Per edge, [B, N, stride]; the last stride - A are padding.
  std::vector<int32_t> child;      // node or kNone
  std::vector<float> edge_visits;  // pending ones included
  std::vector<float> edge_values;  // evaluated ones
  std::vector<float> logit;
  std::vector<float> prior;
  std::vector<float> q;  // reward + discount x value of the child, for the player to move

  Tree(int batch, int nodes, int actions, int values)
      : batch(batch), nodes(nodes), actions(actions), stride((actions + 7) / 8 * 8), values(values) {
    const size_t n = static_cast<size_t>(batch) * static_cast<size_t>(nodes);
    const size_t edges = n * static_cast<size_t>(stride);
    for (auto* field : {&parent, &action, &visits, &evaluated}) field->resize(n);
    for (auto* field : {&to_play, &phase, &expanded}) field->resize(n);
    for (auto* field : {&value, &reward}) field->resize(n * static_cast<size_t>(values));
    for (auto* field : {&edge_visits, &edge_values, &logit, &prior, &q}) field->resize(edges);
    legal.resize(n);
    raw_value.resize(n);
    child.resize(edges);
  }

  size_t at(int game, int32_t node) const {
    return static_cast<size_t>(game) * static_cast<size_t>(nodes) + static_cast<size_t>(node);
  }
  size_t edge(size_t node) const { return node * static_cast<size_t>(stride); }
  size_t per_value(size_t node) const { return node * static_cast<size_t>(values); }

  // A node without edges or visits; its outputs come with expansion.
  void clear(size_t node) {
    const size_t e = edge(node), width = static_cast<size_t>(stride);
    parent[node] = action[node] = kNone;
    visits[node] = evaluated[node] = 0;
    expanded[node] = 0;
    std::memset(&value[per_value(node)], 0, sizeof(float) * static_cast<size_t>(values));
    std::memset(&reward[per_value(node)], 0, sizeof(float) * static_cast<size_t>(values));
    for (auto* field : {&edge_visits, &edge_values, &q}) std::memset(&(*field)[e], 0, sizeof(float) * width);
    std::memset(&child[e], 0xff, sizeof(int32_t) * width);
  }

  int64_t bytes() const {
    const auto size = [](const auto& field) { return static_cast<int64_t>(field.size() * sizeof(field[0])); };
    return size(parent) + size(action) + size(visits) + size(evaluated) + size(legal) + size(to_play) + size(phase) +
           size(expanded) + size(raw_value) + size(value) + size(reward) + size(child) + size(edge_visits) +
           size(edge_values) + size(logit) + size(prior) + size(q);
  }
};

}  // namespace mcts
