// Consumer groups: the list of all, and one of them with its members, its lag and the reason of it.
import { html } from "../../core/html.js";
import { GroupList } from "./list.js";
import { OneGroup } from "./group.js";

export default {
  name: "groups",
  title: "Groups",
  parts: ([name]) => (name === undefined ? ["groups"] : [`group:${name}`, `group-rights:${name}`]),
  View: ({ names: [name], query }) => (name === undefined ? html`<${GroupList} query=${query} />` : html`<${OneGroup} name=${name} />`),
};
