// Connection to the server: one WebSocket, opened again when it is lost. The seat's token stays in this browser.

const SEAT = "arena-seat";
const FIRST_WAIT = 500; // milliseconds before a lost connection is opened again
const LONGEST_WAIT = 15000;
const SIGN_OF_LIFE = 60000;
export const ROOM = /^#[A-Za-z0-9]{6}$/; // address of a room: its code

export function savedSeat() {
  try {
    return JSON.parse(localStorage.getItem(SEAT));
  } catch {
    return null;
  }
}

export function saveSeat(seat) {
  if (seat) localStorage.setItem(SEAT, JSON.stringify(seat));
  else localStorage.removeItem(SEAT);
}

export class Link {
  // receive(message) is called for every message, changed(connected) when the connection opens or is lost. A seat that
  // was left is kept, so that its owner can return to it, but not taken by itself; nor is it if the address names
  // another room.
  constructor(receive, changed) {
    this.receive = receive;
    this.changed = changed;
    this.wait = FIRST_WAIT;
    this.resuming = false; // whether an answer to a return is awaited
    this.open();
    setInterval(() => this.send({ type: "ping" }), SIGN_OF_LIFE);
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/ws`);
    this.socket.onopen = () => {
      this.wait = FIRST_WAIT;
      this.changed(true);
      this.send({ type: "lobby" });
      const seat = savedSeat();
      const other = ROOM.test(location.hash) && seat && location.hash.slice(1).toUpperCase() !== seat.room;
      if (seat && !seat.left && !other) this.resume();
    };
    this.socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    this.socket.onclose = () => {
      this.changed(false);
      setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(2 * this.wait, LONGEST_WAIT);
    };
  }

  // Returns to the seat that this browser has kept.
  resume() {
    const seat = savedSeat();
    this.resuming = Boolean(seat);
    if (seat) this.send({ type: "resume", room: seat.room, token: seat.token });
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
