// Package optim registers the ops that update parameters: sgd, momentum, adagrad, decayed_adagrad, adadelta, adam, adamax,
// rmsprop and ftrl, with the slots, attributes, defaults and arithmetic of Fluid.
//
// An update reads a parameter, its gradient, the accumulators that the algorithm keeps (each of the parameter's dims)
// and numbers of one element, such as the learning rate. It writes the new parameter and accumulators, in place when
// the program names the same variables on both sides, as optimizers do.
//
// Each element of the result depends on the same element of the operands and on the numbers alone. That is why all ops
// here are RowSliced: a parameter cut by rows over pservers trains bit for bit like the whole one.
//
// A gradient may be sparse, rows of a table. The result is then that of the same gradient made dense, bit for bit, but for
// two rules: sgd applies rows that repeat one after another, without summing them first; and adam with lazy_mode leaves rows alone that
// the gradient does not hold.
//
// An op is one rule: a declaration of accumulators, numbers and attributes, and a function that calls the numeric loop in
// ops/kernel. Shape inference and binding are the same for all.
package optim
