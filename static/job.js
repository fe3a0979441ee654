// The job's pages: a form is sent once, and the log grows by what is new.

const EVERY_MS = 500;
const NET_MS = 10_000;
const MOST_CHARACTERS = 64_000;
const NEAR_THE_END = 8; // pixels

// Once: the second click of a double click finds the form on its way. Coming back to the page frees it again.

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-once]")) return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// The log

const tail = document.getElementById("log-tail");

class Log {
  #tail;
  #text;
  #cursor;
  #wanted = false;
  #running = false;
  #paused = false;

  constructor(tail) {
    this.#tail = tail;
    this.#text = tail.querySelector("pre");
    this.#cursor = tail.dataset.cursor;
  }

  want() {
    this.#wanted = true;
    this.#run();
  }

  pause(isPaused) {
    this.#paused = isPaused;
    if (!isPaused) this.want();
  }

  async #run() {
    if (!this.#wanted || this.#running || this.#paused || document.hidden) return;
    this.#wanted = false;
    this.#running = true;
    try {
      const answer = await fetch(`${this.#tail.dataset.logUrl}?after=${this.#cursor}`, { redirect: "error" });
      if (answer.ok) this.#take(await answer.json());
    } catch {
      // the feed says that the connection is lost; the cursor stays, so nothing is missed
    } finally {
      this.#running = false;
      setTimeout(() => this.#run(), EVERY_MS);
    }
  }

  #take({ text, cursor, is_cut: isCut }) {
    this.#cursor = cursor;
    if (!text) return;
    // The newest line is at the scroll's zero; above it, scrolling is negative.
    const before = this.#tail.scrollHeight;
    const isAtEnd = Math.abs(this.#tail.scrollTop) < NEAR_THE_END;
    const kept = isCut ? "" : this.#text.textContent;
    this.#text.textContent = lastLines(kept + text);
    this.#tail.hidden = false;
    document.getElementById("log-empty").hidden = true;
    if (!isAtEnd) this.#tail.scrollTop -= this.#tail.scrollHeight - before;
  }
}

/** The end of a text, from the beginning of a line. */
function lastLines(text) {
  if (text.length <= MOST_CHARACTERS) return text;
  const cut = text.slice(-MOST_CHARACTERS);
  return cut.slice(cut.indexOf("\n") + 1);
}

if (tail) {
  const log = new Log(tail);
  const ours = (event) => event.detail.stream.startsWith("job:") && log.want();
  document.addEventListener("feed:touched", ours);
  document.addEventListener("feed:event", ours);
  document.addEventListener("live:shown", () => log.pause(false));
  document.addEventListener("live:paused", () => log.pause(true));
  setInterval(() => log.want(), NET_MS);
}
