// Package sequence registers the ops on sequences of different lengths, each with its gradient: the recurrent networks lstm, lstmp and gru and their single steps,
// sequence_pool, sequence_conv, sequence_softmax, row_conv, and ops that repeat, join, cut, pad and renumber rows. batch.go reads offsets, pick.go copies rows.
//
// The rows of the sequences of a batch lie one after another, without padding. The level of detail (LoD) of the batch says where each sequence
// begins (see ops.Shapes.ShareLoD). The result for a sequence does not depend on the other sequences of the batch, bit for bit.
//
// lstm, lstmp and gru work step by step. A step takes one row of every sequence that is long enough, so that it is one product of matrices. Sequences are sorted
// by length, the longest first, so that the sequences of a step are always the first ones.
package sequence
