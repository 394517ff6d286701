// Think panel: what a trained agent finds in this position, and what is known about the hidden cards.

import { html, useState } from "./vendor/htm-preact.js";
import { signed } from "./cards.js";
import { inWords } from "./games.js";

const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

export function Think({ page, mine }) {
  const { think, state, values } = page;
  if (!mine) return html`<section class="think"><h2>Think</h2><p>Wait for your turn.</p></section>`;
  if (!think) return html`<section class="think"><h2>Think</h2><p>…</p></section>`;
  const network = think.actions.some((each) => each.prior !== null);
  const words = (text) => inWords(state.game, text);
  const actions = [...think.actions].sort((a, b) => b.policy - a.policy).slice(0, 8);
  return html`<section class="think" aria-label="what the agent thinks">
    <h2>${think.agent}: ${words(think.name)}</h2>
    <table>
      <thead><tr><th scope="col">action</th>${network && html`<th scope="col">prior</th><th scope="col">visits</th>`}<th scope="col">value</th>${!network && html`<th scope="col">±</th>`}<th scope="col">${network ? "choice" : "is best"}</th></tr></thead>
      <tbody>${actions.map(
        (each) => html`<tr class=${each.action === think.action ? "best" : ""}>
          <th scope="row">${words(each.name)}</th>${network && html`<td>${percent(each.prior)}</td><td>${each.visits.toFixed(1)}</td>`}
          <td>${each.q === null ? "" : signed(each.q)}</td>${!network && html`<td>${(2 * each.error).toFixed(2)}</td>`}<td><${Bar} share=${each.policy} /></td></tr>`,
      )}</tbody>
    </table>
    <p class="soft">On the cards: ${network ? "prior, visits and value" : "how surely it is the best, and value"}; values are about −1 for a game that is lost and +1 for one that is won.</p>
    ${network ? "" : html`<p>Every action in ${think.actions[0].visits} deals of the hidden cards, played out by a bot.</p>`}
    ${think.line.length > 0 && html`<p>Expected: ${think.line.map((step) => words(step.name) + (step.outcome ? ` (${step.outcome})` : "")).join(", ")}</p>`}
    ${think.winner && html`<h3>Chance to win</h3>
      <ul class="bars">${think.winner.map((share, i) => html`<li><span>${state.seats[i].name}</span><${Bar} share=${share} /></li>`)}</ul>`}
    <${Graph} values=${values} seats=${state.seats} />
    ${think.ranks && state.seats.length > 2 && html`<${Ranks} ranks=${think.ranks} seats=${state.seats} />`}
    <${Belief} think=${think} words=${words} seats=${state.seats} />
  </section>`;
}

function Bar({ share }) {
  return html`<span class="bar" role="img" aria-label=${percent(share)}>
    <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width=${100 * share} height="10" /></svg>
    <small>${percent(share)}</small></span>`;
}

// Chance to win of every player, over the positions that were analysed in this game.
function Graph({ values, seats }) {
  if (values.length < 2) return null;
  const sorted = [...values].sort((a, b) => a.turn - b.turn);
  const last = sorted[sorted.length - 1].turn;
  const x = (turn) => (100 * (turn - sorted[0].turn)) / Math.max(1, last - sorted[0].turn);
  const line = (seat) => sorted.map((each) => `${x(each.turn).toFixed(1)},${(50 - 50 * each.shares[seat]).toFixed(1)}`).join(" ");
  return html`<figure class="graph"><svg viewBox="-18 -3 120 56" role="img" aria-label="chance to win over the game">
      <path d="M0 0 V50 H100 M0 25 H100" class="axis" />
      ${[100, 50, 0].map((share, i) => html`<text x="-2" y=${25 * i + 1.5} text-anchor="end">${share} %</text>`)}
      ${seats.map((_, seat) => html`<polyline points=${line(seat)} class=${`line seat${seat}`} />`)}
    </svg><figcaption>${seats.map((seat, i) => html`<span class=${`key seat${i}`}>${seat.name}</span> `)}: chance to win by decision</figcaption></figure>`;
}

function Ranks({ ranks, seats }) {
  return html`<table><caption>Chance of each rank</caption>
    <thead><tr><td></td>${seats.map((_, i) => html`<th scope="col">${i + 1}.</th>`)}</tr></thead>
    <tbody>${ranks.map((row, i) => html`<tr><th scope="row">${seats[i].name}</th>${row.map((share) => html`<td>${percent(share)}</td>`)}</tr>`)}</tbody></table>`;
}

// The exact posterior of a hidden card, and beside it the network's belief where it has one.
function Belief({ think, words, seats }) {
  const { belief } = think;
  const names = Object.fromEntries(think.actions.map((each) => [each.action, words(each.name)]));
  const subjects = [
    ...belief.events.map((each) => ({ label: `card shown by ${names[each.action]}`, network: each.network, pool: each.pool })),
    ...belief.slots.filter((each) => each.network).map((each) => ({ label: `hidden card ${each.slot + 1} of ${seats[each.owner].name}`, network: each.network, pool: each.pool })),
  ];
  const [at, setAt] = useState(0);
  if (!belief.pools.length) return null;
  const subject = subjects[Math.min(at, subjects.length - 1)];
  const exact = belief.pools[subject ? subject.pool : 0];
  const most = Math.max(...exact, ...(subject ? subject.network : []), 0.01);
  const step = Math.max(20, Math.floor(300 / exact.length)); // few kinds of cards stand further apart
  return html`<section class="belief"><h3>A hidden card is…</h3>
    ${subjects.length > 1 && html`<label>Network's belief about <select value=${at} onChange=${(e) => setAt(Number(e.target.value))}>
      ${subjects.map((each, i) => html`<option value=${i} selected=${i === at}>${each.label}</option>`)}</select></label>`}
    <svg viewBox=${`0 0 ${step * exact.length} 74`} role="img" aria-label=${belief.cards.map((card, i) => `${card}: exactly ${percent(exact[i])}${subject ? `, the network believes ${percent(subject.network[i])}` : ""}`).join("; ")}>
      ${belief.cards.map((card, i) => html`<g>
        <rect class="exact" x=${step * i + (subject ? 2 : 6.5)} width="7" y=${60 - (56 * exact[i]) / most} height=${(56 * exact[i]) / most} />
        ${subject && html`<rect class="network" x=${step * i + 10} width="7" y=${60 - (56 * subject.network[i]) / most} height=${(56 * subject.network[i]) / most} />`}
        <text x=${step * i + 10} y="71" text-anchor="middle">${card}</text></g>`)}
    </svg>
    <p><span class="key exact">exact posterior</span>${subject ? html` <span class="key network">network (${subject.label})</span>` : ""}, highest bar ${percent(most)}</p>
  </section>`;
}
