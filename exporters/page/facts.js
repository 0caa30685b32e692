/* Tables of things that are no spans: limits and arenas, as the service tells them now. */
const limitPath = (limit) => pathOf(limit.context).map(titleOf).join(" > ");
const FACTS = {
  limits: { none: "No span has a limit.", columns: [
    { title: "span", key: limitPath },
    { title: "in use", key: (l) => l.inuse_bytes, show: bytes, help: "with all spans below it" },
    { title: "of the limit", key: (l) => l.inuse_bytes / (l.hard_bytes || l.soft_bytes), show: percent,
      full: (l) => l.inuse_bytes > 0.9 * (l.hard_bytes || l.soft_bytes) },
    { title: "soft", key: (l) => l.soft_bytes, show: bytes, help: "the limit that is reported" },
    { title: "hard", key: (l) => l.hard_bytes, show: bytes, help: "the limit at which allocations fail" },
    { title: "refused", key: (l) => l.refusals, show: count, help: "allocations", full: (l) => l.refusals > 0 },
  ] },
  arenas: { none: "There are no span arenas.", columns: [
    { title: "arena", key: (a) => a.name + (a.value ? " " + a.value : "") },
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

/* `rows` are those of the answer; null: there was none yet. */
function drawFacts(kind, rows) {
  const { none, columns } = FACTS[kind], [first, ...others] = columns;
  byId("facts").hidden = !rows?.length;
  byId("no-facts").hidden = !rows || rows.length > 0;
  byId("no-facts").textContent = none;
  byId("facts-head").replaceChildren(...columns.map((made) => element("th", made.title, made.help)));
  byId("facts-rows").replaceChildren(...(rows || []).map((row) => {
    const made = document.createElement("tr");
    made.append(element("td", first.key(row)), ...others.map((column) => {
      const value = column.key(row), cell = element("td", value ? column.show(value) : "", String(value));
      if (column.full?.(row)) cell.dataset.full = "";
      return cell;
    }));
    return made;
  }));
}
