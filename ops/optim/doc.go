// Package optim registers the ops that update parameters: sgd, momentum, adagrad, decayed_adagrad, adadelta, adam, adamw, adamax, rmsprop, ftrl,
// proximal_gd, proximal_adagrad, lars_momentum, lamb and dpsgd, with the slots, attributes, defaults and arithmetic of Fluid, and average_accumulates, which
// keeps means of parameters. check_finite_and_unscale and update_loss_scaling belong to training with a scaled loss, as Fluid's mixed precision has it.
//
// An update reads a parameter, its gradient, its accumulators (state tensors with the dims of the parameter) and numbers of one element, such as
// the learning rate. It writes the new parameter and the new accumulators, in place if the program names the same variables on both sides, as
// optimizers do.
//
// Each element of the result depends only on the same element of the operands and on the numbers. So the ops are RowSliced: a
// parameter whose rows are divided among pservers gets the same bits as the whole parameter. lars_momentum, lamb and dpsgd are not: they need norms.
//
// A gradient may be sparse: some rows of a table. The result has the bits of the same gradient made dense, with two exceptions. sgd applies
// repeated rows one after another and does not sum them first. adam with lazy_mode changes only rows that the gradient holds.
//
// A table may be stored as bfloat16: an update computes in float32 and rounds the rows that it changes by counted chance.
//
// An op is one rule: a declaration of accumulators, numbers and attributes, and a function that calls a loop of ops/kernel. All share shape
// inference and binding.
//
// Files: rules.go and proximal.go (the ops), rule.go (what they share), rows.go (sparse gradients), stored.go (tables of bfloat16), whole.go (rules with norms), average.go, loss_scaling.go.
package optim
