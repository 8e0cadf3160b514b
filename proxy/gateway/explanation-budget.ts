// How often a refused signature is worth an explanation. Each costs up to fifty HMACs, which a caller
// without a right key could make us spend on every request; a person who debugs sends a few.

export class ExplanationBudget {
  readonly #perSecond: number;
  #second = 0;
  #spent = 0;

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Takes one explanation out of this second's; `false` when they are used up. */
  take(nowMs: number): boolean {
    const second = Math.floor(nowMs / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#spent = 0;
    }
    if (this.#spent >= this.#perSecond) return false;
    this.#spent += 1;
    return true;
  }
}
