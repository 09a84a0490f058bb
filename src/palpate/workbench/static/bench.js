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

  // While a part of the page is replaced, what is pressed is about the part that comes: it waits, in order. Once a page
  // is left, nothing of it is pressed any more.
  let replacing = 0, leaving = false;
  const waiting = [];
  window.addEventListener("pageshow", () => { leaving = false; });

  function put(target, html) {
    const old = document.querySelector(target);
    if (!old) return;
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const part = holder.content.querySelector(target);
    if (!part) { leaving = true; location.reload(); return; }
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
      leaving = true;
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
    if (leaving) return;
    if (replacing && form.elements.entry) {
      // It was made for one answer, which is on its way; a button that has an id is there again afterwards.
      if (event.submitter?.id) waiting.push({ id: event.submitter.id });
      return;
    }
    replacing += 1;
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
        waiting.length = 0;
      }
      form.removeAttribute("aria-busy");
      replacing -= 1;
      while (waiting.length && !replacing && !leaving) again(waiting.shift());
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
  const FIELD = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
  const buttonOf = (key) => document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  function press(pressed) {
    if (pressed.matches("a[href]")) leaving = true;
    if (pressed.matches("input, textarea, select")) pressed.focus(); else pressed.click();
  }
  // What waited: a key, or the click of a button. After a key that leads into a field, further ones are written there.
  function again({ key, id }) {
    const field = id ? null : document.activeElement?.closest(FIELD);
    const pressed = id ? document.getElementById(id) : buttonOf(key);
    if (field && key === "Enter") field.form?.requestSubmit(field.form.querySelector("button"));
    else if (field && key.length === 1 && field.setRangeText) field.value += key;
    else if (!field && pressed && !pressed.disabled) press(pressed);
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || storage.get(KEYS)) return;
    if (event.target.closest(FIELD)) return;
    const pressed = buttonOf(event.key);
    if (leaving && pressed) event.preventDefault();
    if (leaving) return;
    if (replacing && (pressed || event.key.length === 1 || event.key === "Enter")) {
      event.preventDefault();
      waiting.push({ key: event.key });
      return;
    }
    if (!pressed || pressed.disabled) return;
    event.preventDefault();
    press(pressed);
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
  // <input data-selects="#chart">: words that are selected in #chart are written here, with the place where they start.
  document.addEventListener("mouseup", () => {
    const input = document.querySelector("[data-selects]");
    const chart = input && document.querySelector(input.dataset.selects);
    const chosen = window.getSelection();
    if (!chart || !chosen.rangeCount || chosen.isCollapsed) return;
    const range = chosen.getRangeAt(0);
    if (!chart.contains(range.startContainer) || !chart.contains(range.endContainer)) return;
    const texts = document.createTreeWalker(chart, NodeFilter.SHOW_TEXT);
    let before = "", words = "";
    while (texts.nextNode()) {
      const node = texts.currentNode;
      if (node.parentElement.closest(".label") || !range.intersectsNode(node)) {
        if (!words && !node.parentElement.closest(".label")) before += node.data;
        continue;
      }
      const from = node === range.startContainer ? range.startOffset : 0;
      const to = node === range.endContainer ? range.endOffset : node.length;
      if (!words) before += node.data.slice(0, from);
      words += node.data.slice(from, to);
    }
    if (!words.trim()) return;
    const start = [...before].length + [...words].length - [...words.trimStart()].length;
    input.value = words.trim().replace(/\s+/g, " ");
    input.form.elements.near.value = start;
    input.form.elements.last.value = "";
  });
  document.addEventListener("input", (event) => {
    if (event.target.dataset.selects) event.target.form.elements.near.value = "";
    if (event.target.id === "which") event.target.form.elements.near.value = "";
  });
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (form && event.target.dataset.sends !== undefined) form.requestSubmit();
  });
})();
