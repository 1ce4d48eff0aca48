"use strict";
// Shows only the findings that the form asks for. Without this script the page shows all.
(() => {
  const form = document.getElementById("filter");
  const names = ["rule", "verdict", "node", "client", "topic"];
  const of = (element, name) => element.closest(`[data-${name}]`)?.getAttribute(`data-${name}`) ?? "";
  const record = (element) => Object.fromEntries(names.map((name) => [name, of(element, name)]));
  const findings = Array.from(document.querySelectorAll("[data-finding]"), (element) => ({
    element,
    records: [element, ...element.querySelectorAll("[data-consequence]")].map(record),
  }));
  const groups = [...document.querySelectorAll("[data-group]")];
  const count = document.getElementById("filtered");

  for (const name of names) {
    const field = form.elements[name];
    const values = new Set(findings.flatMap((one) => one.records.map((other) => other[name])));
    values.delete("");
    const sorted = [...values].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    const list = field.list ?? field;
    for (const value of sorted.slice(0, 500)) list.append(new Option(value, value));
    field.closest("label").hidden = values.size < 2;
  }

  const apply = () => {
    const wanted = names.map((name) => [name, form.elements[name].value.trim()]).filter(([, value]) => value !== "");
    const text = form.elements.text.value.trim().toLowerCase();
    const isWanted = (one) => wanted.every(([name, value]) => one[name] === value);
    let shown = 0;
    for (const { element, records } of findings) {
      const shows = records.some(isWanted) && (text === "" || element.textContent.toLowerCase().includes(text));
      element.hidden = !shows;
      shown += shows ? 1 : 0;
    }
    const isFiltered = wanted.length > 0 || text !== "";
    for (const group of groups) {
      group.hidden = isFiltered && group.querySelector("[data-finding]:not([hidden])") === null;
      if (isFiltered && group instanceof HTMLDetailsElement && !group.hidden) group.open = true;
    }
    count.textContent = isFiltered ? `${shown.toLocaleString("en")} of ${findings.length.toLocaleString("en")} findings` : "";
  };

  form.addEventListener("input", apply);
  form.elements.all.addEventListener("click", () => {
    form.reset();
    apply();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = findings.length < 2;
})();
