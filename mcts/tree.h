// B search trees in flat arrays, one arena for the life of a search.
//
// Node 0 of a tree is its root. The l-th leaf of simulation step s is node 1 + s L + l, so that the network call of
// that step writes the hidden states where they stay: nothing is ever moved.
#pragma once

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace mcts {

inline constexpr int32_t kRoot = 0;
inline constexpr int32_t kNone = -1;  // index of a child that does not exist yet
inline constexpr size_t kPage = size_t{2} << 20;

// Statistics of a node, without its values and edges.
struct Node {
  int32_t parent;     // index of the parent node, kNone at the root
  int32_t edge;       // edge taken at the parent to come here: an action, or an outcome if the parent is a chance node
  int32_t visits;     // selections that passed through or ended here, pending ones included
  int32_t evaluated;  // number of values that have been backed up
  uint64_t legal;     // edges that may be taken, a bit per action or outcome
  float raw_value;    // value given by the network for the player to move
  uint8_t to_play;    // seat to move, relative to the root's player; at a chance node, after the event
  uint8_t phase;      // phase of the game; at a chance node, after the event
  uint8_t expanded : 1;  // whether the network outputs of the node have arrived
  uint8_t open : 1;      // whether walks may go on from here: equivalent actions are joined, priors are known
  uint8_t chance;        // whether this is a chance node: its edges are outcomes, otherwise actions
};

// All numbers of a node lie together, because a walk visits nodes in no order and each is a new place in memory: its
// edges field by field, then its values and rewards per player. A field is a pointer to its first entry; the entries of
// a node are found through `edge` and `per_value`.
struct Tree {
  const int batch, nodes, actions, values;
  const int stride;  // number of edges of a node; those beyond its actions or outcomes are padding
  const int block;   // numbers that a node stores

  std::vector<Node> node;  // [B, N] statistics of the nodes
  // Fields with an entry per edge, [B, N, stride].
  float* edge_visits;  // visits, pending ones included
  float* edge_values;  // number of values backed up through the edge
  float* logit;        // not set at chance nodes
  float* prior;        // 0 until a walk goes on from the node
  float* q;  // reward + discount x value of the child, for the player to move; no discount if that is a chance node
  int32_t* child;  // node index or kNone
  // Fields with an entry per node and player, [B, N, V].
  float* value;   // mean of the returns seen
  float* reward;  // reward on the edge from the parent
  float* raw;     // value given by the network; at a chance node with the reward

  Tree(int batch, int nodes, int actions, int outcomes, int values)
      : batch(batch),
        nodes(nodes),
        actions(actions),
        values(values),
        stride((std::max(actions, outcomes) + 7) / 8 * 8),
        block((6 * stride + 3 * values + 15) / 16 * 16),
        node(size()),
        numbers_(make(size() * static_cast<size_t>(block))) {
    edge_visits = &numbers_[0].real;
    edge_values = edge_visits + stride;
    logit = edge_values + stride;
    prior = logit + stride;
    q = prior + stride;
    child = &numbers_[5 * stride].whole;
    value = &numbers_[6 * stride].real;
    reward = value + values;
    raw = reward + values;
  }

  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  size_t at(int game, int32_t index) const {
    return static_cast<size_t>(game) * static_cast<size_t>(nodes) + static_cast<size_t>(index);
  }
  size_t edge(size_t n) const { return n * static_cast<size_t>(block); }
  size_t per_value(size_t n) const { return n * static_cast<size_t>(block); }

  // Resets a node to one without edges or visits; its network outputs come with its expansion.
  void clear(size_t n) {
    const size_t e = edge(n), width = static_cast<size_t>(stride);
    node[n] = Node{};
    node[n].parent = node[n].edge = kNone;
    for (float* field : {edge_visits, edge_values, prior, q}) std::memset(field + e, 0, sizeof(float) * width);
    std::memset(child + e, 0xff, sizeof(int32_t) * width);
    std::memset(value + per_value(n), 0, 2 * sizeof(float) * static_cast<size_t>(values));  // values and rewards
  }

  void prefetch(size_t n) const {
    __builtin_prefetch(&node[n], 1);
    for (int line = 0; line < block; line += 16) {
      __builtin_prefetch(edge_visits + edge(n) + line, 1);
    }
  }

  int64_t bytes() const {
    return static_cast<int64_t>(size() * (sizeof(Node) + sizeof(Number) * static_cast<size_t>(block)));
  }

 private:
  union Number {
    float real;
    int32_t whole;
  };
  struct Free {
    std::align_val_t alignment;
    void operator()(Number* numbers) const { ::operator delete[](numbers, alignment); }
  };
  using Numbers = std::unique_ptr<Number[], Free>;

  // Allocates zeros, on large pages if there are many of them and the system offers such pages: a walk visits nodes in
  // no order, and each one may be on a page that has to be looked up.
  static Numbers make(size_t count) {
    const size_t bytes = count * sizeof(Number);
    const std::align_val_t alignment{bytes >= kPage ? kPage : 64};
    void* place = ::operator new[](bytes, alignment);
#ifdef MADV_HUGEPAGE
    if (bytes >= kPage) madvise(place, bytes, MADV_HUGEPAGE);
#endif
    return Numbers(new (place) Number[count](), Free{alignment});
  }

  size_t size() const { return static_cast<size_t>(batch) * static_cast<size_t>(nodes); }

  Numbers numbers_;
};

}  // namespace mcts
