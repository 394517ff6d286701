// L.A.M.A.: shed the hand onto a pile that counts 1 to 6, llama, 1; cards left are points.

import { html } from "../vendor/htm-preact.js";
import { Card, badgeOf } from "../cards.js";

const DRAW = 7, FOLD = 8;
const KINDS = 7, LLAMA = 7;
const COLOURS = ["sky", "green", "yellow", "orange", "purple", "blue", "sky"];

const nameOf = (card) => (card === LLAMA ? "llama" : String(card));
const faceOf = (card) => ({ text: card === LLAMA ? "Ll" : String(card), colour: COLOURS[card - 1], marks: card === LLAMA ? 0 : Math.ceil(card / 2) });

// Cards of a hand from the tokens of its kinds.
const handOf = (tokens) => tokens.flatMap((token) => Array.from({ length: token.count }, () => token.card));

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
          <h3>${name(player.owner)} <span class="points">${view.scores[(view.seat + player.owner) % players]}</span></h3>
          <div class="row">${Array.from({ length: player.cards }, (_, i) => html`<${Card} key=${i} small=${true} face=${null} label="hidden card" />`)}</div>
          <p>${player.cards} cards${player.folded ? ", folded" : ""}</p>
        </section>`,
      )}
    </div>
    <div class="piles">
      <figure><${Card} face=${null} label=${`deck, ${seen.global[0].deck_size} cards`} onChoose=${can(DRAW) ? () => act(DRAW) : null} badge=${badgeOf(think, DRAW)} /><figcaption>Draw</figcaption></figure>
      <figure><${Card} face=${faceOf(seen.pile[0].top)} label=${`pile, top ${nameOf(seen.pile[0].top)}`} moved=${moved} /><figcaption>Pile</figcaption></figure>
    </div>
    <section class=${view.to_play === view.seat && !view.done ? "player own active" : "player own"} aria-label=${state.watching ? `cards of ${name(0)}` : "your cards"}>
      <h3>${name(0)}${state.watching ? "" : " (you)"} <span class="points">${view.scores[view.seat]}</span></h3>
      <div class="row">${hand.map((card, i) => html`<${Card} key=${i} face=${faceOf(card)} label=${nameOf(card)} onChoose=${can(card - 1) ? () => act(card - 1) : null} badge=${badgeOf(think, card - 1)} />`)}</div>
      ${seen.player[0].folded ? html`<p>${state.watching ? "Folded." : "You have folded."}</p>` : null}
    </section>
    ${can(FOLD) && html`<div class="choices"><button type="button" onClick=${() => act(FOLD)}>Fold (F)</button></div>`}
  </div>`;
}

export const lama = {
  title: "L.A.M.A.",
  pitch: "Play the same number or the next one, draw, or fold in time. Cards left in hand are points.",
  Board,
  Cards: ({ cards }) => html`<div class="row">${handOf(cards.hand).map((card, i) => html`<${Card} key=${i} small=${true} face=${faceOf(card)} label=${nameOf(card)} />`)}</div>`,
  prompt(view) {
    const top = view.observation.pile[0].top;
    const next = (top % KINDS) + 1;
    return `Your turn: play ${nameOf(top)} or ${nameOf(next)}${view.legal.includes(DRAW) ? ", draw a card" : ""}, or fold.`;
  },
  note: () => "",
  keys: { d: DRAW, f: FOLD, 1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5, l: 6 },
  tutorial: [
    "Get rid of your cards: each one may be played onto the same number or the next. After 6 comes the llama, after the llama 1.",
    "If you cannot play or do not want to, draw a card, or fold and leave the round.",
    "The round ends when a hand is empty or everybody has folded. Numbers left in your hand count once each, a llama ten.",
  ],
};
