// Says when a page that updates itself has lost its server, instead of growing old in silence.
const lost = () => document.getElementById("lost");

for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
  document.addEventListener(name, () => { lost().hidden = false; });
}
document.addEventListener("htmx:afterSwap", () => { lost().hidden = true; });
