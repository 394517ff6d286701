// Hand-written players. A bot gets an observation row (counts included) and the legal actions, never a state, so that
// it cannot see hidden cards. It keeps nothing between calls, so one bot serves any number of tables and threads.
//
// A game's `Bots` provides
//   static std::vector<BotDoc> list()
//   static std::unique_ptr<Bot> make(const std::string& name, const BotParameters& given, int players)
// BotList provides both for bots with a `static BotDoc doc()` and a constructor from (players, parameter values).
#pragma once

#include <memory>
#include <type_traits>

#include "env/game.h"
#include "native/bits.h"

namespace env {

using native::random_bit;

class Bot {
 public:
  virtual ~Bot() = default;

  // Chooses a random legal action with probability epsilon, else acts as the bot does.
  int choose(const int16_t* row, uint64_t legal, Rng& rng) const {
    if (epsilon_ > 0 && rng.uniform() < epsilon_) return random_bit(legal, rng);
    return act(row, legal, rng);
  }
  void set_epsilon(double epsilon) { epsilon_ = epsilon; }

 protected:
  virtual int act(const int16_t* row, uint64_t legal, Rng& rng) const = 0;

 private:
  double epsilon_ = 0;
};

struct BotParameter {
  std::string name;
  double value, low, high;  // default value and range of the parameter
  std::string meaning;
};

struct BotDoc {
  std::string name, idea;
  std::vector<BotParameter> parameters;  // parameters besides epsilon, which every bot has
};

using BotParameters = std::vector<std::pair<std::string, double>>;

// Values of a bot's parameters in the order of its BotDoc; refuses unknown names and values out of range.
inline std::vector<double> bot_values(const BotDoc& doc, const BotParameters& given) {
  std::vector<double> values;
  for (const BotParameter& parameter : doc.parameters) values.push_back(parameter.value);
  for (const auto& [name, value] : given) {
    size_t i = 0;
    std::string known = "epsilon";
    for (; i < doc.parameters.size() && doc.parameters[i].name != name; ++i) known += ", " + doc.parameters[i].name;
    const bool noise = name == "epsilon";
    if (i == doc.parameters.size() && !noise) {
      throw std::invalid_argument("bot '" + doc.name + "' has no parameter '" + name + "', only " + known);
    }
    const double low = noise ? 0 : doc.parameters[i].low, high = noise ? 1 : doc.parameters[i].high;
    if (!(value >= low && value <= high)) {
      throw std::invalid_argument("bot '" + doc.name + "', parameter '" + name + "': expected a number from " +
                                  to_text(low) + " to " + to_text(high) + ", got " + to_text(value));
    }
    if (!noise) values[i] = value;
  }
  return values;
}

// Uniformly random player: the lower end of every comparison.
class RandomBot : public Bot {
 public:
  static BotDoc doc() { return {"random", "plays uniformly over the legal actions", {}}; }
  RandomBot(int, const std::vector<double>&) {}

 private:
  int act(const int16_t*, uint64_t legal, Rng& rng) const override { return random_bit(legal, rng); }
};

template <class Game, class... Players>
struct BotList {
  static std::vector<BotDoc> list() { return {Players::doc()...}; }

  static std::unique_ptr<Bot> make(const std::string& name, const BotParameters& given, int players) {
    std::unique_ptr<Bot> bot;
    std::string known;
    const auto consider = [&](auto* player) {
      using Player = std::remove_pointer_t<decltype(player)>;
      const BotDoc doc = Player::doc();
      known += (known.empty() ? "" : ", ") + doc.name;
      if (doc.name == name) bot = std::make_unique<Player>(players, bot_values(doc, given));
    };
    (consider(static_cast<Players*>(nullptr)), ...);
    if (!bot) throw std::invalid_argument(std::string(Game::kName) + " has no bot '" + name + "', only " + known);
    return bot;
  }
};

template <class Game>
std::unique_ptr<Bot> make_bot(const std::string& name, const BotParameters& given, int players) {
  std::unique_ptr<Bot> bot = Game::Bots::make(name, given, players);
  for (const auto& [parameter, value] : given) {
    if (parameter == "epsilon") bot->set_epsilon(value);
  }
  return bot;
}

}  // namespace env
