/* What all views show: contexts, and their figures at several moments.
 *
 * A context is known by its path, since jespan gives the number of a recycled context to another path. A moment has a row for
 * each context: `own` are the figures of the context alone, `total` those with all contexts below it. */
const FIGURES = [
  { name: "inuse_bytes", title: "in use", show: bytes, level: true, help: "memory in use" },
  { name: "inuse_objects", title: "objects", show: count, level: true, help: "allocations in use" },
  { name: "outlived_bytes", title: "outlived", show: bytes, level: true, help: "memory in use of spans that are closed" },
  { name: "alloc_bytes", title: "allocated", show: bytes, help: "memory allocated so far, freed or not" },
  { name: "opens", title: "opened", show: count, help: "how many times it was opened" },
  { name: "wall_ns", title: "wall", show: time, help: "time from open to close" },
  { name: "busy_ns", title: "busy", show: time, help: "time that threads were in it" },
  { name: "cpu_ns", title: "CPU", show: time, help: "time that it spent on processors" },
  { name: "temporary_objects", title: "temporary", show: count, help: "allocations that were freed at once, where stacks are taken" },
  { name: "peak_bytes", title: "peak", show: bytes, help: "the most memory that was in use at once" },
];
const N_FIGURES = FIGURES.length, IN_USE = 0, WALL = 5, TEMPORARY = 8;
const PEAK = N_FIGURES - 1; /* the peaks of several contexts do not add up, so it is in the table only */

class Contexts {
  known = new Map();
  last = 0;

  /* The context of this path; `parent` is null for the root. */
  find(parent, { kind, name, target, place, labels }) {
    const key = (parent ? parent.number : 0) + JSON.stringify([kind, name, target, place, labels]);
    let context = this.known.get(key);
    if (!context) {
      context = { key, number: ++this.last, parent, kind, name, target, place, labels };
      this.known.set(key, context);
    }
    return context;
  }

  /* Forgets all contexts that none of the moments has. */
  keep(moments) {
    this.known = new Map();
    for (const moment of moments) for (const context of moment.rows.keys()) this.known.set(context.key, context);
  }
}

class Moment {
  /* `rows` leads from a context to its row. */
  constructor(time, rows, own, total) {
    Object.assign(this, { time }, rows && { rows, own, total });
  }

  own_of(context, figure) {
    const row = this.rows.get(context);
    return row === undefined ? 0 : this.own[row * N_FIGURES + figure];
  }

  total_of(context, figure) {
    const row = this.rows.get(context);
    return row === undefined ? 0 : this.total[row * N_FIGURES + figure];
  }

  contexts() {
    return [...this.rows.keys()];
  }

  /* From a context to those directly below it; from null to the root, or to the contexts without a parent. */
  children() {
    const below = new Map();
    for (const context of this.rows.keys()) {
      const siblings = below.get(context.parent);
      if (siblings) siblings.push(context);
      else below.set(context.parent, [context]);
    }
    return below;
  }
}

/* A moment of these contexts alone. Those left out count as the context above them. Peaks are left out. */
function partOf(moment, contexts) {
  const rows = new Map(contexts.map((context, i) => [context, i]));
  const total = new Float64Array(rows.size * N_FIGURES);
  contexts.forEach((context, row) => { for (let f = 0; f < PEAK; f++) total[row * N_FIGURES + f] = moment.total_of(context, f); });
  const own = total.slice();
  for (const [context, row] of rows) {
    const above = rows.get(context.parent);
    for (let f = 0; above !== undefined && f < PEAK; f++) own[above * N_FIGURES + f] -= total[row * N_FIGURES + f];
  }
  return Object.assign(new Moment(moment.time, rows, own.map((value) => Math.max(0, value)), total), { sampled: true });
}

/* What changed from one moment to another. What a context had and nobody reports now is gone; what it has done so far stays.
 * Where one of them is a part, only the contexts that both have are compared. */
function difference(to, from) {
  const contexts = from.isPart ? from.contexts().filter((context) => !to.isPart || to.rows.has(context))
    : to.isPart ? to.contexts() : [...new Set([...to.rows.keys(), ...from.rows.keys()])];
  if (from.isPart || to.isPart) [to, from] = [partOf(to, contexts.filter((context) => to.rows.has(context))), partOf(from, contexts)];
  const rows = new Map(contexts.map((context, i) => [context, i]));
  const own = new Float64Array(rows.size * N_FIGURES), total = new Float64Array(rows.size * N_FIGURES);
  const known = to.sampled || from.sampled ? PEAK : N_FIGURES;
  contexts.forEach((context, row) => FIGURES.slice(0, known).forEach((figure, f) => {
    if (!figure.level && !to.rows.has(context)) return;
    own[row * N_FIGURES + f] = to.own_of(context, f) - from.own_of(context, f);
    total[row * N_FIGURES + f] = to.total_of(context, f) - from.total_of(context, f);
  }));
  return new Moment(to.time, rows, own, total);
}

/* The moments of the last hour. There are at most MAX_MOMENTS: older ones are further apart. */
const MAX_MOMENTS = 240, HISTORY_S = 3600;

class History {
  moments = [];

  /* Samples that the service took at other times come with the moment. Returns whether moments were forgotten. */
  add(moment, samples = [], apart = 0) {
    const own = [...this.moments.filter((old) => !old.sampled), moment];
    const others = samples.filter((sample) => own.every((old) => Math.abs(old.time - sample.time) > apart));
    this.moments = [...this.moments, ...others, moment].filter((old) => old.time > moment.time - HISTORY_S)
      .sort((a, b) => a.time - b.time);
    const newer = MAX_MOMENTS / 2, before = this.moments.length;
    while (this.moments.length > MAX_MOMENTS) {
      const last = this.moments.length - newer;
      this.moments = this.moments.filter((_, i) => i % 2 === 0 || i >= last);
    }
    return this.moments.length < before;
  }
}

/* The total of a figure at each moment, of a context (null: the root) and of those directly below it. NaN: not known. */
function seriesOf(moments, figure, context) {
  const root = context || moments.at(-1).contexts().find((at) => !at.parent), below = new Map();
  const all = moments.map((moment) => moment.total_of(root, figure));
  moments.forEach((moment, k) => {
    for (const at of moment.contexts()) {
      const value = at.parent === root ? moment.total_of(at, figure) : 0;
      if (!value) continue;
      if (!below.has(at)) below.set(at, new Float64Array(moments.length));
      below.get(at)[k] = value;
    }
  });
  for (const [at, values] of below) moments.forEach((moment, k) => { if (moment.isPart && !moment.rows.has(at)) values[k] = NaN; });
  moments.forEach((moment, k) => { if (moment.isPart && !moment.rows.has(root)) all[k] = NaN; });
  return { root, all, below };
}

/* "file:line". Debug information has whole paths, which are too long for a line. */
function placeOf({ kind, file, line }) {
  const name = kind === "stack" ? file.split("/").at(-1) : file;
  return name + (name && line ? ":" + line : "");
}

/* From the id of a span in an answer to its context. */
function contextsOf(spans, contexts) {
  const byId = new Map(spans.map((span) => [span.id, span])), made = new Map();
  const make = (span) => {
    const path = new Set();
    for (let at = span; at && !made.has(at.id) && !path.has(at); at = byId.get(at.parent)) path.add(at);
    for (const at of [...path].reverse())
      made.set(at.id, contexts.find(made.get(at.parent) || null, { ...at, place: placeOf(at) }));
  };
  spans.forEach(make);
  return made;
}

/* The answer of /spans or /stacks as a moment. Contexts that were recycled count as the root, as in samples. It is a part if the
 * service has left contexts out. */
function momentOf(answer, contexts) {
  const made = contextsOf(answer.spans, contexts), rows = new Map();
  for (const span of answer.spans) rows.set(made.get(span.id), rows.size);
  const root = [...rows.keys()].find((context) => !context.parent);
  const own = new Float64Array(rows.size * N_FIGURES), total = new Float64Array(rows.size * N_FIGURES);
  for (const span of answer.spans)
    FIGURES.forEach((figure, f) => {
      const at = rows.get(made.get(span.id)) * N_FIGURES + f;
      const add = (sum, value) => f === PEAK ? Math.max(sum, value) : sum + value;
      own[at] = add(own[at], span[figure.name]);
      total[at] = add(total[at], span.total[figure.name]);
    });
  for (let f = 0; root && f < PEAK; f++)
    for (const sums of [own, total]) sums[rows.get(root) * N_FIGURES + f] += answer.retired[FIGURES[f].name] || 0;
  const moment = Object.assign(new Moment(answer.time, rows, own, total), { isPart: answer.left_out > 0 });
  if (moment.isPart) ownTheRest(moment);
  return moment;
}

/* What was left out counts as the context above it, so that the own figures add up to the whole. Times from open to close do not. */
function ownTheRest(moment) {
  const below = moment.children();
  for (const [context, row] of moment.rows)
    for (let f = 0; f < PEAK; f++) {
      const at = row * N_FIGURES + f;
      const listed = (below.get(context) || []).reduce((sum, child) => sum + moment.total_of(child, f), moment.own[at]);
      if (f !== WALL) moment.own[at] += Math.max(0, moment.total[at] - listed);
    }
}

/* The answer of /history as moments. They are parts if the service has left contexts out. */
function samplesOf(answer, contexts) {
  const made = contextsOf(answer.contexts.map((context) => ({ ...context, id: context.number })), contexts);
  const figures = answer.figures.map((name) => FIGURES.findIndex((figure) => figure.name === name));
  return answer.samples.map((sample) => {
    const rows = new Map(), total = new Float64Array(sample.totals.length * N_FIGURES);
    for (const [number, ...values] of sample.totals) {
      const context = made.get(number), row = rows.get(context) ?? rows.size;
      rows.set(context, row);
      values.forEach((value, i) => { if (figures[i] >= 0) total[row * N_FIGURES + figures[i]] += value; });
    }
    return Object.assign(partOf(new Moment(sample.time, rows, total, total), [...rows.keys()]), { resident: sample.resident_bytes, isPart: sample.left_out > 0 });
  });
}

/* What happened, in words; docs/http.md has the kinds. */
const EVENTS = {
  limit: (n) => n === 1 ? "a limit refused an allocation" : "limits refused " + count(n) + " allocations",
  alert: (n, rule) => "alert " + rule + (n === 1 ? "" : ", " + count(n) + " times"),
  dump: (n) => n === 1 ? "a dump was written" : count(n) + " dumps were written",
  "lost dump": (n) => n === 1 ? "a dump failed" : count(n) + " dumps failed",
  oom: () => "memory ran out",
  "limit dump": () => "a dump, since a limit was reached",
  "peak dump": () => "a dump of the peak",
  "signal dump": () => "a dump, since a signal asked for it",
  program: () => "this program began",
};
function eventsOf(answer) {
  return answer.samples.flatMap(({ time, events }) => events.map(({ kind, text, count: n }) =>
    ({ time, kind, count: n, title: EVENTS[kind] ? EVENTS[kind](n, text) : kind + " " + text })));
}

const labelsOf = (context) => Object.entries(context.labels).map(([key, value]) => key + "=" + value).join(" ");
const nameOf = (context) => context.name || "(no name)";
const titleOf = (context) => nameOf(context) + (labelsOf(context) && " {" + labelsOf(context) + "}");

function pathOf(context) {
  const path = [];
  for (let at = context; at; at = at.parent) if (at.kind !== "root" || at === context) path.push(at);
  return path.reverse();
}

/* A hue for each name, always the same. */
function hueOf(name) {
  let hash = 2166136261;
  for (const letter of name) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619);
  return Math.round((hash >>> 0) * 0.618034 % 1 * 360);
}
