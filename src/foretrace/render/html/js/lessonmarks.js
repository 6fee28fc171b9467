// Marks an answer: a choice or a number by looking it up, a prediction by a measure or a statement that the page carries.

const COMPARES = {
  "==": "==", "=": "==", "!=": "!=", "<=": "<=", ">=": ">=", "<": "<", ">": ">", "~": "~", "is at most": "<=", "at most": "<=", "up to": "<=",
  "is at least": ">=", "at least": ">=", "less than": "<", "fewer than": "<", "under": "<", "below": "<", "more than": ">", "over": ">",
  "above": ">", "exactly": "==", "about": "~", "is": "==",
};
const PREDICTION = new RegExp(`^(.+?)\\s*(${Object.keys(COMPARES).sort((a, b) => b.length - a.length).join("|")})\\s*(\\d{1,15}(?:\\.\\d{1,15})?)\\s*([^\\s\\d]*)$`);
const STATEMENT = /^(?:(every|each|all|some|no) )?(.+?) (is|are|has|have) (not )?(.+)$/;
const ABOUT = 0.1;

// { verdict, said: [sentence, …] }, or { problem } where it is not an answer.
export function markAnswer(step, typed) {
  const answer = typed.trim();
  if (step.kind === "choice") return markChoice(step, answer);
  return step.kind === "number" ? markNumber(step, answer) : markPrediction(step, answer);
}

function replied(reply, answer) {
  return { verdict: reply.verdict, said: [...(reply.misread ? [`Not ${answer}. ${reply.misread}`] : []), reply.said] };
}

function markChoice(step, answer) {
  if (Object.hasOwn(step.replies, answer)) return replied(step.replies[answer], answer);
  return { problem: `'${answer}' is not an answer: enter ${Object.keys(step.replies).join(", ")}` };
}

// A number means what its digits say, so that the range of right ones depends on its decimals.
function markNumber(step, answer) {
  const number = answer.replace(/[% ]+$/, "").replaceAll(",", "");
  if (!/^\d{1,15}(\.\d{1,15})?$/.test(number)) return { problem: `'${answer}' is not an answer: enter a number` };
  const whole = step.ranges.length === 1;
  if (whole && Number(number) % 1) return { problem: `'${answer}' is not an answer: enter a whole number` };
  const decimals = whole ? 0 : Math.min((number.split(".")[1] ?? "").length, step.ranges.length - 1);
  const scaled = Math.round(Number(number) * 10 ** decimals), { least, most } = step.ranges[decimals];
  return replied(least <= scaled && scaled <= most ? step.replies[step.right] : step.replies[number] ?? step.replies[""], number);
}

export function markPrediction(step, answer) {
  const region = `in ${step.drawing.region.toLowerCase()}:`, text = answer.toLowerCase().replace(/[ ?.!]+$/, "").replace(/\s+/g, " ").trim();
  const plain = text.startsWith(region) ? text.slice(region.length).trim() : text;
  const found = markMeasure(step.predictable.measures, plain, answer) ?? stated(step.predictable, plain);
  if (!found) return { problem: "" };
  return found.problem ? found : { verdict: found.verdict, said: [`Measured: ${found.measured}. ${step.replies[""].said}`] };
}

function markMeasure(measures, text, answer) {
  const [, name, compare, number, unit] = text.match(PREDICTION) ?? [];
  const measure = Object.hasOwn(measures, name ?? "") ? measures[name] : null;
  if (!measure) return null;
  const names = Object.keys(measure.units), known = names.find((each) => each.toLowerCase() === unit);
  if (known === undefined) return { problem: `'${answer}' has no unit: enter one of ${names.filter(Boolean).join(", ")}` };
  const factor = measure.units[known], counted = names.includes("");
  if (counted && Number(number) % 1) return { problem: `'${answer}' is not a prediction: enter a whole number` };
  const digits = (number.split(".")[1] ?? "").length;
  const amount = { value: Number(number) * factor, slack: counted ? 0 : 0.5 * 10 ** -digits * factor };
  return { verdict: holds(COMPARES[compare], measure.value, amount) ? "hit" : "miss", measured: measure.shown };
}

// What `guess/amounts.py` does for one measured value.
function holds(symbol, value, { value: wanted, slack }) {
  const near = (room) => Math.abs(value - wanted) <= room * (1 + 1e-9);
  switch (symbol) {
    case "==": return near(slack);
    case "!=": return !near(slack);
    case "~": return near(Math.max(slack, ABOUT * wanted));
    case "<": return value < wanted;
    case "<=": return value <= wanted;
    case ">": return value > wanted;
    default: return value >= wanted;
  }
}

function stated({ statements, texts }, text) {
  const found = statementKey(statements, text), [verdict, at] = statements[found] ?? [];
  return found ? { verdict, measured: texts[at] } : null;
}

// The statement that says the same: another quantifier word, a plural, a value that no kernel has.
function statementKey(statements, text) {
  if (Object.hasOwn(statements, text)) return text;
  const [, every, subject, verb, not, rest] = text.match(STATEMENT) ?? [];
  if (!subject || (every && not)) return null;
  const quantifier = not ? "no" : every === "some" || every === "no" ? every : "every";
  const says = verb === "is" || verb === "are" ? "is" : "has";
  const field = rest.split(" ")[0];
  for (const one of [subject, subject.replace(/s$/, ""), subject.replace(/ kernels?$/, "")]) {
    const key = `${quantifier} ${one} ${says} `;
    const found = [`${key}${rest}`, ...(rest.includes(" ") ? [`${key}${field} *`] : [])].find((each) => Object.hasOwn(statements, each));
    if (found) return found;
  }
  return null;
}

// What can be predicted here, as a hint.
export function predictableText(step, lesson) {
  const names = Object.keys(step.predictable.measures).join(", ");
  return `This page marks a measure (${names}) with a number, such as kernels == 5, and statements such as every kernel is bf16. ` +
    `In a terminal, foretrace lesson ${lesson.number || "TRACE"} marks every prediction.`;
}
