// Draws `<figure class="chart" data-series-url>` with Plotly, and keeps it true. The server says what is drawn: times in
// UTC, steps, gaps (null), shaded stretches. After every event that concerns it, after a break and when its page is
// shown again the whole series is read anew, so that it always equals what the server says, row for row. A mere tick
// of the market only moves the right edge.
//
// What is drawn stands in the figure's property `series` (the server's answer) and its attribute `data-drawn`.

import { clock, wall } from "./ages.js";

const EVERY_MS = 500;
const LONGEST_NAME = 36;
const DASH = { dash: "dash", dot: "dot" };
const NARROW_PX = 500;
const MOST_NAMED = 5;

/** A name short enough to stand beside others. */
function cut(text) {
  const letters = [...String(text)];
  return letters.length > LONGEST_NAME ? `${letters.slice(0, LONGEST_NAME).join("")}…` : letters.join("");
}

/** A text as Plotly draws it literally: it reads some HTML, and a direction override would turn its neighbours. */
export function literal(text) {
  const inert = cut(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  return `\u2068${inert.replace(/[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g, "")}\u2069`;
}

/** The server's series as Plotly's traces. `label`: the reader's offset from UTC. */
export function traces(answer, label, colours) {
  const units = [...new Set(answer.series.map((each) => each.unit))];
  const drawn = answer.series.map((each) => {
    const x = each.x ?? answer.x;
    return each.kind === "step" ? { ...each, ...held(x, each.y) } : { ...each, x };
  });
  return drawn.map((each, index) => ({
    name: literal(each.name),
    x: each.x.map((at) => wall(at, label)),
    y: each.y,
    yaxis: units.indexOf(each.unit) > 0 ? "y2" : "y",
    mode: each.kind === "points" ? "markers" : "lines",
    type: "scatter",
    connectgaps: false,
    line: {
      shape: each.kind === "step" ? "hv" : "linear",
      width: each.weight === "thin" ? 1.25 : 2,
      dash: DASH[each.dash] ?? "solid",
      color: colours(each.tone, index),
    },
    marker: { color: colours(each.tone, index), size: 6 },
    text: each.y.map((value) => (value === null ? "" : `${literal(each.name)} ${shown(value, each.unit)}`)),
    hoverinfo: "text+x",
  }));
}

/** Steps whose last level before a gap is held until the gap begins: Plotly draws from point to point only. */
export function held(x, y) {
  const points = x.flatMap((at, place) =>
    place > 0 && y[place] === null && y[place - 1] !== null ? [[at, y[place - 1]], [at, null]] : [[at, y[place]]],
  );
  return { x: points.map(([at]) => at), y: points.map(([, value]) => value) };
}

/** Shaded stretches: gaps, and what the server calls bands. */
export function shapes(answer, label, colours) {
  const stretch = (each, fillcolor, opacity) => ({
    type: "rect",
    layer: "below",
    line: { width: 0 },
    xref: "x",
    x0: wall(each.from, label),
    x1: wall(each.to ?? answer.as_of, label),
    yref: "paper",
    y0: 0,
    y1: 1,
    fillcolor,
    opacity,
  });
  return [
    ...(answer.gaps ?? []).map((each) => stretch(each, colours("line"), 0.5)),
    ...(answer.bands ?? []).map((each) => stretch(each, colours("accent"), 0.14)),
  ];
}

/** Axes and frame. A second unit has an axis of its own on the right. */
function layoutOf(answer, label, colours, isNarrow) {
  const units = [...new Set(answer.series.map((each) => each.unit))];
  const axis = {
    gridcolor: colours("line"),
    zerolinecolor: colours("line"),
    linecolor: colours("line-strong"),
    automargin: true,
    tickangle: 0,
  };
  const scale = (unit, range) => ({
    ...axis,
    range: range ?? undefined,
    nticks: 6,
    tickprefix: unit === "$/h" ? "$" : "",
    ticksuffix: unit === "%" ? " %" : "",
  });
  const layout = {
    height: isNarrow ? 220 : 280,
    margin: { l: 8, r: 8, t: 8, b: 8 },
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colours("soft") },
    xaxis: {
      ...axis,
      type: "date",
      nticks: isNarrow ? 4 : 8,
      title: { text: `Time, UTC${label === "UTC" ? "" : label}`, standoff: 6 },
      range: answer.range?.map((at) => wall(at, label)),
    },
    yaxis: { ...scale(units[0], answer.heights), side: "left" },
    hovermode: "x",
    hoverlabel: { bgcolor: colours("surface"), font: { color: colours("ink") } },
    showlegend: false,
    dragmode: isNarrow ? false : "zoom",
    shapes: shapes(answer, label, colours),
  };
  if (units.length > 1) layout.yaxis2 = { ...scale(units[1]), overlaying: "y", side: "right", showgrid: false };
  return layout;
}

/** The page's colours by the names of its tokens; what has no tone of its own gets the next one. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  const tones = ["accent", "warn", "soft", "good", "bad"];
  return (tone, index = 0) => style.getPropertyValue(`--${tone ?? tones[index % tones.length]}`).trim();
}

function shown(value, unit) {
  if (unit === "$/h") return `$${value.toFixed(4)}/h`;
  return `${Number(value.toPrecision(6))}${unit ? ` ${unit}` : ""}`;
}

/** A market's tick: everything that was drawn up to the last one goes on, unchanged, to this one. */
export function extended(answer, asOf) {
  if (!answer.follows || Date.parse(asOf) <= Date.parse(answer.as_of)) return answer;
  const longer = (times) => times.map((at) => (at === answer.as_of ? asOf : at));
  const window = Date.parse(asOf) - answer.window_seconds * 1000;
  return {
    ...answer,
    as_of: asOf,
    x: longer(answer.x),
    series: answer.series.map((each) => (each.x ? { ...each, x: longer(each.x) } : each)),
    points: answer.points?.map((point) => (point.at === answer.as_of ? { ...point, at: asOf } : point)),
    range: answer.range && [new Date(Math.max(window, Date.parse(answer.range[0]))).toISOString(), asOf],
  };
}

class Chart {
  #figure;
  #plot;
  #wanted = true;
  #reading = false;
  #drawnAt = -Infinity;
  #waiting = 0;

  constructor(figure) {
    this.#figure = figure;
    this.#plot = figure.querySelector(".plot") ?? figure.insertBefore(document.createElement("div"), figure.firstChild);
    this.#plot.classList.add("plot");
  }

  /** Read the series anew, as soon as the page is shown and half a second after the last time. */
  want() {
    this.#wanted = true;
    if (this.#reading || document.hidden || this.#waiting) return;
    const wait = this.#drawnAt + EVERY_MS - performance.now();
    if (wait > 0) {
      this.#waiting = setTimeout(() => {
        this.#waiting = 0;
        this.want();
      }, wait);
    } else this.#read();
  }

  async #read() {
    this.#reading = true;
    this.#wanted = false;
    try {
      const answer = await fetch(this.#figure.dataset.seriesUrl, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Failure(answer.headers.get("X-Request-ID"));
      this.draw(await answer.json());
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#reading = false;
      this.#drawnAt = performance.now();
      if (this.#wanted) this.want();
    }
  }

  tick(asOf) {
    if (this.#figure.series && !document.hidden) this.draw(extended(this.#figure.series, asOf));
  }

  redraw() {
    if (this.#figure.series) this.draw(this.#figure.series);
  }

  draw(answer) {
    this.#figure.querySelector(".chart-error")?.remove();
    this.#figure.series = answer;
    this.#figure.dataset.drawn = answer.as_of;
    this.#figure.classList.toggle("nothing", answer.x.length === 0);
    if (answer.x.length === 0) return;
    const label = document.body.dataset.offset;
    const isNarrow = this.#plot.clientWidth < NARROW_PX;
    const colours = palette();
    const layout = layoutOf(answer, label, colours, isNarrow);
    layout.uirevision = this.#figure.dataset.seriesUrl;
    layout.height = Number(this.#figure.dataset.height ?? layout.height);
    const settings = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset+autosize" };
    Plotly.react(this.#plot, traces(answer, label, colours), layout, settings);
    this.#key(answer, colours);
  }

  /** The legend, as text of the page: Plotly's own takes the room of the drawing, and reads HTML in names. */
  #key(answer, colours) {
    const list = this.#figure.querySelector(".legend") ?? document.createElement("ul");
    list.className = "legend";
    const lines = answer.series.map((each, index) => {
      const mark = document.createElement("i");
      mark.style.borderTopColor = colours(each.tone, index);
      mark.style.borderTopStyle = { dash: "dashed", dot: "dotted" }[each.dash] ?? "solid";
      return item(mark, each.name, each.unit);
    });
    const bands = (answer.bands ?? []).map((each) => [each.label, "accent"]);
    const gaps = (answer.gaps ?? []).map((each) => [each.why, "line-strong"]);
    for (const [name, tone] of [...new Map([...bands, ...gaps])].slice(-MOST_NAMED)) {
      const mark = document.createElement("i");
      mark.className = "band";
      mark.style.background = colours(tone);
      lines.push(item(mark, name));
    }
    list.replaceChildren(...lines);
    this.#plot.after(list);
  }

  #fail(error) {
    let notice = this.#figure.querySelector(".chart-error");
    if (!notice) {
      notice = document.createElement("p");
      notice.className = "chart-error notice bad";
      notice.setAttribute("role", "alert");
      const again = document.createElement("button");
      again.className = "link";
      again.type = "button";
      again.textContent = "Retry";
      again.addEventListener("click", () => this.want());
      notice.append(document.createElement("span"), " ", again);
      this.#plot.before(notice);
    }
    const request = error.request ? ` (request ${error.request})` : "";
    const known = this.#figure.series;
    const old = known ? ` It shows what was known at ${clock(known.as_of, document.body.dataset.offset)}.` : "";
    notice.firstChild.textContent = `The chart could not be read${request}.${old}`;
  }
}

function item(mark, text, unit) {
  const line = document.createElement("li");
  const name = document.createElement("bdi");
  name.textContent = cut(text);
  line.append(mark, name, unit ? `, ${unit}` : "");
  return line;
}

class Failure extends Error {
  constructor(request) {
    super("no series");
    this.request = request;
  }
}

/** Whether an event is about what a figure shows; one that names no subject is told of everything. */
function concerns(figure, event) {
  const { subjects } = figure.dataset;
  return !subjects || subjects.split(" ").includes(event.subject);
}

function start() {
  const charts = new Map([...document.querySelectorAll("figure.chart[data-series-url]")].map((each) => [each, new Chart(each)]));
  const all = (act) => charts.forEach(act);
  document.addEventListener("feed:event", ({ detail }) =>
    all((chart, figure) => (detail.gap || concerns(figure, detail.event)) && chart.want()),
  );
  document.addEventListener("feed:touched", ({ detail }) =>
    all((chart) => (detail.stream.startsWith("market:") ? chart.tick(detail.as_of) : chart.want())),
  );
  document.addEventListener("feed:gap", () => all((chart) => chart.want()));
  document.addEventListener("feed:state", ({ detail }) => detail.again && all((chart) => chart.want()));
  document.addEventListener("live:shown", () => all((chart) => chart.want()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all((chart) => chart.redraw()));
  all((chart) => chart.want());
}

if (globalThis.document) start();
