// What lies over the bands: boxes, shaded ranges, the selection and its arrows, marks. All of it is drawn with a pen, so that the
// same drawing makes a picture.

import type { Pen } from "../../core/pen";
import type { Track } from "../../core/tracks";
import { drawArrows } from "./arrows";
import { Boxes } from "./boxes";
import { drawJoins, screenOf } from "./joins";
import type { Scene } from "./scene";
import { drawMarks, drawShades } from "./shading";

export class Overlay {
  private readonly boxes: Boxes;

  constructor(
    private readonly scene: Scene,
    private readonly pen: Pen,
  ) {
    this.boxes = new Boxes(scene, pen);
  }

  draw(): void {
    const { scene, pen } = this;
    pen.font = "11px ui-monospace, monospace";
    pen.textBaseline = "middle";
    const moving = scene.visible().filter((track) => !track.pinned);
    this.clipped(scene.layout.pinnedHeight, scene.height, () => {
      for (const track of moving) this.track(track);
      drawJoins(pen, scene.context, screenOf(scene));
    });
    this.clipped(0, scene.layout.pinnedHeight, () => scene.layout.pinned.forEach((track) => this.track(track)));
    this.clipped(0, scene.height, () => {
      drawShades(scene, pen);
      drawArrows(scene, pen);
      drawMarks(scene, pen);
    });
  }

  private clipped(top: number, bottom: number, draw: () => void): void {
    const { pen, scene } = this;
    pen.save();
    pen.beginPath();
    pen.rect(0, top, scene.width, Math.max(bottom - top, 0));
    pen.clip();
    draw();
    pen.restore();
  }

  private track(track: Track): void {
    const { scene, pen } = this;
    if (track.kind === "title") {
      pen.fillStyle = scene.context.colours.line;
      pen.fillRect(0, scene.top(track) + track.height - 3, scene.width, 1);
    }
    for (const row of scene.rowsOf(track)) {
      const y = scene.top(track) + row.row * track.rowHeight;
      if (y < scene.height && y + track.rowHeight > 0) this.boxes.row(track, row, scene.matches[track.trace]);
    }
  }
}
