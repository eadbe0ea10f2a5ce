"use strict";
// Renders this server's own openapi.json; no library, nothing from elsewhere.
function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function schemaOf(content) {
  return content?.["application/json"]?.schema;
}

function resolve(schema, all, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 8) return schema;
  if (schema.$ref) return resolve(all[schema.$ref.split("/").pop()], all, depth + 1);
  if (schema.anyOf) {
    const choices = schema.anyOf.map((one) => resolve(one, all, depth + 1));
    return choices.find((one) => typeof one === "object") ?? choices.join(" or ");
  }
  if (schema.const) return schema.const;
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array") return [resolve(schema.items, all, depth + 1)];
  if (schema.properties) return Object.fromEntries(Object.entries(schema.properties).map(([name, value]) => [name, resolve(value, all, depth + 1)]));
  return schema.type ?? "any";
}

function operation(method, path, details, all) {
  const box = element("details");
  const summary = element("summary");
  summary.append(element("span", method.toUpperCase(), "method"), element("code", path), ` ${details.description ?? ""}`);
  box.append(summary);
  const request = schemaOf(details.requestBody?.content);
  if (request) box.append(element("p", "Request"), element("pre", JSON.stringify(resolve(request, all), null, 2)));
  for (const [status, response] of Object.entries(details.responses)) {
    if (status === "422") continue; // refusals are {error_code, message}
    const schema = schemaOf(response.content);
    box.append(element("p", `Answer ${status}`));
    if (schema && Object.keys(schema).length) box.append(element("pre", JSON.stringify(resolve(schema, all), null, 2)));
  }
  return box;
}

async function render() {
  const api = await (await fetch("/openapi.json")).json();
  document.getElementById("title").textContent = `${api.info.title} v${api.info.version}`;
  document.getElementById("about").textContent = api.info.description;
  const main = document.getElementById("operations");
  const byTag = new Map();
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, details] of Object.entries(methods)) {
      const tag = details.tags?.[0] ?? "Other";
      if (!byTag.has(tag)) byTag.set(tag, []);
      byTag.get(tag).push(operation(method, path, details, { ...api.components?.schemas }));
    }
  for (const [tag, operations] of byTag) main.append(element("h2", tag), ...operations);
}

render();
