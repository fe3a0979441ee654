// A form marked `data-once` is sent once, however often its button is pressed. Coming back to the page frees it.
let sent = new WeakSet();
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-once]")) return;
  if (sent.has(event.target)) event.preventDefault();
  sent.add(event.target);
});
window.addEventListener("pageshow", () => { sent = new WeakSet(); });
