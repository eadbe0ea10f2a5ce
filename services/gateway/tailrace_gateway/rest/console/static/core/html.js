// Preact, signals and htm under one name. Every text of the cluster goes through these as text: nothing is parsed as HTML.
import { cloneElement, h, render, Fragment } from "preact";
import { useEffect, useRef, useState, useMemo } from "preact/hooks";
import { signal, computed, effect, batch, useSignal, useComputed, useSignalEffect } from "@preact/signals";
import htm from "htm";

const html = htm.bind(h);

export { cloneElement, html, render, Fragment, useEffect, useRef, useState, useMemo, signal, computed, effect, batch };
export { useSignal, useComputed, useSignalEffect };
