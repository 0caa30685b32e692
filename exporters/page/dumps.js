/* The dumps that `jespan html` has put into the page, as moments; src/analysis/html.h describes them. */
const MAX_LOADED = 3;

class Dumps {
  contexts = new Contexts();
  numbered = []; /* contexts by number; the last one is the root */
  loaded = new Map(); /* from a moment's index to the moment's figures: those asked for last */

  /* `text` is JSON, compressed by gzip, in base64. */
  static async read(text) {
    const packed = atob(text), bytes = new Uint8Array(packed.length);
    for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Dumps(await new Response(stream).json());
  }

  constructor(data) {
    this.data = data;
    this.figures = data.figures.map((name) => FIGURES.findIndex((figure) => figure.name === name));
    this.root = this.contexts.find(null, { kind: "root", name: "(root)", target: "", place: "", labels: {} });
    for (const moment of data.moments)
      for (const [parent, name, place, pairs] of moment.contexts) {
        const labels = {};
        for (let i = 0; i < pairs.length; i += 2) labels[pairs[i]] = pairs[i + 1];
        const above = parent < 0 ? this.root : this.numbered[parent];
        this.numbered.push(this.contexts.find(above, { kind: "span", name, target: "", place, labels }));
      }
    this.all = [...this.numbered, this.root];
    const row = new Map(this.all.map((context, i) => [context, i]));
    this.parents = this.numbered.map((context) => row.get(context.parent));
    this.list = data.moments.map((moment, i) => new DumpMoment(this, i, moment));
    this.rewind();
  }

  moments() { return this.list; }
  events() { return []; } /* dumps do not say what happened between them */
  facts = {};
  shows(figure) { return this.figures.includes(figure); }

  rewind() {
    this.at = -1;
    this.own = new Float64Array(this.all.length * N_FIGURES);
    this.peaks = new Float64Array(this.all.length); /* of each context with all below it */
  }

  step() {
    const { changes } = this.data.moments[++this.at], { figures, own, peaks } = this, of_all = this.data.figures.indexOf("total.peak_bytes");
    for (let i = 0, context = 0; i < changes.length; i += figures.length) {
      context += changes[i++];
      for (let f = 0; f < figures.length; f++) if (figures[f] >= 0) own[context * N_FIGURES + figures[f]] += changes[i + f];
      if (of_all >= 0) peaks[context] += changes[i + of_all];
    }
  }

  /* The total of a figure at each moment, of a context (null: the root) and of those directly below it. */
  series(figure, context) {
    const key = figure + " " + (context ? context.number : "");
    if (this.series_key === key) return this.series_made;
    const root = context || this.root, place = this.figures.indexOf(figure), size = this.figures.length, n = this.list.length;
    const top = this.all.map((at) => { /* the context below the root that is above it, or the root itself */
      while (at && at !== root && at.parent !== root) at = at.parent;
      return at;
    });
    const now = new Map(), all = new Float64Array(n), below = new Map();
    this.data.moments.forEach(({ changes }, k) => {
      for (let i = 0, at = 0; i < changes.length; i += size) {
        at += changes[i++];
        if (top[at]) now.set(top[at], (now.get(top[at]) || 0) + changes[i + place]);
      }
      for (const [child, value] of now) {
        all[k] += value;
        if (child === root || !value) continue;
        if (!below.has(child)) below.set(child, new Float64Array(n));
        below.get(child)[k] = value;
      }
    });
    this.series_key = key;
    return this.series_made = { root, all, below };
  }

  /* The figures of a moment: those of the one before, and what changed. A context has a higher number than the one above it. */
  load(index) {
    let found = this.loaded.get(index);
    if (found) return found;
    if (index < this.at) this.rewind();
    while (this.at < index) this.step();
    const own = this.own.slice(), total = this.own.slice(), rows = new Map(), some = new Uint8Array(this.all.length);
    const root = this.all.length - 1;
    some[root] = 1;
    for (let i = root - 1; i >= 0; i--)
      for (let f = 0; f < N_FIGURES; f++) {
        if (f === PEAK) total[i * N_FIGURES + f] = this.peaks[i];
        const value = total[i * N_FIGURES + f], above = this.parents[i] * N_FIGURES + f;
        if (f !== PEAK) total[above] += value;
        else if (this.parents[i] === root) total[above] = Math.max(total[above], value); /* the dump has a context for the root itself */
        if (value) some[i] = 1;
      }
    this.all.forEach((context, i) => { if (some[i]) rows.set(context, i); });
    found = { rows, own, total };
    this.loaded.set(index, found);
    if (this.loaded.size > MAX_LOADED) this.loaded.delete(this.loaded.keys().next().value);
    return found;
  }
}

class DumpMoment extends Moment {
  constructor(dumps, index, { time, files }) {
    super(time);
    Object.defineProperties(this, Object.fromEntries(["rows", "own", "total"].map((name) => [name, { get: () => dumps.load(index)[name] }])));
    const names = files.map((file) => file.split("/").at(-1)).join(", ");
    this.title = new Date(time * 1000).toLocaleString() + " · " + names;
  }
}
