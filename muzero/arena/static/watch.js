// Watch: let agents play each other, load a game record, or choose a finished game.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { GAMES } from "./games.js";
import { RuleSet, ruleSetFor } from "./rules.js";

const PART = 3000; // characters of a file that fit into a message
const BURST = 25; // parts that are sent at once; then the server's rate is kept
const PAUSE = 150; // milliseconds between later parts
const SHOWN = 60; // games of the gallery that are listed at first

export function Watch({ page, send }) {
  const { games, gallery } = page;
  const [picked, setPicked] = useState("");
  const [most, setMost] = useState(SHOWN);
  useEffect(() => {
    if (page.connected) send({ type: "gallery" });
  }, [page.connected]);
  if (!games) return html`<main class="lobby"><h1>Watch</h1></main>`;
  const known = games.filter((each) => GAMES[each.name]);
  const game = known.find((each) => each.name === picked) || known[0];
  const load = async (event) => {
    const text = event.target.files.length ? await event.target.files[0].text() : "";
    for (let at = 0; at < text.length; at += PART) {
      if (at >= BURST * PART) await new Promise((go) => setTimeout(go, PAUSE));
      send({ type: "upload", part: text.slice(at, at + PART), last: at + PART >= text.length });
    }
    event.target.value = "";
  };
  const entries = gallery || [];
  return html`<main class="lobby">
    <h1>Watch</h1>
    <label class="field">Game
      <select onChange=${(e) => setPicked(e.target.value)}>
        ${known.map((each) => html`<option value=${each.name} selected=${each.name === game.name}>${GAMES[each.name].title}</option>`)}
      </select>
    </label>
    <${Contest} key=${game.name} game=${game} send=${send} />
    <section class="load"><h2>Load a game record</h2>
      <label class="field">File that the arena, <code>muzero.play</code> or <code>muzero.evaluate</code> wrote <input type="file" accept=".json,application/json" onChange=${load} /></label>
    </section>
    <section><h2>Gallery</h2>
      ${gallery && !entries.length && html`<p class="soft">Finished games appear here: those of this arena, and those that <code>muzero.evaluate records=runs/records/NAME</code> keeps.</p>`}
      <ul class="gallery">${entries.slice(0, most).map((each) => html`<li key=${each.id}><a href=${`#game/${each.id}`}>
        <strong>${(GAMES[each.game] || { title: each.game }).title}</strong>
        <span>${each.agents.map((name, i) => `${name} ${each.scores[i]}${each.ranks[i] === 1 ? " (won)" : ""}`).join(" · ")}</span>
        <small>${each.decisions} decisions, ${each.source}</small></a></li>`)}</ul>
      ${entries.length > most && html`<button type="button" onClick=${() => setMost(most + SHOWN)}>Show more</button>`}
    </section>
  </main>`;
}

// Agents of a game that is played to be watched.
function Contest({ game, send }) {
  const [fewest, largest] = game.players;
  const [seats, setSeats] = useState(["", ""]);
  const [asked, setAsked] = useState(""); // rule set that was chosen
  const ruleSet = ruleSetFor(game, asked, seats);
  const fitting = agentsFor(game, seats.length, ruleSet);
  const standard = (seat) => {
    const strong = fitting.filter((agent) => agent.level || agent.trained);
    const from = strong.length ? strong : fitting;
    return from[seat % 2 ? Math.floor(from.length / 2) : from.length - 1].name;
  };
  const chosen = (seat) => (fitting.some((agent) => agent.name === seats[seat]) ? seats[seat] : standard(seat));
  const start = (event) => {
    event.preventDefault();
    send({ type: "watch", game: game.name, seats: seats.map((_, seat) => chosen(seat)), rules: { preset: ruleSet } });
  };
  const counts = Array.from({ length: largest - fewest + 1 }, (_, i) => fewest + i);
  return html`<form onSubmit=${start}>
    <label class="field">Players
      <select onChange=${(e) => setSeats(Array.from({ length: Number(e.target.value) }, (_, seat) => seats[seat] || ""))}>
        ${counts.map((count) => html`<option value=${count} selected=${count === seats.length}>${count}</option>`)}
      </select>
    </label>
    ${seats.map((_, seat) => html`<label class="field">Seat ${seat + 1}
      <select onChange=${(e) => setSeats(seats.map((old, i) => (i === seat ? e.target.value : old)))}>
        <${AgentOptions} agents=${fitting} chosen=${chosen(seat)} />
      </select></label>`)}
    <${RuleSet} game=${game} value=${ruleSet} set=${setAsked} />
    <button type="submit" class="primary">Watch</button>
  </form>`;
}

// Agents for a number of players; of levels those made for this number and rule set, if there are any.
export function agentsFor(game, players, ruleSet) {
  const fits = (agent) => agent.players === 0 || (agent.players === players && (!agent.level || agent.rules === ruleSet));
  const fitting = game.agents.filter(fits);
  const own = fitting.some((agent) => agent.level && agent.players === players);
  return fitting.filter((agent) => !(own && agent.level && agent.players === 0));
}

// Choices of a seat: levels first, then agents by name.
export function AgentOptions({ agents, chosen }) {
  const levels = agents.filter((agent) => agent.level);
  const of = (agent) => (agent.level ? ` of ${levels.length}` : "");
  const option = (agent) => html`<option value=${agent.name} selected=${agent.name === chosen}>${agent.name}${of(agent)}: ${agent.idea}</option>`;
  return levels.length
    ? html`<optgroup label="Levels">${levels.map(option)}</optgroup><optgroup label="Agents">${agents.filter((agent) => !agent.level).map(option)}</optgroup>`
    : agents.map(option);
}
