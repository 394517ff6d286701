// L.A.M.A.: the options of a rule set. docs/games/lama.md explains each of them.
#pragma once

#include "env/rules.h"

namespace env {

struct LamaRules {
  static constexpr int kKinds = 7;       // kinds of cards: 1..6 and the llama
  static constexpr int kMaxCopies = 16;  // cards of a kind
  static constexpr int kMaxCards = 64;
  static constexpr int kHandCards = 6;  // cards dealt to each player

  enum class Scoring : uint8_t { kDistinct, kAllCards };
  enum class LastPlayer : uint8_t { kPlaysOn, kStops };
  enum class NextStarter : uint8_t { kLastMover, kSeat0 };
  enum class NothingToDraw : uint8_t { kNoDraw, kAbort };
  enum class Episode : uint8_t { kMatch, kRound };
  enum class InitialScores : uint8_t { kZero, kUniform, kPlayed };

  Scoring scoring = Scoring::kDistinct;
  bool chip_return = true;
  LastPlayer last_player = LastPlayer::kPlaysOn;
  NextStarter next_starter = NextStarter::kLastMover;
  NothingToDraw nothing_to_draw = NothingToDraw::kNoDraw;
  Episode episode = Episode::kMatch;
  int target = 40;
  InitialScores initial_scores = InitialScores::kZero;
  int deck[kKinds] = {8, 8, 8, 8, 8, 8, 8};
  int max_decisions = 5000;
  double round_reward = 0.0;
  double time_penalty = 0.0;

  // Derived by prepare(): the deck in ascending order, as card codes.
  uint8_t sorted_deck[kMaxCards] = {};
  int deck_size = 0;

  template <class Visitor>
  void visit(Visitor& v) {
    v.choice("scoring", scoring, {"distinct", "all_cards"}, "whether equal cards in a hand count once or each");
    v.flag("chip_return", chip_return, "whether a player who has played all cards returns a chip");
    v.choice("last_player", last_player, {"plays_on", "stops"},
             "whether the last one who has not folded plays on, without drawing, or the round ends");
    v.choice("next_starter", next_starter, {"last_mover", "seat_0"}, "who starts the next round");
    v.choice("nothing_to_draw", nothing_to_draw, {"no_draw", "abort"},
             "with no card left to draw, whether drawing is illegal or aborts the game");
    v.choice("episode", episode, {"match", "round"}, "what one episode is");
    v.integer("target", target, 1, 100000, "total that ends a match");
    v.choice("initial_scores", initial_scores, {"zero", "uniform", "played"},
             "totals at the start of an episode: played, as before a round drawn at random from a match");
    v.counts("deck", deck, kMaxCopies, "cards of each kind, 1 to 6 and the llama");
    v.integer("max_decisions", max_decisions, 1, 1000000, "decisions before truncation; players can stall forever");
    v.real("round_reward", round_reward, -10, 10, "weight of the reward at each round's end");
    v.real("time_penalty", time_penalty, 0, 1, "cost of a decision to the player who makes it");
  }

  static std::vector<std::pair<std::string, RuleList>> presets() {
    const RuleList report = {{"scoring", std::string("all_cards")},
                             {"chip_return", false},
                             {"last_player", std::string("stops")},
                             {"next_starter", std::string("seat_0")},
                             {"nothing_to_draw", std::string("abort")}};
    return {{"official", {}}, {"report", report}};
  }

  // Refuses impossible combinations of options and derives the sorted deck.
  void prepare(int players) {
    deck_size = sort_deck(deck, sorted_deck, kHandCards * players + 2,
                          "6 for each of " + std::to_string(players) + " players, and 2");
  }
};

}  // namespace env
