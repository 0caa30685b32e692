/* The figures of a moment as a profile of pprof (docs/pprof.md): a sample for each context, with the labels of its path. */
const pprofType = (name) => name.endsWith("_bytes") ? [name.replace("_bytes", "_space"), "bytes"]
  : name.endsWith("_ns") ? [name.replace("_ns", ""), "nanoseconds"] : [name, "count"];

/* A message of protobuf: numbers, and members that are messages, strings or packed numbers. */
class Message {
  bytes = [];

  varint(value) {
    let rest = BigInt.asUintN(64, BigInt(Math.round(value)));
    for (; rest > 127n; rest >>= 7n) this.bytes.push(Number(rest & 127n) | 128);
    this.bytes.push(Number(rest));
    return this;
  }

  number(field, value) { return this.varint(field * 8).varint(value); }

  block(field, bytes) {
    this.varint(field * 8 + 2).varint(bytes.length);
    for (const byte of bytes) this.bytes.push(byte);
    return this;
  }

  message(field, made) { return this.block(field, made.bytes); }
  packed(field, values) { return this.block(field, values.reduce((made, value) => made.varint(value), new Message()).bytes); }
}

function pprofBytes(moment, chosen, shown) {
  const profile = new Message(), strings = new Map([["", 0]]), locations = new Map();
  const text = (value) => {
    if (!strings.has(value)) strings.set(value, strings.size);
    return strings.get(value);
  };
  const figures = FIGURES.map((_, f) => f).filter((f) => f !== PEAK && shown(f));
  const type = (f) => pprofType(FIGURES[f].name).map(text);
  for (const [name, unit] of figures.map(type)) profile.message(1, new Message().number(1, name).number(2, unit));
  const location = (context) => { /* a place in the code has one, whatever its labels */
    const key = context.name + "\n" + context.place;
    if (!locations.has(key)) locations.set(key, { id: locations.size + 1, context });
    return locations.get(key).id;
  };
  for (const context of moment.contexts()) {
    const values = figures.map((f) => moment.own_of(context, f));
    if (!values.some(Boolean)) continue;
    const path = pathOf(context), sample = new Message().packed(1, path.slice().reverse().map(location)).packed(2, values);
    const labels = path.reduce((all, at) => ({ ...all, ...at.labels }), {});
    for (const [key, value] of Object.entries(labels)) sample.message(3, new Message().number(1, text(key)).number(2, text(value)));
    profile.message(2, sample);
  }
  for (const { id, context } of locations.values()) {
    const [, file, line] = context.place.match(/^(.*):(\d+)$/) || [null, context.place, 0];
    profile.message(4, new Message().number(1, id).message(4, new Message().number(1, id).number(2, Number(line))));
    profile.message(5, new Message().number(1, id).number(2, text(nameOf(context))).number(3, text(nameOf(context))).number(4, text(file)));
  }
  profile.number(14, type(figures.includes(chosen) ? chosen : figures[0])[0]);
  profile.number(9, Math.round(moment.time * 1000) * 1e6);
  for (const string of strings.keys()) profile.block(6, new TextEncoder().encode(string));
  return new Uint8Array(profile.bytes);
}
