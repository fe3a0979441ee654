// Keeps a page true: renews its regions when the feed tells of something, counts ages on, and says when it cannot.
//
// A region is an element with `data-live` and an id. All of them are renewed together by one GET of the page's own
// address. A region in which somebody types, or has marked text, is left alone until they are done.
// Whoever draws beside it listens to the feed's events and to `live:shown`: the page is seen again after it was not.

import { clock, duration } from "./ages.js";
import { Feed, cursorsOf } from "./feed.js";

const EVERY_MS = 500; // at most two renewals a second
const NET_MS = 10_000; // and one every ten seconds, whatever was or was not told
const COUNT_MS = 100;
const STALE_SECONDS = 3; // markets.selectors.exchange.STALE_AFTER

const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
const address = `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/ws/feed`;
const feed = new Feed(address, cursorsOf(document.body.dataset.streams), tell);

let paused = false;
let wanted = false; // something changed that is not shown yet
let running = false;
let skipped = false; // a region was left alone
let renewedAt = performance.now();
let connection = "live";

document.documentElement.classList.add("scripted");

// Renewing

function want() {
  wanted = true;
  run();
}

function run() {
  if (!wanted || running || paused || document.hidden) return;
  const wait = renewedAt + EVERY_MS - performance.now();
  if (wait > 0) {
    setTimeout(run, wait);
    return;
  }
  renew();
}

async function renew() {
  const regions = [...document.querySelectorAll("[data-live][id]")].map((region) => `#${region.id}`);
  wanted = false;
  renewedAt = performance.now();
  if (!regions.length) return;
  running = true;
  try {
    await htmx.ajax("GET", location.pathname + location.search, { swap: "none", selectOOB: regions.join(",") });
  } catch {
    wanted = true; // the events below have said it already
  } finally {
    running = false;
    setTimeout(run, EVERY_MS);
  }
}

function lost(request) {
  const notice = document.getElementById("lost");
  const id = request?.getResponseHeader?.("X-Request-ID");
  notice.querySelector("[data-lost-id]").textContent = id ? ` (request ${id})` : "";
  notice.hidden = false;
}

document.addEventListener("htmx:responseError", (event) => lost(event.detail.xhr));
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful) document.getElementById("lost").hidden = true;
});

document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const region = event.detail.target;
  if (isBusy(region)) {
    event.detail.shouldSwap = false;
    skipped = true;
    return;
  }
  remember(region);
});
document.addEventListener("htmx:oobAfterSwap", () => {
  recall();
  count();
  show();
});

/** Whether somebody is about to type or press something in it, or has marked some of its text. */
function isBusy(region) {
  const focused = document.activeElement;
  if (region.contains(focused) && focused.closest("form") !== null) return true;
  const selection = document.getSelection();
  return !selection.isCollapsed && region.contains(selection.anchorNode);
}

for (const name of ["focusout", "selectionchange"]) {
  document.addEventListener(name, () => {
    if (!skipped) return;
    skipped = false;
    want();
  });
}

// What was opened stays open, what had the focus keeps it, what was scrolled stays there: by id, links by address.
let kept = { open: [], focus: null, scrolled: [] };

function remember(region) {
  const focused = region.contains(document.activeElement) ? document.activeElement : null;
  kept = {
    open: [...region.querySelectorAll("details[open][id]")].map((each) => each.id),
    focus: focused && selectorOf(focused),
    scrolled: [...region.querySelectorAll("[data-scroll][id]")].map((each) => [each.id, each.scrollTop]),
  };
}

function recall() {
  for (const id of kept.open) document.getElementById(id)?.setAttribute("open", "");
  for (const [id, top] of kept.scrolled) document.getElementById(id)?.scrollTo(0, top);
  if (kept.focus) document.querySelector(kept.focus)?.focus({ preventScroll: true });
  kept = { open: [], focus: null, scrolled: [] };
}

function selectorOf(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  if (element.matches("summary") && element.parentElement.id) return `#${CSS.escape(element.parentElement.id)} > summary`;
  if (element.hasAttribute("data-pause")) return "[data-pause]";
  const href = element.getAttribute("href");
  return href === null ? null : `a[href="${CSS.escape(href)}"]`;
}

// Ages: from the server's number, counted on by a clock that nobody sets

const ages = new WeakMap();

function count() {
  const now = performance.now();
  for (const element of document.querySelectorAll("[data-age]")) {
    const known = ages.get(element);
    if (known?.text !== element.dataset.age) {
      ages.set(element, { text: element.dataset.age, zero: now - Number(element.dataset.age) * 1000 });
    }
    const text = duration((now - ages.get(element).zero) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

function ageOf(element) {
  return (performance.now() - ages.get(element).zero) / 1000;
}

// Freshness, in words

function show() {
  document.documentElement.dataset.connection = paused ? "paused" : connection; // greys what is old, in laissez.css
  for (const element of document.querySelectorAll("[data-freshness]")) word(element);
  for (const button of document.querySelectorAll("[data-pause]")) button.textContent = paused ? "Go on" : "Pause";
}

function word(element) {
  const chip = element.querySelector("[data-word]");
  element.dataset.said ??= element.dataset.freshness;
  const age = element.querySelector("[data-age]");
  let state = element.dataset.said; // the server's word, where nothing is known better
  if (paused) state = "paused";
  else if (connection === "reconnecting") state = "reconnecting";
  else if (age && state === "live" && ageOf(age) > STALE_SECONDS) state = "stale";
  if (state === element.dataset.freshness) return;
  const isBack = ["reconnecting", "paused"].includes(element.dataset.freshness) && !paused && connection === "live";
  if (isBack || state === element.dataset.said) {
    want(); // what it says stays until the server has said what is true now
    return;
  }
  element.dataset.freshness = state;
  chip.className = `chip ${state === "stale" ? "bad" : "warn"}`;
  chip.textContent = { paused: "Paused", reconnecting: "Reconnecting" }[state] ?? `Stale since ${element.dataset.asOf}`;
}

/** A tick: the market is as fresh as can be, and nothing else about it has changed. */
function ticked(stream, asOf) {
  for (const element of document.querySelectorAll("[data-freshness][data-stream]")) {
    if (element.dataset.stream !== stream) continue;
    const age = element.querySelector("[data-age]");
    if (!age || element.dataset.said === "stale" || element.dataset.freshness !== "live") {
      want();
      continue;
    }
    ages.set(age, { text: age.dataset.age, zero: performance.now() });
    if (asOf) element.dataset.asOf = clock(asOf, document.body.dataset.offset);
  }
}

// What happens

document.addEventListener("feed:event", want);
document.addEventListener("feed:gap", want);
document.addEventListener("feed:ended", want); // the server then sends the reader to sign in
document.addEventListener("feed:touched", (event) => {
  if (event.detail.stream.startsWith("market:")) ticked(event.detail.stream, event.detail.as_of);
  else want();
});
document.addEventListener("feed:state", (event) => {
  connection = event.detail.state;
  show();
  if (event.detail.again) want();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  feed.check();
  count();
  show();
  tell("live:shown", {});
  want();
});
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-renew]")) want();
  if (!event.target.closest("[data-pause]")) return;
  paused = !paused;
  show();
  if (paused) return;
  tell("live:shown", {});
  want();
});

setInterval(() => {
  if (document.hidden || paused) return;
  count();
  show();
}, COUNT_MS);
setInterval(() => {
  if (performance.now() - renewedAt >= NET_MS) want();
}, 1000);
count();
show();
