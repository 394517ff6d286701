// VecEnv<Game>: B tables in lockstep, results written into buffers that the caller owns.
#pragma once

#include "env/any_vec_env.h"
#include "env/refusals.h"
#include "env/saved_state.h"
#include "env/slot_classes.h"
#include "native/aligned.h"
#include "native/thread_pool.h"

namespace env {

template <class Game>
class VecEnv final : public AnyVecEnv {
 public:
  explicit VecEnv(const Options& options)
      : options_(checked_options<Game>(options)),
        rules_(make_rules<typename Game::Rules>(options.preset, options.rules, options.num_players)),
        info_(make_info<Game>(rules_, options.num_players, options.counts)),
        classes_(info_),
        format_(rules_, options.num_players),
        pool_(options.threads),
        tables_(static_cast<size_t>(options.num_envs)),
        masks_(tables_.size()),
        stale_(tables_.size()),
        origins_(tables_.size()) {
    std::vector<int> all(tables_.size());
    std::vector<uint64_t> deals(tables_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i), deals[i] = i;
    reset(options.seed, all, deals);
  }

  const GameInfo& info() const override { return info_; }
  const Options& options() const override { return options_; }
  const Game& table(int i) const { return tables_[static_cast<size_t>(i)]; }
  const typename Game::Rules& rules() const { return rules_; }

  void bind(const Buffers& buffers) override {
    buffers_ = buffers;
    write_all();
  }

  void write_all() override {
    each_table([this](int i) { write_everything(i); });
  }

  void reset(uint64_t seed, const std::vector<int>& tables, const std::vector<uint64_t>& deals) override {
    for (int i : tables) require_table(i);
    for (size_t k = 0; k < tables.size(); ++k) {
      const auto i = static_cast<size_t>(tables[k]);
      origins_[i] = {seed, deals[k], 0};
      start(i);
      write_everything(tables[k]);
    }
  }

  // All actions, and the outcomes told (null: none are), are checked before the first table moves.
  void step(const int64_t* actions, const int64_t* outcomes = nullptr) override {
    require_legal(actions);
    for (size_t i = 0; outcomes && i < tables_.size(); ++i) {
      if (outcomes[i]) require_possible(i, actions[i], outcomes[i]);
    }
    each_table([&](int i) {
      if (actions[i] != kSkip) {
        advance<true>(i, static_cast<int>(actions[i]), outcomes ? static_cast<int>(outcomes[i]) : 0);
      } else {
        skip(i);
      }
    });
  }

  void observe(const int8_t* seats, int16_t* out) override {
    require_seats(seats);
    each_table([&](int i) {
      table(i).observe(rules_, seats[i], out + static_cast<int64_t>(i) * info_.observation.width, options_.counts);
    });
  }

  void unseen_counts(const int8_t* seats, int16_t* out) override {
    require_seats(seats);
    for (int i = 0; i < batch(); ++i) {
      table(i).unseen_counts(seats[i], out + static_cast<int64_t>(i) * Game::kPools * Game::kCardKinds);
    }
  }

  // Probabilities of the outcomes of an action, as the player to move sees them.
  void odds(const int64_t* actions, float* out) override {
    require_legal(actions);
    each_table([&](int i) { odds_of(i, actions[i], out + static_cast<int64_t>(i) * Game::kOutcomes); });
  }

  // Cards that the last step dealt to a seat's hand at once.
  void draws(const int8_t* seats, int8_t* out) override {
    require_seats(seats);
    each_table([&](int i) { table(i).draws(seats[i], out + static_cast<int64_t>(i) * Game::kDraws); });
  }

  // Cards in slots that a seat cannot see: labels for training, nothing that a player may be shown.
  void true_cards(const int8_t* seats, int8_t* out) override {
    require_seats(seats);
    const int64_t width = int64_t{options_.num_players} * info_.slots();
    each_table([&](int i) { table(i).true_cards(seats[i], out + i * width); });
  }

  // Classes of slots that the player to move cannot tell apart.
  void slot_classes(uint8_t* out) override {
    const int64_t width = int64_t{options_.num_players} * info_.slots();
    each_table([&](int i) {
      int16_t row[Game::kMaxWidth];
      table(i).observe(rules_, table(i).to_play(), row, options_.counts);
      classes_.write(row, out + i * width);
    });
  }

  // Renames slots in rows of observations: slot s of every player becomes to[row][s].
  void relabel(const int8_t* to, int64_t rows, int16_t* observations) const override {
    if constexpr (CanRelabel<Game>::value) {
      const int slots = info_.slots();
      for (int64_t row = 0; row < rows; ++row) {
        require_slot_names(info_, to + row * slots);
        Game::relabel(to + row * slots, options_.num_players, observations + row * info_.observation.width);
      }
    } else {
      throw std::invalid_argument(std::string(Game::kName) + " has no symmetries to relabel by");
    }
  }

  // Resamples at table i everything that seat seats[i], which may be kDealer, cannot know. The seed names the sample:
  // copies of a table that are given the same seed become equal again.
  void determinize(const int8_t* seats, const uint64_t* seeds) override {
    require_seats(seats, true);
    each_table([&](int i) {
      Game& game = tables_[static_cast<size_t>(i)];
      game.determinize(rules_, seats[i], make_key({seeds[i], game.rng.key, game.decisions}));
      write_view(i);
    });
  }

  // Keys that name the current moment of each game.
  void decision_keys(uint64_t seed, uint64_t* out) const override {
    for (int i = 0; i < batch(); ++i) out[i] = make_key({seed, table(i).rng.key, table(i).decisions});
  }

  void sample_actions(uint64_t seed, int64_t* out) override {
    each_table([&](int i) {
      Rng rng = own_stream(seed, table(i));
      const uint64_t mask = masks_[static_cast<size_t>(i)];
      out[i] = mask ? random_bit(mask, rng) : kSkip;
    });
  }

  void random_steps(uint64_t seed, int64_t count, bool write) override {
    pool_.split(batch(), kGrain, [&](int64_t begin, int64_t end) {
      const auto first = static_cast<int>(begin), last = static_cast<int>(end);
      write ? random_part<true>(seed, count, first, last) : random_part<false>(seed, count, first, last);
    });
    if (!write) write_all();
  }

  std::string save(int i) const override {
    require_table(i);
    return seal(table(i), origins_[static_cast<size_t>(i)]);
  }

  // The bytes of any state, such as one that a test has changed.
  std::string seal(const Game& game, const Origin& origin = {}) const { return format_.write(game, origin); }

  void load(int i, const std::string& blob) override {
    require_table(i);
    const auto t = static_cast<size_t>(i);
    format_.read(blob, tables_[t], origins_[t]);
    write_everything(i);
  }

  // Table k becomes a copy of the source's table rows[k].
  void copy_tables(const AnyVecEnv& source, const std::vector<int>& rows) override {
    const auto* other = dynamic_cast<const VecEnv*>(&source);
    if (!other || other->format_.fingerprint() != format_.fingerprint() ||
        other->options_.num_players != options_.num_players) {
      throw std::invalid_argument("copy: the source must be the same game with the same rules and number of players");
    }
    if (other == this) throw std::invalid_argument("copy: the source must be another environment");
    for (int row : rows) other->require_table(row);
    each_table([&](int i) {
      const auto t = static_cast<size_t>(i), s = static_cast<size_t>(rows[t]);
      tables_[t] = other->tables_[s];
      origins_[t] = other->origins_[s];
      write_everything(i);
    });
  }

  std::string render(int i, int seat) const override {
    require_table(i);
    if (seat != -1) require_seat(i, seat);
    return table(i).render(rules_, seat);
  }

  StateFields inspect(int i) const override {
    require_table(i);
    return table(i).inspect();
  }

  std::string last_event(int i) const override {
    require_table(i);
    return table(i).last_event();
  }

  std::shared_ptr<Bot> bot(const std::string& name, const BotParameters& given) const override {
    return make_bot<Game>(name, given, options_.num_players);
  }

  // Actions of the bots in the seats to move or, if it is given, of bot chosen[i] at table i; kSkip where there is none
  // (a negative number) or the game is over.
  void bot_actions(const std::vector<std::shared_ptr<Bot>>& bots, const int64_t* chosen, uint64_t seed,
                   int64_t* out) override {
    if (!chosen) require_bots(bots, options_.num_players);
    for (int i = 0; chosen && i < batch(); ++i) require_chosen(i, chosen[i], bots.size());
    each_table([&](int i) {
      const int64_t which = chosen ? chosen[i] : table(i).to_play();
      const Bot* bot = which < 0 ? nullptr : bots[static_cast<size_t>(which)].get();
      out[i] = bot && !table(i).done() ? ask(*bot, table(i), seed) : kSkip;
    });
  }

  // Lets bots finish every game or, with `round`, play on until the scores change.
  void playout(const std::vector<std::shared_ptr<Bot>>& seats, uint64_t seed, bool round) override {
    require_all_bots(seats, options_.num_players);
    if (options_.auto_reset) throw std::invalid_argument("playout: make the environment with auto_reset=False");
    pool_.split(batch(), 16, [&](int64_t begin, int64_t end) {
      for (int i = static_cast<int>(begin); i < end; ++i) {
        Game& game = tables_[static_cast<size_t>(i)];
        while (!game.done()) {
          game.step(rules_, ask(*seats[static_cast<size_t>(game.to_play())], game, seed));
          if (round && game.standing_changed()) break;
        }
        write_everything(i);
      }
    });
  }

  // Plays deals first_deal .. first_deal + count - 1 of this environment's seed from beginning to end.
  void play(const std::vector<std::shared_ptr<Bot>>& seats, uint64_t bot_seed, uint64_t first_deal, int count,
            const GameRecords& records) override {
    require_all_bots(seats, options_.num_players);
    const int players = options_.num_players;
    pool_.split(count, 16, [&](int64_t begin, int64_t end) {
      Game game;
      for (int64_t n = begin; n < end; ++n) {
        game.reset(rules_, players, make_key({options_.seed, first_deal + static_cast<uint64_t>(n), 0}));
        while (!game.done()) {
          const Bot& bot = *seats[static_cast<size_t>(game.to_play())];
          game.step(rules_, ask(bot, game, bot_seed));
        }
        game.scores(records.scores + n * players);
        game.stats(records.stats + n * static_cast<int64_t>(info_.stat_names.size()));
        records.truncated[n] = game.truncated();
      }
    });
  }

 private:
  static constexpr int64_t kGrain = native::kCacheLine;  // tables of a part: no array has a cache line in two parts
  int batch() const { return options_.num_envs; }

  // Calls visit(i) for every table on all threads; parts are large enough to be worth waking a thread.
  template <class Visit>
  void each_table(Visit&& visit) {
    const auto visit_part = [&visit](int64_t begin, int64_t end) {
      for (int i = static_cast<int>(begin); i < end; ++i) visit(i);
    };
    if (options_.threads == 1 || batch() <= 256) return visit_part(0, batch());  // inlined, for single tables too
    pool_.split(batch(), 256, visit_part);
  }

  template <bool kWrite>
  void random_part(uint64_t seed, int64_t count, int first, int last) {
    for (int64_t n = 0; n < count; ++n) {
      for (int i = first; i < last; ++i) {
        Rng rng = own_stream(seed, table(i));
        const uint64_t mask = masks_[static_cast<size_t>(i)];
        if (mask) advance<kWrite>(i, random_bit(mask, rng));
      }
    }
  }

  void start(size_t i) {
    const Origin& origin = origins_[i];
    tables_[i].reset(rules_, options_.num_players, make_key({origin.seed, origin.deal, origin.episode}));
  }

  template <bool kWrite>
  void advance(int i, int action, int told = 0) {
    const auto t = static_cast<size_t>(i);
    Game& game = tables_[t];
    const int actor = game.to_play();
    if (told) {
      tell(game, action, told);
    } else {
      game.step(rules_, action);
    }
    if (kWrite) {
      write_result(i);
      if (buffers_.outcome) buffers_.outcome[i] = static_cast<int8_t>(game.outcome(actor));
      if (stale_[t] || game.standing_changed()) write_standing(i);
    }
    if (game.done()) {
      if (kWrite) write_stats(i);
      if (options_.auto_reset) {
        ++origins_[t].episode;
        start(t);
        stale_[t] = 1;
      }
    }
    if (kWrite) {
      write_view(i);
    } else {
      masks_[t] = game.legal(rules_);
    }
  }

  // Told steps are rare: as part of `advance` they would slow the others down.
  __attribute__((noinline)) void tell(Game& game, int action, int told) { game.step_told(rules_, action, told); }

  void skip(int i) {
    if (buffers_.rewards) {
      std::fill_n(buffers_.rewards + static_cast<int64_t>(i) * options_.num_players, options_.num_players, 0.0f);
    }
    if (buffers_.outcome) buffers_.outcome[i] = 0;
    if (buffers_.done) buffers_.done[i] = table(i).done();
    if (buffers_.truncated) buffers_.truncated[i] = table(i).truncated();
  }

  void write_everything(int i) {
    write_result(i);
    if (buffers_.outcome) buffers_.outcome[i] = outcome_of_actor(table(i));
    write_standing(i);
    if (table(i).done()) write_stats(i);
    write_view(i);
  }

  void write_result(int i) {
    const Game& game = table(i);
    if (buffers_.rewards) game.rewards(rules_, buffers_.rewards + static_cast<int64_t>(i) * options_.num_players);
    if (buffers_.done) buffers_.done[i] = game.done();
    if (buffers_.truncated) buffers_.truncated[i] = game.truncated();
  }

  void write_standing(int i) {
    const Game& game = table(i);
    const int64_t row = static_cast<int64_t>(i) * options_.num_players;
    if (buffers_.scores) game.scores(buffers_.scores + row);
    if (buffers_.ranks) game.ranks(buffers_.ranks + row);
    stale_[static_cast<size_t>(i)] = 0;
  }

  void write_stats(int i) {
    if (!buffers_.stats) return;
    table(i).stats(buffers_.stats + static_cast<int64_t>(i) * static_cast<int64_t>(info_.stat_names.size()));
  }

  // Writes the situation of the player to move.
  void write_view(int i) {
    const Game& game = table(i);
    const uint64_t mask = game.legal(rules_);
    masks_[static_cast<size_t>(i)] = mask;
    if (buffers_.legal) {
      native::spread_bits(mask, buffers_.legal + static_cast<int64_t>(i) * Game::kNumActions, Game::kNumActions);
    }
    if (buffers_.legal_bits) buffers_.legal_bits[i] = mask;
    if (buffers_.to_play) buffers_.to_play[i] = static_cast<int8_t>(game.to_play());
    if (buffers_.phase) buffers_.phase[i] = static_cast<int8_t>(game.phase());
    if (buffers_.obs) {
      game.observe(rules_, game.to_play(), buffers_.obs + static_cast<int64_t>(i) * info_.observation.width,
                   options_.counts);
    }
  }

  // Random stream of a player who acts at a table: a function of the moment in the game, not of the batch.
  static Rng own_stream(uint64_t seed, const Game& game) {
    return {game.rng.key ^ mix(seed + kGamma), uint64_t{game.decisions} << 16};
  }

  int ask(const Bot& bot, const Game& game, uint64_t seed) const {
    int16_t row[Game::kMaxWidth];
    game.observe(rules_, game.to_play(), row, true);
    Rng rng = own_stream(seed, game);
    const uint64_t legal = game.legal(rules_);
    const int action = bot.choose(row, legal, rng);
    if (action >= 0 && action < Game::kNumActions && (legal >> action & 1)) return action;
    throw std::logic_error("a bot chose the illegal action " + std::to_string(action) + " in phase " +
                           Game::phase_name(game.phase()));
  }

  // Outcome of the last step as its actor saw it, whoever that was: others see the same or nothing.
  int8_t outcome_of_actor(const Game& game) const {
    int code = 0;
    for (int seat = 0; seat < options_.num_players; ++seat) code = std::max(code, game.outcome(seat));
    return static_cast<int8_t>(code);
  }

  void odds_of(int i, int64_t action, float* out) const {
    std::fill_n(out, Game::kOutcomes, 0.0f);
    out[0] = 1;
    if (action != kSkip) table(i).odds(rules_, table(i).to_play(), static_cast<int>(action), out);
  }

  void require_legal(const int64_t* actions) const {
    for (size_t i = 0; i < tables_.size(); ++i) {
      const int64_t action = actions[i];
      if (static_cast<uint64_t>(action) < Game::kNumActions && (masks_[i] >> action & 1)) continue;
      if (action != kSkip) refuse_action(i, tables_[i], masks_[i], action);
    }
  }

  void require_possible(size_t i, int64_t action, int64_t outcome) const {
    float odds[Game::kOutcomes];
    odds_of(static_cast<int>(i), action, odds);
    if (outcome < 0 || outcome >= Game::kOutcomes || odds[outcome] <= 0) refuse_outcome<Game>(i, action, outcome, odds);
  }

  void require_table(int i) const {
    if (i >= 0 && i < batch()) return;
    throw std::out_of_range("table " + std::to_string(i) + ": expected 0 to " + std::to_string(batch() - 1));
  }
  void require_seat(int i, int seat) const {
    if (seat >= 0 && seat < options_.num_players) return;
    throw std::out_of_range("table " + std::to_string(i) + ": seat " + std::to_string(seat) + ", expected 0 to " +
                            std::to_string(options_.num_players - 1));
  }
  void require_seats(const int8_t* seats, bool or_dealer = false) const {
    for (int i = 0; i < batch(); ++i) {
      if (!or_dealer || seats[i] != kDealer) require_seat(i, seats[i]);
    }
  }
  const Options options_;
  const typename Game::Rules rules_;
  const GameInfo info_;
  const SlotClasses classes_;
  const SavedState<Game> format_;
  native::ThreadPool pool_;
  native::AlignedVector<Game> tables_;
  native::AlignedVector<uint64_t> masks_;  // legal actions of every table, as bits
  native::AlignedVector<uint8_t> stale_;  // whether the scores and ranks in the buffers are those of the episode before
  native::AlignedVector<Origin> origins_;
  Buffers buffers_;
};

}  // namespace env
