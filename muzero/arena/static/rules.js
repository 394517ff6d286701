// Rule sets: what a game is played by, chosen by name, or by the trained agent at the table.

import { html } from "./vendor/htm-preact.js";
import { GAMES } from "./games.js";

// Rule set of a new game: the one that was chosen, else the one that a chosen agent has learned, else the first.
export function ruleSetFor(game, asked, seats) {
  const learned = game.agents.find((agent) => agent.rules && !agent.level && seats.includes(agent.name));
  return asked || (learned ? learned.rules : Object.keys(game.presets)[0]);
}

// Choice among the rule sets that the game has words for; nothing where there is only one.
export function RuleSet({ game, value, set }) {
  const words = GAMES[game.name].ruleSets || {};
  const names = Object.keys(game.presets).filter((name) => words[name]);
  if (names.length < 2) return null;
  return html`<label class="field">Rule set
    <select value=${value} onChange=${(e) => set(e.target.value)}>
      ${names.map((name) => html`<option value=${name} selected=${name === value}>${name}: ${words[name]}</option>`)}
    </select></label>`;
}
