// Results: ratings of people and agents, and the latest games.

import { html, useEffect } from "./vendor/htm-preact.js";
import { GAMES } from "./games.js";

const SHOWN = 50;

export function Results({ page, send }) {
  const { results } = page;
  useEffect(() => {
    if (page.connected) send({ type: "results" });
  }, [page.connected]);
  const title = (game) => (GAMES[game] || { title: game }).title;
  const kind = ({ game, players, rules }) => `${title(game)}, ${players} players${rules === "official" ? "" : `, rule set ${rules}`}`;
  if (!results) return html`<main class="lobby"><h1>Results</h1></main>`;
  return html`<main class="lobby">
    <h1>Results</h1>
    <p class="soft">Elo with its 95 % interval. A game counts if nobody asked for advice, no bot played for a person, and the deal was a new one.
      Levels bring the games of their calibration along.</p>
    <p><a download="results.csv" href="/results.csv">Export CSV</a> <a download="results.json" href="/results.json">Export JSON</a></p>
    ${results.ratings.map((table) => html`<section key=${kind(table)}><h2>${kind(table)}</h2>
      <div class="scroll" tabindex="0" role="region" aria-label=${`ratings: ${kind(table)}`}><table>
        <thead><tr><th scope="col">player</th><th scope="col">Elo</th><th scope="col">interval</th><th scope="col">games here</th></tr></thead>
        <tbody>${table.ratings.map((each) => html`<tr class=${each.person ? "best" : ""}><th scope="row">${each.name}${each.person ? " (person)" : ""}</th>
          <td>${each.elo}</td><td>${each.name === table.anchor && !each.person ? "yardstick" : `${each.low} to ${each.high}`}</td><td>${each.games}</td></tr>`)}</tbody>
      </table></div></section>`)}
    <section><h2>Latest games</h2>
      ${!results.results.length && html`<p class="soft">No game has been finished yet.</p>`}
      <ul class="gallery">${results.results.slice(0, SHOWN).map((each) => html`<li key=${`${each.id} ${each.finished}`}><a href=${`#game/${each.id}`}>
        <strong>${title(each.game)}</strong>
        <span>${each.seats.map((seat) => `${seat.name} ${seat.score}${seat.rank === 1 ? " (won)" : ""}`).join(" · ")}</span>
        <small>${new Date(1000 * each.finished).toLocaleString()}${each.rated ? "" : `, not rated: ${each.unrated.join(", ")}`}</small></a></li>`)}</ul>
    </section>
  </main>`;
}
