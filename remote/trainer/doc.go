// Package trainer runs the trainer role: a trainer program, step after step, on batches that the coordinator assigns, until its data ends.
//
// Comm is what the send, recv and barrier ops of the program do. Source delivers the trainer's batches: in sync mode its share of the rows
// of every batch of the dataset, in async mode whole batches of the tasks that it was given, and in an interactive job its share of what
// the user feeds.
package trainer
