// Package reader registers the ops through which data enters and leaves a program, and reads from a program how its data
// is to be prepared.
//
// A reader variable stands for a stream of samples. create_recordio_file_reader makes one from a dataset, which the program
// names and the job binds to files; decorators make a reader from a reader: create_shuffle_reader, create_batch_reader,
// create_double_buffer_reader and create_multi_pass_reader; and read takes the next batch from the last one. The ops compute
// nothing: PipelineOf turns the chain behind a read op into a Pipeline, and an executor that knows the files sets it up.
//
// Samples have one shape, [784] say; a batch has an open extent in front, [-1 784]. A shuffle acts on samples, so it comes before
// the batch. The other decorators may stand anywhere, each once: a pass ends with its records wherever
// create_multi_pass_reader stands, so that neither shuffle buffers nor batches reach from one pass into the next.
//
// The ops feed and fetch are Fluid's border between a program and its caller, as saved models have them.
package reader
