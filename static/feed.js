// One socket to the server's feed. Told which streams to follow and after which event, it asks for those again after
// every break, so that nothing is lost and nothing is shown twice. It draws nothing: whoever draws listens to
//
//   feed:event    {stream, event, gap}   one CloudEvent; gap: events before it were merged or are gone
//   feed:touched  {stream, ...facts}     something changed that is no event: a tick, a host's report
//   feed:gap      {stream}               what lies before the oldest kept event is missed: read everything again
//   feed:state    {state, again}         "live" or "reconnecting"; again: live after a break
//   feed:ended    {}                     nobody is signed in here any more
//
// on `document`. Time is performance.now(): the clock on the wall of the browser may be hours wrong.

export const SILENCE_MS = 3000; // the server says "alive" every two seconds
const CHECK_MS = 500;
const FIRST_DELAY_MS = 200;
const LAST_DELAY_MS = 2000;
const NOT_SIGNED_IN = 4401;

/** "market:gemm@12 job:job_x@4" as a map from stream to cursor. */
export function cursorsOf(text) {
  const cursors = new Map();
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const at = word.lastIndexOf("@");
    cursors.set(word.slice(0, at), Number(word.slice(at + 1)));
  }
  return cursors;
}

/** How long to wait after the n-th failure in a row: longer each time, never the same for every browser. */
export function delayAfter(failures, chance = Math.random()) {
  return Math.min(LAST_DELAY_MS, FIRST_DELAY_MS * 2 ** failures) * (0.75 + 0.25 * chance);
}

export class Feed {
  #url;
  #cursors;
  #emit;
  #socket = null;
  #heardAt = performance.now();
  #failures = 0;
  #retry = 0;
  #state = "connecting";
  #refused = new Set();

  constructor(url, cursors, emit) {
    this.#url = url;
    this.#cursors = cursors;
    this.#emit = emit;
    setInterval(() => this.check(), CHECK_MS);
    this.#connect();
  }

  get state() {
    return this.#state;
  }

  /** A connection that has said nothing for three seconds is gone, whatever the browser believes of it. */
  check() {
    if (performance.now() - this.#heardAt < SILENCE_MS) return;
    this.#become("reconnecting");
    this.#heardAt = performance.now();
    this.#break();
  }

  #connect() {
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    socket.onopen = () => {
      for (const [stream, after] of this.#cursors) this.#subscribe(stream, after);
    };
    socket.onmessage = (message) => {
      if (socket === this.#socket) this.#take(JSON.parse(message.data));
    };
    socket.onclose = ({ code }) => {
      if (socket !== this.#socket) return;
      if (code === NOT_SIGNED_IN) this.#emit("feed:ended", {});
      this.#become("reconnecting");
      this.#break();
    };
  }

  #subscribe(stream, after) {
    if (!this.#refused.has(stream)) this.#socket.send(JSON.stringify({ type: "subscribe", stream, after, together: true }));
  }

  /** Leave this socket and try another one a little later. */
  #break() {
    const old = this.#socket;
    this.#socket = null;
    old?.close();
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#connect(), delayAfter(this.#failures++));
  }

  #take(frame) {
    this.#heardAt = performance.now();
    this.#failures = 0;
    if (frame.type === "event") this.#event(frame);
    else if (frame.type === "events") for (const event of frame.events) this.#event({ stream: frame.stream, event });
    else if (frame.type === "touched") this.#emit("feed:touched", frame);
    else if (frame.type === "subscribed") this.#subscribed(frame);
    else if (frame.type === "refused") this.#refuse(frame);
    this.#become("live");
  }

  /** A page without a number begins where the server says; so does one from before the database was made anew. */
  #subscribed({ stream, after, last }) {
    const cursor = this.#cursors.get(stream);
    if (cursor !== null && cursor <= last) return;
    this.#cursors.set(stream, cursor === null ? (after ?? last) : last);
    if (cursor !== null) this.#emit("feed:gap", { stream });
  }

  #event({ stream, event }) {
    const sequence = Number(event.sequence);
    const cursor = this.#cursors.get(stream);
    if (cursor !== null && sequence <= cursor) return;
    this.#cursors.set(stream, sequence);
    this.#emit("feed:event", { stream, event, gap: cursor !== null && sequence !== cursor + 1 });
  }

  /** Too old a cursor: begin at the end, and say that what lies between is missing. Anything else is final. */
  #refuse({ stream, oldest }) {
    if (oldest === undefined || oldest === null) {
      this.#refused.add(stream);
      return;
    }
    this.#cursors.set(stream, null);
    this.#subscribe(stream, null);
    this.#emit("feed:gap", { stream });
  }

  #become(state) {
    if (state === this.#state) return;
    const again = this.#state === "reconnecting";
    this.#state = state;
    this.#emit("feed:state", { state, again });
  }
}
