// The deal of a finished game once more, with a person in the next seat and the opponent in the person's place.

import { agentsFor } from "./watch.js";

// Message that opens the room of a game that a state or a viewing tells of. `names` are those of the seats, `seat` the one whose cards another player gets.
export function swapSeats(facts, { game, rule_set }, names, seat, record) {
  const you = (seat + 1) % names.length;
  const known = facts ? agentsFor(facts, names.length, rule_set).map((each) => each.name) : [];
  const other = names.find((name) => known.includes(name)) || known[known.length - 1];
  const seats = names.map((name, i) => (i === you ? null : known.includes(name) ? name : other));
  return { type: "create", game, seats, you, name: localStorage.getItem("arena-name") || "Guest", same_deal: record };
}
