// Bytes that the page holds as base64, read number by number.
class ByteStream {
  constructor(base64) {
    const text = atob(base64);
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) this.bytes[i] = text.charCodeAt(i);
    this.at = 0;
  }

  /** LEB128: seven bits per byte, lowest first. */
  number() {
    let value = 0, scale = 1, byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value;
  }
  numbers(n) { return Array.from({length: n}, () => this.number()); }
  expectEnd(what) {
    if (this.at !== this.bytes.length) throw new Error(what + " end before the data does");
  }
}
