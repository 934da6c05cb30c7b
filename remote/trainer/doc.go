// Package trainer runs the trainer role: a trainer program, step after step, on batches that the coordinator assigns, until its data ends.
//
// A trainer lives through generations. It joins one, receives all parameters as they are at its first round, trains until somebody tells it that the
// generation has ended (fault.Superseded), gives up what it has under way, and joins the next. What a given up step has done counts nowhere. Of one
// whose contribution was declared the trainer cannot know that: it reports it as pending, and the coordinator knows whether the round has committed.
//
// Comm is what the send, recv and barrier ops of the program do. A source delivers the trainer's batches: in sync mode (ordered) its share of the
// rows of every batch of the dataset, in async mode (dispatched) whole batches of the tasks that it was given, and in an interactive job its share of
// what the user feeds.
package trainer
