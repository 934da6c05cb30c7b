// Package coordinator runs the coordinator role: it cuts datasets into tasks and hands them to trainers, passes fed batches to them,
// and collects what they fetch into one stream of steps.
//
// Queue is the pure state machine behind GetTask: todo, pending, done and discarded tasks of one dataset, pass after pass. In sync mode every trainer
// is given every task in the same order and takes its share of the rows of each batch, so a round trains exactly the batch that one machine
// would; a task is done when all have finished it. In async mode a task goes to one trainer, first come, first served, and comes back when
// that trainer fails or takes too long.
package coordinator
