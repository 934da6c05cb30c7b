// Package optimizer makes a model learn: it appends the backward pass and the updates of the parameters.
//
//	optimizer.Adam(0.001, optimizer.Regularize(layers.L2(1e-4))).Minimize(loss)
//
// Minimize appends, in this order: the gradients of loss (AppendBackward), the learning rate, clipping, regularization, and one update per
// parameter. Every op carries its role. Every op that serves one parameter names the parameter and its gradient (program.AttrRoleVar), so that the
// transpiler can move updates to the pserver that keeps the parameter.
//
// An update rule consists of ops, like any other part of a program. Custom takes a function that builds the update of one parameter. All rules of
// this package are written in this way. Learning-rate schedules, clips and regularizers are functions that build ops, too.
//
// The model collects mistakes, and its Program method returns them.
//
// Files in reading order: optimizer.go (Minimize, Custom, Update), backward.go, rules.go, schedule.go, option.go (options and clips).
package optimizer
