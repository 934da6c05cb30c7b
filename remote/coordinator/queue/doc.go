// Package queue is the task queue of one dataset: todo, pending, done and discarded tasks, pass after pass.
//
// A Queue is a pure state machine. Step takes an event and returns its effects: the answer, the durable changes, what the log should say. It has no
// clock and does no I/O; now is the time since Policy.Epoch. The server makes the changes durable before it answers, so it works on a
// copy: Clone, Step as often as there are requests, commit the changes, then the copy takes the place of the queue. A copy whose
// commit failed is thrown away. A copy costs nothing, whatever the queue holds: its parts are never changed in place.
//
// Tasks are arithmetic: task k is a run of records that follows from k and the list of files. A pass is a watermark, below which tasks have been
// given, and the few tasks that are pending, have come back or are discarded. So neither memory nor entries nor the time of an event grow with the
// number of tasks. No more than MaxStepChanges entries change with an event, except for files and for tasks that a lost trainer held.
//
// In async mode a task goes to one trainer, first come, first served, and comes back when that trainer fails, is lost, or takes too long. In sync
// mode all trainers read the same records in the same order: a task is what lies at a position, and what has to be remembered is how far was given,
// how far is done, and where in the rounds each run over the records began (Segment).
package queue
