// SlotTrainer: forward and backward passes of a slots network's parts over all rows of a batch, on several threads.
//
// The gradient of the parameters is the sum of kGroups sums, each over a fixed part of the rows of all passes, added in a
// fixed order: the same batch gives the same bytes with any number of threads.
#pragma once

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "muzero/model/native/slot_network.h"
#include "muzero/model/native/train.h"
#include "native/aligned.h"
#include "native/thread_pool.h"

namespace slot_step {

inline std::vector<const TrainKernel*> train_kernels() {
  std::vector<const TrainKernel*> found;
  for (const Kernel* kernel : kernels()) {
#if defined(BELIEF_AVX512)
    if (kernel == &kernel_avx512) found.push_back(&train_kernel_avx512);
#endif
#if defined(BELIEF_AVX2)
    if (kernel == &kernel_avx2) found.push_back(&train_kernel_avx2);
#endif
    if (kernel == &kernel_base) found.push_back(&train_kernel_base);
  }
  return found;
}

inline const TrainKernel& train_kernel_named(const std::string& name) {
  std::string known;
  for (const TrainKernel* kernel : train_kernels()) {
    if (kernel->name == name) return *kernel;
    known += (known.empty() ? "" : ", ") + std::string(kernel->name);
  }
  throw std::invalid_argument("kernel: expected one of " + known + ", got '" + name + "'");
}

// Field of a part's parameters: `rows` times `columns` numbers.
struct Field {
  std::string name;
  int64_t rows, columns;
};

// Order of a part's parameters in one array, and their packed form.
template <class Part>
class Layout {
 public:
  Part part{};

  void layer(Layer Part::* member, const std::string& name, int inputs, int outputs, bool biased = true) {
    if (inputs % kAlign || outputs % kAlign || inputs < 1 || outputs < 1) {
      throw std::invalid_argument(name + ": expected multiples of " + std::to_string(kAlign) + ", got " +
                                  std::to_string(inputs) + " inputs and " + std::to_string(outputs) + " outputs");
    }
    Layer& layer = part.*member;
    layer.forward.inputs = layer.backward.outputs = inputs;
    layer.forward.outputs = layer.backward.inputs = outputs;
    layer.biased = biased;
    layer.at = append(name + ".weight", inputs, outputs);
    if (biased) append(name + ".bias", 1, outputs);
    layers_.push_back(member);
  }

  void norm(Norm Part::* member, const std::string& name, int count) {
    (part.*member).at = append(name + ".weight", 1, count);
    append(name + ".bias", 1, count);
    norms_.emplace_back(member, count);
  }

  void numbers(Numbers Part::* member, const std::string& name, int64_t rows, int64_t columns) {
    (part.*member).at = append(name, rows, columns);
    numbers_.push_back(member);
  }

  const std::vector<Field>& fields() const { return fields_; }
  int64_t size() const { return size_; }

  // Parameters for a kernel. The part's pointers are to memory that belongs to this object.
  class Weights {
   public:
    Weights(const Layout& layout, const TrainKernel& kernel, const float* theta) : part(layout.part) {
      theta_.assign(theta, theta + layout.size_);
      size_t count = 0;
      int widest = 0;
      for (auto member : layout.layers_) {
        const Linear& layer = (part.*member).forward;
        count += 2 * static_cast<size_t>(layer.inputs) * static_cast<size_t>(layer.outputs);
        widest = std::max({widest, layer.inputs, layer.outputs});
      }
      panels_.resize(count);
      zeros_.assign(static_cast<size_t>(widest), 0.0f);
      float* to = panels_.data();
      for (auto member : layout.layers_) {
        Layer& layer = part.*member;
        const int inputs = layer.forward.inputs, outputs = layer.forward.outputs;
        const float* w = theta_.data() + layer.at;
        layer.forward.weights = to;
        to = pack(kernel, inputs, outputs, to, [&](int k, int out) { return w[int64_t{k} * outputs + out]; });
        layer.backward.weights = to;
        to = pack(kernel, outputs, inputs, to, [&](int k, int out) { return w[int64_t{out} * outputs + k]; });
        layer.forward.bias = layer.biased ? w + int64_t{inputs} * outputs : zeros_.data();
        layer.backward.bias = zeros_.data();
      }
      for (const auto& [member, count_of] : layout.norms_) {
        Norm& norm = part.*member;
        norm.forward = {theta_.data() + norm.at, theta_.data() + norm.at + count_of};
      }
      for (auto member : layout.numbers_) (part.*member).data = theta_.data() + (part.*member).at;
    }
    Weights(const Weights&) = delete;
    Weights& operator=(const Weights&) = delete;

    Part part;

   private:
    template <class Entry>
    static float* pack(const TrainKernel& kernel, int inputs, int outputs, float* to, Entry&& entry) {
      for (int first = 0; first < outputs;) {
        const int vectors = std::min((outputs - first) / kernel.width, kernel.panel);
        for (int k = 0; k < inputs; ++k) {
          for (int out = first; out < first + vectors * kernel.width; ++out) *to++ = entry(k, out);
        }
        first += vectors * kernel.width;
      }
      return to;
    }

    native::AlignedVector<float> theta_, panels_, zeros_;
  };

 private:
  int64_t append(const std::string& name, int64_t rows, int64_t columns) {
    fields_.push_back({name, rows, columns});
    const int64_t at = size_;
    size_ += rows * columns;
    return at;
  }

  std::vector<Field> fields_;
  int64_t size_ = 0;
  std::vector<Layer Part::*> layers_;
  std::vector<std::pair<Norm Part::*, int>> norms_;
  std::vector<Numbers Part::*> numbers_;
};

class SlotTrainer {
 public:
  SlotTrainer(const std::string& kernel, const Sizes& sizes, const Indices& indices, int threads)
      : kernel_(train_kernel_named(kernel)), network_(kernel_named(kernel), sizes, indices), pool_(threads) {
    make_encoder(sizes, indices);
    make_dynamics();
    if (sizes.count("heads.numbers")) make_heads(sizes);
  }

  Layout<EncoderPart> encoder;
  Layout<DynamicsPart> dynamics;
  Layout<HeadsPart> heads;
  int threads = INT_MAX;  // most threads to use from now on

  const Network& network() const { return network_.network(); }
  const TrainKernel& kernel() const { return kernel_; }

  // Calls work(first row, rows, scratch) for every chunk.
  template <class Work>
  void forward(int64_t rows, int64_t scratch, Work&& work) {
    pool_.split(
        chunks(rows), 1,
        [&](int64_t begin, int64_t end) {
          for (int64_t chunk = begin; chunk < end; ++chunk) each(rows, chunk, scratch, work);
        },
        threads);
  }

  // Calls begin(group) for every group of chunks and work(first row, rows, scratch, group) for every chunk. Groups are
  // the same for any number of threads, so that sums over them are, too.
  template <class Begin, class Work>
  void in_groups(int64_t rows, int64_t scratch, Begin&& begin_group, Work&& work) {
    const int64_t count = chunks(rows);
    pool_.split(
        kGroups, 1,
        [&](int64_t begin, int64_t end) {
          for (int64_t group = begin; group < end; ++group) {
            begin_group(group);
            for (int64_t chunk = count * group / kGroups; chunk < count * (group + 1) / kGroups; ++chunk) {
              each(rows, chunk, scratch, [&](int64_t at, int taken, void* memory) { work(at, taken, memory, group); });
            }
          }
        },
        threads);
  }

  // Calls work(first row, rows, scratch, sum) for every chunk. The kGroups sums of `size` numbers in `sums` are set if
  // `fresh`, otherwise added to; `add_up` makes the gradient of them when all passes are done.
  template <class Work>
  void backward(int64_t rows, int64_t scratch, int64_t size, float* sums, bool fresh, Work&& work) {
    in_groups(
        rows, scratch,
        [&](int64_t group) {
          if (fresh) std::fill_n(sums + group * size, size, 0.0f);
        },
        [&](int64_t at, int taken, void* memory, int64_t group) { work(at, taken, memory, sums + group * size); });
  }

  // Writes to[i] = from[index[i]]; `from` has `size` numbers, at least one.
  void copy_indexed(int64_t size, const float* from, int64_t count, const int32_t* index, float* to) {
    pool_.split(
        count, 4096,
        [=](int64_t begin, int64_t end) {
          const auto last = static_cast<uint32_t>(size - 1);
          uint32_t highest = 0;
          for (int64_t i = begin; i < end; ++i) {
            const auto at = static_cast<uint32_t>(index[i]);
            highest = std::max(highest, at);
            to[i] = from[std::min(at, last)];
          }
          if (highest > last) throw std::out_of_range("index: expected numbers below " + std::to_string(size));
        },
        threads);
  }

  void add_up(int64_t size, const float* sums, float* gradient) {
    static_assert(kGroups == 4, "the sum below has four terms");
    const float *a = sums, *b = a + size, *c = b + size, *d = c + size;
    pool_.split(
        size, 1024,
        [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) gradient[i] = (a[i] + b[i]) + (c[i] + d[i]);
        },
        threads);
  }

  static constexpr int64_t kGroups = 4;

  static int64_t chunks(int64_t rows) { return (rows + kTile - 1) / kTile; }

  void require_steps(int64_t rows, const int64_t* action, const int64_t* shift, const int64_t* outcome) const {
    const Network& n = network();
    for (int64_t r = 0; r < rows; ++r) {
      const bool known = action[r] >= 0 && action[r] < n.actions && shift[r] >= 0 && shift[r] < n.players &&
                         outcome[r] >= 0 && outcome[r] < n.outcomes;
      if (!known) {
        throw std::out_of_range("row " + std::to_string(r) +
                                ": no such action, shift or outcome: " + std::to_string(action[r]) + ", " +
                                std::to_string(shift[r]) + ", " + std::to_string(outcome[r]));
      }
    }
  }

  // Every field's row of the table exists: codes are not negative and not beyond the field's vocabulary, whose last row
  // of the table `limits` has.
  void require_codes(int64_t rows, const int16_t* obs) const {
    const EncoderPart& part = encoder.part;
    for (int64_t r = 0; r < rows; ++r) {
      const int16_t* row = obs + r * part.row;
      for (size_t i = 0; i < columns_.size(); ++i) {
        const int code = row[columns_[i]];
        if (code < 0 || code >= limits_[i]) {
          throw std::out_of_range("observation " + std::to_string(r) + ", column " + std::to_string(columns_[i]) +
                                  ": expected a code from 0 to " + std::to_string(limits_[i] - 1) + ", got " +
                                  std::to_string(code));
        }
      }
    }
  }

 private:
  template <class Work>
  static void each(int64_t rows, int64_t chunk, int64_t scratch, Work&& work) {
    thread_local native::AlignedVector<char> memory;
    if (static_cast<int64_t>(memory.size()) < scratch + 64)
      memory = native::AlignedVector<char>(static_cast<size_t>(scratch + 64));  // nothing is copied
    const int64_t at = chunk * kTile;
    work(at, static_cast<int>(std::min<int64_t>(kTile, rows - at)), static_cast<void*>(memory.data()));
  }

  void make_encoder(const Sizes& sizes, const Indices& indices) {
    const Network& n = network();
    EncoderPart& p = encoder.part;
    const auto size = [&](const char* name, int low) {
      const auto found = sizes.find(name);
      if (found == sizes.end() || found->second < low)
        throw std::invalid_argument(std::string("sizes: ") + name + ": expected at least " + std::to_string(low));
      return found->second;
    };
    p.net = &n;
    p.width = size("encoder.width", kAlign);
    p.row = size("encoder.row", 1);
    p.table_rows = size("encoder.table_rows", 1);
    p.slot_fields = size("encoder.slot_fields", 1);
    p.others = size("encoder.others", 1);
    p.own = size("encoder.own", 0);
    p.alike_rows = size("encoder.alike_rows", 0);
    p.code_first = size("encoder.code_first", 0);
    p.codes = size("encoder.codes", 0);
    if (p.alike_rows && p.alike_rows <= n.block_size) throw std::invalid_argument("encoder.alike_rows: too few");
    if (p.code_first + p.codes > p.table_rows) throw std::invalid_argument("encoder.codes: beyond the table");
    const int W = p.width, C = n.shared;
    p.slot_column = keep(indices, "encoder.slot_column", n.slots * p.slot_fields, p.row);
    p.slot_shift = keep(indices, "encoder.slot_shift", n.slots * p.slot_fields, p.table_rows);
    p.other_start = keep(indices, "encoder.other_start", p.others + 1, 1 << 24);
    p.other_column = keep(indices, "encoder.other_column", p.other_start[p.others], p.row);
    p.other_shift = keep(indices, "encoder.other_shift", p.other_start[p.others], p.table_rows);
    p.own_start = keep(indices, "encoder.own_start", n.players * p.own + 1, 1 << 24);
    p.own_column = keep(indices, "encoder.own_column", p.own_start[n.players * p.own], p.row);
    p.own_shift = keep(indices, "encoder.own_shift", p.own_start[n.players * p.own], p.table_rows);
    p.card_column = keep(indices, "encoder.card_column", p.alike_rows ? n.slots : 0, p.row);
    p.shared_column = keep(indices, "encoder.shared_column", C, p.row);
    const int32_t* columns = keep(indices, "encoder.columns", -1, p.row);
    const auto count = kept_["encoder.columns"].size();
    const int32_t* limits = keep(indices, "encoder.limits", static_cast<int64_t>(count), 1 << 24);
    columns_.assign(columns, columns + count);
    limits_.assign(limits, limits + count);

    encoder.numbers(&EncoderPart::table, "table", p.table_rows, W);
    encoder.numbers(&EncoderPart::alike, "alike", p.alike_rows, W);
    encoder.numbers(&EncoderPart::place, "place", C, W);
    encoder.layer(&EncoderPart::block, "block", 2 * W, W);
    encoder.layer(&EncoderPart::slot_own, "slot_own", W, W);
    encoder.layer(&EncoderPart::slot_block, "slot_block", W, W, false);
    encoder.layer(&EncoderPart::to_slot, "to_slot", W, n.slot_dim);
    encoder.norm(&EncoderPart::slot_norm, "slot_norm", n.slot_dim);
    encoder.layer(&EncoderPart::rest_in, "rest_in", p.others * W, n.hidden);
    encoder.layer(&EncoderPart::rest_out, "rest_out", n.hidden, n.global_dim);
    encoder.norm(&EncoderPart::rest_norm, "rest_norm", n.global_dim);
    if (n.player_dim) {
      encoder.layer(&EncoderPart::player_in, "player_in", p.own * W, 2 * W);
      encoder.layer(&EncoderPart::player_out, "player_out", 2 * W, n.player_dim);
      encoder.norm(&EncoderPart::player_norm, "player_norm", n.player_dim);
    }
  }

  void make_dynamics() {
    const Network& n = network();
    const int A = n.actions, E = n.entries(), M = n.slot_hidden, H = n.hidden, D = n.slot_dim, R = n.rest_dim();
    const int V = n.players * n.player_dim, C = n.shared;
    dynamics.part.net = &n;
    dynamics.layer(&DynamicsPart::slot_in, "slot_in", D, M);
    dynamics.layer(&DynamicsPart::compare, "compare", R, M);
    if (C) dynamics.layer(&DynamicsPart::pass_on, "pass_on", C * D, M, false);
    dynamics.layer(&DynamicsPart::rest_in, "rest_in", V + R, H);
    dynamics.layer(&DynamicsPart::gather, "gather", 4 * M, H, false);
    dynamics.layer(&DynamicsPart::hidden, "hidden", H, H);
    dynamics.layer(&DynamicsPart::consequences, "consequences", H, n.global_dim + M + V);
    dynamics.layer(&DynamicsPart::slot_out, "slot_out", M, D);
    dynamics.layer(&DynamicsPart::trunk_slot, "trunk.slot", D, M);
    dynamics.layer(&DynamicsPart::trunk_block, "trunk.block", (2 + C) * M, M);
    dynamics.norm(&DynamicsPart::slot_norm, "slot_norm", D);
    if (n.player_dim) dynamics.norm(&DynamicsPart::player_norm, "player_norm", n.player_dim);
    dynamics.norm(&DynamicsPart::rest_norm, "rest_norm", n.global_dim);
    dynamics.numbers(&DynamicsPart::role, "role", A * E, M);
    dynamics.numbers(&DynamicsPart::role_factor, "role_factor", A * E, M);
    dynamics.numbers(&DynamicsPart::moved, "moved", A * (n.touches + C), E);
    dynamics.numbers(&DynamicsPart::kind, "kind", n.kinds, H);
    dynamics.numbers(&DynamicsPart::turn, "turn", n.players, H);
    dynamics.numbers(&DynamicsPart::outcome, "outcome", n.told() ? n.outcomes : 0, D);
  }

  // Only for the learner: a trainer without the size heads.numbers has no heads.
  void make_heads(const Sizes& sizes) {
    const Network& n = network();
    const int M = n.slot_hidden, H = n.hidden, D = n.slot_dim, R = n.rest_dim(), C = n.shared;
    HeadsPart& p = heads.part;
    p.net = &n;
    const auto numbers = sizes.find("heads.numbers");
    if (numbers->second < kAlign)
      throw std::invalid_argument("sizes: heads.numbers: expected at least " + std::to_string(kAlign));
    p.numbers = numbers->second;
    p.outcomes = n.told() ? (n.outcomes + kAlign - 1) / kAlign * kAlign : 0;
    heads.layer(&HeadsPart::slot, "slot", D, M);
    heads.layer(&HeadsPart::block, "block", (2 + C) * M, M);
    heads.layer(&HeadsPart::boards, "boards", n.players * n.pooled(), H);
    heads.layer(&HeadsPart::rest, "rest", R, H, false);
    heads.layer(&HeadsPart::mix, "mix", H, H);
    heads.layer(&HeadsPart::all_numbers, "numbers", H, p.numbers);
    if (p.outcomes) heads.layer(&HeadsPart::outcome, "outcome", H, p.outcomes);
    heads.layer(&HeadsPart::kind_and_context, "kind_and_context", H, n.kinds + 2 * M);
    heads.layer(&HeadsPart::policy_slot, "policy_slot", D, M);
    heads.layer(&HeadsPart::policy_block, "policy_block", M, M, false);
    heads.layer(&HeadsPart::score, "score", M, (n.roles + kAlign - 1) / kAlign * kAlign);
    heads.norm(&HeadsPart::condition, "condition", R);
    heads.numbers(&HeadsPart::ego, "ego", n.egos, R);
    heads.numbers(&HeadsPart::pair_scale, "pair_scale", 1, n.pairs ? M : 0);
    if (n.pair_dim) heads.layer(&HeadsPart::in_role, "in_role", D, n.roles * n.pair_dim);
    heads.numbers(&HeadsPart::of_pairs, "of_pairs", 1, n.pair_dim);
  }

  // Keeps a table of indices from 0 to end - 1; of any size if `size` is negative.
  const int32_t* keep(const Indices& tables, const std::string& name, int64_t size, int end) {
    const auto found = tables.find(name);
    if (found == tables.end()) throw std::invalid_argument(name + " is missing");
    const Table<int32_t>& table = found->second;
    if (size >= 0 && table.size != size) {
      throw std::invalid_argument(name + ": expected " + std::to_string(size) + " numbers, got " +
                                  std::to_string(table.size));
    }
    for (int64_t i = 0; i < table.size; ++i) {
      if (table.data[i] < 0 || table.data[i] >= end)
        throw std::invalid_argument(name + ": expected numbers from 0 to " + std::to_string(end - 1) + ", got " +
                                    std::to_string(table.data[i]));
    }
    std::vector<int32_t>& kept = kept_[name];
    kept.assign(table.data, table.data + table.size);
    return kept.data();
  }

  const TrainKernel& kernel_;
  const SlotNetwork network_;
  native::ThreadPool pool_;
  std::map<std::string, std::vector<int32_t>> kept_;
  std::vector<int32_t> columns_, limits_;
};

}  // namespace slot_step
