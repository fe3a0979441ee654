// The reader's zone: told to the server once, by a cookie, since only the browser knows its name. No clock is read.

const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
const isKept = () => /(?:^|; )zone=/.test(document.cookie);

if (own && !isKept()) {
  document.cookie = `zone=${encodeURIComponent(own)}; path=/; max-age=31536000; samesite=lax`;
  // This page was written in UTC. Where it shows times, get it again: once, and never where cookies are refused.
  const isForeign = own !== document.body.dataset.zone && document.querySelector("time") !== null;
  if (isForeign && isKept() && !new URLSearchParams(location.search).has("zone")) location.reload();
}

if (own && own !== "UTC") {
  for (const element of document.querySelectorAll("[data-own-zone]")) {
    element.value = own;
    element.hidden = false;
  }
}
