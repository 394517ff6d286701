// Games that the page can show. A game contributes a board and words; the rest of the page knows no game.
//
//   title, pitch          name and one line for the lobby
//   goal(rules)           what wins, and when the game ends, in a line beside the table
//   ruleSets              what a named rule set is, in words, by name; may be left out
//   standing(view, seat)  a player's points, or what counts instead
//   prompt(view)          what the player is asked to do now, in words
//   Board                 component {state, before, act, think}: the table; act(...actions) decides
//   Cards                 component {cards}: the cards of one player at the end of a round
//   scored(end, seat)     what a round brought a player; may be left out where it is points
//   note(end, seat)       a remark on a player's points at the end of a round, or ""
//   words(text)           names of actions and events in the words of the page; may be left out
//   tutorial              steps of a first turn: {text, until(view, mine, acted)}; a step with `until` ends when that
//                         is true; `mine`: it is the own turn, `acted`: the player has decided during the step

import { lama } from "./games/lama.js";
import { skipbo } from "./games/skipbo.js";
import { skyjo } from "./games/skyjo.js";

export const GAMES = { skyjo, lama, skipbo };

// Names of the seats; who shares a name with somebody else gets the number of the seat.
export const apart = (names) => names.map((name, i) => (name && names.filter((each) => each === name).length > 1 ? `${name}, seat ${i + 1}` : name));

// Name of an action, or event, in the words of the page.
export const inWords = (game, text) => (GAMES[game] && GAMES[game].words ? GAMES[game].words(text) : text);
