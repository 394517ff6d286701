// Cards as SVG. A card's number is always written on it; colour and the marks in its corners only repeat it.

import { html } from "./vendor/htm-preact.js";

// Colours of Okabe and Ito, which people with colour-blindness can tell apart: [background, ink].
export const COLOURS = {
  blue: ["#0072b2", "#ffffff"],
  sky: ["#56b4e9", "#08141c"],
  green: ["#009e73", "#04130e"],
  yellow: ["#f0e442", "#1c1a05"],
  orange: ["#d55e00", "#140800"],
  purple: ["#cc79a7", "#1a0912"],
};

// Drawings that stand for a card, in the white field of its face.
const PICTURES = {
  llama: "M21 59 V47 Q19 45 19 41 L19 39 H35 V27 L36 23 L38 27 L40 23 L41 27 Q47 28 46 33 L41 33 V45 Q40 48 37 48 V59 H33.5 V49 H25 V59 Z",
};

// Face of a card: {text, colour, marks, picture}; null for a card that lies face down.
export function Face({ face }) {
  if (!face)
    return html`<svg viewBox="0 0 60 84" class="card-art" aria-hidden="true">
      <rect x="1" y="1" width="58" height="82" rx="8" class="back" />
      <path d="M14 18 L46 66 M46 18 L14 66 M30 10 V74" class="back-lines" />
    </svg>`;
  const [fill, ink] = COLOURS[face.colour];
  const marks = Array.from({ length: face.marks || 0 }, (_, i) => i);
  return html`<svg viewBox="0 0 60 84" class="card-art" aria-hidden="true">
    <rect x="1" y="1" width="58" height="82" rx="8" fill=${fill} class="face" />
    <rect x="8" y="22" width="44" height="40" rx="6" fill="#ffffff" opacity="0.9" />
    <text x="30" y="52" text-anchor="middle" class="card-number" fill="#111111">${face.text}</text>
    ${face.picture && html`<path d=${PICTURES[face.picture]} fill="#111111" />`}
    ${marks.map((i) => html`<circle cx=${10 + 9 * i} cy="12" r="3" fill=${ink} />`)}
    ${marks.map((i) => html`<circle cx=${50 - 9 * i} cy="72" r="3" fill=${ink} />`)}
  </svg>`;
}

// Card that can be chosen. `badge` is what an agent thinks of choosing it: {lines, best}; `target` marks a place that the
// chosen card can go to.
export function Card({ face, label, onChoose, selected, moved, badge, empty, small, target }) {
  const classes = ["card", moved && "moved", selected && "selected", onChoose && "legal", small && "small", target && onChoose && "target"];
  const look = empty
    ? html`<svg viewBox="0 0 60 84" class="card-art" aria-hidden="true">
        <rect x="2" y="2" width="56" height="80" rx="8" class="empty" />
      </svg>`
    : html`<${Face} face=${face} />`;
  const thought = badge && html`<span class=${`badge ${badge.best ? "best" : ""}`} aria-hidden="true">${badge.lines.map((line) => html`<span>${line}</span>`)}</span>`;
  const said = badge ? `${label}; the agent: ${badge.lines.join(", ")}` : label;
  const name = classes.filter(Boolean).join(" ");
  return onChoose
    ? html`<button type="button" class=${name} aria-label=${said} title=${label} onClick=${onChoose}>${look}${thought}</button>`
    : html`<span class=${name} role="img" aria-label=${said} title=${label}>${look}${thought}</span>`;
}

// Value with two digits and its sign; what rounds to 0 has none.
export function signed(value) {
  const digits = Math.abs(value).toFixed(2);
  return `${Number(digits) === 0 ? "" : value > 0 ? "+" : "−"}${digits}`;
}

// Badge of some actions from a report of the agent, which one card stands for; null without a report of them. The first
// line is the network's prior and the visits of the search, or how surely a simulation finds the action best; the second
// line is the value of the best of the actions.
export function badgeOf(think, ...actions) {
  const found = think ? think.actions.filter((each) => actions.includes(each.action)) : [];
  if (!found.length) return null;
  const sum = (key) => found.reduce((all, each) => all + each[key], 0);
  const percent = (share) => `${Math.round(100 * share)}%`;
  const visits = sum("visits");
  const searched = found[0].prior !== null;
  const values = found.map((each) => each.q).filter((q) => q !== null);
  const first = searched ? `${percent(sum("prior"))} ${Number.isInteger(visits) || visits >= 10 ? Math.round(visits) : visits.toFixed(1)}×` : percent(sum("policy"));
  const value = Math.max(...values);
  const second = values.length ? [signed(value)] : [];
  return { lines: [first, ...second], best: actions.includes(think.action) };
}

// Button of a decision that has no card, with what the agent thinks of it.
export function Choice({ think, action, onChoose, children }) {
  const badge = badgeOf(think, action);
  return html`<button type="button" class=${badge && badge.best ? "best" : ""} onClick=${onChoose}>${children}${badge && html` <small class="thought">${badge.lines.join(", ")}</small>`}</button>`;
}
