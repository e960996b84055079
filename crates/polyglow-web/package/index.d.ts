/** The files of a model, as `polyglow export RUN --to web` writes them. */
export interface Model {
  /** The content of `config.toml`. */
  config: string;
  /** The content of `tokenizer.json`, or of `tokenizer.src.json`. */
  tokenizer: Uint8Array;
  /** The content of `tokenizer.tgt.json`, if there is one. */
  targetTokenizer?: Uint8Array;
  /** The content of `model.safetensors`, in 32 or 8 bits. */
  weights: Uint8Array;
}

export interface Options {
  /** Hypotheses that are kept at each position; 1 is greedy search, and fastest. Default: that of the run. Of `sample` how many
   * are drawn, of which the most probable are returned. Default: `nBest`. */
  beamSize?: number;
  /** Translations of each line, at most; no more than `beamSize`, if that is given. Default: 1. */
  nBest?: number;
  /** How they are looked for; `sample`: at random, by the seed of the run and the place of a line among `lines`; `branch`: each has another first word after its prefix, what else could stand there. Default: as
   * the run does. */
  method?: "beam" | "sample" | "branch";
  /** What the translation of each line begins with: none, or one for each line. Spaces around it change nothing. */
  prefixes?: string[];
  /** Phrases that the translation of each line contains: none, or some for each line. */
  constraints?: string[][];
  /** Whether it is found what the words of translations look at. Default: false. */
  attention?: boolean;
  /** Is told how many lines are done, each time that some are. */
  onProgress?: (lines: number) => void;
}

export interface Translation {
  /** Words that the model has no token for are words of the line. */
  text: string;
  /** Log-probability under the model, in nats. */
  logProb: number;
  /** What translations are ranked by. */
  score: number;
  /** For each word of the text a weight for each word of the line, 0 to 1: the last layer's attention, heads averaged. */
  attention?: number[][];
}

/** The weights of one kind of attention. */
export interface AttentionMap {
  /** Tokens of the rows. */
  queries: string[];
  /** Tokens of the columns. */
  keys: string[];
  /** `[layer][head][query * keys.length + key]`, 0 to 1; those of a query sum to 1. */
  weights: number[][][];
}

export interface Attention {
  /** The line looks at itself. */
  encoder: AttentionMap;
  /** The translation looks at itself. */
  decoder: AttentionMap;
  /** The translation looks at the line. */
  cross: AttentionMap;
}

/** A hypothesis of a beam search. */
export interface Row {
  tokens: string[];
  text: string;
  /** Log-probability of the tokens, in nats. */
  logProb: number;
  /** What those that have ended are ranked by. */
  score?: number;
  /** The most probable tokens after it; `ends` says that one ends the hypothesis. */
  next: { token: string; logProb: number; ends: boolean }[];
}

export interface Beam {
  /** Tokens of the line, with its end mark. */
  source: string[];
  /** What was kept at each position, the best first. */
  steps: Row[][];
  /** What was found, the best first. */
  found: Row[];
}

/** A part of a text: a sentence, or what stays as it is, such as spaces and line breaks. */
export type Part = { kept: string; sentence?: undefined } | { sentence: string; kept?: undefined };

/** A model in a worker. A worker that has failed is not started again: every later call fails with the same error. */
export class Translator {
  /**
   * Starts a worker with this model. Fails if the files are damaged or do not belong together. With `transfer` the worker gets
   * the arrays themselves instead of copies, and whoever calls has them no more; each must then be the whole of its buffer.
   */
  static load(model: Model, options?: { transfer?: boolean }): Promise<Translator>;
  /** Fetches a model from the folder that has its `model.json`; `onProgress` is told the share of its bytes that has come. */
  static fetch(folder: string | URL, options?: { onProgress?: (share: number) => void }): Promise<Translator>;
  /** The translations of each line, the best first. Many lines in one call are faster than many calls. */
  translate(lines: string[], options?: Options): Promise<Translation[][]>;
  /** The attention of all layers and heads on a line and its translation. */
  attention(line: string, translation: string): Promise<Attention>;
  /** A beam search of this width, step by step. */
  beam(line: string, beamSize?: number): Promise<Beam>;
  /** Cuts a text into lines and sentences, as `polyglow serve` does. Together the parts are the text. */
  parts(text: string): Promise<Part[]>;
  /** The text with these translations in place of its sentences, with a space where sentences of Chinese had none between. */
  join(text: string, translations: string[]): Promise<string>;
  /** Ends the worker. What it has not answered fails, and so does every later call. */
  close(): void;
}
