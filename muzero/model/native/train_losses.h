// Losses of the heads' predictions for a chunk of rows, and their gradients. muzero/model/head_losses.py defines them.
// Included by one source file per kind of CPU; see slot_vectors.h.
#pragma once

#include "muzero/model/native/train_math.h"

namespace slot_step {
namespace {

constexpr float kNever = -1e30f;  // logit of what cannot happen

// x[0] to x[n - 1] as a vector, the rest filled up.
BELIEF_INLINE Vec load_some(const float* x, int n, float rest) {
  if (n >= kWidth) return load(x);
#if defined(__AVX512F__)
  return _mm512_mask_loadu_ps(all(rest), static_cast<__mmask16>((1u << n) - 1), x);
#else
  float part[kWidth];
  for (int i = 0; i < kWidth; ++i) part[i] = i < n ? x[i] : rest;
  return load(part);
#endif
}

BELIEF_INLINE void store_some(float* p, Vec x, int n) {
  if (n >= kWidth) return store(p, x);
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x);
#else
  float part[kWidth];
  store(part, x);
  for (int i = 0; i < n; ++i) p[i] = part[i];
#endif
}

// Distribution of n logits: exp(x - most) / total.
struct Softmax {
  const float* x;
  int n;
  float most, total;

  BELIEF_INLINE Softmax(const float* logits, int count) : x(logits), n(count) {
    Vec top = all(kNever);
    for (int i = 0; i < n; i += kWidth) top = larger(top, load_some(x + i, n - i, kNever));
    most = largest(top);
    Vec sums{};
    for (int i = 0; i < n; i += kWidth) sums += exp(load_some(x + i, n - i, kNever) - most);
    total = sum(sums);
  }

  float log_total() const { return most + __builtin_logf(total); }

  // d = scale * probability
  BELIEF_INLINE void scaled(float scale, float* d) const {
    const float factor = scale / total;
    for (int i = 0; i < n; i += kWidth) store_some(d + i, exp(load_some(x + i, n - i, kNever) - most) * factor, n - i);
  }

  // Expectation of low + i * step.
  BELIEF_INLINE float expectation(float low, float step) const {
    float place[kWidth];
    for (int i = 0; i < kWidth; ++i) place[i] = static_cast<float>(i);
    Vec sums{};
    for (int i = 0; i < n; i += kWidth)
      sums += exp(load_some(x + i, n - i, kNever) - most) * (load(place) + static_cast<float>(i));
    return low + step * sum(sums) / total;
  }
};

// Number as a distribution on the two bins around it.
struct TwoHot {
  int lower;
  float upper;  // weight of the upper bin

  TwoHot(float number, const Bins& bins, int count) {
    const float inside = number < bins.low ? bins.low : number > bins.high ? bins.high : number;
    const float place = (inside - bins.low) / (bins.high - bins.low) * static_cast<float>(count - 1);
    lower = static_cast<int>(place);
    if (lower > count - 2) lower = count - 2;
    upper = place - static_cast<float>(lower);
  }
};

class LossChunk {
 public:
  LossChunk(const LossPart& part, const LossRows& rows) : p_(part), r_(rows) {}

  void run_forward() {
    for (int r = 0; r < r_.rows; ++r) forward(r);
  }

  void run_backward() {
    for (int r = 0; r < r_.rows; ++r) backward(r);
  }

 private:
  enum Kind { kValue, kReward, kPoints };

  const float* row(int r) const { return r_.numbers + int64_t{r} * p_.egos * p_.numbers; }
  bool ego() const { return p_.egos > 1; }
  int seats() const { return ego() ? 1 : p_.players; }  // seats whose numbers stand together

  // First logit of a seat's number, counted from the row's first.
  int at(Kind kind, int seat) const {
    const int first = kind * seats() * p_.bins;
    return ego() ? seat * p_.numbers + first : first + seat * p_.bins;
  }

  // First logit of an ego's winner, and of its ranks.
  int winner_at(int ego) const { return ego * p_.numbers + (p_.points ? 3 : 2) * seats() * p_.bins; }
  int rank_at(int ego, int seat) const { return winner_at(ego) + (1 + seat) * p_.players; }

  float& loss(int kind, int r) const { return r_.losses[kind * r_.stride + r]; }
  float given(int kind, int r) const { return r_.d_losses[kind * r_.stride + r]; }

  float number_loss(const Softmax& found, float target, const Bins& bins) const {
    const TwoHot two(target, bins, p_.bins);
    return found.log_total() - (1.0f - two.upper) * found.x[two.lower] - two.upper * found.x[two.lower + 1];
  }

  void number_gradient(const float* x, float target, const Bins& bins, float scale, float* d) const {
    const TwoHot two(target, bins, p_.bins);
    Softmax(x, p_.bins).scaled(scale, d);
    d[two.lower] -= scale * (1.0f - two.upper);
    d[two.lower + 1] -= scale * two.upper;
  }

  static float distribution_loss(const float* x, const float* target, int n) {
    float whole = 0.0f, along = 0.0f;
    for (int i = 0; i < n; ++i) {
      whole += target[i];
      along += target[i] * x[i];
    }
    return whole * Softmax(x, n).log_total() - along;
  }

  static void distribution_gradient(const float* x, const float* target, int n, float scale, float* d) {
    float whole = 0.0f;
    for (int i = 0; i < n; ++i) whole += target[i];
    Softmax(x, n).scaled(scale * whole, d);
    for (int i = 0; i < n; ++i) d[i] -= scale * target[i];
  }

  // Targets of a table's seats, counted from an ego's seat: [P] or [P, columns], turned into `turned_`.
  const float* from_ego(const float* target, int ego, int columns) {
    for (int i = 0; i < p_.players; ++i) {
      const float* seat = target + (i + ego) % p_.players * columns;
      for (int c = 0; c < columns; ++c) turned_[i * columns + c] = seat[c];
    }
    return turned_;
  }

  const float* shares(int r) const { return r_.shares + r * r_.shares_step; }

  void forward(int r) {
    const int P = p_.players, A = p_.actions;
    const float* x = row(r);
    const float* share = shares(r);
    loss(0, r) =
        r_.policy_target ? distribution_loss(r_.policy + int64_t{r} * A, r_.policy_target + int64_t{r} * A, A) : 0.0f;
    const float step = (p_.values.high - p_.values.low) / static_cast<float>(p_.bins - 1);
    float value = 0.0f, reward = 0.0f, points = 0.0f;
    for (int s = 0; s < P; ++s) {
      const Softmax values(x + at(kValue, s), p_.bins);
      if (s == 0) r_.value[r] = values.expectation(p_.values.low, step);
      value += share[s] * number_loss(values, r_.value_target[r * P + s], p_.values);
      reward += number_loss({x + at(kReward, s), p_.bins}, r_.reward_target[r * P + s], p_.values);
      if (r_.points_target) {
        const float target = r_.points_target[r * P + s];
        points += share[s] * number_loss({x + at(kPoints, s), p_.bins}, target, p_.point_values);
      }
    }
    loss(1, r) = value;
    loss(2, r) = reward / static_cast<float>(P);
    loss(5, r) = points;
    float winner = 0.0f, rank = 0.0f;
    for (int e = 0; r_.winner_target && e < p_.egos; ++e) {
      winner += distribution_loss(x + winner_at(e), from_ego(r_.winner_target + r * P, e, 1), P);
      const float* ranks = from_ego(r_.rank_target + r * P * P, e, P);
      for (int s = 0; s < P; ++s) rank += distribution_loss(x + rank_at(e, s), ranks + s * P, P);
    }
    loss(3, r) = winner / static_cast<float>(p_.egos);
    loss(4, r) = rank / static_cast<float>(p_.egos * P);
    loss(6, r) = 0.0f;
    if (r_.outcome_target) {
      const float* logits = r_.outcome + int64_t{r} * p_.outcome_columns;
      loss(6, r) = Softmax(logits, p_.outcomes).log_total() - logits[r_.outcome_target[r]];
    }
  }

  void backward(int r) {
    const int P = p_.players, A = p_.actions, all_numbers = p_.egos * p_.numbers;
    const float* x = row(r);
    const float* share = shares(r);
    float* d = r_.d_numbers + int64_t{r} * all_numbers;
    clear(d, all_numbers);
    if (r_.policy_target) {
      distribution_gradient(r_.policy + int64_t{r} * A, r_.policy_target + int64_t{r} * A, A, given(0, r),
                            r_.d_policy + int64_t{r} * A);
    } else {
      clear(r_.d_policy + int64_t{r} * A, A);
    }
    for (int s = 0; s < P; ++s) {
      const int value = at(kValue, s), reward = at(kReward, s), points = at(kPoints, s);
      number_gradient(x + value, r_.value_target[r * P + s], p_.values, share[s] * given(1, r), d + value);
      number_gradient(x + reward, r_.reward_target[r * P + s], p_.values, given(2, r) / static_cast<float>(P),
                      d + reward);
      if (r_.points_target)
        number_gradient(x + points, r_.points_target[r * P + s], p_.point_values, share[s] * given(5, r), d + points);
    }
    const float of_winner = given(3, r) / static_cast<float>(p_.egos),
                of_rank = given(4, r) / static_cast<float>(p_.egos * P);
    for (int e = 0; r_.winner_target && e < p_.egos; ++e) {
      distribution_gradient(x + winner_at(e), from_ego(r_.winner_target + r * P, e, 1), P, of_winner, d + winner_at(e));
      const float* ranks = from_ego(r_.rank_target + r * P * P, e, P);
      for (int s = 0; s < P; ++s)
        distribution_gradient(x + rank_at(e, s), ranks + s * P, P, of_rank, d + rank_at(e, s));
    }
    if (r_.outcome_target) {
      float* d_outcome = r_.d_outcome + int64_t{r} * p_.outcome_columns;
      clear(d_outcome, p_.outcome_columns);
      Softmax(r_.outcome + int64_t{r} * p_.outcome_columns, p_.outcomes).scaled(given(6, r), d_outcome);
      d_outcome[r_.outcome_target[r]] -= given(6, r);
    }
  }

  const LossPart& p_;
  const LossRows& r_;
  float turned_[kMostPlayers * kMostPlayers];
};

// Losses of what a position shows: cross entropy of the slots' fields, mean over slots, and binary cross entropy of the
// numbers of equal cards, mean over blocks.
class VisibleChunk {
 public:
  VisibleChunk(const VisiblePart& part, const VisibleRows& rows) : p_(part), r_(rows) {}

  void run_forward() {
    for (int r = 0; r < r_.rows; ++r) forward(r);
  }

  void run_backward() {
    for (int r = 0; r < r_.rows; ++r) backward(r);
  }

 private:
  int matches() const { return p_.shared * p_.block_size; }  // logits of a block

  // Calls use(first logit, vocabulary, code) for every field of every slot.
  template <class Use>
  BELIEF_INLINE void for_fields(const int16_t* seen, const Use& use) const {
    int at = 0;
    for (int s = 0; s < p_.slots; ++s) {
      for (int f = 0; f < p_.fields; ++f) {
        use(at, p_.vocabulary[f], seen[p_.column[s * p_.fields + f]]);
        at += p_.vocabulary[f];
      }
    }
  }

  // Calls use(logit, whether so many cards are equal) for every number of every shared card and block.
  template <class Use>
  BELIEF_INLINE void for_matches(const int16_t* seen, const Use& use) const {
    int at = 0;
    for (int b = 0; b < p_.blocks; ++b) {
      for (int c = 0; c < p_.shared; ++c) {
        const int16_t card = seen[p_.shared_column[c]];
        int equal = 0;
        for (int i = 0; i < p_.block_size; ++i) {
          const int16_t here = seen[p_.card[b * p_.block_size + i]];
          equal += here == card && here > 0;
        }
        for (int number = 1; number <= p_.block_size; ++number) use(at++, equal == number);
      }
    }
  }

  void forward(int r) const {
    const int16_t* seen = r_.obs + int64_t{r} * p_.row;
    const float* x = r_.fields + int64_t{r} * p_.slots * p_.logits;
    float fields = 0.0f, cards = 0.0f;
    for_fields(seen, [&](int at, int n, int code) { fields += Softmax(x + at, n).log_total() - x[at + code]; });
    if (p_.shared) {
      const float* y = r_.matches + int64_t{r} * p_.blocks * matches();
      for_matches(seen, [&](int at, bool equal) {
        const float size = y[at] < 0.0f ? y[at] : -y[at];
        cards += (y[at] > 0.0f ? y[at] : 0.0f) + __builtin_log1pf(__builtin_expf(size)) - (equal ? y[at] : 0.0f);
      });
      cards /= static_cast<float>(p_.blocks);
    }
    r_.loss[r] = fields / static_cast<float>(p_.slots) + cards;
  }

  void backward(int r) const {
    const int16_t* seen = r_.obs + int64_t{r} * p_.row;
    const float* x = r_.fields + int64_t{r} * p_.slots * p_.logits;
    float* d = r_.d_fields + int64_t{r} * p_.slots * p_.logits;
    const float each = r_.d_loss[r] / static_cast<float>(p_.slots);
    for_fields(seen, [&](int at, int n, int code) {
      Softmax(x + at, n).scaled(each, d + at);
      d[at + code] -= each;
    });
    if (!p_.shared) return;
    const float* y = r_.matches + int64_t{r} * p_.blocks * matches();
    float* dy = r_.d_matches + int64_t{r} * p_.blocks * matches();
    const float of_block = r_.d_loss[r] / static_cast<float>(p_.blocks);
    for_matches(seen, [&](int at, bool equal) {
      const float likely = 1.0f / (1.0f + __builtin_expf(-y[at]));
      dy[at] = of_block * (likely - (equal ? 1.0f : 0.0f));
    });
  }

  const VisiblePart& p_;
  const VisibleRows& r_;
};

}  // namespace
}  // namespace slot_step
