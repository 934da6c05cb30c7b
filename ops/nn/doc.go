// Package nn registers the ops of neural networks: probabilities and losses, dropout, embeddings, convolution, pooling,
// normalisation, and the measures of a classifier.
//
// Importing it registers them; there is nothing to call. Each file holds one family with its slots, attributes, shape
// inference, gradient, cost and kernel. Names, slots, attributes, defaults and arithmetic are Fluid's.
package nn
