// Fuzz test of the games: random bytes as actions, rule sets and saved states. Nothing may crash, hang or trip a
// sanitizer, and bytes that are no state must be refused.
//
//   fuzz_env [inputs in thousands] [seed]      default 300: a minute under the sanitizers
#include <cassert>
#include <cstdio>
#include <cstdlib>

#include "env/games.h"
#include "tests/native/require.h"

namespace env {
namespace {

// Random inputs that are often almost valid.
struct Junk {
  Rng rng;

  uint32_t below(uint32_t n) { return rng.below(n); }
  bool chance(uint32_t one_in) { return below(one_in) == 0; }
  uint8_t byte() { return static_cast<uint8_t>(rng.next()); }
  int64_t number() {
    switch (below(5)) {
      case 0:
        return static_cast<int64_t>(rng.next());
      case 1:
        return static_cast<int64_t>(below(2001)) - 1000;
      default:
        return static_cast<int64_t>(below(20)) - 2;
    }
  }
  std::string text(uint32_t most) {
    std::string s(below(most + 1), '\0');
    for (char& c : s) c = static_cast<char>(byte());
    return s;
  }
};

struct Tally {
  int64_t inputs = 0, accepted_rules = 0, refused_rules = 0, steps = 0, refused_actions = 0, told = 0,
          refused_outcomes = 0, accepted_blobs = 0, refused_blobs = 0;
};

template <class Game>
RuleList junk_rules(Junk& junk) {
  static const std::vector<RuleDoc> docs = describe_rules(typename Game::Rules{});
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all;  // every word of every "one of ..." is a plausible value
    for (const RuleDoc& doc : docs) {
      std::string word;
      for (char c : doc.expected + " ") {
        if (c != ' ' && c != ',') {
          word += c;
        } else if (!word.empty()) {
          all.push_back(word);
          word.clear();
        }
      }
    }
    return all;
  }();
  RuleList rules;
  for (uint32_t n = junk.below(4); n > 0; --n) {
    const RuleDoc& doc = docs[junk.below(static_cast<uint32_t>(docs.size()))];
    const std::string name = junk.chance(20) ? junk.text(12) : doc.name;
    RuleValue value = doc.value;
    switch (junk.below(8)) {
      case 0:
        value = static_cast<bool>(junk.below(2));
        break;
      case 1:
        value = static_cast<double>(junk.number()) / 7;
        break;
      case 2:
        value = junk.text(10);
        break;
      case 3:
      case 4:
        value = words[junk.below(static_cast<uint32_t>(words.size()))];
        break;
      case 5: {
        const auto* own = std::get_if<std::vector<int64_t>>(&doc.value);
        std::vector<int64_t> list(!own || junk.chance(4) ? junk.below(30) : own->size());
        for (int64_t& x : list) x = junk.chance(30) ? junk.number() : junk.below(14);
        value = list;
        break;
      }
      default:
        value = junk.number();
    }
    rules.emplace_back(name, value);
  }
  return rules;
}

// Tells a table the outcome of its action, possible or not, and checks that possible ones happen and others are refused.
// Odds are probabilities for every seat, and others see what the actor saw or nothing.
template <class Game>
void told_step(VecEnv<Game>& tables, Junk& junk, int table, const std::vector<int64_t>& actions, Tally& tally) {
  const auto t = static_cast<size_t>(table);
  const Game before = tables.table(table);
  const int players = tables.options().num_players, actor = before.to_play();
  std::vector<int64_t> outcomes(actions.size());
  outcomes[t] = junk.chance(8) ? junk.number() : junk.below(Game::kOutcomes);
  float odds[Game::kOutcomes];
  for (int seat = 0; actions[t] != kSkip && seat < players; ++seat) {
    before.odds(tables.rules(), (actor + 1 + seat) % players, static_cast<int>(actions[t]), odds);  // the actor last
    float sum = 0;
    for (const float share : odds) {
      REQUIRE(share >= 0);
      sum += share;
    }
    REQUIRE(sum > 0.999f && sum < 1.001f);
  }
  const bool known = outcomes[t] > 0 && outcomes[t] < Game::kOutcomes;
  const bool possible = outcomes[t] == 0 || (actions[t] != kSkip && known && odds[outcomes[t]] > 0);
  try {
    tables.step(actions.data(), outcomes.data());
    REQUIRE(possible);
    tally.told += outcomes[t] != 0;
  } catch (const std::invalid_argument&) {
    REQUIRE(!possible);
    const Game& after = tables.table(table);
    REQUIRE(std::memcmp(static_cast<const void*>(&before), static_cast<const void*>(&after), sizeof after) == 0);
    ++tally.refused_outcomes;
    tables.step(actions.data());
    return;
  }
  if (outcomes[t] == 0 || (tables.options().auto_reset && tables.table(table).decisions == 0)) return;
  for (int seat = 0; seat < players; ++seat) {
    const int seen = tables.table(table).outcome(seat);
    REQUIRE(seen == outcomes[t] || (seen == 0 && seat != actor));
  }
}

// Any action, legal or not, must be carried out or refused.
template <class Game>
void junk_steps(VecEnv<Game>& tables, Junk& junk, int count, Tally& tally) {
  const int batch = tables.options().num_envs;
  std::vector<int64_t> actions(static_cast<size_t>(batch));
  for (int n = 0; n < count; ++n) {
    tables.sample_actions(junk.rng.next(), actions.data());
    const std::vector<int64_t> sound = actions;
    if (junk.chance(3)) {
      actions[junk.below(static_cast<uint32_t>(batch))] = junk.number();
      ++tally.inputs;  // only junk inputs are counted
    }
    try {
      if (actions == sound && junk.chance(2)) {
        told_step(tables, junk, static_cast<int>(junk.below(static_cast<uint32_t>(batch))), actions, tally);
      } else {
        tables.step(actions.data());
      }
      tally.steps += batch;
    } catch (const std::invalid_argument&) {
      ++tally.refused_actions;
      tables.step(sound.data());
    }
    for (int i = 0; i < batch; ++i) {
      const std::string problem = tables.table(i).check(tables.rules(), tables.options().num_players);
      if (!problem.empty()) {
        std::fprintf(stderr, "play reached a state that check() refuses: %s\n", problem.c_str());
        std::abort();
      }
    }
  }
}

// Aborts unless every number of an observation is a category of its field.
void in_vocabulary(const ObservationSpec& spec, const int16_t* row) {
  for (const TokenGroup& group : spec.groups) {
    for (int token = 0; token < group.count; ++token) {
      for (const Field& field : group.fields) {
        const int16_t value = *row++;
        if (value >= 0 && value < field.vocabulary) continue;
        std::fprintf(stderr, "%s.%s is %d, not below %d\n", group.name.c_str(), field.name.c_str(), value,
                     field.vocabulary);
        std::abort();
      }
    }
  }
}

// Corrupts a saved table. With `sealed` the checksum is made right again, so that only the game's own check stands
// between the bytes and the table: every state that passes it must be safe to play on.
template <class Game>
void junk_blobs(VecEnv<Game>& tables, Junk& junk, int count, Tally& tally) {
  const std::string good = tables.save(0);
  const size_t header = good.size() - sizeof(Game);
  std::vector<int64_t> actions(static_cast<size_t>(tables.options().num_envs));
  const auto slots = static_cast<size_t>(tables.options().num_players * tables.info().slots());
  std::vector<uint8_t> classes(slots * actions.size());
  std::vector<int8_t> labels(std::max<size_t>(slots, Game::kDraws));
  for (int n = 0; n < count; ++n) {
    std::string blob = good;
    const bool sealed = !junk.chance(4);
    if (sealed) {
      for (uint32_t edits = 1 + junk.below(3); edits > 0; --edits) {
        const size_t at = header + junk.below(sizeof(Game));
        blob[at] = static_cast<char>(junk.chance(2) ? junk.byte() : blob[at] + static_cast<char>(junk.below(5)) - 2);
      }
      Game game;
      std::memcpy(static_cast<void*>(&game), blob.data() + header, sizeof game);
      blob = tables.seal(game);
    } else if (junk.chance(2)) {
      blob = junk.text(static_cast<uint32_t>(good.size()) + 8);
    } else {
      blob[junk.below(static_cast<uint32_t>(blob.size()))] ^= static_cast<char>(1 + junk.below(255));
    }
    ++tally.inputs;
    try {
      tables.load(0, blob);
      assert(sealed || blob == good);
      ++tally.accepted_blobs;
      int16_t row[4096];
      assert(tables.info().observation.width <= 4096);
      for (int step = 0; step < 40 && !tables.table(0).done(); ++step) {
        const int players = tables.options().num_players;
        for (int seat = 0; seat < players; ++seat) {
          tables.table(0).observe(tables.rules(), seat, row, tables.options().counts);
          in_vocabulary(tables.info().observation, row);
        }
        (void)tables.render(0, static_cast<int>(junk.below(static_cast<uint32_t>(players))));
        tables.sample_actions(junk.rng.next(), actions.data());
        std::fill(actions.begin() + 1, actions.end(), kSkip);
        told_step(tables, junk, 0, actions, tally);
        tables.slot_classes(classes.data());
        for (int8_t seat = 0; seat < players; ++seat) {
          tables.table(0).true_cards(seat, labels.data());
          tables.table(0).draws(seat, labels.data());
          for (const int8_t code : labels) REQUIRE(code >= 0 && code <= Game::kCardKinds);
        }
      }
      Game imagined = tables.table(0);
      imagined.determinize(tables.rules(), 0, junk.rng.next());
      assert(imagined.check(tables.rules(), tables.options().num_players).empty());
    } catch (const std::invalid_argument&) {
      ++tally.refused_blobs;
    }
  }
  tables.load(0, good);
}

template <class Game>
void fuzz(int64_t inputs, uint64_t seed) {
  Junk junk{{make_key({seed, 77}), 0}};
  Tally tally;
  const auto presets = Game::Rules::presets();
  while (tally.inputs < inputs) {
    Options options;
    options.num_envs = 1 + static_cast<int>(junk.below(4));
    options.num_players =
        junk.chance(30) ? static_cast<int>(junk.number())
                        : Game::kMinPlayers + static_cast<int>(junk.below(Game::kMaxPlayers - Game::kMinPlayers + 1));
    options.preset = junk.chance(30) ? junk.text(8) : presets[junk.below(static_cast<uint32_t>(presets.size()))].first;
    options.auto_reset = !junk.chance(3);
    options.counts = !junk.chance(3);
    options.seed = junk.rng.next();
    options.rules = junk_rules<Game>(junk);
    ++tally.inputs;
    try {
      VecEnv<Game> tables(options);
      ++tally.accepted_rules;
      junk_steps(tables, junk, 1 + static_cast<int>(junk.below(100)), tally);
      junk_blobs(tables, junk, 40, tally);
    } catch (const std::invalid_argument&) {
      ++tally.refused_rules;
    }
  }
  std::printf(
      "%s: %lld inputs; rules %lld accepted, %lld refused; actions %lld carried out, %lld refused; outcomes %lld told, "
      "%lld refused; blobs %lld accepted, %lld refused\n",
      Game::kName, static_cast<long long>(tally.inputs), static_cast<long long>(tally.accepted_rules),
      static_cast<long long>(tally.refused_rules), static_cast<long long>(tally.steps),
      static_cast<long long>(tally.refused_actions), static_cast<long long>(tally.told),
      static_cast<long long>(tally.refused_outcomes), static_cast<long long>(tally.accepted_blobs),
      static_cast<long long>(tally.refused_blobs));
  REQUIRE((tally.told > 0) == (Game::kOutcomes > 1) && tally.refused_outcomes);
  assert(tally.accepted_rules && tally.refused_rules && tally.refused_actions && tally.accepted_blobs &&
         tally.refused_blobs);
}

}  // namespace
}  // namespace env

int main(int argc, char** argv) {
  const int64_t thousands = argc > 1 ? std::atoll(argv[1]) : 300;
  const auto seed = static_cast<uint64_t>(argc > 2 ? std::atoll(argv[2]) : 1);
  env::for_each_game([&](auto game) { env::fuzz<decltype(game)>(thousands * 1000, seed); });
}
