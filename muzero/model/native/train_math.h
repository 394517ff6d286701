// Layers with gradients, for a chunk of rows. Included by one source file per kind of CPU; see slot_vectors.h.
#pragma once

#include "muzero/model/native/slot_tile.h"
#include "muzero/model/native/train.h"

namespace slot_step {
namespace {

BELIEF_INLINE void add(float* to, const float* from, int n) {
  for (int i = 0; i < n; i += kWidth) store(to + i, load(to + i) + load(from + i));
}

BELIEF_INLINE void clear(float* to, int64_t n) {
  __builtin_memset(to, 0, sizeof(float) * static_cast<decltype(sizeof 0)>(n));
}

// x where `output`, the result of a ReLU, is positive, otherwise 0.
BELIEF_INLINE Vec where_positive(Vec output, Vec x) { return output > 0 ? x : Vec{}; }

BELIEF_INLINE Vec gelu_gradient(Vec x) {
  const Vec z = x * 0.70710678f;
  const Vec bell = exp(-z * z);
  const Vec half_tail = erf_tail(z, bell) * 0.5f;
  const Vec below = x > 0 ? 1.0f - half_tail : half_tail;  // normal distribution function
  return below + x * bell * 0.39894228f;
}

BELIEF_INLINE void gelu_all(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth) store(y + i, gelu(load(x + i)));
}

// dy *= gelu'(x)
BELIEF_INLINE void gelu_backward(const float* x, float* dy, int64_t n) {
  for (int64_t i = 0; i < n; i += kWidth) store(dy + i, load(dy + i) * gelu_gradient(load(x + i)));
}

BELIEF_INLINE void forward(const Layer& layer, const float* x, int64_t x_step, int rows, float* y, int64_t y_step,
                           const float* start = nullptr, int64_t start_step = 0) {
  product(layer.forward, x, x_step, rows, y, y_step, start, start_step);
}

// Adds x^T dy to a block of I inputs and C vectors of outputs of a weight's gradient.
template <int I, int C>
BELIEF_INLINE void gradient_block(const float* x, int64_t x_step, const float* dy, int64_t dy_step, int rows, float* to,
                                  int64_t to_step) {
  Vec sums[I][C];
#pragma GCC unroll 8
  for (int i = 0; i < I; ++i) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[i][c] = load(to + i * to_step + c * kWidth);
  }
  for (int r = 0; r < rows; ++r) {
    Vec d[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) d[c] = load(dy + r * dy_step + c * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < I; ++i) {
      const Vec one = all(x[r * x_step + i]);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sums[i][c] += one * d[c];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < I; ++i) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) store(to + i * to_step + c * kWidth, sums[i][c]);
  }
}

void weight_gradient(const float* x, int64_t x_step, const float* dy, int64_t dy_step, int rows, int inputs,
                     int outputs, float* to) {
  constexpr int I = kWidth == 16 ? 8 : 4;  // divides kAlign
  for (int o = 0; o < outputs;) {
    const int left = (outputs - o) / kWidth;
    if (left >= 3 && left != 4 && kWidth == 16) {
      for (int i = 0; i < inputs; i += I)
        gradient_block<I, 3>(x + i, x_step, dy + o, dy_step, rows, to + int64_t{i} * outputs + o, outputs);
      o += 3 * kWidth;
    } else if (left >= 2) {
      for (int i = 0; i < inputs; i += I)
        gradient_block<I, 2>(x + i, x_step, dy + o, dy_step, rows, to + int64_t{i} * outputs + o, outputs);
      o += 2 * kWidth;
    } else {
      for (int i = 0; i < inputs; i += I)
        gradient_block<I, 1>(x + i, x_step, dy + o, dy_step, rows, to + int64_t{i} * outputs + o, outputs);
      o += kWidth;
    }
  }
}

// Adds the gradients of a layer's parameters; writes the gradient of its inputs to dx, or adds it, unless dx is null.
void backward(const Layer& layer, float* gradient, const float* x, int64_t x_step, const float* dy, int64_t dy_step,
              int rows, float* dx, int64_t dx_step, bool adds = false) {
  const int inputs = layer.forward.inputs, outputs = layer.forward.outputs;
  weight_gradient(x, x_step, dy, dy_step, rows, inputs, outputs, gradient + layer.at);
  if (layer.biased) {
    float* bias = gradient + layer.at + int64_t{inputs} * outputs;
    for (int o = 0; o < outputs; o += kWidth) {
      Vec total = load(bias + o);
      for (int r = 0; r < rows; ++r) total += load(dy + r * dy_step + o);
      store(bias + o, total);
    }
  }
  if (dx) product(layer.backward, dy, dy_step, rows, dx, dx_step, adds ? dx : nullptr, adds ? dx_step : 0);
}

// LayerNorm that keeps the normalised numbers and the factor that normalised them.
BELIEF_INLINE void norm_forward(const LayerNorm& norm, const float* x, int n, float* y, float* normalised,
                                float* scale) {
  Vec total{};
  for (int i = 0; i < n; i += kWidth) total += load(x + i);
  const float mean = sum(total) / static_cast<float>(n);
  Vec square{};
  for (int i = 0; i < n; i += kWidth) {
    const Vec d = load(x + i) - mean;
    square += d * d;
  }
  *scale = 1.0f / __builtin_sqrtf(sum(square) / static_cast<float>(n) + 1e-5f);
  for (int i = 0; i < n; i += kWidth) {
    const Vec unit = (load(x + i) - mean) * *scale;
    store(normalised + i, unit);
    store(y + i, unit * load(norm.weight + i) + load(norm.bias + i));
  }
}

// Adds the gradients of the norm's parameters and writes the gradient of its inputs; dx may be dy.
BELIEF_INLINE void norm_backward(const Norm& norm, float* gradient, const float* dy, const float* normalised,
                                 float scale, int n, float* dx) {
  float* weight = gradient + norm.at;
  float* bias = weight + n;
  Vec total{}, along{};
  for (int i = 0; i < n; i += kWidth) {
    const Vec d = load(dy + i), unit = load(normalised + i);
    store(weight + i, load(weight + i) + d * unit);
    store(bias + i, load(bias + i) + d);
    const Vec inner = d * load(norm.forward.weight + i);
    total += inner;
    along += inner * unit;
  }
  const float mean = sum(total) / static_cast<float>(n), slope = sum(along) / static_cast<float>(n);
  for (int i = 0; i < n; i += kWidth) {
    const Vec inner = load(dy + i) * load(norm.forward.weight + i);
    store(dx + i, (inner - mean - load(normalised + i) * slope) * scale);
  }
}

// Gradient of `block_parts`: d_parts [(2 + C) M] -> d_seen [block_size, M], written, and d_shared [C, M], added.
void block_parts_backward(const Network& net, const float* seen, const float* shared_seen, const float* d_parts,
                          float* d_seen, float* d_shared) {
  const int M = net.slot_hidden;
  for (int i = 0; i < M; i += kWidth) {
    Vec total{};
    for (int z = 0; z < net.block_size; ++z) total += load(seen + z * M + i);
    const Vec d_positive = load(d_parts + i), d_pairs = load(d_parts + M + i);
    Vec d_total = d_pairs * total;
    for (int c = 0; c < net.shared; ++c) {
      const Vec d = load(d_parts + (2 + c) * M + i);
      d_total += d * load(shared_seen + c * M + i);
      store(d_shared + c * M + i, load(d_shared + c * M + i) + d * total);
    }
    for (int z = 0; z < net.block_size; ++z) {
      const Vec x = load(seen + z * M + i);
      store(d_seen + z * M + i, d_total - d_pairs * x + where_positive(x, d_positive));
    }
  }
}

}  // namespace
}  // namespace slot_step
