// AnyVecEnv: a batch of tables of some game, so that the bindings, and everything behind them, know no game by name.
#pragma once

#include "env/bots/bot.h"
#include "env/game_info.h"

namespace env {

inline constexpr int kSkip = -1;  // action that leaves a table as it is; its step pays nothing

// Arrays that a step's results are written to; B tables, P players, A actions, W numbers in an observation row, S
// statistics. A null pointer: the result is not wanted. After a step that ends an episode with automatic reset,
// `rewards`, `scores`, `ranks`, `outcome`, `done`, `truncated` and `stats` describe the episode that ended, the other arrays the
// episode that begins.
struct Buffers {
  int16_t* obs = nullptr;          // [B, W] observation of the player to move
  bool* legal = nullptr;           // [B, A] whether an action is legal
  uint64_t* legal_bits = nullptr;  // [B] legal actions as bits: bit a = action a
  int8_t* to_play = nullptr;       // [B] seat to move
  int8_t* phase = nullptr;         // [B] kind of decision
  float* rewards = nullptr;        // [B, P] rewards of this step
  int32_t* scores = nullptr;       // [B, P] match totals
  int8_t* ranks = nullptr;         // [B, P] ranks, 1 = best
  int8_t* outcome = nullptr;       // [B] code of this step's chance event as the player who acted saw it, 0 for none
  bool* done = nullptr;            // [B] whether the episode has ended
  bool* truncated = nullptr;       // [B] whether the rules' cap on decisions ended it
  int32_t* stats = nullptr;        // [B, S] statistics of an episode, written when it ends
};

struct Options {
  int num_envs = 1, num_players = 2, threads = 1;
  uint64_t seed = 0;
  bool auto_reset = true;
  bool counts = true;  // whether observations end with the counts of unseen cards
  std::string preset = "official";
  RuleList rules;
};

// Results of games between bots, one row per game.
struct GameRecords {
  int32_t* scores;  // [N, P] final totals by seat
  bool* truncated;  // [N] whether the game was cut off
  int32_t* stats;   // [N, S] statistics of the game
};

class AnyVecEnv {
 public:
  virtual ~AnyVecEnv() = default;
  virtual const GameInfo& info() const = 0;
  virtual const Options& options() const = 0;
  virtual void bind(const Buffers& buffers) = 0;
  virtual void reset(uint64_t seed, const std::vector<int>& tables, const std::vector<uint64_t>& deals) = 0;
  virtual void step(const int64_t* actions, const int64_t* outcomes) = 0;
  virtual void write_all() = 0;
  virtual void observe(const int8_t* seats, int16_t* out) = 0;
  virtual void sample_actions(uint64_t seed, int64_t* out) = 0;
  virtual void random_steps(uint64_t seed, int64_t count, bool write) = 0;
  virtual void unseen_counts(const int8_t* seats, int16_t* out) = 0;
  virtual void odds(const int64_t* actions, float* out) = 0;
  virtual void draws(const int8_t* seats, int8_t* out) = 0;
  virtual void true_cards(const int8_t* seats, int8_t* out) = 0;
  virtual void slot_classes(uint8_t* out) = 0;
  virtual void determinize(const int8_t* seats, const uint64_t* seeds) = 0;
  virtual void relabel(const int8_t* to, int64_t rows, int16_t* observations) const = 0;
  virtual void decision_keys(uint64_t seed, uint64_t* out) const = 0;
  virtual std::string save(int table) const = 0;
  virtual void load(int table, const std::string& blob) = 0;
  virtual void copy_tables(const AnyVecEnv& source, const std::vector<int>& rows) = 0;
  virtual std::string render(int table, int seat) const = 0;
  virtual StateFields inspect(int table) const = 0;
  virtual std::string last_event(int table) const = 0;
  virtual std::shared_ptr<Bot> bot(const std::string& name, const BotParameters& given) const = 0;
  virtual void bot_actions(const std::vector<std::shared_ptr<Bot>>& bots, const int64_t* chosen, uint64_t seed,
                           int64_t* out) = 0;
  virtual void playout(const std::vector<std::shared_ptr<Bot>>& seats, uint64_t seed, bool round) = 0;
  virtual void play(const std::vector<std::shared_ptr<Bot>>& seats, uint64_t bot_seed, uint64_t first_deal, int count,
                    const GameRecords& records) = 0;
};

}  // namespace env
