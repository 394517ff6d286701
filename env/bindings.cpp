// Python bindings of the core (module env._native). No game is named here; see games.h.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <atomic>

#include "env/description_bindings.h"
#include "env/games.h"
#include "env/world_search.h"
#include "native/arrays.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace env {
namespace {

using native::Array;
using native::data_of;
using native::Input;

// An environment and the arrays it writes to, which it keeps alive.
class PyEnv {
 public:
  PyEnv(const std::string& game, const Options& options) : env_(make_vec_env(game, options)) {}

  // The environment for one call. A second thread is refused in the meantime: tables have no locks.
  class Turn {
   public:
    explicit Turn(PyEnv& owner) : owner_(owner) {
      if (owner.busy_.test_and_set()) throw std::runtime_error("this environment is in use by another thread");
    }
    ~Turn() { owner_.busy_.clear(); }
    Turn(const Turn&) = delete;
    AnyVecEnv* operator->() { return owner_.env_.get(); }

   private:
    PyEnv& owner_;
  };

  Turn take() { return Turn(*this); }
  const AnyVecEnv& native() const { return *env_; }
  const GameInfo& info() const { return env_->info(); }
  const Options& options() const { return env_->options(); }
  int64_t batch() const { return env_->options().num_envs; }
  int64_t players() const { return env_->options().num_players; }
  int64_t width() const { return env_->info().observation.width; }
  int64_t num_stats() const { return static_cast<int64_t>(env_->info().stat_names.size()); }

  void bind(nb::kwargs arrays) {
    Buffers buffers;
    std::vector<Array> kept;
    const int64_t B = batch(), P = players(), A = env_->info().num_actions;
    for (auto [key, value] : arrays) {
      const std::string name = nb::cast<std::string>(key);
      Array array;
      if (!nb::try_cast(value, array)) {
        throw std::invalid_argument(name + ": expected a writable array in CPU memory");
      }
      const char* n = name.c_str();
      if (name == "obs")
        buffers.obs = data_of<int16_t>(array, n, {B, width()});
      else if (name == "legal")
        buffers.legal = data_of<bool>(array, n, {B, A});
      else if (name == "legal_bits")
        buffers.legal_bits = data_of<uint64_t>(array, n, {B});
      else if (name == "to_play")
        buffers.to_play = data_of<int8_t>(array, n, {B});
      else if (name == "phase")
        buffers.phase = data_of<int8_t>(array, n, {B});
      else if (name == "rewards")
        buffers.rewards = data_of<float>(array, n, {B, P});
      else if (name == "scores")
        buffers.scores = data_of<int32_t>(array, n, {B, P});
      else if (name == "ranks")
        buffers.ranks = data_of<int8_t>(array, n, {B, P});
      else if (name == "outcome")
        buffers.outcome = data_of<int8_t>(array, n, {B});
      else if (name == "done")
        buffers.done = data_of<bool>(array, n, {B});
      else if (name == "truncated")
        buffers.truncated = data_of<bool>(array, n, {B});
      else if (name == "stats")
        buffers.stats = data_of<int32_t>(array, n, {B, num_stats()});
      else
        throw std::invalid_argument("no buffer is called '" + name + "'");
      kept.push_back(array);
    }
    take()->bind(buffers);
    kept_ = std::move(kept);
  }

  void step(const Input& actions) {
    const int64_t* data = whole_numbers(actions, "actions", scratch_);
    nb::gil_scoped_release release;
    take()->step(data, nullptr);
  }

  void step_told(const Input& actions, const Input& outcomes) {
    const int64_t* data = whole_numbers(actions, "actions", scratch_);
    const int64_t* told = data_of<int64_t>(outcomes, "outcomes", {batch()});
    nb::gil_scoped_release release;
    take()->step(data, told);
  }

  void odds(const Input& actions, const Array& out) {
    std::vector<int64_t> scratch;
    const int64_t* data = whole_numbers(actions, "actions", scratch);
    float* o = data_of<float>(out, "out", {batch(), info().num_outcomes});
    nb::gil_scoped_release release;
    take()->odds(data, o);
  }

 private:
  // One number per table, int64 or int32.
  const int64_t* whole_numbers(const Input& numbers, const char* name, std::vector<int64_t>& scratch) const {
    if (numbers.dtype() != nb::dtype<int32_t>()) return data_of<int64_t>(numbers, name, {batch()});
    const int32_t* narrow = data_of<int32_t>(numbers, name, {batch()});
    scratch.assign(narrow, narrow + batch());
    return scratch.data();
  }

  std::unique_ptr<AnyVecEnv> env_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::vector<Array> kept_;
  std::vector<int64_t> scratch_;
};

// A bot of one game and number of players. It also acts on rows that Python hands it, with randomness of its own for
// row i of call n.
class PyBot {
 public:
  PyBot(std::shared_ptr<Bot> bot, const GameInfo& info, int players)
      : bot_(std::move(bot)),
        game_(info.name),
        players_(players),
        actions_(info.num_actions),
        spec_(info.observation) {}

  void act(const Input& obs, const Input& legal, const Array& out, uint64_t seed, uint64_t call) const {
    const auto rows = static_cast<int64_t>(obs.ndim() ? obs.shape(0) : 0);
    const int64_t width = spec_.width;
    const int16_t* row = data_of<int16_t>(obs, "obs", {rows, width});
    const bool packed = legal.dtype() == nb::dtype<uint64_t>();
    const uint64_t* bits_of = packed ? data_of<uint64_t>(legal, "legal", {rows}) : nullptr;
    const auto* mask =
        packed ? nullptr : reinterpret_cast<const uint8_t*>(data_of<bool>(legal, "legal", {rows, actions_}));
    int64_t* chosen = data_of<int64_t>(out, "out", {rows});
    nb::gil_scoped_release release;
    for (int64_t i = 0; i < rows; ++i) {
      require_categories(i, row + i * width);
      uint64_t bits = packed ? bits_of[i] : 0;
      for (int64_t a = 0; !packed && a < actions_; ++a) bits |= uint64_t{mask[i * actions_ + a] != 0} << a;
      Rng rng{make_key({seed, call, static_cast<uint64_t>(i)}), 0};
      chosen[i] = bits ? bot_->choose(row + i * width, bits, rng) : kSkip;
      if (bits && (chosen[i] < 0 || chosen[i] >= actions_ || !(bits >> chosen[i] & 1))) {
        throw std::invalid_argument("row " + std::to_string(i) + ": obs and legal do not belong together");
      }
    }
  }

  std::shared_ptr<Bot> seated_at(const PyEnv& env) const {
    if (env.info().name == game_ && env.options().num_players == players_) return bot_;
    throw std::invalid_argument("a bot for " + game_ + " with " + std::to_string(players_) + " players cannot play " +
                                env.info().name + " with " + std::to_string(env.options().num_players));
  }

 private:
  void require_categories(int64_t row, const int16_t* value) const {
    for (const TokenGroup& group : spec_.groups) {
      for (int token = 0; token < group.count; ++token) {
        for (const Field& field : group.fields) {
          if (*value >= 0 && *value < field.vocabulary) {
            ++value;
            continue;
          }
          throw std::invalid_argument("row " + std::to_string(row) + ": " + group.name + "." + field.name +
                                      ": expected 0 to " + std::to_string(field.vocabulary - 1) + ", got " +
                                      std::to_string(*value));
        }
      }
    }
  }

  const std::shared_ptr<Bot> bot_;
  const std::string game_;
  const int players_;
  const int64_t actions_;
  const ObservationSpec spec_;
};

std::vector<std::shared_ptr<Bot>> seats_of(const PyEnv& env, const nb::list& bots) {
  std::vector<std::shared_ptr<Bot>> seats;
  for (nb::handle item : bots) {
    seats.push_back(item.is_none() ? nullptr : nb::cast<const PyBot&>(item).seated_at(env));
  }
  return seats;
}

// Searches tables of whatever game they are of.
void search_any(const AnyVecEnv& env, const std::vector<int>& rows, const WorldSearchOptions& options, int threads,
                int32_t* visits, float* values) {
  for_each_game([&](auto game) {
    const auto* tables = dynamic_cast<const VecEnv<decltype(game)>*>(&env);
    if (tables) search_worlds(*tables, rows, options, threads, visits, values);
  });
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // objects that live until the interpreter ends are no leaks: workers keep their agents
  m.attr("SKIP") = kSkip;
  m.attr("DEALER") = kDealer;
  m.def("games", [] {
    std::vector<std::string> names;
    for_each_game([&](auto game) { names.push_back(decltype(game)::kName); });
    return names;
  });

  bind_description(m);
  m.def("describe", &describe_game, "game"_a, nb::kw_only(), "num_players"_a, "preset"_a, "rules"_a, "counts"_a);

  nb::class_<PyBot>(m, "Bot").def("act", &PyBot::act, "obs"_a, "legal"_a, "out"_a, "seed"_a, "call"_a);

  nb::class_<PyEnv>(m, "Env")
      .def(
          "__init__",
          [](PyEnv* self, const std::string& game, int num_envs, int num_players, const std::string& preset,
             const RuleList& rules, uint64_t seed, int threads, bool auto_reset, bool counts) {
            Options options;
            options.num_envs = num_envs;
            options.num_players = num_players;
            options.threads = threads;
            options.seed = seed;
            options.auto_reset = auto_reset;
            options.counts = counts;
            options.preset = preset;
            options.rules = rules;
            new (self) PyEnv(game, options);
          },
          "game"_a, nb::kw_only(), "num_envs"_a, "num_players"_a, "preset"_a, "rules"_a, "seed"_a, "threads"_a,
          "auto_reset"_a, "counts"_a)
      .def("bind", &PyEnv::bind)
      .def("step", &PyEnv::step, "actions"_a)
      .def("step_told", &PyEnv::step_told, "actions"_a, "outcomes"_a)
      .def("odds", &PyEnv::odds, "actions"_a, "out"_a)
      .def(
          "reset",
          [](PyEnv& e, uint64_t seed, const std::vector<int>& tables, const std::vector<uint64_t>& deals) {
            if (tables.size() != deals.size()) {
              throw std::invalid_argument("deals: expected " + std::to_string(tables.size()) + ", got " +
                                          std::to_string(deals.size()));
            }
            e.take()->reset(seed, tables, deals);
          },
          "seed"_a, "tables"_a, "deals"_a)
      .def(
          "observe",
          [](PyEnv& e, const Input& seats, const Array& out) {
            const int8_t* s = data_of<int8_t>(seats, "seats", {e.batch()});
            int16_t* o = data_of<int16_t>(out, "out", {e.batch(), e.width()});
            nb::gil_scoped_release release;
            e.take()->observe(s, o);
          },
          "seats"_a, "out"_a)
      .def(
          "unseen_counts",
          [](PyEnv& e, const Input& seats, const Array& out) {
            const GameInfo& info = e.info();
            e.take()->unseen_counts(data_of<int8_t>(seats, "seats", {e.batch()}),
                                    data_of<int16_t>(out, "out", {e.batch(), info.num_pools, info.num_card_kinds}));
          },
          "seats"_a, "out"_a)
      .def(
          "draws",
          [](PyEnv& e, const Input& seats, const Array& out) {
            e.take()->draws(data_of<int8_t>(seats, "seats", {e.batch()}),
                            data_of<int8_t>(out, "out", {e.batch(), e.info().num_draws}));
          },
          "seats"_a, "out"_a)
      .def(
          "true_cards",
          [](PyEnv& e, const Input& seats, const Array& out) {
            e.take()->true_cards(data_of<int8_t>(seats, "seats", {e.batch()}),
                                 data_of<int8_t>(out, "out", {e.batch(), e.players() * e.info().slots()}));
          },
          "seats"_a, "out"_a)
      .def(
          "slot_classes",
          [](PyEnv& e, const Array& out) {
            uint8_t* o = data_of<uint8_t>(out, "out", {e.batch(), e.players() * e.info().slots()});
            nb::gil_scoped_release release;
            e.take()->slot_classes(o);
          },
          "out"_a)
      .def(
          "determinize",
          [](PyEnv& e, const Input& seats, const Input& seeds) {
            e.take()->determinize(data_of<int8_t>(seats, "seats", {e.batch()}),
                                  data_of<uint64_t>(seeds, "seeds", {e.batch()}));
          },
          "seats"_a, "seeds"_a)
      .def(
          "relabel",
          [](PyEnv& e, const Input& to, const Array& rows) {
            const auto count = static_cast<int64_t>(rows.ndim() ? rows.shape(0) : 0);
            e.take()->relabel(data_of<int8_t>(to, "to", {count, e.info().slots()}), count,
                              data_of<int16_t>(rows, "rows", {count, e.width()}));
          },
          "to"_a, "rows"_a)
      .def(
          "decision_keys",
          [](PyEnv& e, uint64_t seed, const Array& out) {
            e.take()->decision_keys(seed, data_of<uint64_t>(out, "out", {e.batch()}));
          },
          "seed"_a, "out"_a)
      .def(
          "playout",
          [](PyEnv& e, const nb::list& bots, uint64_t seed, bool round) {
            const auto seats = seats_of(e, bots);
            nb::gil_scoped_release release;
            e.take()->playout(seats, seed, round);
          },
          "bots"_a, "seed"_a, "round"_a)
      .def(
          "sample_actions",
          [](PyEnv& e, uint64_t seed, const Array& out) {
            e.take()->sample_actions(seed, data_of<int64_t>(out, "out", {e.batch()}));
          },
          "seed"_a, "out"_a)
      .def(
          "random_steps",
          [](PyEnv& e, uint64_t seed, int64_t count, bool write) {
            nb::gil_scoped_release release;
            e.take()->random_steps(seed, count, write);
          },
          "seed"_a, "count"_a, "write"_a)
      .def(
          "save",
          [](PyEnv& e, int table) {
            const std::string blob = e.take()->save(table);
            return nb::bytes(blob.data(), blob.size());
          },
          "table"_a)
      .def(
          "load",
          [](PyEnv& e, int table, const nb::bytes& blob) {
            e.take()->load(table, std::string(static_cast<const char*>(blob.data()), blob.size()));
          },
          "table"_a, "blob"_a)
      .def(
          "copy_tables",
          [](PyEnv& e, PyEnv& source, const std::vector<int>& rows) {
            if (static_cast<int64_t>(rows.size()) != e.batch()) {
              throw std::invalid_argument("rows: expected " + std::to_string(e.batch()) + ", got " +
                                          std::to_string(rows.size()));
            }
            e.take()->copy_tables(source.native(), rows);
          },
          "source"_a, "rows"_a)
      .def(
          "render", [](PyEnv& e, int table, int seat) { return e.take()->render(table, seat); }, "table"_a, "seat"_a)
      .def(
          "inspect", [](PyEnv& e, int table) { return e.take()->inspect(table); }, "table"_a)
      .def(
          "last_event", [](PyEnv& e, int table) { return e.take()->last_event(table); }, "table"_a)
      .def(
          "bot",
          [](PyEnv& e, const std::string& name, const BotParameters& parameters) {
            if (!e.options().counts) {
              throw std::invalid_argument("bots read the counts tokens: make the environment with counts=True");
            }
            return PyBot(e.take()->bot(name, parameters), e.info(), e.options().num_players);
          },
          "name"_a, "parameters"_a)
      .def(
          "bot_actions",
          [](PyEnv& e, const nb::list& bots, uint64_t seed, const Array& out, const std::optional<Input>& chosen) {
            const auto players = seats_of(e, bots);
            int64_t* o = data_of<int64_t>(out, "out", {e.batch()});
            const int64_t* which = chosen ? data_of<int64_t>(*chosen, "chosen", {e.batch()}) : nullptr;
            nb::gil_scoped_release release;
            e.take()->bot_actions(players, which, seed, o);
          },
          "bots"_a, "seed"_a, "out"_a, "chosen"_a = nb::none())
      .def(
          "search_worlds",
          [](PyEnv& e, const std::vector<int>& rows, const Array& visits, const Array& values, const PyBot& playout,
             const PyBot* opponents, int iterations, int worlds, bool own_views, bool until_round, double exploration,
             double margin, uint64_t seed, int threads) {
            WorldSearchOptions options{iterations, worlds, own_views, until_round, exploration, margin, seed, {}, {}};
            options.playout = playout.seated_at(e);
            if (opponents) options.opponents = opponents->seated_at(e);
            const auto n = static_cast<int64_t>(rows.size());
            int32_t* v = data_of<int32_t>(visits, "visits", {n, e.info().num_actions});
            float* q = data_of<float>(values, "values", {n, e.info().num_actions});
            const auto turn = e.take();
            nb::gil_scoped_release release;
            search_any(e.native(), rows, options, threads, v, q);
          },
          "rows"_a, "visits"_a, "values"_a, "playout"_a, "opponents"_a.none(), nb::kw_only(), "iterations"_a,
          "worlds"_a, "own_views"_a, "until_round"_a, "exploration"_a, "margin"_a, "seed"_a, "threads"_a)
      .def(
          "play",
          [](PyEnv& e, const nb::list& bots, uint64_t bot_seed, uint64_t first_deal, const Array& scores,
             const Array& truncated, const Array& stats) {
            const auto seats = seats_of(e, bots);
            const auto n = static_cast<int64_t>(truncated.ndim() ? truncated.shape(0) : 0);
            const GameRecords records{data_of<int32_t>(scores, "scores", {n, e.players()}),
                                      data_of<bool>(truncated, "truncated", {n}),
                                      data_of<int32_t>(stats, "stats", {n, e.num_stats()})};
            nb::gil_scoped_release release;
            e.take()->play(seats, bot_seed, first_deal, static_cast<int>(n), records);
          },
          "bots"_a, "bot_seed"_a, "first_deal"_a, "scores"_a, "truncated"_a, "stats"_a);
}

}  // namespace env
