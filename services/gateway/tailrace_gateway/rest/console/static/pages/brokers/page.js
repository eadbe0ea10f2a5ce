// Brokers: the list of all with what is moved, and one of them with its log directories and how far its drain is.
import { html } from "../../core/html.js";
import { BrokerList } from "./list.js";
import { OneBroker } from "./broker.js";

export default {
  name: "brokers",
  title: "Brokers",
  parts: () => ["log-dirs"],
  View: ({ names: [id] }) => (id === undefined ? html`<${BrokerList} />` : html`<${OneBroker} id=${id} />`),
};
