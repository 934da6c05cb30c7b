// Package math registers the ops on arrays and numbers: fill, cast and move, arithmetic with Fluid's broadcasting, functions of one argument,
// products of matrices, reductions, comparisons, and norms. Ops of networks are in package nn.
//
// Importing the package registers the ops; there is nothing to call. Each file holds one family, with slots, attributes, shape inference, gradient,
// cost and kernel. Names, slots, attributes, defaults and arithmetic are Fluid's.
package math
