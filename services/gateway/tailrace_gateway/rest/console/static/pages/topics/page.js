// Topics: the list of all, and one of them with its partitions, configs and actions.
import { html } from "../../core/html.js";
import { TopicList } from "./list.js";
import { OneTopic } from "./topic.js";

export default {
  name: "topics",
  title: "Topics",
  parts: ([name]) => (name === undefined ? ["topics", "figures"] : ["topics", `topic:${name}`, `topic-rights:${name}`]),
  View: ({ names: [name], query }) => (name === undefined ? html`<${TopicList} query=${query} />` : html`<${OneTopic} name=${name} query=${query} />`),
};
