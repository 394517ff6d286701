// Lobby: choose a game, opponents and rules, or join a room by its code.

import { html, useState } from "./vendor/htm-preact.js";
import { GAMES } from "./games.js";
import { ROOM } from "./link.js";
import { RuleSet, ruleSetFor } from "./rules.js";
import { AgentOptions, agentsFor } from "./watch.js";

const NAME = "arena-name";
const FOR_TRAINING = ["round_reward", "time_penalty"]; // rules that change rewards and nothing at the table

export function Lobby({ games, send, seat, resume }) {
  const [name, setName] = useState(localStorage.getItem(NAME) || "");
  const [code, setCode] = useState(ROOM.test(location.hash) ? location.hash.slice(1).toUpperCase() : "");
  const [picked, setPicked] = useState("");
  if (!games) return html`<main class="lobby"><h1>Arena</h1></main>`;
  const known = games.filter((each) => GAMES[each.name]);
  const first = known.find((each) => each.agents.some((agent) => agent.trained)) || known[0];
  const game = known.find((each) => each.name === picked) || first;
  const person = () => {
    const called = name.trim() || "Guest";
    localStorage.setItem(NAME, called);
    return called;
  };
  const join = (event) => {
    event.preventDefault();
    send({ type: "join", room: code.trim().toUpperCase(), name: person() });
  };
  return html`<main class="lobby">
    <h1>Arena</h1>
    <p>Play cards against people and trained agents.</p>
    ${seat && html`<p class="banner return">A table waits for you. <button type="button" onClick=${resume}>Return to room ${seat.room}</button></p>`}
    <label class="field">Your name <input value=${name} maxlength="24" placeholder="Guest" onInput=${(e) => setName(e.target.value)} /></label>
    <fieldset class="games">
      <legend>Game</legend>
      ${known.map(
        (each) => html`<label class=${each.name === game.name ? "game picked" : "game"}>
          <input type="radio" name="game" checked=${each.name === game.name} onChange=${() => setPicked(each.name)} />
          <strong>${GAMES[each.name].title}</strong><span>${GAMES[each.name].pitch}</span>
        </label>`,
      )}
    </fieldset>
    <${Setup} key=${game.name} game=${game} send=${send} person=${person} />
    <form class="join" onSubmit=${join}>
      <label class="field">Room code <input value=${code} maxlength="6" onInput=${(e) => setCode(e.target.value)} /></label>
      <button type="submit" disabled=${code.trim().length !== 6}>Join a room</button>
    </form>
  </main>`;
}

// Seats and rules of a new room.
function Setup({ game, send, person }) {
  const [fewest, most] = game.players;
  const [seats, setSeats] = useState([null, null]);
  const [rules, setRules] = useState({}); // that differ from the rule set
  const [asked, setAsked] = useState(""); // rule set that was chosen
  const [think, setThink] = useState(true);
  const ruleSet = ruleSetFor(game, asked, seats);
  const values = game.presets[ruleSet];
  const fitting = (players) => agentsFor(game, players, ruleSet);
  const standard = (players) => {
    const agents = fitting(players);
    const levels = agents.filter((agent) => agent.level);
    if (levels.length) return levels[Math.floor((levels.length - 1) / 2)].name;
    const trained = agents.filter((agent) => agent.trained);
    return (trained[1] || trained[0] || agents.find((agent) => agent.name === "greedy") || agents[0]).name;
  };
  const chosen = (seat) => {
    if (seat === 0) return null;
    const wanted = seats[seat];
    if (wanted === "person") return null;
    return fitting(seats.length).some((agent) => agent.name === wanted) ? wanted : standard(seats.length);
  };
  const resize = (players) => setSeats(Array.from({ length: players }, (_, seat) => seats[seat] ?? null));
  const create = (event) => {
    event.preventDefault();
    const wanted = seats.map((_, seat) => chosen(seat));
    send({ type: "create", game: game.name, seats: wanted, you: 0, name: person(), rules: { preset: ruleSet, ...rules }, think });
  };
  const counts = Array.from({ length: most - fewest + 1 }, (_, i) => fewest + i);
  return html`<form onSubmit=${create}>
    <label class="field">Players
      <select value=${seats.length} onChange=${(e) => resize(Number(e.target.value))}>
        ${counts.map((count) => html`<option value=${count} selected=${count === seats.length}>${count}</option>`)}
      </select>
    </label>
    ${seats.map(
      (_, seat) =>
        seat > 0 &&
        html`<label class="field">Opponent in seat ${seat + 1}
          <select value=${chosen(seat) ?? "person"} onChange=${(e) => setSeats(seats.map((old, i) => (i === seat ? e.target.value : old)))}>
            <option value="person" selected=${chosen(seat) === null}>a person who joins by the code</option>
            <${AgentOptions} agents=${fitting(seats.length)} chosen=${chosen(seat)} />
          </select>
        </label>`,
    )}
    <label class="check"><input type="checkbox" checked=${think} onChange=${(e) => setThink(e.target.checked)} />
      Players may ask for advice (such a game is not rated)</label>
    <${RuleSet} game=${game} value=${ruleSet} set=${(name) => { setAsked(name); setRules({}); }} />
    <details>
      <summary>Rules</summary>
      ${game.rules.filter((rule) => !FOR_TRAINING.includes(rule.name)).map((rule) => html`<${Rule} rule=${rule} value=${rules[rule.name] ?? values[rule.name]} set=${(value) => setRules(changed(rules, rule.name, value, values[rule.name]))} />`)}
    </details>
    <button type="submit" class="primary">Play</button>
  </form>`;
}

// Rules that differ from the rule set.
function changed(rules, name, value, usual) {
  const { [name]: _, ...others } = rules;
  return value === usual ? others : { ...others, [name]: value };
}

// One rule in words, with the control that fits its values.
function Rule({ rule, value, set }) {
  const words = `${rule.meaning} (${rule.expected})`;
  if (Array.isArray(rule.default)) return null; // decks of one's own are for programs
  if (typeof rule.default === "boolean")
    return html`<label class="check"><input type="checkbox" checked=${value} onChange=${(e) => set(e.target.checked)} /> ${rule.name.replaceAll("_", " ")}: ${words}</label>`;
  if (typeof rule.default === "number")
    return html`<label class="field">${rule.name.replaceAll("_", " ")} <small>${words}</small>
      <input type="number" step=${Number.isInteger(rule.default) ? 1 : "any"} value=${value} onChange=${(e) => set(Number(e.target.value))} /></label>`;
  const options = rule.expected.replace(/^one of /, "").split(/, | or /);
  return html`<label class="field">${rule.name.replaceAll("_", " ")} <small>${rule.meaning}</small>
    <select value=${value} onChange=${(e) => set(e.target.value)}>
      ${options.map((option) => html`<option value=${option} selected=${option === value}>${option.replaceAll("_", " ")}</option>`)}
    </select></label>`;
}
