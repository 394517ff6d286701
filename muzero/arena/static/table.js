// Table: the board of the game, who sits where, what happened, the end of a round and of the game.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { GAMES, inWords } from "./games.js";
import { swapSeats } from "./swap.js";
import { Think } from "./think.js";

const TUTORIAL = "arena-tutorial-done";

export function Table({ page, send, act, dispatch }) {
  const { state, before, think } = page;
  const { view } = state;
  const game = GAMES[state.game];
  const [thinking, setThinking] = useState(false);
  const [seenRounds, setSeenRounds] = useState(state.rounds);
  const [lesson, setLesson] = useState(localStorage.getItem(TUTORIAL) ? -1 : 0);
  const mine = state.started && !view.done && view.to_play === view.seat;
  const canThink = state.think;
  const asks = thinking && mine && canThink;

  useEffect(() => {
    if (asks && (!think || think.turn !== view.turn)) send({ type: "think", turn: view.turn });
  }, [asks, view.turn]);

  useEffect(() => scrollTo(0, 0), [state.room]);

  const step = lesson >= 0 ? game.tutorial[lesson] : null;
  const since = useRef(0); // decisions before the step of the lesson
  useEffect(() => {
    since.current = view.turn;
  }, [step]);
  useEffect(() => {
    const made = view.turn > since.current ? state.log.slice(since.current - view.turn) : [];
    const acted = made.some(([seat]) => seat === view.seat);
    if (step && step.until && step.until(view, mine, acted)) setLesson(lesson + 1);
  }, [step, view.turn]);

  // Whoever plays with keys goes on where the choices are: the card that had the focus is often gone with the decision.
  const keys = useRef(false);
  useEffect(() => {
    const typed = () => (keys.current = true);
    const pointed = () => (keys.current = false);
    addEventListener("keydown", typed, true);
    addEventListener("pointerdown", pointed, true);
    return () => {
      removeEventListener("keydown", typed, true);
      removeEventListener("pointerdown", pointed, true);
    };
  }, []);
  useEffect(() => {
    if (!keys.current || !mine || document.activeElement !== document.body) return;
    const choice = document.querySelector(".own button.card.legal, .board button");
    if (choice) choice.focus();
  }, [view.turn, mine]);

  useEffect(() => {
    setSeenRounds((seen) => Math.min(seen, state.rounds)); // another game starts at 0
  }, [state.commitment]);

  // Keys read what is on the screen now: an effect of its own for every state would come a moment too late.
  const shown = useRef(null);
  shown.current = { game, view, act, canThink };
  useEffect(() => {
    const press = (event) => {
      const { game, view, act, canThink } = shown.current;
      if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      const action = game.keys[event.key.toLowerCase()];
      if (event.key === "?" && canThink) setThinking((on) => !on);
      else if (action !== undefined && view.legal.includes(action)) act(action);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);

  const stopLesson = () => {
    localStorage.setItem(TUTORIAL, "yes");
    setLesson(-1);
  };
  const roundOver = state.round_end && state.rounds > seenRounds;
  const prompt = !state.started
    ? `Waiting for players. The code of this room is ${state.room}.`
    : view.done
      ? "The game is over."
      : mine
        ? game.prompt(view)
        : `${state.seats[view.to_play].name} is deciding…`;

  return html`<div class="table">
    <header>
      <h1>${game.title}</h1>
      <p class="room">Room <strong>${state.room}</strong></p>
      <nav>
        ${canThink && html`<button type="button" aria-pressed=${thinking} onClick=${() => setThinking(!thinking)}>Think (?)</button>`}
        <button type="button" onClick=${() => setLesson(0)}>How to play</button>
        <button type="button" onClick=${() => send({ type: "leave" })}>Leave</button>
      </nav>
    </header>
    ${step && html`<aside class="lesson" role="dialog" aria-label="How to play">
      <p>${step.text}</p>
      <p class="steps">${lesson + 1} of ${game.tutorial.length}</p>
      ${lesson + 1 < game.tutorial.length && html`<button type="button" class="primary" onClick=${() => setLesson(lesson + 1)}>Next</button>`}
      <button type="button" onClick=${stopLesson}>${lesson + 1 < game.tutorial.length ? "Skip" : "Play"}</button>
    </aside>`}
    <p class=${mine ? "prompt mine" : "prompt"} role="status" aria-live="polite">${prompt}</p>
    <div class="middle">
      <main>
        <${game.Board} state=${state} before=${before} act=${act} think=${asks ? think : null} />
        ${!state.started && html`<button type="button" class="primary" onClick=${() => send({ type: "start" })}>Start now, bots take the free seats</button>`}
      </main>
      <div class="side">
        ${thinking && html`<${Think} page=${page} mine=${mine} />`}
        <${Seats} state=${state} game=${game} />
        <section class="log" aria-label="what happened">
          <h2>What happened</h2>
          <ol reversed>${[...state.log].reverse().map(([seat, text]) => html`<li><strong>${state.seats[seat].name}</strong> ${inWords(state.game, text)}</li>`)}</ol>
        </section>
        <${Fairness} state=${state} />
      </div>
    </div>
    ${roundOver && html`<${RoundEnd} state=${state} game=${game} close=${() => setSeenRounds(state.rounds)} />`}
    ${view.done && !roundOver && html`<${Result} page=${page} send=${send} dispatch=${dispatch} />`}
  </div>`;
}

function Seats({ state, game }) {
  const status = (seat) => (seat.free ? "free" : seat.substituted ? "a bot plays for now" : seat.here ? "" : "away");
  return html`<section aria-label="players"><h2>Players</h2>
    <p class="soft room-code">Room ${state.room}</p>
    <p class="soft">${game.goal(state.rules)}</p>
    <ul class="seats">${state.seats.map((seat, i) => html`<li class=${i === state.view.to_play ? "active" : ""}>
      ${seat.name || "(nobody yet)"}${i === state.seat ? " (you)" : ""} <em>${status(seat)}</em> <span class="points">${game.standing(state.view, i)}</span></li>`)}
    </ul></section>`;
}

function Fairness({ state }) {
  return html`<details class="fair"><summary>Provably fair</summary>
    <p>Before the first card the server fixed the deal. SHA-256 of seed and nonce:</p>
    <code>${state.commitment}</code>
    ${state.deal
      ? html`<p>Seed <code>${state.deal.seed}</code>, nonce <code>${state.deal.nonce}</code>. Check:
          <code>printf '%s' "${state.deal.seed}:${state.deal.nonce}" | sha256sum</code></p>`
      : html`<p>Both are shown when the game is over.</p>`}
  </details>`;
}

// All cards of a round that has ended, and the points it brought.
function RoundEnd({ state, game, close }) {
  const end = state.round_end;
  const go = useRef(null);
  useEffect(() => go.current.focus({ preventScroll: true }), []); // the cards come first, also on a phone
  return html`<dialog open class="overlay" aria-label="end of the round">
    <h2>The round is over</h2>
    <div class="others">${state.seats.map((seat, i) => html`<section class="player">
      <h3>${seat.name} <span class="points">${game.scored ? game.scored(end, i) : `${end.points[i] >= 0 ? "+" : ""}${end.points[i]}, now ${end.totals[i]}`}</span></h3>
      <${game.Cards} cards=${end.cards[i]} />
      ${game.note(end, i) && html`<p class="note">${game.note(end, i)}</p>`}
    </section>`)}</div>
    <p class="soft">${game.goal(state.rules)}</p>
    <button type="button" class="primary" ref=${go} onClick=${close}>Go on</button>
  </dialog>`;
}

function Result({ page, send, dispatch }) {
  const { state, record } = page;
  const order = state.seats.map((_, i) => i).sort((a, b) => state.view.ranks[a] - state.view.ranks[b]);
  useEffect(() => send({ type: "record" }), [state.commitment]);
  const names = state.seats.map((seat) => seat.agent);
  const facts = (page.games || []).find((each) => each.name === state.game);
  const theirs = () => {
    dispatch({ type: "compare", seat: state.seat, names, scores: state.view.scores, from: state.record });
    send({ type: "same_cards", id: state.record, seat: state.seat });
  };
  const file = record && URL.createObjectURL(new Blob([JSON.stringify(record) + "\n"], { type: "application/json" }));
  return html`<dialog open class="overlay result" aria-label="result">
    <h2>${state.view.ranks[state.seat] === 1 ? "You have won!" : "The game is over"}</h2>
    <ol>${order.map((i) => html`<li value=${state.view.ranks[i]}>${state.seats[i].name}: ${state.view.scores[i]}</li>`)}</ol>
    ${file && html`<a download=${`${state.game}-${state.room}.json`} href=${file}>Game record</a>`}
    <div class="buttons">
      <button type="button" class="primary" onClick=${() => send({ type: "again" })}>Play again</button>
      <a class="button" href=${`#game/${state.record}/${state.seat}/review`}>Review this game</a>
      <button type="button" onClick=${theirs}>What would an agent have done with my cards?</button>
      <button type="button" onClick=${() => send(swapSeats(facts, state, names, state.seat, state.record))}>The same deal with seats swapped</button>
      <button type="button" onClick=${() => send({ type: "leave" })}>Back to the lobby</button>
    </div>
  </dialog>`;
}
