// Columns of integers, as packing.py writes them: base64 of a deflated run of variable-length numbers.

export async function unpack(packed) {
  const bytes = await inflate(fromBase64(packed.data));
  const columns = {};
  let at = 0;
  for (const name of packed.columns) {
    const values = new Float64Array(packed.rows);
    at = readNumbers(bytes, at, values);
    if (packed.differences.includes(name)) addUp(values);
    columns[name] = values;
  }
  return columns;
}

function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at++) bytes[at] = raw.charCodeAt(at);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Seven bits a byte, low bits first. Numbers may exceed 32 bits, so they are added up by multiplication, not by shifts.
function readNumbers(bytes, at, values) {
  for (let row = 0; row < values.length; row++) {
    let number = 0, weight = 1, byte;
    do {
      byte = bytes[at++];
      number += (byte & 127) * weight;
      weight *= 128;
    } while (byte & 128);
    values[row] = number % 2 ? -(number + 1) / 2 : number / 2; // zigzag: odd numbers stand for negative ones
  }
  return at;
}

function addUp(values) {
  for (let row = 1; row < values.length; row++) values[row] += values[row - 1];
}
