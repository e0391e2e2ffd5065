"""Mutation: faults planted on purpose in traces, in receipts and in the evaluator itself."""
