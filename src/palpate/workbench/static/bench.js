// The workbench's pages work without this; it adds keys, parts of a page that load anew, and forms that load only those.
"use strict";
(() => {
  const said = document.getElementById("said");
  const say = (text) => { if (said) said.textContent = text; };
  const KEYS = "palpate-keys-off";
  const storage = {
    get(name) { try { return localStorage.getItem(name); } catch { return null; } },
    set(name, value) { try { localStorage.setItem(name, value); } catch { /* a browser without storage */ } },
  };

  // A personal link: the token stands behind "#", which is never sent; it goes into the form, and out of the address.
  const enter = document.getElementById("enter");
  if (enter && location.hash.length > 1) {
    enter.elements.token.value = decodeURIComponent(location.hash.slice(1));
    history.replaceState(null, "", location.pathname);
    enter.submit();
  }

  function put(target, html) {
    const old = document.querySelector(target);
    if (!old) return;
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const part = holder.content.querySelector(target);
    if (!part) { location.reload(); return; }
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const where = focused && (focused.id || focused.name);
    old.replaceWith(part);
    const next = part.querySelector("[data-focus]") || (where && part.querySelector(`[id="${where}"], [name="${where}"]`));
    if (next && (focused || next.hasAttribute("data-focus"))) next.focus({ preventScroll: false });
    const text = part.querySelector("[data-say]") || (part.hasAttribute("data-say") ? part : null);
    if (text) say(text.dataset.say);
    window.dispatchEvent(new CustomEvent("part", { detail: part }));
  }

  async function fetchPart(url, options) {
    const answer = await fetch(url, { ...options, headers: { "X-Part": "1" }, credentials: "same-origin" });
    if (answer.status === 401 || answer.redirected && new URL(answer.url).pathname === "/enter") {
      location.href = "/enter";
      return null;
    }
    const html = await answer.text();
    if (answer.ok) return html;
    // A refusal is a sentence: on a page of its own, or alone.
    const told = new DOMParser().parseFromString(html, "text/html");
    const sentence = told.querySelector(".problem") || told.querySelector("main p");
    throw new Error(sentence ? sentence.textContent.trim() : said.dataset.unsaved);
  }

  // <form data-part="#id"> sends itself and replaces #id with what comes back. One at a time, in order.
  let last = Promise.resolve();
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.part) return;
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form, event.submitter));
    const read = form.method === "get";
    const url = read ? `${form.action}?${body}` : form.action;
    form.setAttribute("aria-busy", "true");
    form.querySelectorAll(".problem").forEach((old) => old.remove());
    last = last.then(async () => {
      try {
        const html = await fetchPart(url, read ? {} : { method: "POST", body });
        if (html !== null) put(form.dataset.part, html);
      } catch (error) {
        const note = document.createElement("p");
        note.className = "problem";
        note.setAttribute("role", "alert");
        note.textContent = error instanceof TypeError ? said.dataset.unsaved : error.message;
        if (form.isConnected) form.prepend(note);
      }
      form.removeAttribute("aria-busy");
    });
  });

  // <div id="x" data-refresh="5" data-from="/path"> loads itself anew every five seconds.
  for (const part of document.querySelectorAll("[data-refresh]")) {
    const { refresh, from } = part.dataset;
    const target = `#${part.id}`;
    setInterval(async () => {
      if (document.hidden) return;
      try { const html = await fetchPart(from); if (html) put(target, html); } catch { /* the next time */ }
    }, 1000 * Number(refresh));
  }

  // <button data-key="1">: the key presses the button, unless somebody is writing, or has switched keys off.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || storage.get(KEYS)) return;
    if (event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) return;
    const pressed = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!pressed || pressed.disabled) return;
    event.preventDefault();
    if (pressed.matches("input, textarea, select")) pressed.focus(); else pressed.click();
  });
  const keys = document.getElementById("keys");
  if (keys) {
    keys.checked = !storage.get(KEYS);
    keys.addEventListener("change", () => storage.set(KEYS, keys.checked ? "" : "off"));
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) document.querySelector(button.dataset.into).value = document.querySelector(button.dataset.copy).value;
  });
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (form && event.target.dataset.sends !== undefined) form.requestSubmit();
  });
})();
