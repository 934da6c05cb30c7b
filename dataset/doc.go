// Package dataset turns record files into batches of tensors.
//
// A dataset is a list of RecordIO files (package recordio). Its records are numbered from 0 through all files. A training record is one sample: the
// number of tensors as a little-endian uint32, and that many LoDTensor streams, as Fluid's reader converter writes them. See AppendRecord and
// ParseRecord.
//
// Reading is a pipeline of iterators. Each may be left out:
//
//	Dataset.Records -> Shuffle -> Batcher.Batches -> Prefetch
//
// The pipeline is deterministic: with the same seed and pass, all processes see the same batches in the same order. So trainers share one global
// batch without messages. Each takes its Part of the rows, and knows from the counts in the Batch which rows the others take.
//
// A trainer that takes a small part need not read the rest. Batcher.Select makes the same batches from record numbers: it divides and shuffles numbers, and
// a Loader reads only the chunks that hold records of the part.
//
// Package convert makes record files from common formats. Package digits makes a dataset from fonts, for examples without a download.
//
// Files in reading order: dataset.go (Dataset and its files), source.go, follow.go (datasets that grow), record.go, loader.go, shuffle.go
// (Shuffle, Prefetch), batch.go, rows.go (Select), shards.go (writing).
package dataset
