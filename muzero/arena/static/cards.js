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

// Face of a card: {text, colour, marks}; null for a card that lies face down.
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
    ${marks.map((i) => html`<circle cx=${10 + 9 * i} cy="12" r="3" fill=${ink} />`)}
    ${marks.map((i) => html`<circle cx=${50 - 9 * i} cy="72" r="3" fill=${ink} />`)}
  </svg>`;
}

// Card that can be chosen. `badge` is what an agent thinks of choosing it: {share, text, best}.
export function Card({ face, label, onChoose, selected, moved, badge, empty, small }) {
  const classes = ["card", moved && "moved", selected && "selected", onChoose && "legal", small && "small"];
  const look = empty
    ? html`<svg viewBox="0 0 60 84" class="card-art" aria-hidden="true">
        <rect x="2" y="2" width="56" height="80" rx="8" class="empty" />
      </svg>`
    : html`<${Face} face=${face} />`;
  const thought = badge && html`<span class=${`badge ${badge.best ? "best" : ""}`} aria-hidden="true">${badge.text}</span>`;
  const said = badge ? `${label}; the agent: ${badge.text}` : label;
  const name = classes.filter(Boolean).join(" ");
  return onChoose
    ? html`<button type="button" class=${name} aria-label=${said} title=${label} onClick=${onChoose}>${look}${thought}</button>`
    : html`<span class=${name} role="img" aria-label=${said} title=${label}>${look}${thought}</span>`;
}

// Badge of an action from a report of the agent; null without one.
export function badgeOf(think, action) {
  const found = think && think.actions.find((each) => each.action === action);
  if (!found) return null;
  const text = `${Math.round(100 * found.policy)}%${found.q === null ? "" : ` ${found.q >= 0 ? "+" : ""}${found.q.toFixed(2)}`}`;
  return { text, best: action === think.action };
}
