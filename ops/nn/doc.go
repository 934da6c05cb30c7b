// Package nn registers the ops of neural networks: probabilities and losses, dropout, embeddings, convolution, pooling, normalisation, and measures
// of a classifier.
//
// Importing the package registers the ops; there is nothing to call. Each file holds one family, with slots, attributes, shape inference, gradient,
// cost and kernel. Names, slots, attributes, defaults and arithmetic are Fluid's.
package nn
