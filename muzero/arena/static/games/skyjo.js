// Skyjo: twelve cards per player in three rows and four columns; the fewest points win.

import { html } from "../vendor/htm-preact.js";
import { Card, Choice, badgeOf } from "../cards.js";

const DECK = 0, TAKE = 1, KEEP = 2, DISCARD = 3, POSITION = 4;
const CELLS = 12, COLUMNS = 4;
const HIDDEN_HAND = 16;

const valueOf = (code) => code - 3;

function faceOf(code) {
  const value = valueOf(code);
  const colour = value < 0 ? "blue" : value === 0 ? "sky" : value <= 4 ? "green" : value <= 8 ? "yellow" : "orange";
  return { text: String(value), colour, marks: value < 0 ? 1 : value === 0 ? 0 : Math.ceil(value / 4) };
}

// Cells [12] of a player from the tokens of an observation: {shown, cleared, code}.
const cellsOf = (tokens) => tokens.map((t) => ({ shown: t.visibility === 1, cleared: t.visibility === 2, code: t.value }));

const placeOf = (index) => `row ${Math.floor(index / COLUMNS) + 1}, column ${(index % COLUMNS) + 1}`;

function cellLabel(cell, index, owner) {
  const place = placeOf(index);
  const what = cell.cleared ? "cleared" : cell.shown ? `${valueOf(cell.code)}` : "face down";
  return `${owner}, ${place}: ${what}`;
}

function Grid({ cells, owner, choose, badge, moved, small }) {
  const move = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -COLUMNS, ArrowDown: COLUMNS }[event.key];
    if (!step) return;
    const all = [...event.currentTarget.children];
    let at = all.indexOf(document.activeElement) + step;
    while (at >= 0 && at < all.length && all[at].tagName !== "BUTTON") at += step;
    if (all[at]) all[at].focus();
    event.preventDefault();
  };
  return html`<div class="grid" onKeyDown=${move}>
    ${cells.map(
      (cell, i) => html`<${Card} key=${i} small=${small} empty=${cell.cleared} face=${cell.shown ? faceOf(cell.code) : null}
        label=${cellLabel(cell, i, owner)} onChoose=${choose && choose(cell, i)} badge=${badge && badge(i)} moved=${moved && moved(i)} />`,
    )}
  </div>`;
}

function Board({ state, before, act, think }) {
  const { view, seats } = state;
  const players = seats.length;
  const seen = view.observation;
  const old = before && before.view.observation;
  const can = (action) => view.legal.includes(action);
  const decision = seen.decision[0];
  const hand = decision.hand;
  const board = (r) => cellsOf(seen.board.slice(CELLS * r, CELLS * (r + 1)));
  const changed = (r, i) => {
    if (!old) return false;
    const [now, then] = [seen.board[CELLS * r + i], old.board[CELLS * r + i]];
    return now.visibility !== then.visibility || now.value !== then.value;
  };
  // A place is chosen directly, or together with keeping the card that was drawn.
  const choose = (cell, i) => {
    if (can(POSITION + i)) return () => act(POSITION + i);
    if (can(KEEP) && view.phase === "keep" && !cell.cleared) return () => act(KEEP, POSITION + i);
    return null;
  };
  const name = (r) => seats[(view.seat + r) % players].name;
  const top = seen.discard[0].top;
  const discard = can(TAKE) ? () => act(TAKE) : can(DISCARD) && view.phase === "keep" ? () => act(DISCARD) : null;
  const discardAction = can(TAKE) ? TAKE : DISCARD;
  return html`<div class="board">
    <div class=${players > 4 ? "others many" : "others"}>
      ${Array.from({ length: players - 1 }, (_, i) => i + 1).map(
        (r) => html`<section class=${(view.seat + r) % players === view.to_play && !view.done ? "player active" : "player"} aria-label=${`cards of ${name(r)}`}>
          <h3>${name(r)} <span class="points">${state.view.scores[(view.seat + r) % players]} points</span></h3>
          <${Grid} cells=${board(r)} owner=${name(r)} small=${true} moved=${(i) => changed(r, i)} />
        </section>`,
      )}
    </div>
    <div class="piles">
      <figure>
        <${Card} face=${null} label=${`draw pile, ${seen.global[0].deck_size} cards`} onChoose=${can(DECK) ? () => act(DECK) : null} badge=${badgeOf(think, DECK)} />
        <figcaption>Draw pile</figcaption>
      </figure>
      <figure>
        ${top
          ? html`<${Card} face=${faceOf(top)} label=${`discard pile, top ${valueOf(top)}`} onChoose=${discard} badge=${badgeOf(think, discardAction)} moved=${old && old.discard[0].size !== seen.discard[0].size} />`
          : html`<${Card} empty=${true} label="discard pile, empty" onChoose=${discard} />`}
        <figcaption>Discard pile</figcaption>
      </figure>
      <figure class=${hand ? "hand" : "hand none"}>
        ${hand
          ? html`<${Card} face=${hand === HIDDEN_HAND ? null : faceOf(hand)} label=${hand === HIDDEN_HAND ? "card in the other's hand" : `in hand: ${valueOf(hand)}`} moved=${true} />`
          : html`<${Card} empty=${true} label="no card in hand" />`}
        <figcaption>${view.to_play === view.seat && !state.watching ? "Your hand" : "In hand"}</figcaption>
      </figure>
    </div>
    ${!state.watching && html`<div class="choices kept">
      ${view.phase === "keep" && view.legal.length > 0 && html`<${Choice} think=${think} action=${DISCARD} onChoose=${() => act(DISCARD)}>Discard it and turn a card over (X)<//>`}
      ${view.phase === "clear" && view.legal.length > 0 && html`<${Choice} think=${think} action=${DISCARD} onChoose=${() => act(DISCARD)}>Discard the column (X)<//>
        <${Choice} think=${think} action=${KEEP} onChoose=${() => act(KEEP)}>Keep the column (K)<//>`}
    </div>`}
    <section class=${view.to_play === view.seat && !view.done ? "player own active" : "player own"} aria-label=${state.watching ? `cards of ${name(0)}` : "your cards"}>
      <h3>${name(0)}${state.watching ? "" : " (you)"} <span class="points">${view.scores[view.seat]} points</span></h3>
      <${Grid} cells=${board(0)} owner=${state.watching ? name(0) : "you"} choose=${choose} badge=${(i) => badgeOf(think, POSITION + i)} moved=${(i) => changed(0, i)} />
    </section>
  </div>`;
}

export const skyjo = {
  title: "Skyjo",
  pitch: "Swap high cards for low ones; three of a kind in a column vanish. The fewest points win.",
  Board,
  goal: (rules) => `The fewest points win${rules.episode === "round" ? " this one round" : `. The game ends after the round in which somebody reaches ${rules.target}`}.`,
  standing: (view, seat) => view.scores[seat],
  Cards: ({ cards }) => html`<${Grid} cells=${cellsOf(cards.board)} owner="player" small=${true} />`,
  prompt(view) {
    const hand = view.observation.decision[0].hand;
    switch (view.phase) {
      case "source":
        return "Your turn: take the top of the discard pile, or the unknown card of the draw pile.";
      case "keep":
        return `You drew ${valueOf(hand)}. Choose one of your cards to replace with it, or discard it.`;
      case "position":
        return hand
          ? `Choose one of your cards to replace with ${valueOf(hand)}.`
          : "Choose one of your face-down cards to turn over.";
      case "setup":
        return "Choose a card to turn over.";
      default:
        return "Your column is complete: discard it or keep it.";
    }
  },
  note(end, seat) {
    const sum = end.cards[seat].board.reduce((all, t) => all + (t.visibility === 1 ? valueOf(t.value) : 0), 0);
    return sum && end.points[seat] === 2 * sum ? `${sum} doubled: ended the round without the lowest sum` : "";
  },
  words: (text) =>
    text
      .replace(/\bposition (\d+)/g, (_, index) => placeOf(Number(index)))
      .replace(/\bdeck$/, "draw pile")
      .replace(/^take$/, "take the discard"),
  keys: { d: DECK, t: TAKE, k: KEEP, x: DISCARD },
  tutorial: [
    { text: "Every player has twelve cards; nobody has seen those that lie face down. Low is good: the fewest points win." },
    { text: "On your turn take the open discard, or draw a card from the pile: cards with a frame can be chosen. Choose one now.", until: (view, mine) => mine && ["keep", "position"].includes(view.phase) },
    { text: "Now choose one of your cards: the new one takes its place, and the old one goes to the discard pile. A drawn card may also be discarded; then you turn one of your cards over.", until: (view, mine, acted) => acted && (!mine || view.phase === "source") },
    { text: "That was a turn. Three equal cards in a column leave the table. When somebody has turned over the last card, everybody else has one more turn. If the player who ended the round has not the lowest sum, it is doubled." },
  ],
};
