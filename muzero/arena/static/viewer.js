// Viewer: a game decision by decision, forwards, backwards and at any speed, as one of the seats sees it.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { GAMES, apart, inWords } from "./games.js";
import { Review } from "./review.js";
import { swapSeats } from "./swap.js";

const SPEEDS = [0.5, 1, 2, 4, 8, 16]; // decisions per second
const CHUNK = 16; // frames of an answer
const AHEAD = 12; // frames that are asked for before they are needed
const WAIT = 400; // milliseconds until agents are asked for more decisions
const LOG = 10;

export function Viewer({ page, route, send, go, dispatch }) {
  const viewing = page.viewing && page.viewing.id === route.id ? page.viewing : null;
  const [seat, setSeat] = useState(route.seat);
  const [turn, setTurn] = useState(0);
  const [playing, setPlaying] = useState(!route.review);
  const [speed, setSpeed] = useState(2);
  const [reviewing, setReviewing] = useState(route.review);
  const [quiz, setQuiz] = useState(null); // mistake that is asked about: {mistake, answer}
  const [copied, setCopied] = useState(false);
  const frames = (viewing && viewing.frames[seat]) || {};
  const last = viewing ? viewing.decisions : 0;
  const kept = useRef(null); // the frame on the screen stays until the next one has come
  if (frames[turn]) kept.current = frames[turn];
  const frame = kept.current;
  const asked = useRef("");

  // Asks for what is missing: the frame on the screen, then those that come next.
  useEffect(() => {
    if (!page.connected) return undefined;
    const missing = [turn, turn + AHEAD].find((at) => !frames[at] && (!viewing || at <= last || !viewing.done));
    if (missing === undefined) return undefined;
    const ask = () => send({ type: "frames", id: route.id, seat, start: Math.min(missing, last) });
    const chunk = `${seat} ${Math.floor(missing / CHUNK)}`;
    if (asked.current !== chunk) ask();
    asked.current = chunk;
    const timer = setInterval(ask, WAIT); // the game goes on at the server
    return () => clearInterval(timer);
  }, [page.connected, page.viewing, seat, turn]);

  useEffect(() => {
    if (!playing || !viewing || (turn >= last && viewing.done)) return undefined;
    const timer = setTimeout(() => frames[turn + 1] && setTurn(turn + 1), 1000 / speed);
    return () => clearTimeout(timer);
  }, [playing, speed, turn, page.viewing]);

  const move = (to) => {
    setQuiz(null);
    setPlaying(false);
    setTurn(Math.max(0, Math.min(last, to)));
  };
  const ask = (mistake, of) => {
    setSeat(of);
    setPlaying(false);
    setTurn(mistake.turn);
    setQuiz({ mistake, answer: null });
  };

  const shown = useRef(null);
  shown.current = { turn, last, move };
  useEffect(() => {
    const press = (event) => {
      const { turn, last, move } = shown.current;
      if (event.defaultPrevented || event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "ArrowLeft") move(turn - 1);
      else if (event.key === "ArrowRight") move(turn + 1);
      else if (event.key === "Home") move(0);
      else if (event.key === "End") move(last);
      else if (event.key === " " && !event.target.closest("button, a, summary")) setPlaying((on) => !on);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);

  if (!viewing || !frame)
    return html`<main class="lobby"><h1>Game</h1><p role="status">${page.error ? "This game cannot be shown." : "Loading…"}</p></main>`;
  const game = GAMES[viewing.game];
  const names = apart(viewing.names);
  const facts = (page.games || []).find((each) => each.name === viewing.game);
  const quizzing = Boolean(quiz) && quiz.answer === null && frame.turn === quiz.mistake.turn;
  const answer = (action) => setQuiz({ ...quiz, answer: action });
  const seats = names.map((name) => ({ name }));
  const stateOf = (from, legal) => ({ game: viewing.game, rules: viewing.rules, seats, watching: !quizzing, view: { ...from.view, legal } });
  const before = frames[turn - 1];
  const events = Array.from({ length: LOG }, (_, i) => frames[turn - i]).filter((each) => each && each.event);
  const link = () => `${location.origin}/#game/${viewing.record}/${seat}`;
  const share = async () => {
    try {
      await navigator.clipboard.writeText(link());
      setCopied(true);
    } catch {
      setCopied(false);
    }
  };
  const sameCards = () => {
    dispatch({ type: "compare", seat, names: viewing.names, scores: viewing.scores, from: viewing.id });
    send({ type: "same_cards", id: viewing.record, seat });
  };
  const playIt = () => {
    send(swapSeats(facts, viewing, viewing.names, seat, viewing.record));
    go("");
  };
  const compare = page.compare && page.compare.from !== viewing.id ? page.compare : null;

  return html`<div class="table viewer">
    <header>
      <h1>${game.title}</h1>
      <p class="room">${names.join(" against ")}</p>
    </header>
    ${compare && html`<p class="banner">The same deal as before. Then: ${compare.names.map((name, i) => `${name} ${compare.scores[i]}`).join(", ")}. Now ${names[compare.seat]} has the cards of ${compare.names[compare.seat]}.</p>`}
    <p class=${quizzing ? "prompt mine" : "prompt"} role="status" aria-live="polite">${
      quizzing
        ? "There was something better here. What would you play?"
        : frame.event
          ? `${names[frame.event.seat]} ${inWords(viewing.game, frame.event.text)}`
          : "The deal."
    }</p>
    <section class="controls" aria-label="decisions">
      <button type="button" onClick=${() => move(0)} aria-label="first decision">|◀</button>
      <button type="button" onClick=${() => move(turn - 1)} disabled=${turn === 0} aria-label="one decision back">◀</button>
      <button type="button" class="primary" onClick=${() => { setQuiz(null); if (turn >= last && viewing.done) setTurn(0); setPlaying(!playing || (turn >= last && viewing.done)); }}>${playing && !(turn >= last && viewing.done) ? "Pause" : "Play"}</button>
      <button type="button" onClick=${() => move(turn + 1)} disabled=${turn >= last} aria-label="one decision on">▶</button>
      <button type="button" onClick=${() => move(last)} aria-label="last decision">▶|</button>
      <label>Speed <select onChange=${(e) => setSpeed(Number(e.target.value))}>${SPEEDS.map((each) => html`<option value=${each} selected=${each === speed}>${each} per second</option>`)}</select></label>
      <label>Seen by <select onChange=${(e) => { setQuiz(null); setSeat(Number(e.target.value)); }}>${names.map((name, i) => html`<option value=${i} selected=${i === seat}>${name} (seat ${i + 1})</option>`)}</select></label>
      <label class="scrub">Decision ${turn} of ${last}${viewing.done ? "" : ", in play"}
        <input type="range" min="0" max=${last} value=${turn} onInput=${(e) => move(Number(e.target.value))} /></label>
    </section>
    <div class="middle">
      <main>
        <${game.Board} state=${stateOf(frame, quizzing ? frame.view.legal : [])} before=${before ? stateOf(before, []) : null} act=${quizzing ? answer : () => {}} think=${null} />
        ${quizzing && html`<div class="choices quiz">
          ${frame.view.legal.map((action) => html`<button type="button" onClick=${() => answer(action)}>${facts ? inWords(viewing.game, facts.actions[action]) : action}</button>`)}
          <button type="button" class="primary" onClick=${() => answer(-1)}>Tell me</button></div>`}
        ${frame.round_end && html`<section class="round"><h2>The round is over</h2><div class="others">${names.map((name, i) => html`<section class="player">
          <h3>${name} <span class="points">${frame.round_end.points[i] >= 0 ? "+" : ""}${frame.round_end.points[i]}</span></h3>
          <${game.Cards} cards=${frame.round_end.cards[i]} />
          ${game.note(frame.round_end, i) && html`<p class="note">${game.note(frame.round_end, i)}</p>`}</section>`)}</div></section>`}
      </main>
      <div class="side">
        ${viewing.record && html`<section aria-label="this game"><h2>This game</h2>
          <div class="buttons">
            <button type="button" aria-pressed=${reviewing} onClick=${() => setReviewing(!reviewing)}>Review</button>
            <button type="button" onClick=${sameCards}>What would an agent have done with the cards of ${names[seat]}?</button>
            <button type="button" onClick=${playIt}>Play this deal from the next seat</button>
            <button type="button" onClick=${share}>${copied ? "Link copied" : "Copy link"}</button>
            <${Download} id=${viewing.record} name=${`${viewing.game}-${viewing.record}.json`} />
          </div></section>`}
        ${reviewing && viewing.record && html`<${Review} page=${page} viewing=${viewing} seat=${seat} turn=${turn} send=${send} ask=${ask} quiz=${quiz} jump=${move} actions=${facts ? facts.actions.map((each) => inWords(viewing.game, each)) : []} />`}
        <section aria-label="players"><h2>Players</h2><ul class="seats">${names.map((name, i) => html`<li class=${i === frame.view.to_play && !frame.view.done ? "active" : ""}>${name}
          ${frame.view.ranks ? html` <em>rank ${frame.view.ranks[i]}</em>` : ""} <span class="points">${frame.view.scores[i]}</span></li>`)}</ul></section>
        <section class="log" aria-label="what happened"><h2>What happened</h2>
          <ol reversed>${events.map((each) => html`<li key=${each.turn}><strong>${names[each.event.seat]}</strong> ${inWords(viewing.game, each.event.text)}</li>`)}</ol></section>
      </div>
    </div>
  </div>`;
}

// Link to the game record as a file.
function Download({ id, name }) {
  return html`<a class="button" download=${name} href=${`/records/${id}.json`}>Game record</a>`;
}
