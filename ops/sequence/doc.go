// Package sequence registers the ops that work on sequences of different lengths: lstm and sequence_pool, each with its gradient.
//
// The rows of a batch of sequences lie one after another, without padding; the level of detail (LoD) of the batch says where each sequence
// begins (see ops.Shapes.ShareLoD). What an op computes of a sequence does not depend on the others of its batch, bit for bit.
//
// lstm works by steps: it takes the first elements of all sequences, then the second of those that have one, and so on, so that each step is
// one product of matrices. Sequences are sorted by length for that, the longest first; those that go on are then always the first ones.
package sequence
