// Wrong on purpose, in one realistic way: freshness is forgotten. Evidence that an earlier step has
// already shown counts as verified progress again, so a run that keeps presenting one old receipt
// is never idle. Everything else, budgets and completion included, is the right evaluator. It is
// here so that the suite can show that it notices.

import { serve } from "./evaluator.mjs";

const isVerifiedProgress = (step) =>
  step.outcome === "succeeded" &&
  step.state_before_sha256 !== step.state_after_sha256 &&
  step.new_evidence_receipt_sha256.length > 0;

const options = { isVerifiedProgress };
await serve({ name: "loopcore-javascript-wrong", version: "1", options });
