// Package math registers the ops that know arrays and numbers but nothing of networks: filling, casting and moving,
// arithmetic with Fluid's broadcasting, functions of one argument, products of matrices, reductions, comparisons, and
// norms.
//
// Importing it registers them; there is nothing to call. Each file holds one family with its slots, attributes, shape
// inference, gradient, cost and kernel. Names, slots, attributes, defaults and arithmetic are Fluid's.
package math
