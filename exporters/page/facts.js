/* Tables of things that are no tree of spans: threads, resident memory, limits and arenas, as the service tells them now.
 *
 * `path`: the service is asked only while the view is shown, since reading the process takes time. `text`: a column of words. */
const limitPath = (limit) => pathOf(limit.context).map(titleOf).join(" > ");
const upTo = ([low, high]) => (low < high ? "≤ " : "") + bytes(high);
const FACTS = {
  threads: { path: "threads", rows: (answer) => answer.threads, sort: 2, none: "There are no threads.", columns: [
    { title: "thread", key: (t) => t.name + (t.id ? " " + t.id : ""), text: true },
    { title: "now in", key: (t) => t.live ? t.context : t.id ? "(ended)" : "", text: true, help: "the span that it is in" },
    { title: "allocated", key: (t) => t.alloc_bytes, show: bytes, help: "bytes that it allocated" },
    { title: "freed", key: (t) => t.free_bytes, show: bytes, help: "bytes that it freed, also those that others had allocated" },
    { title: "by others", key: (t) => t.freed_by_others_bytes[1], show: (_, t) => upTo(t.freed_by_others_bytes),
      help: "bytes that it allocated and others freed" },
    { title: "in use", key: (t) => t.inuse_bytes[1], show: (_, t) => upTo(t.inuse_bytes),
      help: "bytes that it allocated and that are live; ≤ is a bound, where several threads allocate in a span" },
    { title: "busy", key: (t) => t.busy_ns, show: time, help: "since its start" },
    { title: "CPU", key: (t) => t.cpu_ns, show: time, help: "since its start" },
  ], note: (answer) => [answer.left_out && count(answer.left_out) + " threads that allocated less are not shown",
    answer.not_listed && count(answer.not_listed) + " threads ended so long ago that they are not known"] },
  rss: { path: "rss", rows: (answer) => answer.contexts, sort: 2, none: "No span keeps memory.", columns: [
    { title: "span", key: (c) => c.context, text: true },
    { title: "in use", key: (c) => c.inuse_bytes, show: bytes, help: "bytes of its objects" },
    { title: "in memory", key: (c) => c.resident_bytes, show: bytes, help: "those that are resident; the others were never touched" },
    { title: "keeps free", key: (c) => c.pinned_bytes, show: bytes,
      help: "its share of free memory that cannot be given back because of its objects" },
    { title: "alone", key: (c) => c.pinned_alone_bytes, show: bytes, help: "the part of it where no other span has objects" },
  ], note: (answer) => ["in use " + bytes(answer.inuse_bytes) + ", of which the program requested about " + bytes(answer.requested_bytes_estimate),
    answer.swapped_bytes && bytes(answer.swapped_bytes) + " are swapped out",
    answer.left_out && count(answer.left_out) + " spans that keep less are not shown"] },
  limits: { none: "No span has a limit.", columns: [
    { title: "span", key: limitPath, text: true },
    { title: "in use", key: (l) => l.inuse_bytes, show: bytes, help: "with all spans below it" },
    { title: "of the limit", key: (l) => l.inuse_bytes / (l.hard_bytes || l.soft_bytes), show: percent,
      full: (l) => l.inuse_bytes > 0.9 * (l.hard_bytes || l.soft_bytes) },
    { title: "soft", key: (l) => l.soft_bytes, show: bytes, help: "the limit that is reported" },
    { title: "hard", key: (l) => l.hard_bytes, show: bytes, help: "the limit at which allocations fail" },
    { title: "refused", key: (l) => l.refusals, show: count, help: "allocations", full: (l) => l.refusals > 0 },
  ] },
  arenas: { none: "There are no span arenas.", columns: [
    { title: "arena", key: (a) => a.name + (a.value ? " " + a.value : ""), text: true },
    { title: "in use", key: (a) => a.inuse_bytes, show: bytes, help: "live objects" },
    { title: "objects", key: (a) => a.inuse_objects, show: count, help: "live objects" },
    { title: "cached", key: (a) => a.cached_bytes, show: bytes, help: "kept by threads for their next allocations" },
    { title: "active", key: (a) => a.active_bytes, show: bytes, help: "pages in use" },
    { title: "holes", key: (a) => a.fragmentation_ppm, show: (n) => (n / 1e4).toFixed(1) + " %",
      help: "the part of active pages that nothing live fills" },
    { title: "resident", key: (a) => a.resident_bytes, show: bytes, help: "memory that it may take at most" },
    { title: "mapped", key: (a) => a.mapped_bytes, show: bytes, help: "address space" },
    { title: "limit", key: (a) => a.limit_bytes, show: bytes, help: "what it may map at most" },
  ] },
};

/* The head stays while the view stays, so that its buttons keep the focus. A click sorts. */
function drawFactsHead(kind) {
  const head = byId("facts-head"), { columns, sort } = FACTS[kind];
  if (head.dataset.shown !== kind)
    head.replaceChildren(...columns.map((column, i) => {
      const made = element("th", "", column.help), button = element("button", column.title);
      if (column.text) made.className = "words";
      button.addEventListener("click", () => { FACTS[kind].sort = i; draw(); });
      made.append(button);
      return made;
    }));
  head.dataset.shown = kind;
  [...head.cells].forEach((cell, i) => {
    if (i === sort) cell.setAttribute("aria-sort", columns[i].text ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
}

/* In the order of the chosen column; without one, in that of the answer. */
function sortedFacts({ columns, sort }, rows) {
  const column = columns[sort];
  if (!column) return rows;
  return rows.slice().sort((a, b) => column.text ? column.key(a).localeCompare(column.key(b)) : column.key(b) - column.key(a));
}

function factRow({ columns, sort }, row, most) {
  const made = document.createElement("tr");
  made.append(...columns.map((column, i) => {
    const value = column.key(row), cell = element("td", column.text ? "" : value ? column.show(value, row) : "", String(value ?? ""));
    if (column.text) {
      cell.className = "words";
      cell.append(element("bdi", value));
    } else if (i === sort) {
      cell.className = "bar";
      cell.style.backgroundSize = 100 * value / most + "% 80%";
    }
    if (column.full?.(row)) cell.dataset.full = "";
    return cell;
  }));
  return made;
}

/* The parts of the resident memory. Each bar begins where the one before it ends, and the last is the whole. */
function drawWaterfall(answer) {
  byId("waterfall").hidden = !answer;
  if (!answer) return;
  const all = answer.rss_bytes || 1, parts = Object.entries(answer.parts).filter(([, value]) => value > 0);
  let before = 0;
  const row = (text, value, from, className) => {
    const made = document.createElement("tr"), bar = element("td", ""), ends = [from, from + value].map((at) => 100 * at / all + "%");
    bar.className = "fall";
    bar.style.backgroundImage = `linear-gradient(to right, transparent ${ends[0]}, var(--bar) ${ends[0]}, var(--bar) ${ends[1]}, transparent ${ends[1]})`;
    made.className = className;
    made.append(element("td", text), element("td", bytes(value), String(value)), element("td", percent(value / all)), bar);
    return made;
  };
  const rows = parts.map(([name, value]) => {
    before += value;
    return row(answer.meanings[name], value, before - value, "part");
  });
  byId("parts").replaceChildren(...rows, row("all of it (RSS)", answer.rss_bytes, 0, "whole"));
}

/* `answer` has the rows; undefined: there was none yet; `error`: why there is none. */
function drawFacts(kind, answer) {
  const fact = FACTS[kind], rows = answer && !answer.error ? fact.rows ? fact.rows(answer) : answer : undefined;
  const note = rows && fact.note ? fact.note(answer).filter(Boolean).join(" · ") : "";
  byId("facts").hidden = !rows?.length;
  byId("no-facts").hidden = !answer || rows?.length > 0;
  byId("no-facts").textContent = answer?.error || fact.none;
  byId("facts-note").hidden = !note;
  byId("facts-note").textContent = note;
  drawWaterfall(kind === "rss" && rows ? answer : null);
  drawFactsHead(kind);
  const sorted = sortedFacts(fact, rows || []), column = fact.columns[fact.sort];
  const most = column && !column.text ? sorted.reduce((largest, row) => Math.max(largest, column.key(row)), 1) : 1;
  byId("facts-rows").replaceChildren(...sorted.map((row) => factRow(fact, row, most)));
}
