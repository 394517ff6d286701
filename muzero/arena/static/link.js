// Connection to the server: one WebSocket, opened again when it is lost. The seat's token stays in this browser.

const SEAT = "arena-seat";
const FIRST_WAIT = 500; // milliseconds before a lost connection is opened again
const LONGEST_WAIT = 15000;
const SIGN_OF_LIFE = 60000;

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
  // receive(message) is called for every message, changed(connected) when the connection opens or is lost.
  constructor(receive, changed) {
    this.receive = receive;
    this.changed = changed;
    this.wait = FIRST_WAIT;
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
      if (seat) this.send({ type: "resume", room: seat.room, token: seat.token });
    };
    this.socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    this.socket.onclose = () => {
      this.changed(false);
      setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(2 * this.wait, LONGEST_WAIT);
    };
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
