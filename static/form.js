// The job form while somebody types: asks the server what is wrong and what it costs, uploads files when they are
// chosen, moves rows by keyboard. The server decides everything; without this file every button still works.
const form = () => document.getElementById("job-form");
const CHECK_AFTER_MS = 400;
let pending = 0;

const soon = (delay) => {
  clearTimeout(pending);
  pending = setTimeout(() => document.body.dispatchEvent(new CustomEvent("check")), delay);
};

const touch = (name) => {
  const touched = document.getElementById("touched");
  if (touched.value !== "*" && name && !touched.value.split(" ").includes(name)) touched.value = `${touched.value} ${name}`.trim();
};

document.addEventListener("input", (event) => {
  if (form()?.contains(event.target) && event.target.type !== "file") soon(CHECK_AFTER_MS);
});

document.addEventListener("change", (event) => {
  if (!form()?.contains(event.target)) return;
  touch(event.target.name);
  const act = event.target.dataset.act;
  if (act) document.getElementById(act).click();
  else soon(0);
});

// What a check has found is tied to its field for those who do not see it.
const mark = () => {
  for (const fault of form()?.querySelectorAll(".error[id^='e-']") ?? []) {
    const field = document.getElementById(`f-${fault.id.slice(2)}`);
    if (field?.matches("input, select, textarea")) field.setAttribute("aria-invalid", fault.textContent.trim() ? "true" : "false");
  }
};
// What has not changed is left alone, so that nobody loses a selection to a check.
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const { target, fragment } = event.detail;
  if (target.innerHTML === fragment.firstElementChild?.innerHTML) event.detail.shouldSwap = false;
});
document.addEventListener("htmx:oobAfterSwap", mark);
document.addEventListener("htmx:afterSettle", (event) => {
  mark();
  if (event.target.id === "job-form") document.getElementById(form().dataset.focus)?.focus();
});

// A check that did not come back is said; so is the end of the session, without which a reload would lose what was typed.
const show = (id, on) => { const note = document.getElementById(id); if (note) note.hidden = !on; };
for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
  document.addEventListener(name, () => show("check-lost", true));
}
document.addEventListener("htmx:beforeOnLoad", (event) => {
  const signedOut = event.detail.xhr.getResponseHeader("HX-Refresh") === "true";
  show("check-out", signedOut);
  if (event.detail.xhr.status < 400) show("check-lost", false);
  if (signedOut) event.preventDefault();
});

// Alt and an arrow move a row, as its buttons do.
document.addEventListener("keydown", (event) => {
  if (!event.altKey || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
  const row = event.target.closest?.("[data-row]");
  const button = row && document.getElementById(`act-${event.key === "ArrowUp" ? "up" : "down"}-${row.dataset.row}`);
  if (!button) return;
  event.preventDefault();
  if (!button.disabled) button.click();
});

// A second click while the first is under way is none. (The server knows the form by its key, too.)
let sent = false;
document.addEventListener("submit", (event) => {
  if (event.target !== form()) return;
  if (sent) event.preventDefault();
  sent = true;
});
window.addEventListener("pageshow", () => { sent = false; });

document.querySelector("#faults")?.focus();
