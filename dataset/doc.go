// Package dataset turns record files into batches of tensors.
//
// A dataset is a list of RecordIO files (package recordio), and its records are numbered from 0 through all of them. A
// training record is one sample: uint32, little-endian, the number of tensors, and that many LoDTensor streams, as
// Fluid's reader converter writes them; see AppendRecord and ParseRecord.
//
// Reading is a pipeline of iterators, each of which may be left out:
//
//	Dataset.Records -> Shuffle -> Batcher.Batches -> Prefetch
//
// All of it is deterministic: processes that run the same pipeline with the same seed and pass see the same batches in
// the same order. That is how trainers share one global batch without talking: each takes its Part of the rows and knows,
// from the counts in the Batch, what the others took.
//
// The sub-package convert makes record files from common formats, and digits makes a dataset out of fonts, for examples
// that need no download.
package dataset
