// L.A.M.A.: shed the hand onto a pile that counts 1 to 6, llama, 1; cards left are points.

import { html } from "../vendor/htm-preact.js";
import { Card, Choice, badgeOf } from "../cards.js";

const DRAW = 7, FOLD = 8;
const KINDS = 7, LLAMA = 7;
const COLOURS = ["sky", "green", "yellow", "orange", "purple", "blue", "sky"];

const nameOf = (card) => (card === LLAMA ? "llama" : String(card));
const faceOf = (card) => ({ text: card === LLAMA ? "" : String(card), picture: card === LLAMA ? "llama" : null, colour: COLOURS[card - 1], marks: card === LLAMA ? 0 : Math.ceil(card / 2) });

// Cards of a hand from the tokens of its kinds.
const handOf = (tokens) => tokens.flatMap((token) => Array.from({ length: token.count }, () => token.card));

// Points that a hand costs at the end of a round.
function worthOf(hand, rules) {
  const counted = rules && rules.scoring === "all_cards" ? hand : [...new Set(hand)];
  return counted.reduce((all, card) => all + (card === LLAMA ? 10 : card), 0);
}

function Board({ state, before, act, think }) {
  const { view, seats } = state;
  const seen = view.observation;
  const can = (action) => view.legal.includes(action);
  const players = seats.length;
  const name = (r) => seats[(view.seat + r) % players].name;
  const hand = handOf(seen.hand.slice(0, KINDS));
  const moved = before && before.view.observation.pile[0].size !== seen.pile[0].size;
  return html`<div class="board">
    <div class=${players > 4 ? "others many" : "others"}>
      ${seen.player.slice(1).map(
        (player) => html`<section class=${(view.seat + player.owner) % players === view.to_play && !view.done ? "player active" : "player"}>
          <h3>${name(player.owner)} <span class="points">${view.scores[(view.seat + player.owner) % players]} points</span></h3>
          <div class="row fan">${Array.from({ length: player.cards }, (_, i) => html`<${Card} key=${i} small=${true} face=${null} label="hidden card" />`)}</div>
          <p>${player.cards} ${player.cards === 1 ? "card" : "cards"}${player.folded ? ", folded" : ""}</p>
        </section>`,
      )}
    </div>
    <div class="piles">
      <figure><${Card} face=${null} label=${`deck, ${seen.global[0].deck_size} cards`} onChoose=${can(DRAW) ? () => act(DRAW) : null} badge=${badgeOf(think, DRAW)} /><figcaption>Draw</figcaption></figure>
      <figure><${Card} face=${faceOf(seen.pile[0].top)} label=${`pile, top ${nameOf(seen.pile[0].top)}`} moved=${moved} /><figcaption>Pile</figcaption></figure>
    </div>
    <section class=${view.to_play === view.seat && !view.done ? "player own active" : "player own"} aria-label=${state.watching ? `cards of ${name(0)}` : "your cards"}>
      <h3>${name(0)}${state.watching ? "" : " (you)"} <span class="points">${view.scores[view.seat]} points</span></h3>
      <div class="row hand-cards">${hand.map((card, i) => html`<${Card} key=${i} face=${faceOf(card)} label=${nameOf(card)} onChoose=${can(card - 1) ? () => act(card - 1) : null} badge=${badgeOf(think, card - 1)} />`)}</div>
      ${seen.player[0].folded ? html`<p>${state.watching ? "Folded." : "You have folded."}</p>` : null}
    </section>
    ${can(FOLD) && html`<div class="choices"><${Choice} think=${think} action=${FOLD} onChoose=${() => act(FOLD)}>Fold (F): stop for this round with ${worthOf(hand, state.rules)} points<//></div>`}
  </div>`;
}

export const lama = {
  title: "L.A.M.A.",
  pitch: "Play the same number or the next one, draw, or fold in time. Cards left in hand are points.",
  Board,
  goal: (rules) => `The fewest points win${rules.episode === "round" ? " this one round" : `. The game ends after the round in which somebody reaches ${rules.target}`}.`,
  ruleSets: { official: "as in the box", report: "every card counts, none is given back, the last player stops" },
  standing: (view, seat) => view.scores[seat],
  Cards: ({ cards }) => html`<div class="row">${handOf(cards.hand).map((card, i) => html`<${Card} key=${i} small=${true} face=${faceOf(card)} label=${nameOf(card)} />`)}</div>`,
  prompt(view) {
    const cards = view.legal.filter((action) => action < DRAW).map((action) => nameOf(action + 1));
    const can = [cards.length && `play ${cards.join(" or ")}`, view.legal.includes(DRAW) && "draw a card", view.legal.includes(FOLD) && "fold"].filter(Boolean);
    const words = can.length > 1 ? `${can.slice(0, -1).join(", ")} or ${can[can.length - 1]}` : can.join("");
    if (view.phase === "alone") return `Everybody else has folded, and nobody draws any more: ${words}.`;
    const top = view.observation.pile[0].top;
    const fits = [top, (top % KINDS) + 1].map(nameOf).join(" or ");
    return `Your turn: ${words}.${cards.length ? "" : ` None of your cards fits: onto ${nameOf(top)} goes ${fits}.`}`;
  },
  note(end, seat) {
    const cards = handOf(end.cards[seat].hand);
    const [kinds, points] = [[...new Set(cards)], end.points[seat]];
    const worth = (card) => (card === LLAMA ? 10 : card);
    if (!cards.length) return points < 0 ? `no card left: gives ${-points} back` : "no card left";
    const once = kinds.reduce((all, card) => all + worth(card), 0);
    return points === once && kinds.length < cards.length ? "equal cards count once" : "";
  },
  keys: { d: DRAW, f: FOLD, 1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5, l: 6 },
  tutorial: [
    { text: "Get rid of your cards: each one may be played onto the same number or the next. After 6 comes the llama, after the llama 1." },
    { text: "On your turn play a card with a frame. If you cannot or do not want to, draw a card, or fold and stop for this round. Decide now.", until: (view, mine, acted) => acted },
    { text: "That was a turn. The round ends when a hand is empty or everybody has folded. Numbers left in your hand are points, by the official rules equal ones only once; a llama counts ten. The fewest points win." },
  ],
};
