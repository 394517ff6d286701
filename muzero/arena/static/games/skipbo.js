// Skip-Bo: empty the stock onto four common piles that count from 1 to 12.

import { html, useState } from "../vendor/htm-preact.js";
import { Card, Choice, badgeOf } from "../cards.js";

const DISCARDS = 40, PASS = 60; // first action that discards; the action that passes
const SLOTS = 14; // of a player: stock, five hand cards, four discard piles, four building piles
const STOCK = 0, HAND = 1, PILES = 6, BUILDING = 10;
const WILD = 13, HIDDEN = 14;
const TARGETS = 4;
const LETTERS = ["w", "x", "y", "z"]; // names of a player's own piles
const SOURCES = { s: "stock", a: "hand card 1", b: "hand card 2", c: "hand card 3", d: "hand card 4", e: "hand card 5", w: "pile w", x: "pile x", y: "pile y", z: "pile z" };

const nameOf = (card) => (card === WILD ? "wild" : String(card));
function faceOf(card) {
  if (card === HIDDEN) return null;
  const colour = card === WILD ? "purple" : card <= 3 ? "sky" : card <= 6 ? "green" : card <= 9 ? "yellow" : "orange";
  return { text: card === WILD ? "W" : String(card), colour, marks: card === WILD ? 0 : Math.ceil(card / 3) };
}

function Board({ state, before, act, think }) {
  const [picked, setPicked] = useState(null); // slot of the card that is to be moved
  const { view, seats } = state;
  const players = seats.length;
  const slots = (r) => view.observation.slot.slice(SLOTS * r, SLOTS * (r + 1));
  const own = slots(0);
  const old = before && before.view.observation.slot;
  const moved = (r, slot) => Boolean(old) && (old[SLOTS * r + slot].card !== slots(r)[slot].card || old[SLOTS * r + slot].size !== slots(r)[slot].size);
  const name = (r) => seats[(view.seat + r) % players].name;
  const can = (action) => view.legal.includes(action);
  // Equal cards in the hand are one card to the rules: the first of them.
  const first = (slot) => (slot >= HAND && slot < PILES ? HAND + own.slice(HAND, PILES).findIndex((each) => each.card === own[slot].card) : slot);
  const play = (slot, target) => TARGETS * slot + target;
  const discard = (slot, target) => DISCARDS + TARGETS * (slot - HAND) + target;
  const isHand = (slot) => slot >= HAND && slot < PILES;
  const movable = (slot) => Array.from({ length: TARGETS }, (_, t) => t).some((t) => can(play(first(slot), t)) || (isHand(slot) && can(discard(first(slot), t))));
  const source = picked !== null && view.legal.length && movable(picked) ? first(picked) : null;
  const go = (action) => {
    setPicked(null);
    act(action);
  };
  // Of several empty building piles only the first takes a 1; a click on any of them means that one.
  const onto = (target) => {
    if (source === null) return null;
    if (can(play(source, target))) return play(source, target);
    const height = own[BUILDING + target].card;
    const same = Array.from({ length: TARGETS }, (_, t) => t).find((t) => own[BUILDING + t].card === height && can(play(source, t)));
    return height === 0 && same !== undefined ? play(source, same) : null;
  };
  const show = (slot, label) => {
    const at = own[slot];
    const target = slot - PILES;
    const drop = slot >= PILES && slot < BUILDING && source !== null && isHand(source) && can(discard(source, target)) ? discard(source, target) : null;
    const choose = drop !== null ? () => go(drop) : view.legal.length && at.card && movable(slot) ? () => setPicked(picked === slot ? null : slot) : null;
    const targets = Array.from({ length: TARGETS }, (_, t) => t);
    const leaving = [...targets.map((t) => play(first(slot), t)), ...(isHand(slot) ? targets.map((t) => discard(first(slot), t)) : [])];
    const said = at.card ? nameOf(at.card) : "empty";
    return html`<${Card} key=${slot} empty=${!at.card} face=${at.card ? faceOf(at.card) : null} label=${`${label}: ${said}`} onChoose=${choose}
      selected=${picked === slot} target=${drop !== null} moved=${moved(0, slot)} badge=${drop !== null ? badgeOf(think, drop) : source === null ? badgeOf(think, ...leaving) : null} />`;
  };
  return html`<div class="board">
    <div class="others">
      ${Array.from({ length: players - 1 }, (_, i) => i + 1).map((r) => {
        const theirs = slots(r);
        return html`<section class=${(view.seat + r) % players === view.to_play && !view.done ? "player active" : "player"}>
          <h3>${name(r)} <span class="points">${theirs[STOCK].size} in stock</span></h3>
          <div class="row">
            ${[STOCK, PILES, PILES + 1, PILES + 2, PILES + 3].map((slot) => html`<${Card} key=${slot} small=${true} empty=${!theirs[slot].card} face=${theirs[slot].card ? faceOf(theirs[slot].card) : null}
              label=${`${slot === STOCK ? "stock" : `pile ${LETTERS[slot - PILES]}`}: ${theirs[slot].card ? nameOf(theirs[slot].card) : "empty"}`} moved=${moved(r, slot)} />`)}
          </div>
          <p>${view.observation.player[r].cards} cards in hand</p>
        </section>`;
      })}
    </div>
    <div class="piles" aria-label="building piles">
      ${Array.from({ length: TARGETS }, (_, t) => {
        const action = onto(t);
        const height = own[BUILDING + t].card;
        return html`<figure><${Card} empty=${!height} face=${height ? faceOf(height) : null} label=${`building pile ${t + 1}: ${height || "empty"}`} moved=${moved(0, BUILDING + t)} target=${true}
          onChoose=${action === null ? null : () => go(action)} badge=${action === null ? null : badgeOf(think, action)} /><figcaption>${t + 1}: needs ${height + 1}</figcaption></figure>`;
      })}
    </div>
    <section class=${view.to_play === view.seat && !view.done ? "player own active" : "player own"} aria-label=${state.watching ? `cards of ${name(0)}` : "your cards"}>
      <h3>${name(0)}${state.watching ? "" : " (you)"} <span class="points">${own[STOCK].size} in stock</span></h3>
      <div class="row">
        <figure>${show(STOCK, "your stock")}<figcaption>Stock</figcaption></figure>
        ${[0, 1, 2, 3].map((i) => html`<figure>${show(PILES + i, `your pile ${LETTERS[i]}`)}<figcaption>Pile ${LETTERS[i]}</figcaption></figure>`)}
      </div>
      <p class="caption">${state.watching ? "Hand" : "Your hand"}</p>
      <div class="row">${own.slice(HAND, PILES).map((each, i) => (each.card ? show(HAND + i, `hand card ${i + 1}`) : null))}</div>
    </section>
    ${can(PASS) && html`<div class="choices"><${Choice} think=${think} action=${PASS} onChoose=${() => act(PASS)}>Pass<//></div>`}
  </div>`;
}

export const skipbo = {
  title: "Skip-Bo",
  pitch: "Be the first to empty your stock onto the common piles.",
  Board,
  goal: () => "Whoever empties the stock first wins.",
  standing: (view, seat) => `${view.observation.slot[SLOTS * ((seat - view.seat + view.scores.length) % view.scores.length)].size} in stock`,
  Cards: ({ cards }) => html`<div class="row">${cards.slot.slice(0, BUILDING).filter((each) => each.card).map((each, i) => html`<${Card} key=${i} small=${true} face=${faceOf(each.card)} label=${nameOf(each.card)} />`)}</div>`,
  prompt(view) {
    if (view.legal.includes(PASS)) return "You cannot move: pass.";
    if (view.legal.some((action) => action < DISCARDS)) return "Your turn: choose a card, then the pile it goes to. A hand card onto one of your piles w to z ends the turn.";
    return "Nothing fits in the middle: put a card of your hand onto one of your piles w to z, which ends your turn.";
  },
  words: (text) =>
    text
      .replace(/^play (.)(\d)$/, (_, from, pile) => `${SOURCES[from]} onto pile ${pile}`)
      .replace(/^discard (.)(.)$/, (_, from, pile) => `${SOURCES[from]} onto pile ${pile}`)
      .replace(/\bdiscard pile ([wxyz])\b/, "pile $1")
      .replace(/\bonto ([wxyz])$/, "onto pile $1"),
  scored: (end, seat) => (end.points[seat] ? `${end.points[seat]} left in stock` : "stock is empty"),
  note: () => "",
  keys: {},
  tutorial: [
    { text: "Be the first to empty your stock. The four piles in the middle count from 1 to 12; W is wild and stands for any number." },
    { text: "Choose a card with a frame, from your stock, your hand or the top of your own piles; then choose the pile it goes to, which gets a frame of another colour. When nothing fits, put a hand card onto one of your piles w to z: that ends your turn. Play a turn now.", until: (view, mine, acted) => acted && !mine },
    { text: "That was a turn. At the start of each turn your hand is filled up to five cards; whoever plays all five gets new ones at once." },
  ],
};
