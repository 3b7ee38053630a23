"use strict";

// Sorts and searches the table of learners. Without this script the page can still be read.
(function () {
  const table = document.getElementById("class");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const feedback = new Map(
    Array.from(document.querySelectorAll("details.feedback"), (each) => [each.dataset.learner, each]),
  );
  const search = document.getElementById("search");
  const shown = document.getElementById("shown");
  const inOrder = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" }).compare;

  // Searching: a row stays when it has every word, whatever its case and accents.
  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const texts = new Map(rows.map((row) => [row, plain(row.dataset.search)]));

  function find() {
    const words = plain(search.value).split(/\s+/).filter(Boolean);
    let number = 0;
    for (const row of rows) {
      const fits = words.every((word) => texts.get(row).includes(word));
      row.hidden = !fits;
      feedback.get(row.id.replace("learner-", "")).hidden = !fits;
      number += fits;
    }
    say(`${number} of ${rows.length} shown`);
  }

  function say(text) {
    shown.textContent = text;
  }

  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    search.value = "";
    find();
  });

  // Sorting: a button in each heading; what has no value stays at the end.
  const headings = Array.from(table.tHead.rows[0].cells);

  function sort(column) {
    const heading = headings[column];
    const isNumber = heading.classList.contains("number");
    const before = heading.getAttribute("aria-sort");
    // Points are first asked for from the lowest on: who needs help stands on top.
    const direction = before === "ascending" ? "descending" : "ascending";
    const sign = direction === "ascending" ? 1 : -1;
    const value = (row) => row.cells[column].dataset.value;
    rows.sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === "" || b === "") return (a === "") - (b === "");
      return sign * (isNumber ? Number(a) - Number(b) : inOrder(a, b));
    });
    for (const each of headings) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction);
    body.append(...rows);
    const name = heading.querySelector(".sort").textContent;
    say(`Sorted by ${name}, ${direction === "ascending" ? "lowest first" : "highest first"}`);
  }

  headings.forEach((heading, column) => {
    const text = heading.querySelector(".sorts") || heading;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...text.childNodes);
    text.append(button);
    button.addEventListener("click", () => sort(column));
  });

  // A link to a learner's feedback opens it, also where the search has left it out.
  function open() {
    const target = document.getElementById(location.hash.slice(1));
    const details = target && target.closest("details.feedback");
    const place = details || (target && target.closest("tr"));
    if (!place) return;
    if (place.hidden) {
      search.value = "";
      find();
    }
    if (details) details.open = true;
    const focus = details ? details.querySelector("summary") : target.querySelector("a");
    focus.focus();
    place.scrollIntoView({ block: details ? "start" : "center" });
  }

  window.addEventListener("hashchange", open);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#feedback-"], a[href^="#learner-"]');
    if (link && link.hash === location.hash) open();
  });

  document.querySelector(".search").hidden = false;
  find();
  open();
})();
