// The contract that every game fulfils. Nothing outside a game's own files (games/NAME*.h, bots/NAME.h) knows the name
// of a game; everything else is built from what is declared here. The compiler checks it (env/contract.h), the comment
// below explains it, docs/new_game.md shows how to add a game, and games/card_game.h has parts that card games share.
//
// A game `G` is a plain struct: its data members are the complete state of one table, it has no padding (so that a
// state is compared, saved and copied as bytes) and it owns no memory. It provides
//
//   constants   kName, kVersion, kNumActions (at most 64), kNumPhases, kMaxWidth of an observation row, kPools and
//               kCardKinds of the belief, kMinPlayers, kMaxPlayers, kWhyPlayers (why not fewer or more players),
//               kScoreScale (points that pay one unit of reward at round_reward = 1), kOutcomes and kDraws of chance
//   types       Rules             a rule set; see rules.h
//               Bots              hand-written players; see bots/bot.h
//   members     Rng rng                                                  all randomness, keyed by (seed, deal, episode)
//               uint32_t decisions                                       decisions of this episode so far
//   play        void reset(const Rules&, int players, uint64_t key)      deals the first round
//               void step(const Rules&, int action)                      carries out a legal action
//               uint64_t legal(const Rules&) const                       bit a = action a; 0 when finished
//   questions   int to_play() const                                      seat to move; once finished, the last mover
//               int phase() const                                        kind of decision
//               int players() const
//               bool done() const
//               bool truncated() const                                   cut off by max_decisions; implies done
//               bool standing_changed() const                            scores may differ from before the last step
//               void scores(int32_t*) const                              [P] points so far; fewer are better
//               void ranks(int8_t*) const                                [P] 1 = best, ties share the better rank
//               void rewards(const Rules&, float*) const                 [P] rewards of the last step. A won game pays
//                                                                        each of its k winners 2 / k - 1 (+1 alone, 0
//                                                                        for two who tie) and every loser -1, a draw
//                                                                        nothing; beside this, or instead of it,
//                                                                        points are paid as round_reward says
//               void stats(int32_t*) const                               [S] one for each name in stat_names()
//   knowledge   void observe(const Rules&, int seat, int16_t*, bool counts) const    what the seat may see, and no more
//               void unseen_counts(int seat, int16_t*) const             [kPools, kCardKinds] exact belief
//               void determinize(const Rules&, int seat, uint64_t key)   resamples all that the seat cannot know, or, for
//                                                                        kDealer, exactly what no player has seen
//               void true_cards(int seat, int8_t*) const                 [slots of all players] code of the card in a
//                                                                        slot if the seat cannot see it, else 0; the
//                                                                        seat's own slots first. For training alone
//   chance      int outcome(int seat) const                              code of the event in the last step as the seat
//                                                                        saw it; the player who acted sees it
//               void odds(const Rules&, int seat, int action, float*) const    [kOutcomes] probabilities of what
//                                                                        outcome(seat) would be after a legal action
//               void step_told(const Rules&, int action, int outcome)    a step whose event has this outcome, which the
//                                                                        mover must hold possible; 0: any outcome
//               void draws(int seat, int8_t*) const                      [kDraws] codes of the cards that the last step
//                                                                        dealt to the seat's hand at once, then 0
//   safety      std::string check(const Rules&, int players) const       "" or why this is no state of the game
//               StateFields inspect() const                              everything, hidden cards included, by name
//   people      std::string render(const Rules&, int seat) const         the table in words; seat -1: a spectator
//               std::string last_event() const                           the last decision in words, public parts only
//               static std::string action_name(int action)
//               static std::string phase_name(int phase)
//   description static ObservationSpec observation(int players, bool counts)
//               static PhaseRule phase_rule(int players, int phase, int action)
//               static ChanceRule chance_rule(int players, int phase, int action)
//               static ActionShape action_shape(int players, int action)
//               static std::vector<std::vector<int>> symmetric_blocks()  slots of a player that may trade places: whole
//                                                                        blocks, and the slots inside a block
//               static std::vector<std::string> stat_names(int players)  "decisions" is one of them
//   symmetry    static void relabel(const int8_t* to, int players, int16_t* row)
//               optional, for games in which the order of blocks, and of slots in a block, has no meaning: turns the
//               row into the one that would be seen if slot s of every player were called to[s]
//
// CHANCE. An event is a hidden card that a step shows: drawn, turned over, or uncovered. Outcomes are codes: 0 for no
// event, or for one that this seat did not see, and 1 to kOutcomes - 1 for the kinds of cards, in the order of
// `unseen_counts`. A game without such events has kOutcomes = 1. The deal of a round is no event. Several cards that
// enter a hand at once (a refilled hand in Skip-Bo) are no single outcome: they are `draws`, kDraws at most, and
// `outcome` is 0 or the one other card that the step shows. `odds` are exact where `unseen_counts` is the exact belief
// (Skyjo); elsewhere they are those of a player who takes every card that he has not seen for equally likely and draws
// no conclusions from how others play. `step_told` trades cards among the places that the mover cannot tell apart, at
// random, so that all cards that stay hidden are again a draw from the mover's belief, given the outcome.
//
// `rng` and `decisions` together name a moment of a game: hand-written players draw their own randomness from them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "env/rules.h"
#include "native/rng.h"

namespace env {

using native::make_key;
using native::Rng;

// Observer who knows what any of the players has seen, and no more. Cards that nobody has seen are a uniform draw given
// that knowledge, whatever the players have concluded from it: the players' decisions are no evidence about them.
inline constexpr int kDealer = -2;

// A number of a token. Observations are rows of int16: groups of tokens, each a block [count, fields.size()].
struct Field {
  std::string name;
  int vocabulary;       // size of the vocabulary: values are 0..vocabulary-1
  bool place = false;   // names a slot, or a block of slots, which the game's symmetries relabel
  bool seat = false;    // names the token's player, counted from the observer, so it changes with the observer
  bool card = false;    // shows a card, in the code of the slots' cards: in a slot, or in a place that all share
  bool absent = false;  // 1 if the token's player has left the round: the turn passes over such players
};

struct TokenGroup {
  std::string name;
  int count;
  std::vector<Field> fields;
  // Slots are the places that actions are aimed at and that a structured latent keeps apart. They are numbered through
  // all slot groups, in order. The tokens of a per-player group stand seat by seat, the observer's first.
  bool slots = false, per_player = false;
  bool owner_only = false;  // some of these slots are seen by their player alone, such as cards in hand
  int offset = 0;           // first number of the block in the row; filled in by ObservationSpec
};

struct ObservationSpec {
  std::vector<TokenGroup> groups;
  int width = 0;

  explicit ObservationSpec(std::vector<TokenGroup> blocks) : groups(std::move(blocks)) {
    for (TokenGroup& group : groups) {
      group.offset = width;
      width += group.count * static_cast<int>(group.fields.size());
    }
  }
};

// Subject of an action: its kind, and the slots that it is about, each with its role. Actions of one kind differ in
// their slots only. Slots are numbered from the player to move, whose own come first.
struct ActionShape {
  int kind = 0;
  std::vector<std::pair<int, int>> slots;  // (slot, role) pairs
};

// Usual consequence of an action in a phase, for search inside a learned model, where the real rules are unknown. Where
// the rules depend on the state (at the end of a round, for example) this is the most common case.
struct PhaseRule {
  bool possible = false;  // whether the action can be legal in the phase
  int next_phase = 0;
  bool turn_passes = false;
  bool leaves_round = false;  // the turn passes over the player from now on, until nobody is left; then all are back
  int last_phase = 0;         // phase that follows if the player leaves the round and one other player stays in it
};

// Event that may follow an action in a phase.
struct ChanceRule {
  bool possible = false;    // whether an event may follow
  int pool = 0;             // row of `unseen_counts` that its card is drawn from
  bool seen_by_all = true;  // whether a search may let all players know the outcome; false: it stays the actor's secret
};

// All of a state for tests and debugging, as names and lists of numbers. It shows hidden cards.
using StateFields = std::vector<std::pair<std::string, std::vector<int64_t>>>;

}  // namespace env
