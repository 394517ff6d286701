// The page: a lobby, or the table that this browser sits at.

import { html, render, useEffect, useReducer, useRef } from "./vendor/htm-preact.js";
import { Link, savedSeat, saveSeat } from "./link.js";
import { Lobby } from "./lobby.js";
import { Table } from "./table.js";

const EMPTY = { connected: false, games: null, state: null, think: null, values: [], error: "", record: null };

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
        state: message,
        before: sameTurn ? page.before : sameGame ? page.state : null,
        think: sameTurn ? page.think : null,
        values: sameGame ? page.values : [],
        record: sameGame ? page.record : null,
        error: "",
      };
    }
    case "think": {
      const current = page.state && message.turn === page.state.view.turn;
      const values = [...page.values.filter((each) => each.turn !== message.turn), point(message)];
      return current ? { ...page, think: message, values } : page;
    }
    case "record":
      return { ...page, record: message.record };
    case "left":
      return { ...EMPTY, connected: page.connected, games: page.games };
    case "error":
      return { ...page, error: message.message };
    default:
      return page;
  }
}

const point = (message) => ({ turn: message.turn, shares: message.winner || message.values.map((v) => (v + 1) / 2) });

function App() {
  const [page, dispatch] = useReducer(reduce, EMPTY);
  const link = useRef(null);
  const queue = useRef([]); // actions of one gesture that follow each other, such as keep and its place
  const latest = useRef(null);
  latest.current = page.state;

  useEffect(() => {
    const receive = (message) => {
      if (message.type === "seated") {
        saveSeat({ room: message.room, token: message.token });
        history.replaceState(null, "", `#${message.room}`);
      }
      if (message.type === "left") {
        saveSeat(null);
        history.replaceState(null, "", "#");
      }
      if (message.type === "error") {
        queue.current = [];
        const seat = savedSeat();
        if (seat && !latest.current && /^(room|token):/.test(message.message)) saveSeat(null);
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
  }, []);

  const send = (message) => link.current.send(message);
  const act = (...actions) => {
    queue.current = actions.slice(1);
    send({ type: "act", turn: page.state.view.turn, action: actions[0] });
  };

  return html`
    ${!page.connected && html`<p class="banner" role="status">Connecting to the server…</p>`}
    ${page.error && html`<p class="banner error" role="alert">${page.error}</p>`}
    ${page.state
      ? html`<${Table} page=${page} send=${send} act=${act} />`
      : html`<${Lobby} games=${page.games} send=${send} />`}
  `;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
