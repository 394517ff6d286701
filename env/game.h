// The contract every game fulfils. Nothing outside a game's own files (games/NAME.h, bots/NAME.h) knows
// the name of a game; the rest of the house is built from what is declared here. docs/new_game.md says how to add one,
// games/card_game.h has what all of them so far answer alike.
//
// A game `G` is a plain struct: its data members are the complete state of one table, it has no padding (so a
// state is compared, saved and copied as bytes) and it owns no memory. It provides
//
//   constants   kName, kVersion, kNumActions (<= 64), kNumPhases, kMaxWidth of an observation, kPools, kCardKinds,
//               kMinPlayers, kMaxPlayers, kWhyPlayers (why not fewer or more)
//   types       Rules             a rule set; see RuleVisitor below
//               Bots              hand-written players; see bots/bot.h
//   play        void reset(const Rules&, int players, uint64_t key)      deals the first round
//               void step(const Rules&, int action)                      action must be legal
//               uint64_t legal(const Rules&) const                       bit a = action a; 0 when finished
//   questions   int to_play() const, phase() const, players() const      the last mover once finished
//               bool done() const, truncated() const                     truncated implies done
//               bool standing_changed() const                            scores may differ from before the last step
//               void scores(int32_t*) const                              [P] match totals so far
//               void ranks(int8_t*) const                                [P] 1 = best, ties share the better rank
//               void rewards(const Rules&, float*) const                 [P] of the last step: a win pays +1 in all, shared by
//                                                                        tied winners, a loss -1, a draw nothing
//               void stats(int32_t*) const                               one per name in stat_names(), "decisions" among them
//   knowledge   void observe(const Rules&, int seat, int16_t*) const     what the seat may see, and nothing else
//               void unseen_counts(int seat, int16_t*) const             [kPools, kCardKinds] exact belief
//               void determinize(const Rules&, int seat, uint64_t key)   resamples all that the seat cannot know
//   safety      std::string check(const Rules&, int players) const       "" or why this is no state of the game
//               StateFields inspect() const                              everything, hidden cards included, by name
//   people      std::string render(const Rules&, int seat) const         seat -1 shows only what is public
//               std::string last_event() const                           what the last mover did, in words, public parts only
//               static std::string action_name(int action), phase_name(int phase)
//   description static ObservationSpec observation(int players, bool counts)
//               static PhaseRule phase_rule(int players, int phase, int action)
//               static ActionShape action_shape(int players, int action)
//               static std::vector<std::vector<int>> symmetric_blocks()  of a player's slots: blocks may trade places,
//                                                                        and so may the slots of a block
//               static std::vector<std::string> stat_names(int players)
//   symmetry    static void relabel(const int8_t* to, int players, int16_t* row)
//               optional, for games that do not care which block, or which slot of a block, is which: what the row would
//               be if each slot s of every player were called to[s]
//
// All randomness of a game comes from `rng`, keyed by (seed, deal, episode); `decisions` counts the steps of the
// episode. Those two members name the moment, and hand-written players draw their own randomness from them.
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

// Observations are rows of int16: groups of tokens, each a contiguous block [count, fields.size()].
struct Field {
  std::string name;
  int vocabulary;      // values are 0..vocabulary-1
  bool place = false;  // it names a slot, or a block of slots, which the game's symmetries relabel
  bool seat = false;   // it names the token's player, counted from the observer: it changes with whose turn it is
  bool card = false;   // it shows a card, in the code of the slots' cards: in a slot, or in a place that all share
};

struct TokenGroup {
  std::string name;
  int count;
  std::vector<Field> fields;
  // Slots are the places that actions are aimed at and that a structured latent keeps apart. They are numbered
  // through all slot groups, in order. The tokens of a per-player group stand seat by seat from the observer's.
  bool slots = false, per_player = false;
  bool owner_only = false;  // slots, some of which only their player sees, such as cards in hand
  int offset = 0;           // of the block in the row; filled in by ObservationSpec
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

// What an action is about: its kind, and the slots it may change, each with the role it has in that. Actions of one
// kind differ in their slots only. Seats are relative: slots of the mover come first.
struct ActionShape {
  int kind = 0;
  std::vector<std::pair<int, int>> slots;  // (slot, role)
};

// What normally follows an action, for search inside a learned model, where the real rules are unknown. Where
// the rules depend on the state (the end of a round, say) this is the usual case.
struct PhaseRule {
  bool possible = false;  // can the action be legal in the phase?
  int next_phase = 0;
  bool turn_passes = false;
};

// A state spelled out for tests and debugging: names and lists of numbers. It shows hidden cards.
using StateFields = std::vector<std::pair<std::string, std::vector<int64_t>>>;

}  // namespace env
