// The timeline: tracks on a canvas under a ruler, GPU first; moving by mouse and by keyboard.

import "./time.css";
import { make } from "../../base/dom";
import type { Context } from "../../core/context";
import { tracksCanvas } from "./canvas";
import { described } from "./described";
import { listen } from "./gestures";
import { legend } from "./legend";
import { minimap } from "./minimap";
import { moveByKey, reveal, showGpu } from "./moves";
import { names } from "./names";
import { RULER, ruler } from "./ruler";
import { Scene } from "./scene";
import { timelinePicture } from "./timepicture";
import { tip } from "./tip";

const SHARE = 0.46; // of the window's height

export function timeline(context: Context): HTMLElement {
  const { store } = context;
  const scene = new Scene(context);
  const gutter = names(scene);
  const canvas = tracksCanvas(scene);
  const body = make("div", { class: "stage" }, make("div", { class: "gutter" }, gutter.pinned, gutter.moving), canvas, tip(scene, canvas));
  const node = make("section", { class: "timeline", "aria-label": "Timeline" }, minimap(scene), ruler(scene), body, legend(context));
  const arrange = () => {
    scene.arrange();
    const room = Math.max(Math.round(window.innerHeight * SHARE) - RULER, 200);
    scene.height = Math.min(scene.layout.pinnedHeight + scene.layout.height, room);
    scene.width = Math.max(canvas.clientWidth, 100);
    scene.ratio = window.devicePixelRatio || 1;
    body.style.height = `${scene.height}px`;
    gutter.show();
    scene.redraw();
  };
  context.pictures.push(timelinePicture(scene));
  Object.assign(context, { layout: () => described(scene, canvas) });
  listen(scene, canvas, gutter.moving);
  moveByKey(scene, node);
  store.on(["pinned", "open", "align"], arrange);
  store.on(["view", "marks"], () => scene.redraw());
  store.on(["search", "filter"], () => {
    scene.look();
    scene.redraw();
  });
  store.on(["selection"], (state, changed) => {
    scene.redraw();
    if (state.selection?.kind === "finding") showGpu(scene, gutter.moving, state.selection.trace);
    const moves = !changed.has("view") && !scene.clicked;
    scene.clicked = false;
    scene.selected.load().then((isNew) => isNew && reveal(scene, gutter.moving, moves));
  });
  scene.look();
  scene.selected.load();
  new ResizeObserver(arrange).observe(canvas);
  window.addEventListener("resize", arrange);
  return node;
}
