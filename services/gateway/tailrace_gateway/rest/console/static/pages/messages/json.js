// JSON with its lines broken and indented. The text is not parsed: numbers of any length stay as they were written.
const STEP = "  ";
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

export function isJson(text) {
  if (!/^\s*[{[]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function indented(text) {
  let depth = 0;
  let out = "";
  const tokens = text.match(TOKEN) ?? [];
  tokens.forEach((token, at) => {
    if (token === "{" || token === "[") {
      const isEmpty = tokens[at + 1] === "}" || tokens[at + 1] === "]";
      depth++;
      out += token + (isEmpty ? "" : `\n${STEP.repeat(depth)}`);
    } else if (token === "}" || token === "]") {
      depth--;
      const wasEmpty = tokens[at - 1] === "{" || tokens[at - 1] === "[";
      out += (wasEmpty ? "" : `\n${STEP.repeat(depth)}`) + token;
    } else if (token === ",") out += `,\n${STEP.repeat(depth)}`;
    else out += token === ":" ? ": " : token;
  });
  return out;
}
