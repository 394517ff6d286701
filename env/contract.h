// Compile-time check of the game contract (env/game.h): a game that lacks a member, or has it with another signature,
// does not compile, and the message names the member and the signature that was expected.
#pragma once

#include <memory>
#include <type_traits>

#include "env/bots/bot.h"
#include "env/game.h"

namespace env {

// Fails to compile unless the address of `owner::member` can be taken as a pointer of the type that follows `text`,
// which serves constants, data members, functions and static functions alike. Private members count as missing.
#define ENV_CONTRACT_MEMBER(owner, member, text, ...)                                                              \
  {                                                                                                                \
    [[maybe_unused]] const auto probe =                                                                            \
        [](auto* of) -> decltype(void(static_cast<__VA_ARGS__>(&std::remove_pointer_t<decltype(of)>::member))) {}; \
    constexpr bool found = std::is_invocable_v<decltype(probe), owner*>;                                           \
    static_assert(found, "the game contract (env/game.h) is not fulfilled, expected: " text);                      \
    fulfilled = fulfilled && found;                                                                                \
  }

template <class Game, class = void>
struct NamesRulesAndBots : std::false_type {};
template <class Game>
struct NamesRulesAndBots<Game, std::void_t<typename Game::Rules, typename Game::Bots>> : std::true_type {};

template <class Rules, class Bots>
constexpr bool rules_and_bots_fulfil_contract() {
  bool fulfilled = true;
  using Presets = std::vector<std::pair<std::string, RuleList>>;
  ENV_CONTRACT_MEMBER(Rules, visit, "template <class Visitor> void Rules::visit(Visitor&)",
                      void (Rules::*)(RuleVisitor&))
  ENV_CONTRACT_MEMBER(Rules, presets, "static std::vector<std::pair<std::string, RuleList>> Rules::presets()",
                      Presets (*)())
  ENV_CONTRACT_MEMBER(Rules, prepare, "void Rules::prepare(int players)", void (Rules::*)(int))
  ENV_CONTRACT_MEMBER(Bots, list, "static std::vector<BotDoc> Bots::list()", std::vector<BotDoc> (*)())
  ENV_CONTRACT_MEMBER(Bots, make,
                      "static std::unique_ptr<Bot> Bots::make(const std::string& name, const BotParameters& given, "
                      "int players)",
                      std::unique_ptr<Bot> (*)(const std::string&, const BotParameters&, int))
  return fulfilled;
}

template <class Game>
constexpr bool members_fulfil_contract() {
  bool fulfilled = true;
  using Rules = typename Game::Rules;
  using Names = std::vector<std::string>;
  using Blocks = std::vector<std::vector<int>>;

  ENV_CONTRACT_MEMBER(Game, kName, "static constexpr const char* kName", const char* const*)
  ENV_CONTRACT_MEMBER(Game, kVersion, "static constexpr int kVersion", const int*)
  ENV_CONTRACT_MEMBER(Game, kNumActions, "static constexpr int kNumActions", const int*)
  ENV_CONTRACT_MEMBER(Game, kNumPhases, "static constexpr int kNumPhases", const int*)
  ENV_CONTRACT_MEMBER(Game, kMaxWidth, "static constexpr int kMaxWidth", const int*)
  ENV_CONTRACT_MEMBER(Game, kPools, "static constexpr int kPools", const int*)
  ENV_CONTRACT_MEMBER(Game, kCardKinds, "static constexpr int kCardKinds", const int*)
  ENV_CONTRACT_MEMBER(Game, kMinPlayers, "static constexpr int kMinPlayers", const int*)
  ENV_CONTRACT_MEMBER(Game, kMaxPlayers, "static constexpr int kMaxPlayers", const int*)
  ENV_CONTRACT_MEMBER(Game, kWhyPlayers, "static constexpr const char* kWhyPlayers", const char* const*)
  ENV_CONTRACT_MEMBER(Game, kScoreScale, "static constexpr int kScoreScale", const int*)
  ENV_CONTRACT_MEMBER(Game, kOutcomes, "static constexpr int kOutcomes", const int*)
  ENV_CONTRACT_MEMBER(Game, kDraws, "static constexpr int kDraws", const int*)
  ENV_CONTRACT_MEMBER(Game, rng, "Rng rng", Rng Game::*)
  ENV_CONTRACT_MEMBER(Game, decisions, "uint32_t decisions", uint32_t Game::*)

  ENV_CONTRACT_MEMBER(Game, reset, "void reset(const Rules&, int players, uint64_t key)",
                      void (Game::*)(const Rules&, int, uint64_t))
  ENV_CONTRACT_MEMBER(Game, step, "void step(const Rules&, int action)", void (Game::*)(const Rules&, int))
  ENV_CONTRACT_MEMBER(Game, legal, "uint64_t legal(const Rules&) const", uint64_t (Game::*)(const Rules&) const)
  ENV_CONTRACT_MEMBER(Game, to_play, "int to_play() const", int (Game::*)() const)
  ENV_CONTRACT_MEMBER(Game, phase, "int phase() const", int (Game::*)() const)
  ENV_CONTRACT_MEMBER(Game, players, "int players() const", int (Game::*)() const)
  ENV_CONTRACT_MEMBER(Game, done, "bool done() const", bool (Game::*)() const)
  ENV_CONTRACT_MEMBER(Game, truncated, "bool truncated() const", bool (Game::*)() const)
  ENV_CONTRACT_MEMBER(Game, standing_changed, "bool standing_changed() const", bool (Game::*)() const)
  ENV_CONTRACT_MEMBER(Game, scores, "void scores(int32_t*) const", void (Game::*)(int32_t*) const)
  ENV_CONTRACT_MEMBER(Game, ranks, "void ranks(int8_t*) const", void (Game::*)(int8_t*) const)
  ENV_CONTRACT_MEMBER(Game, rewards, "void rewards(const Rules&, float*) const",
                      void (Game::*)(const Rules&, float*) const)
  ENV_CONTRACT_MEMBER(Game, stats, "void stats(int32_t*) const", void (Game::*)(int32_t*) const)
  ENV_CONTRACT_MEMBER(Game, observe, "void observe(const Rules&, int seat, int16_t*, bool counts) const",
                      void (Game::*)(const Rules&, int, int16_t*, bool) const)
  ENV_CONTRACT_MEMBER(Game, unseen_counts, "void unseen_counts(int seat, int16_t*) const",
                      void (Game::*)(int, int16_t*) const)
  ENV_CONTRACT_MEMBER(Game, determinize, "void determinize(const Rules&, int seat, uint64_t key)",
                      void (Game::*)(const Rules&, int, uint64_t))
  ENV_CONTRACT_MEMBER(Game, true_cards, "void true_cards(int seat, int8_t*) const", void (Game::*)(int, int8_t*) const)
  ENV_CONTRACT_MEMBER(Game, outcome, "int outcome(int seat) const", int (Game::*)(int) const)
  ENV_CONTRACT_MEMBER(Game, odds, "void odds(const Rules&, int seat, int action, float*) const",
                      void (Game::*)(const Rules&, int, int, float*) const)
  ENV_CONTRACT_MEMBER(Game, step_told, "void step_told(const Rules&, int action, int outcome)",
                      void (Game::*)(const Rules&, int, int))
  ENV_CONTRACT_MEMBER(Game, draws, "void draws(int seat, int8_t*) const", void (Game::*)(int, int8_t*) const)
  ENV_CONTRACT_MEMBER(Game, check, "std::string check(const Rules&, int players) const",
                      std::string (Game::*)(const Rules&, int) const)
  ENV_CONTRACT_MEMBER(Game, inspect, "StateFields inspect() const", StateFields (Game::*)() const)
  ENV_CONTRACT_MEMBER(Game, render, "std::string render(const Rules&, int seat) const",
                      std::string (Game::*)(const Rules&, int) const)
  ENV_CONTRACT_MEMBER(Game, last_event, "std::string last_event() const", std::string (Game::*)() const)
  ENV_CONTRACT_MEMBER(Game, action_name, "static std::string action_name(int action)", std::string (*)(int))
  ENV_CONTRACT_MEMBER(Game, phase_name, "static std::string phase_name(int phase)", std::string (*)(int))
  ENV_CONTRACT_MEMBER(Game, observation, "static ObservationSpec observation(int players, bool counts)",
                      ObservationSpec (*)(int, bool))
  ENV_CONTRACT_MEMBER(Game, phase_rule, "static PhaseRule phase_rule(int players, int phase, int action)",
                      PhaseRule (*)(int, int, int))
  ENV_CONTRACT_MEMBER(Game, chance_rule, "static ChanceRule chance_rule(int players, int phase, int action)",
                      ChanceRule (*)(int, int, int))
  ENV_CONTRACT_MEMBER(Game, action_shape, "static ActionShape action_shape(int players, int action)",
                      ActionShape (*)(int, int))
  ENV_CONTRACT_MEMBER(Game, symmetric_blocks, "static std::vector<std::vector<int>> symmetric_blocks()", Blocks (*)())
  ENV_CONTRACT_MEMBER(Game, stat_names, "static std::vector<std::string> stat_names(int players)", Names (*)(int))

  static_assert(std::is_trivially_copyable_v<Game>, "a game's state must be trivially copyable: it is copied as bytes");
  static_assert(std::has_unique_object_representations_v<Game>, "a game's state must have no padding: fill it up");
  return fulfilled;
}

#undef ENV_CONTRACT_MEMBER

// True for a game that fulfils the contract. For any other the compiler prints what is wrong; code that depends on the
// contract is then left out (`if constexpr`), so that nothing else is printed.
template <class Game>
constexpr bool fulfils_contract() {
  constexpr bool named = NamesRulesAndBots<Game>::value;
  static_assert(named, "the game contract (env/game.h) is not fulfilled, expected: types Rules and Bots");
  if constexpr (named) {
    constexpr bool complete = members_fulfil_contract<Game>();
    constexpr bool served = rules_and_bots_fulfil_contract<typename Game::Rules, typename Game::Bots>();
    if constexpr (complete) {
      static_assert(Game::kNumActions <= 64, "kNumActions: legal actions are a 64-bit mask");
      static_assert(Game::kOutcomes == 1 || Game::kOutcomes == 1 + Game::kCardKinds,
                    "kOutcomes: 1, or 1 + kCardKinds, because outcomes are kinds of cards");
    }
    return complete && served;
  }
  return false;
}

// Calls visit(a value-initialised game) if the game fulfils the contract; the compiler says what is missing otherwise.
template <class Game, class Visitor>
void visit_game(Visitor&& visit) {
  if constexpr (fulfils_contract<Game>()) visit(Game{});
}

}  // namespace env
