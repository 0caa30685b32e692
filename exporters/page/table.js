/* The table of contexts, as a tree or sorted. */
function element(name, text, title) {
  const made = document.createElement(name);
  made.textContent = text;
  if (title) made.title = title;
  return made;
}

/* Contexts of several places in the code with the same name and parent: they would look the same. */
function alike(contexts) {
  const key = (context) => (context.parent ? context.parent.number : 0) + " " + context.name, first = new Map(), keys = new Set();
  for (const context of contexts) {
    if (!first.has(key(context))) first.set(key(context), context.place);
    else if (first.get(key(context)) !== context.place) keys.add(key(context));
  }
  return new Set(contexts.filter((context) => keys.has(key(context))));
}

/* Its columns: the context, each figure, and memory in use without that of the contexts below. Peaks are beside it. */
const COLUMNS = [...FIGURES.map((figure, i) => ({ ...figure, figure: i }))];
COLUMNS.splice(1, 0, COLUMNS.pop());
COLUMNS.splice(1, 0, { ...FIGURES[IN_USE], title: "own", figure: IN_USE, own: true,
  help: "memory in use, without that of the spans below it" });

const MAX_ROWS = 1000; /* a browser takes a second for so many */

class Table {
  collapsed = new Set();
  hidden = [];
  rows = new WeakMap(); /* from a context to its row, which stays the same, so that it keeps the focus */

  /* `sort` is called with the number of a column, or -1 for the name. */
  constructor(head, body, rest, sort, redraw) {
    Object.assign(this, { body, rest, redraw });
    head.append(...[{ title: "span" }, ...COLUMNS].map((column, i) => {
      const made = element("th", "", column.help), button = element("button", column.title);
      button.addEventListener("click", () => sort(i - 1));
      made.append(button);
      return made;
    }));
    this.head = head;
  }

  /* Hides columns whose figures are unknown. */
  hide(hidden) {
    this.hidden = hidden;
    hidden.forEach((is, i) => { this.head.cells[i + 1].hidden = is; });
  }

  value(moment, column, own, context) {
    return own || column.own ? moment.own_of(context, column.figure) : moment.total_of(context, column.figure);
  }

  /* In order, with how deep each is in the tree, and whether there are contexts below it. */
  ordered(moment, { column, own, tree, found }) {
    const key = (context) => column < 0 ? 0 : this.value(moment, COLUMNS[column], own, context);
    const compare = (a, b) => column < 0 ? a.name.localeCompare(b.name) : key(b) - key(a);
    const shown = moment.contexts().filter((context) => !found || found.has(context));
    if (!tree) return shown.sort(compare).map((context) => ({ context, depth: 0, below: 0 }));
    const with_above = new Set();
    for (const context of shown)
      for (let at = context; at && !with_above.has(at); at = at.parent) with_above.add(at);
    const children = moment.children(), out = [], pending = [];
    const push = (context, depth) => {
      const below = (children.get(context) || []).filter((child) => with_above.has(child)).sort(compare);
      for (const child of below.reverse()) pending.push({ context: child, depth });
      return below.length;
    };
    push(null, 0);
    while (pending.length) {
      const at = pending.pop();
      out.push(at);
      at.below = (children.get(at.context) || []).some((child) => with_above.has(child));
      if (found || !this.collapsed.has(at.context)) push(at.context, at.depth + 1);
    }
    return out;
  }

  toggle(context) {
    if (!this.collapsed.delete(context)) this.collapsed.add(context);
    this.redraw();
  }

  /* Collapses all contexts that have others below them, except the root; or none, if some are collapsed. */
  toggleAll(moment) {
    if (this.collapsed.size) this.collapsed.clear();
    else for (const context of moment.contexts()) if (context.parent && context.parent.parent) this.collapsed.add(context.parent);
    this.redraw();
  }

  row(context) {
    let made = this.rows.get(context);
    if (made) return made;
    made = document.createElement("tr");
    const first = element("td", "", [context.kind, context.target, context.place].filter(Boolean).join(" · "));
    const toggle = element("button", "");
    Object.assign(toggle, { className: "toggle", type: "button" });
    toggle.addEventListener("click", () => this.toggle(context));
    toggle.addEventListener("keydown", (event) => {
      const want = event.key === "ArrowLeft" ? true : event.key === "ArrowRight" ? false : null;
      if (want !== null && want !== this.collapsed.has(context)) this.toggle(context);
    });
    first.append(toggle, element("bdi", nameOf(context)), Object.assign(element("bdi", ""), { className: "more place" }));
    if (labelsOf(context)) first.append(" ", Object.assign(element("bdi", labelsOf(context)), { className: "more" }));
    made.append(first, ...COLUMNS.map(() => document.createElement("td")));
    this.rows.set(context, made);
    return made;
  }

  /* Each level is further in. On a narrow screen the levels get closer, so that the name keeps its room. */
  indentation(depth) {
    return `max(${(9 * depth / (depth + 6) + 0.2).toFixed(2)}em, min(${(1.2 * Math.min(depth, 40) + 0.2).toFixed(2)}em, 100vw - 80rem))`;
  }

  fill({ context, depth, below }, view, most, unclear) {
    const made = this.row(context), first = made.cells[0], toggle = first.firstChild, open = !this.collapsed.has(context);
    first.style.paddingLeft = this.indentation(depth);
    toggle.style.visibility = below ? "" : "hidden";
    toggle.hidden = !view.tree;
    toggle.textContent = open || view.found ? "▾" : "▸";
    toggle.setAttribute("aria-expanded", String(open));
    toggle.setAttribute("aria-label", (open ? "collapse " : "expand ") + nameOf(context));
    first.children[2].textContent = context.place && (context.kind === "stack" || unclear.has(context)) ? " " + context.place : "";
    made.classList.toggle("match", Boolean(view.found && view.found.has(context)));
    COLUMNS.forEach((column, i) => {
      const cell = made.cells[i + 1], value = this.value(view.shown, column, view.own, context);
      const text = !value ? "" : view.changed ? signed(value, column.show) : column.show(value);
      const sorted = i === view.column;
      const share = sorted && value && !view.changed ? percent(value / view.all(column.figure)) : "";
      const whole = share ? share + " " + text : text;
      if (cell.textContent !== whole) cell.replaceChildren(...(share ? [Object.assign(element("small", share + " "), { className: "more" })] : []), text);
      cell.hidden = this.hidden[i] || false;
      cell.title = String(value);
      cell.className = sorted ? "bar" : "";
      cell.style.backgroundSize = sorted ? 100 * Math.abs(value) / most + "% 80%" : "";
    });
    return made;
  }

  draw(view) {
    [...this.head.cells].forEach((cell, i) => {
      if (i === view.column + 1) cell.setAttribute("aria-sort", i ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const contexts = view.shown.contexts(), unclear = alike(contexts), focus = document.activeElement;
    const values = view.column < 0 ? [] : contexts.map((context) => this.value(view.shown, COLUMNS[view.column], view.own, context));
    const most = values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 1);
    const ordered = this.ordered(view.shown, view), rest = ordered.length - MAX_ROWS;
    const made = ordered.slice(0, MAX_ROWS).map((at) => this.fill(at, view, most, unclear));
    this.rest.hidden = rest <= 0;
    this.rest.textContent = rest > 0 ? count(rest) + " more rows are not shown. Search, or collapse others, to see them." : "";
    if (made.length !== this.body.rows.length || made.some((row, i) => row !== this.body.rows[i])) {
      this.body.replaceChildren(...made);
      if (focus.isConnected && focus !== document.activeElement) focus.focus({ preventScroll: true });
    }
  }
}
