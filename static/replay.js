// Plays the figure of the start page: a curtain draws back over it in a minute, and what has not happened yet is faint.
// The figure is whole without this, and stays whole for readers who want no motion until they ask for it.

const figure = document.getElementById("replay");
const curtain = figure.querySelector(".curtain");
const hold = figure.querySelector("[data-hold]");

function play() {
  figure.classList.remove("playing", "held");
  void figure.offsetWidth; // so that the animations begin anew
  figure.classList.add("playing");
  say();
}

function say() {
  hold.textContent = figure.classList.contains("held") ? "Go on" : "Pause";
  hold.disabled = !figure.classList.contains("playing");
}

figure.querySelector("[data-replay]").addEventListener("click", play);
hold.addEventListener("click", () => {
  figure.classList.toggle("held");
  say();
});
curtain.addEventListener("animationend", () => {
  figure.classList.remove("playing");
  say();
});

figure.classList.add("ready");
say();
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) play();
