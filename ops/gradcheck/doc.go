// Package gradcheck is the test kit for ops: a table of small cases, and the laws that every op obeys on them.
//
// A Case names an op type, gives it concrete inputs in float64 and attributes, and may state the outputs that were computed by
// hand. Laws runs each case through a minimal interpreter, which infers, binds and runs one op at a time, and checks that
//
//   - outputs are those that the case states,
//   - the ops that the gradient maker writes give the gradient that central finite differences give,
//   - float32 gives the same within its precision,
//   - running allocates nothing,
//   - an output that may share the buffer of an input gives the same bits there,
//   - an output that nobody wants changes nothing for the others,
//   - a RowSliced op gives the bits of rows of the whole when it sees those rows alone,
//   - shape inference with open extents agrees with that of known ones, and costs are not negative,
//   - no mutation of slots, dims, types or attributes makes inference or a kernel panic.
//
// Laws also fails when an op that is registered in the test binary has no case, so that a new op cannot be forgotten.
package gradcheck
