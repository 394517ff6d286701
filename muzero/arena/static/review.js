// Review of a seat: the decisions that cost most, asked before they are told, and the ledger of luck and skill.

import { html, useEffect, useState } from "./vendor/htm-preact.js";

const AGAIN = 700; // milliseconds between questions about a review that is being made
const MOMENTS = 5;

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const signed = (share) => `${share >= 0 ? "+" : "−"}${Math.abs(100 * share).toFixed(1)}`;

export function Review({ page, viewing, seat, turn, send, ask, quiz, jump, actions }) {
  const review = page.reviews[`${viewing.record}/${seat}`];
  const [at, setAt] = useState(-1);
  useEffect(() => {
    if (!page.connected || (review && review.complete)) return undefined;
    const wanted = { type: "review", id: viewing.record, seat };
    if (!review) {
      send(wanted);
      return undefined;
    }
    const timer = setTimeout(() => send(wanted), AGAIN);
    return () => clearTimeout(timer);
  }, [page.connected, review, seat]);
  useEffect(() => setAt(-1), [seat]);

  const name = viewing.names[seat];
  if (!review) return html`<section class="review"><h2>Review of ${name}</h2><p role="status">…</p></section>`;
  const { mistakes, ledger } = review;
  const next = () => {
    const to = (at + 1) % mistakes.length;
    setAt(to);
    ask(mistakes[to], seat);
  };
  const told = quiz && quiz.answer !== null ? quiz : null;
  return html`<section class="review" aria-label=${`review of ${name}`}>
    <h2>Review of ${name}</h2>
    ${!review.complete && html`<p role="status">Judging decision ${review.progress[0]} of ${review.progress[1]}…</p><progress max=${review.progress[1]} value=${review.progress[0]} aria-label="decisions judged"></progress>`}
    <p>${review.judged} decisions with a choice, ${mistakes.length === 0 ? "no sure mistake" : mistakes.length === 1 ? "one sure mistake" : `${mistakes.length} sure mistakes`}${review.complete ? "" : " so far"}. <small>Judge: ${review.judge}.</small></p>
    ${mistakes.length > 0 && html`<div class="buttons"><button type="button" class="primary" onClick=${next}>${at < 0 ? "The most costly one" : "Next mistake"}</button></div>
      <ol class="mistakes">${mistakes.map((each, i) => html`<li key=${each.turn} class=${i === at ? "active" : ""}>
        <button type="button" onClick=${() => { setAt(i); ask(each, seat); }}>Decision ${each.turn + 1}</button> ${percent(each.cost)} of the win</li>`)}</ol>`}
    ${told && html`<${Verdict} quiz=${told} actions=${actions} />`}
    ${ledger && html`<${Ledger} ledger=${ledger} names=${viewing.names} seat=${seat} turn=${turn} jump=${jump} />`}
  </section>`;
}

// What was played, what is better, and what the person answered.
function Verdict({ quiz, actions }) {
  const { mistake, answer } = quiz;
  const words = answer === mistake.best ? "Right. " : answer === -1 ? "" : answer === mistake.played ? "That was played, and it cost. " : `You chose ${actions[answer]}. `;
  const marks = (action) => [action === mistake.best && "better", action === mistake.played && "played", action === answer && "your answer"].filter(Boolean).join(", ");
  return html`<section class="verdict" role="status">
    <p><strong>${words}</strong>${actions[mistake.played] || mistake.played_name} was played; ${actions[mistake.best] || mistake.best_name} raises the chance to win by ${(100 * mistake.cost).toFixed(1)} points of a hundred (± ${(200 * mistake.error).toFixed(1)}).</p>
    <div class="scroll" tabindex="0" role="region" aria-label="actions"><table><thead><tr><th scope="col">action</th><th scope="col">chance to win</th><th scope="col"></th></tr></thead>
      <tbody>${mistake.actions.map((each) => html`<tr class=${each.action === mistake.best ? "best" : ""}><th scope="row">${actions[each.action] || each.name}</th>
        <td>${percent(each.chance)}</td><td>${marks(each.action)}</td></tr>`)}</tbody></table></div></section>`;
}

// Luck and skill of all seats, adding up to the result.
function Ledger({ ledger, names, seat, turn, jump }) {
  const rows = [
    ["fair share", names.map(() => ledger.fair), percent],
    ["luck of the deal", ledger.deal, signed],
    ["luck of the cards", ledger.luck, signed],
    ["own decisions", ledger.own, signed],
    ["decisions of others", ledger.others, signed],
    ["share of the win", ledger.result, percent],
  ];
  const now = turn > 0 ? ledger.entries[turn - 1] : null;
  const moments = ledger.entries.map((entry, i) => ({ turn: i + 1, luck: entry[1][seat] })).sort((a, b) => Math.abs(b.luck) - Math.abs(a.luck)).slice(0, MOMENTS);
  return html`<section class="ledger"><h3>Luck and skill</h3>
    ${now && html`<p role="status">This decision, for ${names[seat]}: luck ${signed(now[1][seat])}, skill ${signed(now[2][seat])} (percent of the win).</p>`}
    <div class="scroll" tabindex="0" role="region" aria-label="luck and skill"><table>
      <thead><tr><td></td>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>${rows.map(([title, numbers, text], i) => html`<tr class=${i === rows.length - 1 ? "best" : ""}><th scope="row">${title}</th>${numbers.map((each) => html`<td>${text(each)}</td>`)}</tr>`)}</tbody>
    </table></div>
    <${Curves} ledger=${ledger} seat=${seat} turn=${turn} />
    <h3>Moments of luck</h3>
    <ol class="mistakes">${moments.map((each) => html`<li key=${each.turn}><button type="button" onClick=${() => jump(each.turn)}>Decision ${each.turn}</button> ${signed(each.luck)} % of the win</li>`)}</ol>
  </section>`;
}

// Luck and own decisions of a seat, added up over the game.
function Curves({ ledger, seat, turn }) {
  const count = ledger.entries.length;
  const add = (pick, start) => {
    const sums = [start];
    for (const entry of ledger.entries) sums.push(sums[sums.length - 1] + pick(entry));
    return sums;
  };
  const luck = add((entry) => entry[1][seat], ledger.deal[seat]);
  const skill = add((entry) => (entry[0] === seat ? entry[2][seat] : 0), 0);
  const most = Math.max(0.05, ...luck.map(Math.abs), ...skill.map(Math.abs));
  const y = (share) => (25 - (24 * share) / most).toFixed(1);
  const line = (shares) => shares.map((share, i) => `${((100 * i) / Math.max(1, count)).toFixed(2)},${y(share)}`).join(" ");
  const x = ((100 * turn) / Math.max(1, count)).toFixed(2);
  return html`<figure class="graph"><svg viewBox="-20 -3 124 56" role="img" aria-label="luck and own decisions, added up over the game">
      <path d=${`M0 0 V50 M0 25 H100 M${x} 0 V50`} class="axis" />
      ${[most, 0, -most].map((share, i) => html`<text x="-2" y=${25 * i + 1.5} text-anchor="end">${signed(share)}</text>`)}
      <polyline points=${line(luck)} class="line seat0" /><polyline points=${line(skill)} class="line seat1" />
    </svg><figcaption><span class="key seat0">luck</span> <span class="key seat1">own decisions</span>: percent of the win, added up by decision</figcaption></figure>`;
}
