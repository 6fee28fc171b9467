// What bands are drawn on: pixels of a canvas, or shapes of a picture.

export type Rgb = readonly [number, number, number];
export type Shares = readonly (readonly [busy: Float64Array, colour: Rgb])[];

export interface Ground {
  row(shares: Shares, place: BandPlace): void;
  strip(shares: Shares, place: BandPlace): void;
}

export interface BandPlace {
  at: Int32Array; // the pixel of the tile that each pixel shows, -1 for none
  pixel: number; // ns
  top: number;
  height: number;
  clip: number; // nothing is drawn above this line
  over?: boolean; // over what is there, instead of in its place
  faint: number; // 1: as it is; less where a search is about other events
}

export function rgbOf(colour: string): Rgb {
  const [red, green, blue] = (colour.match(/[0-9a-f]{2}/gi) ?? []).map((part) => parseInt(part, 16));
  return [red ?? 128, green ?? 128, blue ?? 128];
}
