// Skyjo: the options of a rule set. docs/games/skyjo.md explains each of them.
#pragma once

#include "env/rules.h"

namespace env {

struct SkyjoRules {
  static constexpr int kValues = 15;     // card values: -2..12
  static constexpr int kMaxCards = 160;  // room for decks of other editions

  enum class Setup : uint8_t { kRandom, kChosen };
  enum class EnderPenalty : uint8_t { kStrictLowestRequired, kOff };
  enum class ClearedCards : uint8_t { kDiscardPile, kOutOfPlay };
  enum class Clearing : uint8_t { kAutomatic, kVoluntary };
  enum class NextStarter : uint8_t { kEnder, kHighestSum, kSeat0 };
  enum class FirstStarter : uint8_t { kByRule, kRandom };
  enum class Episode : uint8_t { kMatch, kRound };
  enum class InitialScores : uint8_t { kZero, kUniform, kPlayed };

  Setup setup = Setup::kRandom;
  int initial_reveals = 2;
  EnderPenalty ender_penalty = EnderPenalty::kStrictLowestRequired;
  bool penalty_on_nonpositive = false;
  ClearedCards cleared_cards = ClearedCards::kDiscardPile;
  bool clear_on_final_reveal = true;
  Clearing clearing = Clearing::kAutomatic;
  NextStarter next_starter = NextStarter::kEnder;
  FirstStarter first_starter = FirstStarter::kByRule;
  Episode episode = Episode::kMatch;
  int target = 100;
  InitialScores initial_scores = InitialScores::kZero;
  int deck[kValues] = {5, 10, 15, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10};
  int max_decisions = 5000;
  double round_reward = 0.0;
  double time_penalty = 0.0;

  // Derived by prepare(): the deck in ascending order, as card codes.
  uint8_t sorted_deck[kMaxCards] = {};
  int deck_size = 0;

  template <class Visitor>
  void visit(Visitor& v) {
    v.choice("setup", setup, {"random", "chosen"}, "who picks the cards revealed before play");
    v.integer("initial_reveals", initial_reveals, 0, 11, "cards each player reveals before play");
    v.choice("ender_penalty", ender_penalty, {"strict_lowest_required", "off"},
             "whether the round's ender doubles a sum that is not strictly the lowest");
    v.flag("penalty_on_nonpositive", penalty_on_nonpositive, "whether a zero or negative sum is doubled too");
    v.choice("cleared_cards", cleared_cards, {"discard_pile", "out_of_play"}, "where the cards of a cleared column go");
    v.flag("clear_on_final_reveal", clear_on_final_reveal, "whether columns completed by the final reveal are cleared");
    v.choice("clearing", clearing, {"automatic", "voluntary"},
             "whether completed columns are cleared at once or their owner decides");
    v.choice("next_starter", next_starter, {"ender", "highest_sum", "seat_0"}, "who starts the next round");
    v.choice("first_starter", first_starter, {"by_rule", "random"},
             "who starts a round that no other came before: as next_starter says, or a player drawn at random");
    v.choice("episode", episode, {"match", "round"}, "what one episode is");
    v.integer("target", target, 1, 1000, "total that ends a match");
    v.choice("initial_scores", initial_scores, {"zero", "uniform", "played"},
             "totals at the start of an episode: played, as before a round drawn at random from a match");
    v.counts("deck", deck, 31, "cards of each value, -2 to 12");
    v.integer("max_decisions", max_decisions, 1, 1000000, "decisions before truncation; two players can stall forever");
    v.real("round_reward", round_reward, -10, 10, "weight of the reward at each round's end");
    v.real("time_penalty", time_penalty, 0, 1, "cost of a decision to the player who makes it");
  }

  static std::vector<std::pair<std::string, RuleList>> presets() {
    const RuleList summary = {{"cleared_cards", std::string("out_of_play")},
                              {"penalty_on_nonpositive", true},
                              {"clear_on_final_reveal", false},
                              {"next_starter", std::string("highest_sum")}};
    const RuleList reichel = {{"episode", std::string("round")},
                              {"ender_penalty", std::string("off")},
                              {"cleared_cards", std::string("out_of_play")},
                              {"clear_on_final_reveal", false},
                              {"next_starter", std::string("seat_0")},
                              {"max_decisions", int64_t{1500}}};
    return {{"official", {}}, {"summary", summary}, {"skynet", summary}, {"reichel", reichel}};
  }

  // Refuses impossible combinations of options and derives the sorted deck.
  void prepare(int players) {
    deck_size =
        sort_deck(deck, sorted_deck, 12 * players + 2, "12 for each of " + std::to_string(players) + " players, and 2");
    if (clearing == Clearing::kVoluntary && initial_reveals > 2) {
      throw RuleError("initial_reveals", "at most 2 with clearing=voluntary", std::to_string(initial_reveals));
    }
  }
};

}  // namespace env
