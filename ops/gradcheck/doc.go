// Package gradcheck is the test kit for ops. It has cases, and laws that every op must keep on them.
//
// A Case names an op type and gives it inputs in float64 and attributes. It may state outputs that were computed by hand. Laws runs each case in a
// minimal interpreter, which infers, binds and runs one op at a time. It checks that
//
//   - outputs are those that the case states,
//   - the gradient equals central finite differences,
//   - float32 gives the same within its precision,
//   - a run allocates nothing,
//   - an output that may share the buffer of an input gives the same bits there,
//   - an output that nobody wants does not change the others,
//   - a RowSliced op gives the same bits for rows that it gets alone,
//   - where Def.MixesRows says that rows stay apart, parts of the rows give the bits of the whole, forwards and backwards (division.go),
//   - shape inference with open extents agrees with the inference of known ones, and costs are not negative,
//   - no mutation of slots, dims, types or attributes makes inference or a kernel panic.
//
// Laws also fails if an op of the family has no case, so that nobody forgets a new op. LawsOf does not: it is for modules that add ops.
//
// Files: case.go (cases and values), laws.go, kernel_laws.go (laws of kernels and loops), division.go, hostile.go (mutations), interpreter.go, trace.go (what
// cases have computed, for package executor/compilecheck, which runs them in compiled plans).
package gradcheck
