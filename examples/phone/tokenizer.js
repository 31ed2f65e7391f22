// Text to ids, as tokenizer.json of the model2vec folder does it: normalised, cut into words, words cut greedily.

const UNKNOWN = 1; // id of <unk>

export class Tokenizer {
  // vocabulary: the content of vocab.json.
  constructor({ invisible, respelled, words, unknown, longest, pieces }) {
    this.invisible = new RegExp(invisible, "gu");
    this.respelled = respelled;
    this.words = new RegExp(words, "gu");
    this.unknown = unknown && new RegExp(`(${unknown})`, "u"); // null: words are looked up whole
    this.longestWord = longest;
    this.ids = new Map(pieces.map((piece, id) => [piece, id]));
    this.longestPiece = Math.max(...pieces.map((piece) => Array.from(piece).length));
  }

  encode(text) {
    return (this.normalise(text).match(this.words) ?? []).flatMap((word) => this.idsOfWord(word));
  }

  normalise(text) {
    // Letter by letter: as a whole, a sigma at the end of a word would become another letter.
    const seen = text.normalize("NFKC").replace(this.invisible, "");
    const lower = Array.from(seen, (letter) => letter.toLowerCase()).join("");
    return this.respelled.reduce((spelled, [wrong, right]) => spelled.split(wrong).join(right), lower);
  }

  idsOfWord(word) {
    if (this.unknown === null) return [this.ids.get(word) ?? UNKNOWN];
    const parts = word.split(this.unknown).filter((part) => part !== "");
    return parts.flatMap((part) => this.cutGreedily(Array.from(part)));
  }

  cutGreedily(letters) {
    if (letters.length > this.longestWord) return [UNKNOWN];
    const found = [];
    for (let start = 0, end; start < letters.length; start = end) {
      end = Math.min(start + this.longestPiece, letters.length);
      while (end > start && !this.ids.has(letters.slice(start, end).join(""))) end -= 1;
      if (end === start) return [UNKNOWN];
      found.push(this.ids.get(letters.slice(start, end).join("")));
    }
    return found;
  }
}
