// Spans of time in the server's words (markets/templatetags/figures.py), and clock times in the reader's zone.

/** A span in seconds, short enough for a table. */
export function duration(seconds) {
  if (Math.abs(seconds) < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.trunc(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.trunc(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 2 * 86400) return `${Math.trunc(whole / 3600)} h ${two(Math.trunc((whole % 3600) / 60))} min`;
  return `${Math.trunc(whole / 86400)} days`;
}

/** "+05:30" as seconds; "UTC" is none. */
export function offsetSeconds(label) {
  const parts = /^([+-])(\d\d):(\d\d)$/.exec(label);
  if (!parts) return 0;
  return (parts[1] === "-" ? -1 : 1) * (Number(parts[2]) * 3600 + Number(parts[3]) * 60);
}

/** An instant's wall-clock time at an offset, as "2026-03-04T19:32:11.000": for axes, which know no zones. */
export function wall(instant, label) {
  return new Date(Date.parse(instant) + offsetSeconds(label) * 1000).toISOString().slice(0, 23);
}

/** An instant as the pages write it: "19:32:11 +05:30". */
export function clock(instant, label) {
  return `${wall(instant, label).slice(11, 19)} ${label}`;
}

function two(number) {
  return String(number).padStart(2, "0");
}
