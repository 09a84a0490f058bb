// Marks of altered notes: kept on this page, counted with Wilson's interval, and saved as a small file without text.
"use strict";
(() => {
  const source = document.getElementById("saved");
  const saved = JSON.parse(source.textContent);
  const notes = [...document.querySelectorAll(".note")];
  const tally = document.getElementById("tally");
  const reviewer = document.getElementById("reviewer");
  const place = "palpate-review-" + saved.sample;
  let here = -1;

  const store = {
    read() { try { return JSON.parse(localStorage.getItem(place)) || {}; } catch { return {}; } },
    write(value) { try { localStorage.setItem(place, JSON.stringify(value)); } catch { /* a page without storage */ } },
  };

  function wilson(wrong, n) {
    const z = 1.959963984540054, p = wrong / n, share = z * z / n;
    const middle = (p + share / 2) / (1 + share);
    const half = Math.sqrt(share * (p * (1 - p) + share / 4)) / (1 + share);
    return [wrong === 0 ? 0 : Math.max(0, middle - half), wrong === n ? 1 : Math.min(1, middle + half)];
  }

  const percent = (x) => (100 * x).toFixed(1) + "%";

  function count() {
    const n = { right: 0, wrong: 0, unsure: 0, "": 0 };
    for (const one of saved.marks) n[one.mark] += 1;
    const judged = n.right + n.wrong;
    const rest = [];
    if (n.unsure) rest.push(n.unsure + " unsure");
    if (n[""] < saved.marks.length && n[""]) rest.push(n[""] + " not marked");
    let said = "Nothing is marked yet.";
    if (judged) {
      const [low, high] = wilson(n.wrong, judged);
      said = n.wrong + " of " + judged + " wrong: " + percent(n.wrong / judged) +
        " (95% interval " + percent(low) + " to " + percent(high) + ")";
    }
    tally.textContent = said + (rest.length ? " · " + rest.join(", ") : "");
  }

  function go(to) {
    if (!notes.length) return;
    here = Math.min(Math.max(to, 0), notes.length - 1);
    notes.forEach((note, k) => note.classList.toggle("here", k === here));
    notes[here].focus({ preventScroll: true });
    notes[here].scrollIntoView({ block: "start" });
  }

  function show(k) {
    const mark = saved.marks[k].mark;
    notes[k].dataset.mark = mark;
    notes[k].querySelector(".mark").textContent = mark;
    for (const button of notes[k].querySelectorAll("[data-mark]")) {
      button.setAttribute("aria-pressed", String(button.dataset.mark === mark));
    }
  }

  function set(k, mark) {
    saved.marks[k].mark = saved.marks[k].mark === mark ? "" : mark;
    show(k);
    count();
    store.write({ marks: saved.marks.map((one) => one.mark), reviewer: reviewer.value });
  }

  function markHere(mark) {
    if (here < 0) return go(0);
    const was = saved.marks[here].mark;
    if (was !== mark) set(here, mark);
    const next = saved.marks.findIndex((one, k) => k > here && !one.mark);
    if (mark) go(next < 0 ? here + 1 : next);
  }

  function save() {
    saved.reviewer = reviewer.value.trim();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(saved, null, 1) + "\n"], { type: "application/json" }));
    link.download = source.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  notes.forEach((note, k) => {
    for (const button of note.querySelectorAll("button[data-mark]")) {
      button.addEventListener("click", () => { here = k; set(k, button.dataset.mark); });
    }
  });
  document.getElementById("save").addEventListener("click", save);
  reviewer.addEventListener("change", () => store.write({ marks: saved.marks.map((one) => one.mark), reviewer: reviewer.value }));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === reviewer) return;
    const mark = { r: "right", w: "wrong", u: "unsure", Backspace: "" }[event.key];
    if (mark !== undefined) markHere(mark);
    else if (event.key === "j" || event.key === "ArrowRight") go(here + 1);
    else if (event.key === "k" || event.key === "ArrowLeft") go(here - 1);
    else if (event.key === "o" && here >= 0) {
      const folded = [...notes[here].querySelectorAll("details")];
      const open = folded.some((one) => !one.open);
      folded.forEach((one) => { one.open = open; });
    } else if (event.key === "s") save();
    else return;
    event.preventDefault();
  });

  const before = store.read();
  (before.marks || []).forEach((mark, k) => { if (saved.marks[k]) saved.marks[k].mark = mark; });
  reviewer.value = before.reviewer || "";
  notes.forEach((_, k) => show(k));
  count();
})();
