// Rule: this file was written from the specification page alone and shares nothing with the Python
// evaluator, so that the two can disagree. It is the worked example of "verify an evaluator in any
// language": copy the last section (the target protocol) and put your own `evaluate` behind it.
//
// Theory of operation. A request spells a trace {policy, steps}. Decoders visit it in the order in
// which defects are to be reported; then relations between policy fields are tested; then each step
// passes an ordered table of defects, is added to the run, and meets an ordered table of terminals.
// Every order below is data. Source: spec evaluator, sections 1 to 5 and 7.
//
// Choices: the wire is "values", because JSON.parse hides duplicate keys, the spelling of numbers
// and the place of keys that look like array indices. A line longer than a JavaScript string can
// be (about half a gibibyte) is malformed. A request without a usable `id` is still answered.

import { constants } from "node:buffer";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { realpathSync } from "node:fs";
import { pathToFileURL } from "node:url";

const INTEGER_MAX = Number.MAX_SAFE_INTEGER; // 2^53 - 1
const NESTING_MAX = 16;
const STEPS_MAX = 1_000_000;
const EVIDENCE_MAX = 64;
const POLICY_ID_MAX = 128;
const LINE_BYTES_MAX = constants.MAX_STRING_LENGTH;

export const REFERENCE = "loopcore-reference/1";
export const EXTENDED = "loopcore-extended/1";

// An input that has no receipt: exactly the error object of the protocol, as an exception.
export class Defect extends Error {
  constructor(fields) {
    super(fields.message);
    this.fields = { code: fields.code, path: null, step: null, ...fields };
  }
}
const malformed = (path, message) => new Defect({ code: "malformed", path, message });

// ---- Decoding: a decoder answers null, or the first defect as {path, message} ----

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const hex4 = (unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0");
const ascii = (text) => JSON.stringify(text).replace(/[^\x00-\x7f]/g, hex4);
const member = (name) => (IDENTIFIER.test(name) ? `.${name}` : `[${ascii(name)}]`);
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const wrong = (wanted, path = "") => ({ path, message: `expected ${wanted}` });
const inside = (prefix, defect) => ({ path: prefix + defect.path, message: defect.message });

const scalar = (wanted, accepts) => (value) => (accepts(value) ? null : wrong(wanted));
const isInteger = (value, low, high) =>
  Number.isSafeInteger(value) && value >= low && value <= high;
const integer = (low = 0, high = INTEGER_MAX) =>
  scalar(`an integer from ${low} to ${high}`, (value) => isInteger(value, low, high));
const oneOf = (...names) => scalar(`one of ${names.join(", ")}`, (value) => names.includes(value));
const digestText = scalar(
  "64 lowercase hexadecimal characters",
  (value) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value),
);
// Length counts code points; a code point has at most two UTF-16 units.
const isName = (text) =>
  text.isWellFormed() && text.length > 0 &&
  text.length <= 2 * POLICY_ID_MAX && [...text].length <= POLICY_ID_MAX;
const name = scalar(
  `a string of 1 to ${POLICY_ID_MAX} Unicode characters`,
  (value) => typeof value === "string" && isName(value),
);
const orNull = (decoder) => (value) => (value === null ? null : decoder(value));

const array = (limit, element) => (value) => {
  if (!Array.isArray(value) || value.length > limit) {
    return wrong(`an array of at most ${limit} elements`);
  }
  for (let index = 0; index < value.length; index += 1) {
    const defect = element(value[index]);
    if (defect) return inside(`[${index}]`, defect);
  }
  return null;
};

const record = (fields) => {
  const table = Object.entries(fields);
  return (value) => {
    if (!isObject(value)) return wrong("an object");
    const unknown = Object.keys(value).find((key) => !Object.hasOwn(fields, key));
    if (unknown !== undefined) return wrong("no field of this name", member(unknown));
    const missing = table.find(([key]) => value[key] === undefined);
    if (missing) return wrong("this field, which is missing", member(missing[0]));
    for (const [key, decoder] of table) {
      const defect = decoder(value[key]);
      if (defect) return inside(member(key), defect);
    }
    return null;
  };
};

// The order of fields is the order of defects.
const each = (decoder, ...keys) => Object.fromEntries(keys.map((key) => [key, decoder]));
const EXTENDED_FIELDS = {
  ...each(orNull(integer()), "max_input_tokens", "max_output_tokens", "max_evidence_receipts"),
  max_cycle_length: orNull(integer(2, 16)),
  cycle_repeats: orNull(integer(2, 8)),
};
const POLICY = record({
  schema: oneOf("loopcore/policy/1"),
  policy_id: name,
  evaluator_release: oneOf(REFERENCE, EXTENDED),
  ...each(digestText, "run_envelope_sha256", "behavior_spec_sha256", "initial_state_sha256"),
  ...each(integer(), "started_at_unix_ms", "deadline_unix_ms"),
  max_steps: integer(1),
  ...each(integer(), "max_model_calls", "max_tool_calls", "max_repairs", "max_cost_microunits"),
  max_consecutive_no_progress: integer(1),
  max_consecutive_repeated_actions: integer(2),
  ...EXTENDED_FIELDS,
});
const DELTAS = [
  "model_calls", "tool_calls", "repairs", "cost_microunits", "input_tokens", "output_tokens",
];
const STEP = record({
  sequence: integer(),
  action_kind: oneOf("model_generation", "tool_call", "verification", "repair", "finish", "wait"),
  ...each(digestText, "action_sha256", "state_before_sha256", "state_after_sha256"),
  new_evidence_receipt_sha256: array(EVIDENCE_MAX, digestText),
  outcome: oneOf("succeeded", "failed", "indeterminate"),
  completed_at_unix_ms: integer(),
  ...each(integer(), ...DELTAS.map((total) => `${total}_delta`)),
  completion_receipt_sha256: orNull(digestText),
});
const TRACE = record({ policy: POLICY, steps: array(STEPS_MAX, STEP) });

// Stops at the limit, so that its own recursion is bounded whatever it is given.
const nestsDeeper = (value, levels) =>
  typeof value === "object" && value !== null &&
  (levels === 0 || Object.values(value).some((child) => nestsDeeper(child, levels - 1)));

// Relations between fields, in the order in which they are tested: [field, is it broken?].
const POLICY_RELATIONS = [
  ["deadline_unix_ms", (p) => p.deadline_unix_ms <= p.started_at_unix_ms],
  ...Object.keys(EXTENDED_FIELDS).map((field) => [
    field, (p) => p.evaluator_release === REFERENCE && p[field] !== null,
  ]),
  ["cycle_repeats", (p) => (p.cycle_repeats === null) !== (p.max_cycle_length === null)],
];

function decode(trace) {
  if (nestsDeeper(trace, NESTING_MAX)) throw malformed("$", `nested deeper than ${NESTING_MAX}`);
  const defect = TRACE(trace);
  if (defect) throw malformed("$" + defect.path, defect.message);
  const broken = POLICY_RELATIONS.find(([, isBroken]) => isBroken(trace.policy));
  if (broken) {
    const message = `${broken[0]} contradicts another field of the policy`;
    throw new Defect({ code: "invalid_policy", path: "$.policy" + member(broken[0]), message });
  }
}

// ---- Canonical form: strings and safe integers print in JavaScript as RFC 8785 asks ----

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const pairs = Object.keys(value).sort().map((k) => `${JSON.stringify(k)}:${canonical(value[k])}`);
  return `{${pairs.join(",")}}`;
}
export const digest = (value) => createHash("sha256").update(canonical(value)).digest("hex");

// ---- Steps: what is refused, then what is derived ----

// Model calls, tool calls and repairs that a step of each kind may report.
const DELTAS_OF_KIND = {
  model_generation: ["1,0,0"],
  tool_call: ["0,1,0"],
  verification: ["0,0,0"],
  repair: ["0,0,1", "1,0,1"],
  finish: ["0,0,0"],
  wait: ["0,1,0"],
};
const isUsageMismatch = (step) => {
  const deltas = `${step.model_calls_delta},${step.tool_calls_delta},${step.repairs_delta}`;
  const tokens = step.input_tokens_delta > 0 || step.output_tokens_delta > 0;
  if (tokens && step.model_calls_delta === 0) return true;
  return !DELTAS_OF_KIND[step.action_kind].includes(deltas);
};
const hasDuplicate = (digests) => new Set(digests).size < digests.length;
const isMisplacedProof = (step) =>
  step.completion_receipt_sha256 !== null && step.action_kind !== "finish";
const isUnsupported = (kind, release) => kind === "wait" && release === REFERENCE;
const isOverflow = (usage) => Object.values(usage).some((total) => total > INTEGER_MAX);

// The first that holds ends the evaluation. `run` is the state before the step, `usage` after it.
const STEP_DEFECTS = [
  ["post_terminal_step", ({ run }) => run.terminal !== null],
  ["sequence_gap", ({ step, index }) => step.sequence !== index + 1],
  ["time_regression", ({ step, run }) => step.completed_at_unix_ms < run.time],
  ["state_chain_broken", ({ step, run }) => step.state_before_sha256 !== run.state],
  ["duplicate_evidence", ({ step }) => hasDuplicate(step.new_evidence_receipt_sha256)],
  ["unsupported_kind", (at) => isUnsupported(at.step.action_kind, at.policy.evaluator_release)],
  ["usage_mismatch", ({ step }) => isUsageMismatch(step)],
  ["unexpected_completion_receipt", ({ step }) => isMisplacedProof(step)],
  // A sum of two safe integers that is not safe stays so after rounding.
  ["usage_overflow", ({ usage }) => isOverflow(usage)],
];

const NO_USAGE = { steps: 0, ...each(0, ...DELTAS), evidence_receipts: 0 };
function add(usage, step, fresh) {
  const sum = { ...usage, steps: usage.steps + 1 };
  for (const total of DELTAS) sum[total] += step[`${total}_delta`];
  sum.evidence_receipts += fresh.length;
  return sum;
}

// Success, a changed state and evidence never seen before: all three.
const changedState = (step) => step.state_before_sha256 !== step.state_after_sha256;
const isVerifiedProgress = (step, fresh) =>
  step.outcome === "succeeded" && changedState(step) && fresh.length > 0;

// Fresh random evidence fools the progress rule, but not a return to the same states by the same
// actions: the last L × repeats pairs have period L and the L pairs are not all equal.
function cycles(policy, pairs) {
  for (let length = 2; length <= policy.max_cycle_length; length += 1) {
    const tail = pairs.slice(-length * policy.cycle_repeats);
    const complete = tail.length === length * policy.cycle_repeats;
    const periodic = tail.every((pair, i) => i < length || pair === tail[i - length]);
    const varied = tail.slice(0, length).some((pair) => pair !== tail[0]);
    if (complete && periodic && varied) return true;
  }
  return false;
}

const start = (policy) => ({
  usage: NO_USAGE, time: policy.started_at_unix_ms, state: policy.initial_state_sha256,
  seen: new Set(), action: null, same: 0, idle: 0, progressed: 0, pairs: [],
  terminal: null, sequence: null, violations: ["input_exhausted"], proof: null,
});

// Adds a well-formed step to the run; a wait leaves the counts of stagnation as they were.
function advance(run, policy, step, { fresh, usage }, isProgress) {
  run.usage = usage;
  run.time = step.completed_at_unix_ms;
  run.state = step.state_after_sha256;
  fresh.forEach((receipt) => run.seen.add(receipt));
  if (step.action_kind === "wait") return;
  const progress = isProgress(step, fresh);
  run.progressed += progress ? 1 : 0;
  run.idle = progress ? 0 : run.idle + 1;
  run.same = step.action_sha256 === run.action ? run.same + 1 : 1;
  run.action = step.action_sha256;
  run.pairs.push(step.action_sha256 + step.state_after_sha256);
  if (run.pairs.length > policy.max_cycle_length * policy.cycle_repeats) run.pairs.shift();
}

// ---- Terminals: independent rules, then their order, which is what a release names ----

const exceeds = (total, bound) => bound !== null && total > bound;
const budget = (total, bound) => ({ run, policy }) => exceeds(run.usage[total], policy[bound]);
const isProven = ({ step, fresh }) =>
  step.outcome === "succeeded" && fresh.includes(step.completion_receipt_sha256);

const FIRES = {
  deadline_exceeded: ({ step, policy }) => step.completed_at_unix_ms >= policy.deadline_unix_ms,
  step_budget_exhausted: budget("steps", "max_steps"),
  model_budget_exhausted: budget("model_calls", "max_model_calls"),
  tool_budget_exhausted: budget("tool_calls", "max_tool_calls"),
  repair_budget_exhausted: budget("repairs", "max_repairs"),
  cost_budget_exhausted: budget("cost_microunits", "max_cost_microunits"),
  input_token_budget_exhausted: budget("input_tokens", "max_input_tokens"),
  output_token_budget_exhausted: budget("output_tokens", "max_output_tokens"),
  evidence_budget_exhausted: budget("evidence_receipts", "max_evidence_receipts"),
  indeterminate_effect: ({ step }) => step.outcome === "indeterminate",
  completed: (at) => at.step.action_kind === "finish" && isProven(at),
  invalid_completion: (at) => at.step.action_kind === "finish" && !isProven(at),
  repeated_action: ({ run, policy }) => run.same >= policy.max_consecutive_repeated_actions,
  nonproductive_cycle: ({ run, policy }) => cycles(policy, run.pairs),
  no_progress: ({ run, policy }) => run.idle >= policy.max_consecutive_no_progress,
};
const EXTENDED_ONLY = [
  "input_token_budget_exhausted", "output_token_budget_exhausted", "evidence_budget_exhausted",
  "nonproductive_cycle",
];
export const PRECEDENCE = {
  [REFERENCE]: Object.keys(FIRES).filter((terminal) => !EXTENDED_ONLY.includes(terminal)),
  [EXTENDED]: Object.keys(FIRES),
};

function judge(run, policy, step, fresh) {
  const at = { run, policy, step, fresh };
  const fired = PRECEDENCE[policy.evaluator_release].filter((terminal) => FIRES[terminal](at));
  if (fired.length === 0) return;
  run.terminal = fired[0];
  run.sequence = step.sequence;
  run.violations = fired.filter((terminal) => terminal !== "completed");
  run.proof = fired[0] === "completed" ? step.completion_receipt_sha256 : null;
}

function refuse(code, run, index) {
  const message = `step ${index} is refused: ${code.replaceAll("_", " ")}`;
  const verdict = { terminal: run.terminal, terminal_sequence: run.sequence };
  return new Defect({ code, step: index, message, ...(run.terminal !== null && verdict) });
}

// The receipt of a trace, or a thrown Defect. `options.isVerifiedProgress` replaces that one rule;
// it exists so that a deliberately wrong evaluator can show that the suite notices.
export function evaluate(policy, steps, options = {}) {
  decode({ policy, steps });
  const isProgress = options.isVerifiedProgress ?? isVerifiedProgress;
  const run = start(policy);
  steps.forEach((step, index) => {
    const fresh = step.new_evidence_receipt_sha256.filter((receipt) => !run.seen.has(receipt));
    const usage = add(run.usage, step, fresh);
    const defect = STEP_DEFECTS.find(([, holds]) => holds({ run, policy, step, index, usage }));
    if (defect) throw refuse(defect[0], run, index);
    advance(run, policy, step, { fresh, usage }, isProgress);
    judge(run, policy, step, fresh);
  });
  const receipt = {
    schema: "loopcore/receipt/1",
    evaluator_release: policy.evaluator_release,
    policy_sha256: digest(policy),
    steps_sha256: digest(steps),
    terminal: run.terminal ?? "input_exhausted",
    terminal_sequence: run.sequence,
    violations: run.violations,
    usage: run.usage,
    verified_progress_steps: run.progressed,
    final_state_sha256: run.state,
    completion_receipt_sha256: run.proof,
    started_at_unix_ms: policy.started_at_unix_ms,
    ended_at_unix_ms: run.time,
  };
  return { ...receipt, receipt_sha256: digest(receipt) };
}

// ---- The target protocol: one JSON line in, one JSON line out, in order ----

// Yields each line as bytes, or null for one that is too long to be read.
async function* linesOf(input) {
  let [parts, size] = [[], 0];
  for await (const chunk of input) {
    for (let from = 0; from < chunk.length; ) {
      const newline = chunk.indexOf(10, from);
      const piece = chunk.subarray(from, newline < 0 ? chunk.length : newline);
      from += piece.length + 1;
      size += piece.length;
      if (size > LINE_BYTES_MAX) parts = [];
      else parts.push(piece);
      if (newline < 0) continue;
      yield size > LINE_BYTES_MAX ? null : Buffer.concat(parts);
      [parts, size] = [[], 0];
    }
  }
  if (size > 0) yield size > LINE_BYTES_MAX ? null : Buffer.concat(parts);
}

// Strict UTF-8; a byte-order mark is kept, so that JSON.parse refuses it.
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
function parse(line) {
  if (line === null) throw malformed("$", `the line is over ${LINE_BYTES_MAX} bytes`);
  try {
    return JSON.parse(UTF8.decode(line));
  } catch {
    throw malformed("$", "the line is not one JSON document in UTF-8");
  }
}

function reply(request, target) {
  if (request.op === "describe") {
    const { name, version } = target;
    const releases = Object.keys(PRECEDENCE);
    return { protocol: "loopcore/target/1", name, version, releases, wire: "values" };
  }
  if (request.op === "evaluate") {
    return { receipt: evaluate(request.policy, request.steps, target.options) };
  }
  throw malformed("$.op", "expected describe or evaluate");
}

function answer(line, target) {
  let id = null;
  try {
    const request = parse(line);
    if (!isObject(request)) throw malformed("$", "expected an object");
    if (isInteger(request.id, 0, INTEGER_MAX)) id = request.id;
    return { id, ...reply(request, target) };
  } catch (error) {
    if (!(error instanceof Defect)) throw error;
    return { id, error: error.fields };
  }
}

export async function serve(target) {
  // The parent went away: there is nobody left to answer.
  process.stdout.on("error", () => process.exit(1));
  for await (const line of linesOf(process.stdin)) {
    const text = JSON.stringify(answer(line, target)) + "\n";
    if (!process.stdout.write(text)) await once(process.stdout, "drain");
  }
}

const isMain = process.argv[1] !== undefined &&
  import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href;
if (isMain) await serve({ name: "loopcore-javascript", version: "1", options: {} });
