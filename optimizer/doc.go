// Package optimizer turns a model into one that learns: it appends the backward pass and the updates of the parameters.
//
//	optimizer.Adam(0.001, optimizer.Regularize(layers.L2(1e-4))).Minimize(loss)
//
// Minimize appends, in this order: the gradients of loss (AppendBackward), the learning rate, clipping, regularization, and
// one update per parameter. Every op carries its role, and every op that serves one parameter names the parameter and its
// gradient (program.AttrRoleVar), so that a transpiler can move updates to where the parameters live.
//
// An update rule is a program like any other. Custom takes a function that builds the update of one parameter from ops; all
// rules of this package are written in that way. Learning-rate schedules, clips and regularizers are functions that build ops, too.
//
// Mistakes are collected by the model and returned by its Program method.
package optimizer
