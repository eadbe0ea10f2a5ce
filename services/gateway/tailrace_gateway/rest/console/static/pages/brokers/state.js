// A broker's state in words, and their colour.
export function stateOf(row) {
  if (row.state !== "live") return ["warn", row.state];
  return row.silent ? ["bad", "does not answer"] : ["good", "answers"];
}
