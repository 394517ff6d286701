// The page: a lobby, the table that this browser sits at, or a game that is looked at.

import { html, render, useEffect, useReducer, useRef, useState } from "./vendor/htm-preact.js";
import { apart } from "./games.js";
import { Link, savedSeat, saveSeat } from "./link.js";
import { Lobby } from "./lobby.js";
import { Results } from "./results.js";
import { Table } from "./table.js";
import { Viewer } from "./viewer.js";
import { Watch } from "./watch.js";

const EMPTY = { connected: false, games: null, state: null, think: null, values: [], error: "", record: null, moved: false };
const LOOKING = { gallery: null, viewing: null, reviews: {}, results: null, compare: null };

// State of the page after a message of the server.
function reduce(page, message) {
  switch (message.type) {
    case "connected":
      return { ...page, connected: message.connected };
    case "lobby":
      return { ...page, games: message.games };
    case "seated":
      return { ...page, error: "" };
    case "state": {
      const sameGame = page.state && page.state.commitment === message.commitment;
      const sameTurn = sameGame && page.state.view.turn === message.view.turn;
      return {
        ...page,
        state: withNames(message),
        before: sameTurn ? page.before : sameGame ? page.state : null,
        think: sameTurn ? page.think : null,
        values: sameGame ? page.values : [],
        record: sameGame ? page.record : null,
        error: "",
        moved: false,
      };
    }
    case "moved":
      return { ...page, moved: true };
    case "think": {
      const current = page.state && message.turn === page.state.view.turn;
      const values = [...page.values.filter((each) => each.turn !== message.turn), point(message)];
      return current ? { ...page, think: message, values } : page;
    }
    case "record":
      return { ...page, record: message.record };
    case "gallery":
      return { ...page, gallery: message.entries };
    case "frames":
      return { ...page, viewing: withFrames(page.viewing, message), error: "" };
    case "review":
      return { ...page, reviews: { ...page.reviews, [`${message.id}/${message.seat}`]: message } };
    case "results":
      return { ...page, results: message };
    case "compare":
      return { ...page, compare: message };
    case "left":
      return { ...EMPTY, ...LOOKING, connected: page.connected, games: page.games };
    case "route":
      return { ...page, error: "" };
    case "error":
      return { ...page, error: message.message };
    default:
      return page;
  }
}

// State in which no two seats have the same name; `agent` is the name as the server knows it.
function withNames(state) {
  const names = apart(state.seats.map((seat) => seat.name));
  return { ...state, seats: state.seats.map((seat, i) => ({ ...seat, name: names[i], agent: seat.name })) };
}

const point = (message) => ({ turn: message.turn, shares: message.winner || message.values.map((v) => (v + 1) / 2) });

// Game that is looked at, with the frames of a message: frames[seat][turn].
function withFrames(viewing, message) {
  const { frames, seat, ...info } = message;
  const known = viewing && viewing.id === message.id ? viewing.frames : {};
  const own = { ...(known[seat] || {}), ...Object.fromEntries(frames.map((frame) => [frame.turn, frame])) };
  return { ...info, frames: { ...known, [seat]: own } };
}

// Place on the page that the address names: #watch, #results, #game/ID/SEAT, or the code of a room.
function routeOf(hash) {
  const [kind, id, seat, part] = hash.replace(/^#/, "").split("/");
  if (kind === "game" && /^[0-9a-f]{16}$/.test(id || "")) return { kind, id, seat: Number(seat) || 0, review: part === "review" };
  return { kind: kind === "watch" || kind === "results" ? kind : "play" };
}

function App() {
  const [page, dispatch] = useReducer(reduce, { ...EMPTY, ...LOOKING });
  const [route, setRoute] = useState(routeOf(location.hash));
  const link = useRef(null);
  const queue = useRef([]); // actions of one gesture that follow each other, such as keep and its place
  const latest = useRef(null);
  latest.current = page.state;

  const go = (hash) => {
    if (`#${hash}` !== location.hash) location.hash = hash;
    else setRoute(routeOf(location.hash));
  };

  useEffect(() => {
    const moved = () => {
      setRoute(routeOf(location.hash));
      dispatch({ type: "route" });
      scrollTo(0, 0);
    };
    addEventListener("hashchange", moved);
    const receive = (message) => {
      if (message.type === "seated") {
        link.current.resuming = false;
        saveSeat({ room: message.room, token: message.token });
        if (routeOf(location.hash).kind === "play") history.replaceState(null, "", `#${message.room}`);
      }
      if (message.type === "left") {
        const over = latest.current && latest.current.view.done;
        saveSeat(over ? null : { ...savedSeat(), left: true });
        history.replaceState(null, "", "#");
      }
      if (message.type === "loaded") go(`game/${message.id}`);
      if (message.type === "error") {
        queue.current = [];
        if (link.current.resuming && /^(room|token):/.test(message.message)) saveSeat(null);
        link.current.resuming = false;
      }
      dispatch(message);
      if (message.type === "state" && queue.current.length) {
        const view = message.view;
        const next = queue.current.shift();
        if (view.legal.includes(next)) link.current.send({ type: "act", turn: view.turn, action: next });
        else queue.current = [];
      }
    };
    link.current = new Link(receive, (connected) => dispatch({ type: "connected", connected }));
    return () => removeEventListener("hashchange", moved);
  }, []);

  const send = (message) => link.current.send(message);
  const act = (...actions) => {
    queue.current = actions.slice(1);
    send({ type: "act", turn: page.state.view.turn, action: actions[0] });
  };
  const shared = { page, send, go, dispatch };
  const screen =
    route.kind === "game"
      ? html`<${Viewer} key=${route.id} route=${route} ...${shared} />`
      : route.kind === "watch"
        ? html`<${Watch} ...${shared} />`
        : route.kind === "results"
          ? html`<${Results} ...${shared} />`
          : page.state
            ? html`<${Table} ...${shared} act=${act} />`
            : html`<${Lobby} games=${page.games} send=${send} seat=${savedSeat()} resume=${() => link.current.resume()} />`;
  const atTable = route.kind === "play" && page.state;
  const tab = (kind, hash, words) => html`<a href=${`#${hash}`} aria-current=${route.kind === kind ? "page" : null}>${words}</a>`;
  const room = savedSeat();

  return html`
    ${!atTable && html`<nav class="places" aria-label="places">
      ${tab("play", page.state && room ? room.room : "", page.state ? "Back to the table" : "Play")} ${tab("watch", "watch", "Watch")} ${tab("results", "results", "Results")}
    </nav>`}
    ${!page.connected && html`<p class="banner" role="status">Connecting to the server…</p>`}
    ${page.moved && html`<p class="banner" role="status">Your seat is now in another window. <button type="button" onClick=${() => link.current.resume()}>Play here</button></p>`}
    ${page.error && html`<p class="banner error" role="alert">${page.error}</p>`}
    ${screen}
  `;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
